"""What was given to pods in an answer or a patch, and no object shows yet.

An assumed pod is a pod that was given resources which no object shows yet (as in kube-scheduler):

    assume ──> shown by an object: a reservation that follows from the object takes its place
       ├─────> forget: its binding or patch failed, or will not be sent
       └─────> expire: no object has shown it in its time
"""

from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.engine.assumed.assumed_pods import AssumedPods
from webhook.engine.snapshot.ledger import Reservation
from webhook.model.hint import NUMANodeAmounts
from webhook.signal import Signal


class PodAssumptions:
    """The assumed pods of a cluster. A pod is named by namespace/name."""

    def __init__(self, assumed_pods: AssumedPods) -> None:
        self.changed = Signal[[]]()
        """Emitted after each change that may matter to a pod which waits."""
        self._assumed_pods = assumed_pods

    def assume(self, assumed_pod: AssumedPod) -> None:
        """Keep what was given to a pod."""
        self._assumed_pods.assume(assumed_pod)

    def forget(self, assumed_pod: AssumedPod) -> None:
        """What was given will not be taken."""
        if self.holds(assumed_pod):
            self._assumed_pods.forget(assumed_pod.pod)

    def expire(self, assumed_pod: AssumedPod) -> None:
        """What was given was not taken in time: other pods may be waiting for it."""
        self.forget(assumed_pod)
        self.changed.emit()

    def holds(self, assumed_pod: AssumedPod) -> bool:
        """Whether this assumed pod is kept, and no object shows it yet."""
        return self._assumed_pods.assumed_by(assumed_pod.pod) is assumed_pod

    def assumed_by(self, pod: str) -> AssumedPod | None:
        """What was given to the pod and no object shows yet."""
        return self._assumed_pods.assumed_by(pod)

    def assumed_node(self, pod: str) -> str | None:
        """The node that the pod was given and does not show yet; None when it was given none."""
        assumed_pod = self._assumed_pods.assumed_by(pod)
        return None if assumed_pod is None else assumed_pod.node

    def assumed(self, pod: str, uid: str, node: str) -> NUMANodeAmounts | None:
        """The resources on NUMA nodes that this incarnation of the pod was given on the node; None when it was not."""
        assumed_pod = self._assumed_pods.assumed_by(pod)
        return (
            tuple(assumed_pod.numa.items())
            if assumed_pod and (assumed_pod.uid, assumed_pod.node) == (uid, node)
            else None
        )

    @property
    def assumed_count(self) -> int:
        """How many assumed pods there are that some object is to show."""
        return self._assumed_pods.assumed_count

    def expired_pods(self, now: float) -> tuple[AssumedPod, ...]:
        """The assumed pods that no object has come to show by the time they had, on the clock of `time.monotonic`."""
        return self._assumed_pods.expired(now)

    def assigned(self, node: str) -> tuple[Reservation, ...]:
        """What is reserved for pods that are assigned to the node and whose binding has not begun."""
        return self._assumed_pods.assigned(node)

    def has_binding_in_progress(self, node: str, pod: str, expiring_after: float) -> bool:
        """Whether another pod was given NUMA nodes there with a binding that no object shows yet.

        Of assumed pods that expire later than that only, on the clock of their `expires`.
        """
        binding_to = self._assumed_pods.binding_to(node)
        return any(
            assumed_pod.numa and assumed_pod.pod != pod and assumed_pod.expires > expiring_after
            for assumed_pod in binding_to
        )

    def _forget_tentative(self, pod: str) -> None:
        """Take back what was tentative: the scheduler says that it cannot bind the pod, and will try again."""
        assumed_pod = self._assumed_pods.assumed_by(pod)
        if assumed_pod is not None and assumed_pod.tentative:
            self._assumed_pods.forget(pod)
