"""Assumed pods: their resources were given in an answer or a patch, and no object shows it yet.

The life cycle of an assumed pod (as in kube-scheduler):

    assume ──> shown by an object: a reservation derived from the object replaces it
       ├─────> forget: its binding or patch failed, or will not be sent
       └─────> expire: no object showed it in time
"""

from collections.abc import Callable

from webhook.engine.snapshot.ledger import Reservation
from webhook.formats.koordinator.hint import NUMANodeAmounts
from webhook.signal import Signal
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.assumed.assumed_pods import AssumedPods
from webhook.state.assumed.known_placements import Known


class PodAssumptions:
    """The assumed pods of a cluster. Pods are identified by namespace/name."""

    def __init__(self, assumed_pods: AssumedPods, shown_uid: Callable[[str], str]) -> None:
        """shown_uid: the uid of the pod of this name (namespace/name) that was shown last; empty if none is."""
        self.changed = Signal[[]]()
        """Emitted after each change that may affect a waiting pod."""
        self.bound_or_gone = Signal[[str, str]]()
        """Emitted with the pod (namespace/name) and its uid when it is seen that it is bound, has ended or is gone."""
        self._assumed_pods = assumed_pods
        self._shown_uid = shown_uid

    def assume(self, assumed_pod: AssumedPod) -> None:
        """Reserve the resources of an assumed pod."""
        self._assumed_pods.assume(assumed_pod, self._shown_uid(assumed_pod.pod))

    def forget(self, assumed_pod: AssumedPod) -> None:
        """Free the resources of an assumed pod that will not use them."""
        if self.holds(assumed_pod):
            self._assumed_pods.forget(assumed_pod.pod)

    def expire(self, assumed_pod: AssumedPod) -> None:
        """Free the resources of an assumed pod that no object showed in time, and emit `changed` for waiting pods."""
        self.forget(assumed_pod)
        self.changed.emit()

    def holds(self, assumed_pod: AssumedPod) -> bool:
        """Whether this pod is still assumed: no object shows it, and it was neither forgotten nor replaced."""
        return self._assumed_pods.assumed_by(assumed_pod.pod) is assumed_pod

    def assumed_by(self, pod: str) -> AssumedPod | None:
        """The assumed pod of this name; None if the pod is not assumed."""
        return self._assumed_pods.assumed_by(pod)

    def assumed_node(self, pod: str) -> str | None:
        """The node that the pod is assumed on; None if the pod is not assumed."""
        assumed_pod = self._assumed_pods.assumed_by(pod)
        return None if assumed_pod is None else assumed_pod.node

    def assumed(self, pod: str, uid: str, node: str) -> NUMANodeAmounts | None:
        """The resources on NUMA nodes assumed for the pod with this uid on the node; None if not assumed there."""
        assumed_pod = self._assumed_pods.assumed_by(pod)
        return (
            tuple(assumed_pod.numa.items())
            if assumed_pod and (assumed_pod.uid, assumed_pod.node) == (uid, node)
            else None
        )

    def known_numa_nodes(self, pod: str) -> Known | None:
        """The NUMA nodes of the pod as far as they are known, as of the last snapshot; None if nothing is."""
        return self._assumed_pods.hints.known(pod)

    @property
    def assumed_count(self) -> int:
        """The number of assumed pods that an object is expected to show."""
        return self._assumed_pods.assumed_count

    def expired_pods(self, now: float) -> tuple[AssumedPod, ...]:
        """The assumed pods that no object has shown in time. now: seconds of `time.monotonic`."""
        return self._assumed_pods.expired(now)

    def assigned(self, node: str) -> tuple[Reservation, ...]:
        """The reservations of pods that are assigned to the node and whose binding has not begun."""
        return self._assumed_pods.assigned(node)

    def bindings_in_progress(self, node: str, pod: str, expiring_after: float) -> tuple[AssumedPod, ...]:
        """The other pods that got NUMA nodes on this node with bindings that no object shows yet.

        expiring_after: ignores assumed pods that expire at this time or before, on the clock of their `expires`.
        """
        return tuple(
            assumed_pod
            for assumed_pod in self._assumed_pods.binding_to(node)
            if assumed_pod.numa and assumed_pod.pod != pod and assumed_pod.expires > expiring_after
        )

    def _forget_tentative(self, pod: str) -> None:
        """Free a tentative reservation: the scheduler reports that it cannot bind the pod, and will try again."""
        assumed_pod = self._assumed_pods.assumed_by(pod)
        if assumed_pod is not None and assumed_pod.tentative:
            self._assumed_pods.forget(pod)
