"""Reports that the next pods of a controller avoid a node: an Event on the controller, a log line, and a count.

The leader reports, and every replica avoids. What began while no replica led is not reported: the texts of the next
pods say it all the same.
"""

from collections.abc import Callable

import structlog

from webhook.controllers.metric_recorder import ControllerMetrics
from webhook.formats.kubernetes.avoided_node import AvoidedNode, used_again_text
from webhook.formats.kubernetes.rejected_pod import RejectedPod
from webhook.formats.kubernetes.timestamps import utc
from webhook.kube.events import EventRecorder, ObjectEvent

log = structlog.get_logger(__name__)


class AvoidedNodeReports:
    """Reports while `is_leader()`."""

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
