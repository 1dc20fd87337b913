"""One node as its kubelet will see it when a pod arrives, and what else is reserved there.

A kubelet admits pods in the order in which they arrive:
- What was given to pods bound before is taken.
- The NUMA nodes of pods that are assigned to the node and wait for their binding are free, whatever their allocations
say:
  the pod may arrive before them. The sums of the node have no order, so these pods hold their requests in them.

More or less may be free than is known. Whether the NUMA nodes that the kubelet will give the pod are certain then:
1. The kubelet's choice is predicted twice: with the most and with the least that may be free. If both equal the
   replayed result, so does every amount between: a pod that fits also fits with more, and one that does not fit does
   not fit with less.
2. Otherwise the pod may be on any NUMA node that may have capacity for it. A NUMA node above the replayed ones is
   possible only if the replayed ones may be taken.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.engine.arrays import NO_ZONE
from webhook.engine.kubelet import predict
from webhook.engine.numa_fit import Allocation
from webhook.engine.request import PodRequest, named_resources
from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.node_sums import NodeSums, amounts_key
from webhook.engine.snapshot.single_node import NodeAlone, is_free
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.koordinator.numa_allocation import NUMANodeAmounts
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.raw import Raw
from webhook.state.assumed.free_bounds import NO_LEEWAY, Leeway


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod that is assigned to the node and waits for its binding."""

    assumed: Reservation
    raw: Raw
    """The pod object, as last seen."""


@dataclass(frozen=True, slots=True)
class KubeletAdmission:
    """The state of the node that was chosen for a pod."""

    node: NodeAlone
    given: NodeSums
    """What its kubelet has given, or is about to give, to other pods and its NRT does not report."""
    assigned: tuple[AssignedPod, ...]
    """Other pods that will arrive sooner or later."""
    own: Reservation | None = None
    """What is reserved for the pod itself there; None: nothing."""
    leeway: Leeway = NO_LEEWAY
    """How much more or less may be free than `given` leaves."""

    @property
    def key(self) -> Hashable:
        """Equal for nodes whose kubelets treat a pod alike, whatever their names and those of their pods."""
        others = (one.assumed for one in self.assigned)
        assigned = Counter((amounts_key(one.numa), frozenset(one.requests.items()), one.policy) for one in others)
        return self.node.key, self.given.key, frozenset(assigned.items()), self.leeway.key

    def assumed_snapshot(self) -> Snapshot:
        """The node minus all reservations of other pods, each on the NUMA nodes of its allocation."""
        sums = self.given.copy()
        for assigned in self.assigned:
            sums.add(assigned.assumed.numa, assigned.assumed.requests, assigned.assumed.policy, 1)
        return self.node.snapshot(sums)

    def kubelet_snapshot(self) -> Snapshot:
        """The node as the pod finds it if it arrives before all assigned pods."""
        return self.node.snapshot(self._in_order())

    def other_views(self) -> Sequence[Snapshot]:
        """The same with the most and with the least that may be free; empty if the free amounts are known exactly."""
        if not self.leeway:
            return ()
        sums = self._in_order()
        return self.node.snapshot(self.leeway.at_most(sums)), self.node.snapshot(self.leeway.at_least(sums))

    def _in_order(self) -> NodeSums:
        sums = self.given.copy()
        for assigned in self.assigned:
            sums.add({}, assigned.assumed.requests, None, 1)
        return sums


@dataclass(frozen=True, slots=True)
class AllocationCertainty:
    """How certain the replayed NUMA nodes of a pod are."""

    sure: bool = True
    alternatives: frozenset[int] = frozenset()
    """Other NUMA nodes that the pod may get."""


CERTAIN: Final = AllocationCertainty()


RequestOn = Callable[[Snapshot], tuple[Snapshot, PodRequest]]
"""Takes a snapshot; returns it extended to all resources that the pod requests, and the pod's request on it."""


def of_pod(pod: Pod, intent: NUMAIntent) -> RequestOn:
    """The request of a pod before it is bound."""

    def on(snapshot: Snapshot) -> tuple[Snapshot, PodRequest]:
        snapshot = snapshot.covering(named_resources(pod))
        return snapshot, PodRequest.of(pod, intent, snapshot.node_arrays.resources)

    return on


def of_resident(pod: ResidentPod) -> RequestOn:
    """The request of a bound pod."""

    def on(snapshot: Snapshot) -> tuple[Snapshot, PodRequest]:
        snapshot = snapshot.covering(pod.requests)
        return snapshot, PodRequest.of_resident(pod, snapshot.node_arrays.resources)

    return on


def given_on(snapshot: Snapshot, request_on: RequestOn) -> Allocation | None:
    """What the kubelet of the snapshot's only node would give the pod; None if it would reject the pod."""
    snapshot, request = request_on(snapshot)
    fit = predict(snapshot, request)
    return fit.allocation(0) if fit.fits[0] else None


def allocation_certainty(
    kubelet_admission: KubeletAdmission, request_on: RequestOn, replayed: NUMANodeAmounts, *, exact: bool = True
) -> AllocationCertainty:
    """The certainty for a pod whose kubelet chooses the NUMA nodes.

    exact: whether `replayed` is the prediction itself, as it is under all rules but the plugin's.
    """
    others = kubelet_admission.other_views()
    if not replayed or (exact and not others):
        return CERTAIN
    most, least = others or (kubelet_admission.kubelet_snapshot(),) * 2
    given = [given_on(snapshot, request_on) for snapshot in (most, least)]
    same = [allocation is not None and dict(allocation) == dict(replayed) for allocation in given]
    if all(same):
        return CERTAIN
    numa_ids = [numa_id for numa_id in most.node_arrays.zone_ids[:, 0].tolist() if numa_id != NO_ZONE]
    taken = {numa_id for numa_id, _ in replayed}
    if len(taken) == 1:
        (amounts,) = (amounts for _, amounts in replayed)
        numa_ids = [numa_id for numa_id in numa_ids if is_free(most, ((numa_id, amounts),))]
        if same[1]:
            numa_ids = [numa_id for numa_id in numa_ids if numa_id < min(taken)]
    return AllocationCertainty(sure=False, alternatives=frozenset(numa_ids) - taken)
