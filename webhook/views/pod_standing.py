"""Where one pod stands: what was decided about it, its node and NUMA nodes, and what the node's NRT shows of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.dra import pod_claims
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.koordinator.numa_allocation import NUMANodeAmounts
from webhook.formats.kubernetes.gates import is_gated, waits_for_us_alone
from webhook.formats.kubernetes.membership import Membership
from webhook.formats.kubernetes.placed_condition import placed_condition
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.names import PLACEMENT
from webhook.model.raw import Raw
from webhook.state.assumed.known_placements import Certainty, Known
from webhook.state.assumed.observed_placement import NUMASource
from webhook.state.assumed.placement_search import taken_on
from webhook.state.cluster_cache import ClusterCache
from webhook.state.delegated_pods import last_failure
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_unmanaged
from webhook.views.nodes import DeviceView, ManagerView, NUMAShare, devices_on, manager_views, numa_facts


class AllocationVerdict(StrEnum):
    """What the NRT says about a hint."""

    AGREES = "Agrees"
    """The NRT reports the pod on the NUMA nodes of its hint."""
    DISAGREES = "Disagrees"
    """The pod is on other NUMA nodes."""
    POSSIBLE = "Possible"
    """At least as much is taken there, but the NRT does not show by which pods."""
    NOT_REPORTED = "NotReported"
    """The NRT does not report the pod yet."""
    NOT_PUBLISHED = "NotPublished"
    """The node has no NRT, or one with totals alone."""
    NO_ALLOCATION = "None"
    """The pod has no hint."""


ALLOCATION_VERDICTS: Final = {
    AllocationVerdict.AGREES: "agrees: it reports the pod there",
    AllocationVerdict.DISAGREES: "disagrees: the pod is elsewhere",
    AllocationVerdict.POSSIBLE: "does not contradict it, and does not show which pods hold what is taken",
    AllocationVerdict.NOT_REPORTED: "does not report the pod yet",
    AllocationVerdict.NOT_PUBLISHED: "none that shows what pods hold",
}
"""In the words of `NodeResourceTopology: ...`."""


@dataclass(frozen=True, slots=True)
class AllocationAmount:
    """One resource of one NUMA node of the hint, in engine units."""

    id: int
    resource: str
    hint: int
    taken: int | None
    """What the NRT shows as taken there, by all pods; None if it does not list the resource."""


@dataclass(frozen=True, slots=True)
class AllocationCheck:
    """The comparison."""

    verdict: AllocationVerdict
    reported: tuple[int, ...] | None
    """The NUMA nodes on which the NRT reports the pod; None if it leaves several possible."""
    amounts: tuple[AllocationAmount, ...]


def allocation_check(cache: ClusterCache, key: str) -> AllocationCheck | None:
    """The comparison for the pod namespace/name; None if it is not bound."""
    ledger, record = cache.snapshot().nodes.ledger, cache.state.pods.get(key)
    if record is None:
        return None
    reservation = None if ledger is None else ledger.get(key)
    unreported: NumaAmounts = {} if reservation is None else reservation.numa
    topology = cache.state.topologies.get(record.node)
    return compare(record.allocation, topology, cache.known_numa_nodes(key), unreported)


def compare(
    hint: NUMANodeAmounts | None, topology: NodeTopology | None, known: Known | None, unreported: NumaAmounts
) -> AllocationCheck:
    """A pod's hint beside what its node's NodeResourceTopology (NRT) shows.

    1. If the NRT names the pods that it reports, and leaves them only one possible placement, it is compared with the
       hint.
    2. Else, the amounts are compared on each NUMA node of the hint. If less is taken there than the pod holds, it is
       elsewhere. If at least as much is taken, the NRT does not contradict the hint, and does not prove it.
    3. What the NRT does not report yet is left out. If that is all, the answer is open.

    known: what the service knows of the pod; unreported: what of it the NRT does not show yet.
    """
    if not hint:
        return AllocationCheck(AllocationVerdict.NO_ALLOCATION, None, ())
    taken = {} if topology is None else taken_on(topology)
    amounts = tuple(
        AllocationAmount(numa_id, resource, amount, taken.get(numa_id, {}).get(resource))
        for numa_id, held in sorted(hint, key=lambda one: one[0])
        for resource, amount in sorted(held.items())
    )
    if topology is None or topology.publisher is Publisher.TOTAL:
        return AllocationCheck(AllocationVerdict.NOT_PUBLISHED, None, amounts)
    if known is not None and known.certainty is Certainty.CONFIRMED:
        same = _amounts(known.numa) == _amounts(dict(hint))
        verdict = AllocationVerdict.AGREES if same else AllocationVerdict.DISAGREES
        return AllocationCheck(verdict, tuple(sorted(known.numa)), amounts)
    missing = {resource for held in unreported.values() for resource in held}
    shown = [each for each in amounts if each.resource not in missing and each.taken is not None]
    if not shown:
        return AllocationCheck(AllocationVerdict.NOT_REPORTED, None, amounts)
    elsewhere = any((each.taken or 0) < each.hint for each in shown)
    return AllocationCheck(AllocationVerdict.DISAGREES if elsewhere else AllocationVerdict.POSSIBLE, None, amounts)


def _amounts(numa: NumaAmounts) -> Mapping[int, Mapping[str, int]]:
    return {numa_id: dict(amounts) for numa_id, amounts in numa.items() if amounts}


Path = tuple[tuple[str, str], ...]


class Standing(StrEnum):
    """How far a pod is."""

    WAITING = "Waiting"
    """It waits behind the service's gate."""
    OTHER_GATES = "OtherGates"
    """Another controller has to remove its gate first."""
    PENDING = "Pending"
    """It has no gate and no node; the scheduler has to find one."""
    ASSIGNED = "Assigned"
    """It has a node and is not bound yet."""
    BOUND = "Bound"
    """It is bound, and its containers do not run yet."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


WITHOUT_NODE = frozenset({Standing.WAITING, Standing.OTHER_GATES, Standing.PENDING})
ENDED = frozenset({Standing.SUCCEEDED, Standing.FAILED})


@dataclass(frozen=True, slots=True)
class PlacedView:
    """The pod's condition `topology-webhook.dev/Placed`."""

    status: str
    reason: str
    message: str
    since: str
    """When the status became what it is (RFC 3339); empty if not known."""


@dataclass(frozen=True, slots=True)
class PodStanding:
    """One pod."""

    namespace: str
    name: str
    state: Standing
    unmanaged: str
    """Why the service does not manage it; empty if it does."""
    policy: str
    """The NUMA policy that it or an owner asks for, as Koordinator spells it; empty: none."""
    gang: str
    """Empty if it is in none."""
    rank: int | None
    node: str
    """Empty while it has none."""
    domain: Path
    """(node label, value) of its node in its topology, coarse to fine."""
    numa_nodes: tuple[NUMAShare, ...] | None
    """What is reserved for it until it is bound, then where it is; None if that is unknown."""
    numa_source: NUMASource | None
    """How they are known of a bound pod."""
    ignored_observation: str
    """Why what a node agent says of them does not count; empty if it counts, or there is none."""
    hint: AllocationCheck | None
    """Its hint beside the NRT; None if it is not bound."""
    devices: tuple[DeviceView, ...]
    """The devices in ResourceSlices that its claims hold on its node."""
    managers: tuple[ManagerView, ...]
    """The resource managers of its node's kubelet; empty while it has no node, or the node no NRT."""
    placement: str
    """What the service wrote into it, in lines; empty without a decision."""
    placed: PlacedView | None
    """None without the condition."""
    scheduler: str
    """What the scheduler reports of its last attempt; empty if it reports nothing."""


def standing(raw: Raw, cache: ClusterCache) -> Standing:
    """The state of a pod object."""
    phase = (raw.get("status") or {}).get("phase")
    if phase in {"Succeeded", "Failed"}:
        return Standing(phase)
    if raw["spec"].get("nodeName"):
        return Standing.RUNNING if phase == "Running" else Standing.BOUND
    if is_gated(raw):
        return Standing.WAITING if waits_for_us_alone(raw) else Standing.OTHER_GATES
    return Standing.PENDING if _reservation(cache, _key(raw)) is None else Standing.ASSIGNED


def pod_standing(
    raw: Raw,
    cache: ClusterCache,
    rules: Rules,
    intent: NUMAIntent,
    membership: Membership | None,
    domain_of: Callable[[str], Path],
) -> PodStanding:
    """The record of a pod object. intent, membership: with what it takes from its owners; domain_of: of a node."""
    key, metadata = _key(raw), raw["metadata"]
    state, reservation = standing(raw, cache), _reservation(cache, key)
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    node = node_of(raw, cache)
    namespace = metadata.get("namespace", "")
    held = {f"{namespace}/{one.claim}" for one in pod_claims(raw) if one.claim}
    if extended := ((raw.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName"):
        held.add(f"{namespace}/{extended}")
    return PodStanding(
        metadata.get("namespace", ""),
        metadata["name"],
        state,
        why_unmanaged(raw, rules) or "",
        intent.policy.koordinator if intent.policy else "",
        membership.name if membership else "",
        membership.rank if membership else None,
        node,
        domain_of(node),
        *_numa_nodes(cache, key, reservation),
        allocation_check(cache, key),
        tuple(one for one in devices_on(cache, node) if not held.isdisjoint(one.claims)) if held and node else (),
        () if (topology := cache.state.topologies.get(node)) is None else manager_views(topology),
        annotations.get(PLACEMENT, ""),
        _placed(raw),
        (last_failure(raw) or "") if state is Standing.PENDING else "",
    )


def node_of(raw: Raw, cache: ClusterCache) -> str:
    """The node that a pod is bound or assigned to; empty if it has none."""
    bound: str = raw["spec"].get("nodeName") or ""
    reservation = None if bound else _reservation(cache, _key(raw))
    return reservation.node if reservation else bound


def _key(raw: Raw) -> str:
    return f"{raw['metadata'].get('namespace', '')}/{raw['metadata']['name']}"


def _reservation(cache: ClusterCache, key: str) -> Reservation | None:
    ledger = cache.snapshot().nodes.ledger
    return None if ledger is None else ledger.get(key)


def _numa_nodes(
    cache: ClusterCache, key: str, reservation: Reservation | None
) -> tuple[tuple[NUMAShare, ...] | None, NUMASource | None, str]:
    record = cache.state.pods.get(key)
    if record is not None and (found := cache.numa_nodes(record.node).get(key)) is not None:
        return numa_facts(found)
    held = None if reservation is None else sorted(reservation.numa.items())
    return None if held is None else tuple(NUMAShare(numa_id, dict(amounts)) for numa_id, amounts in held), None, ""


def _placed(raw: Raw) -> PlacedView | None:
    found = placed_condition(raw)
    texts = (str(found.get(field) or "") for field in ("status", "reason", "message", "lastTransitionTime"))
    return PlacedView(*texts) if found else None
