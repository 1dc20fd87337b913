"""Counts the pods that kubelets rejected, once in the cluster: the leader counts, and every replica sees.

What is rejected while no replica leads counts, too: its bindings were not guarded. So a replica that does not lead
remembers what it saw, and a new leader counts what came after the last one can have led. A leader that is killed counts
nothing from then on, and what comes before its renew deadline is lost.
"""

from collections import deque
from collections.abc import Callable
from math import isfinite
from typing import Final

from webhook.controllers.metric_recorder import ControllerMetrics
from webhook.formats.kubernetes.rejected_pod import KubeletRejection
from webhook.kube.election import Term

# More than a cluster's kubelets reject between two leaders. Older ones were counted by the last leader.
_REMEMBERED: Final = 4096


class RejectionCounter:
    """clock: that of the terms."""

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

    def started(self, term: Term) -> None:
        """Count what no leader has counted: a term begins."""
        # Without a time, the last leader ended in an orderly way, or there was none.
        since = term.alone_since if isfinite(term.alone_since) else term.since
        for seen, rejection in self._remembered:
            if seen >= since:
                self._metrics.kubelet_rejected(rejection.counted_as, managed=rejection.managed)
        self._remembered.clear()
