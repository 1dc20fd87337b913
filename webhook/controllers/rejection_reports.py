"""What the leader reports of pods that kubelets rejected: how many, and that a controller's next pods avoid a node.

Every replica sees the rejections and avoids the nodes; the leader alone counts and reports, once in the cluster.
"""

from collections import deque
from collections.abc import Callable
from math import isfinite
from typing import Final

import structlog

from webhook.controllers.metric_recorder import ControllerMetrics
from webhook.formats.kubernetes.avoided_node import AvoidedNode, used_again_text
from webhook.formats.kubernetes.rejected_pod import KubeletRejection, RejectedPod
from webhook.formats.kubernetes.timestamps import utc
from webhook.kube.election import Term
from webhook.kube.events import EventRecorder, ObjectEvent
from webhook.model.shards import DEFAULT_SHARD

log = structlog.get_logger(__name__)

# More than a cluster's kubelets reject between two leaders. Older ones were counted by the last leader.
_REMEMBERED: Final = 4096


class RejectionCounter:
    """Counts the pods that kubelets rejected. clock: that of the terms.

    What is rejected while no replica leads counts, too: its bindings were not guarded. So a replica that does not lead
    remembers what it saw, and a new leader counts what came after the last one can have led. A leader that is killed
    counts nothing from then on, and what comes before its renew deadline is lost.
    """

    def __init__(self, metrics: ControllerMetrics, is_leader: Callable[[], bool], clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._is_leader = is_leader
        self._clock = clock
        self._remembered: deque[tuple[float, KubeletRejection]] = deque(maxlen=_REMEMBERED)

    def saw(self, rejection: KubeletRejection) -> None:
        """Take a pod that was rejected just now."""
        if self._is_leader():
            self._metrics.kubelet_rejected(rejection.counted_as, managed=rejection.managed)
        else:
            self._remembered.append((self._clock(), rejection))

    def started(self, term: Term, shard: str = DEFAULT_SHARD) -> None:
        """Count what no leader has counted: a term begins. The leader of the default shard counts for all."""
        if shard != DEFAULT_SHARD:
            return
        # Without a time, the last leader ended in an orderly way, or there was none.
        since = term.alone_since if isfinite(term.alone_since) else term.since
        for seen, rejection in self._remembered:
            if seen >= since:
                self._metrics.kubelet_rejected(rejection.counted_as, managed=rejection.managed)
        self._remembered.clear()


class AvoidedNodeReports:
    """Reports nodes that the next pods avoid, while `is_leader()`: an Event on the controller, a log line, a count.

    What began while no replica led is not reported: the texts of the next pods say it all the same.
    """

    def __init__(self, events: EventRecorder, metrics: ControllerMetrics, is_leader: Callable[[], bool]) -> None:
        self._events = events
        self._metrics = metrics
        self._is_leader = is_leader

    def began(self, pod: RejectedPod, node: AvoidedNode) -> None:
        """Take a node that the next pods avoid because of this one."""
        if not (pod.rejection.managed and self._is_leader()):
            return
        self._metrics.node_avoided(pod.rejection.counted_as)
        log.info("node.avoided", node=node.node, pod=pod.key, reason=node.reason, until=utc(node.until))
        self._events.tell(_event(pod, node))


def _event(pod: RejectedPod, node: AvoidedNode) -> ObjectEvent:
    """The Event, on the pod itself if it has no controller."""
    whose = "this gang's" if pod.controller is None else f"this {pod.controller.kind}'s"
    rejected = f"its kubelet rejected pod {pod.name} ({node.what})"
    note = f"{whose} next pods avoid node {node.node}: {rejected}; {used_again_text((node,))}"
    regarding = ("v1", "Pod", pod.name, pod.uid)
    if pod.controller is not None:
        regarding = pod.controller.api_version, pod.controller.kind, pod.controller.name, pod.controller.uid
    api_version, kind, name, uid = regarding
    return ObjectEvent(
        f"{pod.namespace}/{name}", uid, "NodeAvoided", note, "Avoid", "Warning", api_version=api_version, kind=kind
    )
