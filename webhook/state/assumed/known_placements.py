"""The NUMA nodes of bound pods as far as they are known, and whether the allocations that node agents obey agree.

    REPLAYED   the kubelet's choice was replayed at the binding, and nothing has happened that could change it
    UNCERTAIN  something may have changed it: another pod ended or came first, or the NRT left open what was free
    CONFIRMED  the NodeResourceTopology reports the pod there
    CHOSEN     the service chooses the NUMA nodes, and koordlet obeys the allocation

    assumed ──> REPLAYED ─────────> UNCERTAIN
                    │                  │        located: the NRT leaves only one possible placement
                    └──> CONFIRMED <───┘

A pod has an allocation unless it is UNCERTAIN. The leader writes allocations that are missing or wrong, and removes
those that are
uncertain (`changes`). Followers only read what the pods show, and ignore an allocation that its node contradicts
(`credible`).
Until its node's NRT has reported an uncertain pod, the other NUMA nodes on which it may be are reserved, too
(`Alternatives`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf
from typing import Final

from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.formats.koordinator.numa_allocation import NUMANodeAmounts
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy, Scope
from webhook.records import record
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.assumed.placement_search import Candidate, Located, given_to, locate, most_given_to, placements_of

# A kubelet admits a pod, and writes its first status, within a second or two of its binding.
_SHOWN_SECONDS: Final = 30.0


def credible(pod: ResidentPod, topology: NodeTopology | None) -> ResidentPod:
    """The pod, without an allocation that contradicts its node. topology: the node's; None: it has no NRT.

    The binding proves the node of a bound pod, but not its NUMA nodes: a tenant may have written those where the
    webhook was not called. So an allocation counts only if the kubelet can have done what it says:
    - The node has the NUMA nodes that the allocation names, and each can allocate that much.
    - Under the policy single-numa-node, each container is on one NUMA node; with scope pod, the whole pod is.
    A forged allocation can still name another NUMA node than the kubelet's, up to the requests of its pod, until the
    node's
    NodeResourceTopology reports the pod.
    """
    if not pod.allocation or topology is None or _can_be(pod, topology):
        return pod
    return replace(pod, allocation=None)


def _can_be(pod: ResidentPod, topology: NodeTopology) -> bool:
    allocation = pod.allocation or ()
    for numa_id, amounts in allocation:
        listed = next((zone.resources for zone in topology.zones if zone.id == numa_id), None)
        if listed is None:
            return False
        if any(name in listed and amount > listed[name].allocatable for name, amount in amounts.items()):
            return False
    kubelet_aligns = topology.policy is NUMAPolicy.SINGLE_NUMA_NODE and topology.publisher is Publisher.SUBTRACTS
    most = 1 if topology.scope is Scope.POD else max(1, len(pod.containers))
    return len(allocation) <= most or not kubelet_aligns


class Certainty(Enum):
    """How certain the NUMA nodes of a pod are."""

    REPLAYED = "replayed"
    UNCERTAIN = "uncertain"
    CONFIRMED = "confirmed"
    CHOSEN = "chosen"


@record
class Known:
    """The NUMA nodes and the allocation of one pod, as far as this replica knows them."""

    uid: str
    numa: NumaAmounts
    """What it holds; the best guess while that is uncertain."""
    certainty: Certainty
    shown: NUMANodeAmounts | None
    """The allocation in the pod, as last seen; None if it has none."""
    ours: bool
    """Whether this replica decided it. If not, the allocation in the pod is newer than what is known here."""
    bound: bool = False
    """Whether a watch or list has shown the pod bound."""
    managed: bool = True
    """Whether it gets allocations. Unmanaged pods get none; their NUMA nodes matter to later pods."""
    outdated: bool = False
    """Whether its allocation is to be replaced even if it names the right NUMA nodes: it is an assignment's, or the
    binding may have replaced it by one that names none."""

    @property
    def wanted(self) -> NUMANodeAmounts | None:
        """The allocation that the pod should have; None if it should have none."""
        return None if self.certainty is Certainty.UNCERTAIN else tuple(sorted(self.numa.items())) or None

    @property
    def differs(self) -> bool:
        """Whether its allocation has to be written or removed."""
        return self.managed and self.bound and (self.outdated or dict(self.shown or ()) != dict(self.wanted or ()))


@dataclass(frozen=True, slots=True)
class AllocationChange:
    """An allocation to write to a bound pod, or to remove from it."""

    pod: str
    """namespace/name."""
    uid: str
    node: str
    allocation: NUMANodeAmounts | None
    """None: remove the allocation."""


def _certainty(uncertain: bool) -> Certainty:
    return Certainty.UNCERTAIN if uncertain else Certainty.REPLAYED


class KnownAllocations:
    """What is known of each pod (namespace/name)."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._open: set[str] = set()
        self._uncertain: set[str] = set()

    @property
    def has_changes(self) -> bool:
        """Whether some allocations have to be written or removed."""
        return bool(self._open)

    @property
    def uncertain(self) -> Sequence[str]:
        """The pods whose NUMA nodes are uncertain."""
        return tuple(self._uncertain)

    def assume(self, assumed_pod: AssumedPod) -> None:
        """Record the assumed NUMA nodes of a pod that is on its way to its kubelet."""
        certainty = Certainty.REPLAYED if assumed_pod.sure else Certainty.UNCERTAIN
        if assumed_pod.chosen and assumed_pod.sure:
            certainty = Certainty.CHOSEN
        self._put(assumed_pod.pod, Known(assumed_pod.uid, assumed_pod.numa, certainty, None, ours=True))

    def replayed(self, pod: ResidentPod, numa: NumaAmounts, *, sure: bool) -> None:
        """Record the replay result of an unmanaged pod that was just bound. It gets no allocation."""
        certainty = Certainty.REPLAYED if sure else Certainty.UNCERTAIN
        self._put(pod.key, Known(pod.uid, numa, certainty, None, ours=True, bound=True, managed=False))

    def forget_assumed(self, pod: str) -> None:
        """Forget the pod, unless it is bound: its binding will not be written."""
        known = self._known.get(pod)
        if known is not None and not known.bound:
            self.forget(pod)

    def seen(self, pod: ResidentPod, *, unreviewed: bool) -> None:
        """Record a bound pod. unreviewed: the allocation is its assignment's, and its kubelet may choose another."""
        known = self._known.get(pod.key)
        if known is not None and known.uid != pod.uid:
            known = None
        if known is None:
            if not pod.allocation:
                self.forget(pod.key)
                return
            known = Known(pod.uid, dict(pod.allocation), _certainty(unreviewed), pod.allocation, ours=False, bound=True)
            self._put(pod.key, replace(known, outdated=unreviewed))
            return
        if not known.ours and (pod.allocation != known.shown or unreviewed != known.outdated):
            known = replace(known, certainty=_certainty(unreviewed or not pod.allocation), outdated=False)
            if pod.allocation:
                known = replace(known, numa=dict(pod.allocation))
        blank = known.ours and not known.bound and bool(known.numa) and known.wanted is None
        outdated = known.outdated or blank or unreviewed
        self._put(pod.key, replace(known, shown=pod.allocation, bound=True, outdated=outdated))

    def trust(self, pod: str) -> None:
        """Take the allocation of an assignment for what the pod has: the service chooses the NUMA nodes there."""
        known = self._known.get(pod)
        if known is not None and not known.ours and known.outdated:
            self._put(pod, replace(known, certainty=Certainty.REPLAYED, outdated=False))

    def applied(self, pod: ResidentPod) -> ResidentPod:
        """The pod with the known NUMA nodes in place of its allocation; the pod as it is if none are known."""
        known = self._known.get(pod.key)
        if known is None or known.uid != pod.uid or not known.numa:
            return pod
        allocation = tuple(known.numa.items())
        return (
            pod
            if pod.allocation == allocation and not pod.unallocated
            else replace(pod, allocation=allocation, unallocated=False)
        )

    def is_located(self, pod: ResidentPod) -> bool:
        """Whether the pod has an allocation, or its NUMA nodes are known without one."""
        known = self._known.get(pod.key)
        return bool(pod.allocation or (known is not None and known.uid == pod.uid and known.numa))

    def make_uncertain(self, pod: str) -> None:
        """Make a replayed pod uncertain: its kubelet may have chosen other NUMA nodes."""
        known = self._known.get(pod)
        if known is not None and known.certainty is Certainty.REPLAYED:
            self._put(pod, replace(known, certainty=Certainty.UNCERTAIN))

    def locate(self, pod: str, numa: NumaAmounts | None, certainty: Certainty) -> None:
        """Record what the NRT says about a pod. numa: what it holds; None: several placements are possible."""
        known = self._known.get(pod)
        if known is None or known.certainty is Certainty.CONFIRMED:
            return
        if numa is None:
            self._put(pod, replace(known, certainty=Certainty.UNCERTAIN))
        else:
            self._put(pod, replace(known, numa=numa, certainty=certainty))

    def forget(self, pod: str, uid: str | None = None) -> None:
        """Remove the pod. uid: only if the known pod has this one; None: any."""
        if uid is not None and (known := self._known.get(pod)) is not None and known.uid != uid:
            return
        self._known.pop(pod, None)
        self._open.discard(pod)
        self._uncertain.discard(pod)

    def get(self, pod: str) -> Known | None:
        """What is known of the pod; None if nothing is."""
        return self._known.get(pod)

    def certainty(self, pod: str) -> Certainty | None:
        """How certain the pod's NUMA nodes are; None if nothing is known."""
        known = self._known.get(pod)
        return None if known is None else known.certainty

    def changes(self, pods: Mapping[str, ResidentPod]) -> Iterator[AllocationChange]:
        """The allocations to write or remove. pods: the current ones, by key. Only bound pods have changes."""
        return filter(None, (self.change(key, pods) for key in tuple(self._open)))

    def change(self, key: str, pods: Mapping[str, ResidentPod]) -> AllocationChange | None:
        """The allocation of one pod to write or remove; None if it is as it should be."""
        known, pod = self._known.get(key), pods.get(key)
        if key not in self._open or known is None or pod is None or pod.uid != known.uid or not pod.node:
            return None
        return AllocationChange(key, known.uid, pod.node, known.wanted)

    def written(self, change: AllocationChange) -> None:
        """Record that this change was written to the pod."""
        known = self._known.get(change.pod)
        if known is not None and known.uid == change.uid:
            self._put(change.pod, replace(known, shown=change.allocation, ours=True, outdated=False))

    def _put(self, pod: str, known: Known) -> None:
        self._known[pod] = known
        for pods, belongs in ((self._open, known.differs), (self._uncertain, known.certainty is Certainty.UNCERTAIN)):
            if belongs:
                pods.add(pod)
            else:
                pods.discard(pod)


_NOWHERE: Final[frozenset[int]] = frozenset()


def alternatives_end(pod: ResidentPod, age: float) -> float:
    """When a bound pod's alternatives end, by the API server's clock; inf if its time of binding is unknown.

    age: seconds from the binding until the NRT should have reported a pod that has started.
    """
    return inf if pod.bound_at is None else pod.bound_at + (age if pod.started else _SHOWN_SECONDS)


class Alternatives:
    """The NUMA ids beyond its allocation on which each pod (namespace/name) may be until its NRT reports it.

    A kubelet gives a pod the first NUMA nodes with room when the pod arrives. The replay is exact except for room that
    was unknown when the allocation was written:
    1. Another pod ended while this one was on its way, or was rejected by its kubelet.
    2. The NRT left open what is free (`Unreported.maybe_free`).
    More room makes a kubelet prefer a lower NUMA node, never a higher one.

    Alternatives are reserved for a limited time, because no other pod can use them. After that the allocation is the
    best
    that is known. They end
    - two periods of the exporter after the binding, when the NRT should have reported the pod;
    - earlier if the kubelet has shown nothing of the pod for much longer than an admission takes: it is not working,
      and the pod's NUMA nodes are not decided yet.
    """

    def __init__(self) -> None:
        self._ids: dict[str, frozenset[int]] = {}

    def also(self, pod: str, numa_ids: Iterable[int]) -> bool:
        """Add NUMA nodes on which the pod may also be. True if any of them is new."""
        before = self._ids.get(pod, _NOWHERE)
        more = before.union(numa_ids)
        if more:
            self._ids[pod] = more
        return more != before

    def ids(self, pod: str) -> frozenset[int]:
        """The NUMA nodes, other than those of its allocation, on which the pod may be; empty if there are none."""
        return self._ids.get(pod, _NOWHERE)

    def until(self, pod: ResidentPod, age: float) -> float:
        """When the alternatives of a bound pod end, as `alternatives_end` says; inf if it has none."""
        return alternatives_end(pod, age) if pod.key in self._ids else inf

    def __contains__(self, pod: str) -> bool:
        return pod in self._ids

    def forget(self, pod: str) -> None:
        """Remove the pod's alternatives: the pod is gone, or they are out of date."""
        self._ids.pop(pod, None)

    def widened(self, pod: str, allocation: NumaAmounts) -> NumaAmounts:
        """The amounts that suffice wherever the pod is: its allocation, and its total on each alternative."""
        ids = self._ids.get(pod, _NOWHERE)
        if not ids:
            return allocation
        return {**dict.fromkeys(sorted(ids), added(allocation.values())), **allocation}


@dataclass(frozen=True, slots=True)
class ReportedPlacements:
    """What one NRT proves about the pods that it reports, by pod key."""

    placements: Mapping[str, NumaAmounts | None] = field(default_factory=dict)
    """The placements of the pods that the NRT says something about; None: several are possible."""
    certain: Mapping[str, NumaAmounts] = field(default_factory=dict)
    """The placements that follow from the NRT without an unconfirmed allocation."""


def reported_placements(
    topology: NodeTopology, pods: Sequence[ResidentPod], allocations: KnownAllocations, alternatives: Alternatives
) -> ReportedPlacements:
    """The placements of the pods that an NRT reports, from its numbers and from what was known before.

    1. A pod whose placement is known has that one. An uncertain pod has one of its alternatives, a pod without an
    allocation
       any placement that its kubelet could give it. If only one remains possible (see `placement_search`), the pod has
       it.
    2. If no combination is possible, some pod is not where it was replayed. Then each pod that no NRT has confirmed may
       be anywhere. A pod with one remaining placement has it; the others are uncertain.
    3. What ended pods held is certainly free only if this follows without any allocation that the NRT does not confirm.

    pods: all that the NRT reports and that hold exclusive resources, also those that have ended.
    """
    confirmed = {pod.key for pod in pods if allocations.certainty(pod.key) is Certainty.CONFIRMED}
    unknown = [pod for pod in pods if not pod.allocation or allocations.certainty(pod.key) is Certainty.UNCERTAIN]
    uncertain = {pod.key for pod in unknown}
    found = locate(topology, [_candidate(pod, topology, alternatives, fixed=pod.key not in uncertain) for pod in pods])
    if found is None:
        return ReportedPlacements()
    if _agrees(found):
        placements = _single(found)
        if not uncertain:
            return ReportedPlacements(placements, {key: numa for key, numa in placements.items() if numa is not None})
        alone = _of_the_nrt_alone(topology, pods, confirmed)
        return ReportedPlacements(placements, {} if alone is None else _known(alone))
    alone = _of_the_nrt_alone(topology, pods, confirmed)
    if alone is None or not _agrees(alone):
        return ReportedPlacements({pod.key: None for pod in pods if pod.key not in confirmed})
    return ReportedPlacements(_single(alone), _known(alone))


def _of_the_nrt_alone(topology: NodeTopology, pods: Iterable[ResidentPod], confirmed: Iterable[str]) -> Located | None:
    """The placements that remain possible if only allocations that an NRT has confirmed are trusted."""
    fixed = set(confirmed)
    return locate(topology, [_candidate(pod, topology, None, fixed=pod.key in fixed) for pod in pods])


def _candidate(
    pod: ResidentPod, topology: NodeTopology, alternatives: Alternatives | None, *, fixed: bool
) -> Candidate:
    allocation = dict(pod.allocation or ())
    # A pod on several NUMA nodes could have any shares: there would soon be too many combinations.
    if fixed or (len(allocation) > 1 and alternatives is None):
        return Candidate(pod.key, added(allocation.values()), [allocation])
    shares = given_to(pod, topology)
    if shares is None:
        # Later containers reuse what init containers held: only the allocation has the resulting amounts.
        amounts = added(allocation.values()) if allocation else most_given_to(pod, topology)
        return Candidate(pod.key, amounts, placements_of([amounts], topology) if len(allocation) == 1 else None)
    placements = placements_of(shares, topology)
    if placements is not None and allocation and alternatives is not None and pod.key in alternatives:
        allowed = alternatives.ids(pod.key) | allocation.keys()
        placements = [numa for numa in placements if numa.keys() <= allowed]
    return Candidate(pod.key, added(shares), placements)


def _agrees(found: Located) -> bool:
    return all(found.values())


def _single(found: Located) -> dict[str, NumaAmounts | None]:
    return {pod: placements[0] if len(placements) == 1 else None for pod, placements in found.items()}


def _known(found: Located) -> dict[str, NumaAmounts]:
    return {pod: placements[0] for pod, placements in found.items() if len(placements) == 1}
