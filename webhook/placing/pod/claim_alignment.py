"""The devices of a pod's claims beside its CPUs and memory: which the leader allocates, or why it leaves them alone.

1. Claims that only the scheduler can allocate are counted, as those of any pod, and the scheduler chooses the node. The
   text says `not aligned with its devices`, and why.
2. Of the nodes that fit, those count whose kubelet's NUMA nodes are predicted. If there are none, nothing can be
   aligned, and 1 holds.
3. The first in the order of their rank counts that has the devices on these NUMA nodes (webhook.engine.dra
   .aligned_devices). The pod is pinned to it, as a member of a gang is, and its claims are allocated before it is
   ungated.
4. If devices are free near other NUMA nodes only, such a node does not fit. The pod gets the best node where nothing is
   predicted, if there is one, else it waits. Where its policy, or the nodes', is `BestEffort`, it goes on as in 1.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from webhook.engine.decide import Candidate, Decision
from webhook.engine.dra.aligned_devices import AlignedPlace, AlignedSearch, Apart, Place
from webhook.engine.enforcement import obeys_no_allocation
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.formats.dra import Allocation, Claim, Result, is_channel
from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.names import PCIE_ROOT
from webhook.model.policy import NUMAPolicy
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.devices import PodClaims

_SHOWN: Final = 4  # devices or nodes in a text
_REQUIRED: Final = "Required"
_PREFERRED: Final = "Preferred"


def requires_root(annotations: Mapping[str, str], path: str = "metadata.annotations") -> bool:
    """Whether the devices of all claims must be on one PCIe root. Raises UserError.

    path: that of the annotations.
    """
    text = annotations.get(PCIE_ROOT, _PREFERRED)
    if text not in {_REQUIRED, _PREFERRED}:
        allowed = f"Write {_REQUIRED} or {_PREFERRED}."
        raise UserError(f"{path}[{PCIE_ROOT}]", f'"{shortened(str(text))}" is not allowed here. {allowed}')
    return text == _REQUIRED


def asks_for_root(annotations: Mapping[str, str]) -> bool:
    """The same of a pod that exists: what was changed into nonsense since its creation requires nothing."""
    return annotations.get(PCIE_ROOT) == _REQUIRED


@dataclass(frozen=True, slots=True)
class ClaimDevices:
    """What a claim of an assigned pod gets."""

    entry: str
    """The pod's name for it."""
    claim: Claim
    results: tuple[Result, ...]
    node: str
    written: Mapping[str, Any]
    """The `status.allocation` of its object."""

    @property
    def assumed(self) -> Allocation:
        """The allocation as it counts from now on."""
        named = {"key": "metadata.name", "operator": "In", "values": [self.node]}
        return Allocation(self.results, ({"matchFields": [named]},))


@dataclass(frozen=True, slots=True)
class Aligned:
    """A node with the devices of the pod's claims."""

    node: str
    devices: tuple[ClaimDevices, ...]
    text: str
    """`devices gpu-1 on NUMA 1`."""


@dataclass(frozen=True, slots=True)
class DelegatedToScheduler:
    """The scheduler allocates the devices."""

    text: str
    """Why, as a clause; empty: nothing is to be aligned."""
    node: str = ""
    """The node that it must do so on; empty: any that fits."""


@dataclass(frozen=True, slots=True)
class DevicesApart:
    """No node fits."""

    text: str
    """Why, as a clause."""


Alignment = Aligned | DelegatedToScheduler | DevicesApart


@dataclass(frozen=True, slots=True)
class Claimant:
    """What counts of a pod when its claims get devices."""

    claims: PodClaims
    policy: NUMAPolicy | None
    """Its own; None: that of each node."""
    requires_root: bool = False
    """Whether it requires one PCIe root."""

    @classmethod
    def of(cls, gated: GatedPod) -> "Claimant | None":
        """That of a pod; None if it has no claims."""
        return (
            None
            if gated.claims is None
            else cls(gated.claims, gated.intent.policy, asks_for_root(gated.pod.annotations))
        )


def align_on(decision: Decision, claimant: Claimant, candidates: Iterable[Candidate]) -> Alignment:
    """The first of the candidates that has the devices; they are in the order of their rank."""
    arrays, unpredicted = decision.snapshot.node_arrays, list[str]()

    def predicted() -> Iterator[Place]:
        for one in candidates:
            if one.numa_nodes and not obeys_no_allocation(arrays, arrays.index[one.node]):
                yield Place(one.node, one.numa_nodes)
            elif not unpredicted:
                unpredicted.append(one.node)

    found = _align(claimant, predicted(), arrays)
    if isinstance(found, DevicesApart) and unpredicted and not claimant.requires_root:
        (node,) = unpredicted
        why = f"no kubelet aligns its CPUs and memory on {node}, and elsewhere there are {found.text}"
        return left_to_scheduler(claimant, why, node)
    return found


def align_there(claimant: Claimant, place: Place, arrays: NodeArrays, also: Sequence[Result] = ()) -> Alignment:
    """The devices of a pod that is to go to one node in any case. also: devices that are taken besides."""
    is_predicted = place.numa_nodes and not obeys_no_allocation(arrays, arrays.index[place.node])
    return _align(claimant, [place] if is_predicted else [], arrays, also)


def _align(claimant: Claimant, places: Iterable[Place], arrays: NodeArrays, also: Sequence[Result] = ()) -> Alignment:
    """The first of the places that has the devices. places: where kubelets' NUMA nodes are known, in order."""
    claims, requires_root = claimant.claims, claimant.requires_root
    if claims.claims and all(is_channel(one.spec) for one in claims.claims) and not requires_root:
        return DelegatedToScheduler("")  # a channel is near all NUMA nodes
    if why := claims.why_not_now:
        return left_to_scheduler(claimant, why)
    search = claims.search(places, one_root=requires_root, also=also)
    if search.found is not None:
        if not search.found.is_known:
            return left_to_scheduler(claimant, f"no NUMA node of its devices on {search.found.place.node} is published")
        return _aligned(claims, search.found)
    if search.unknown or search.cut_short:
        return left_to_scheduler(claimant, search.unknown or "the search takes too long")
    if not search.apart:
        return left_to_scheduler(claimant, "no kubelet aligns its CPUs and memory on the nodes that fit")
    text = _apart(search, requires_root=requires_root)
    policies = {_policy(claimant, arrays, one.place.node) for one in search.apart}
    is_strict = requires_root or policies != {NUMAPolicy.BEST_EFFORT}
    return DevicesApart(text) if is_strict else left_to_scheduler(claimant, text)


def _policy(claimant: Claimant, arrays: NodeArrays, node: str) -> NUMAPolicy:
    """The policy that applies to the pod on the node: its own, if it has one."""
    return NUMAPolicy(int(arrays.policy[arrays.index[node]])) if claimant.policy is None else claimant.policy


def left_to_scheduler(claimant: Claimant, why: str, node: str = "") -> DelegatedToScheduler | DevicesApart:
    """The scheduler allocates the devices, unless the pod requires what only we see to.

    node: see `DelegatedToScheduler`.
    """
    if claimant.requires_root:
        return DevicesApart(f"its devices must be on one PCIe root, and cannot be allocated so: {why}")
    return DelegatedToScheduler(f"not aligned with its devices: {why}", node)


def _aligned(claims: PodClaims, found: AlignedPlace) -> Aligned:
    node = found.place.node
    devices = tuple(
        ClaimDevices(name, claim, results, node, claims.written(claim, results, node))
        for name, claim, results in zip(claims.names, claims.claims, found.results, strict=True)
    )
    taken = [one.device for claim in found.devices for one in claim]
    names = _some([one.id.name for one in taken])
    ids = sorted({one.numa_nodes[0] for one in taken if one.numa_nodes})
    root = ", on one PCIe root" if found.one_root else ""
    return Aligned(node, devices, f"devices {names} on NUMA {'+'.join(map(str, ids))}{root}")


def _apart(search: AlignedSearch, *, requires_root: bool) -> str:
    """`no devices on the NUMA nodes that kubelets take: n1 takes NUMA 0, devices are free on NUMA 1`."""
    begins = "no free devices on one PCIe root of" if requires_root else "no free devices on"
    nodes = _some([_apart_on(one) for one in search.apart], "; ")
    return f"{begins} the NUMA nodes that its kubelet takes for CPUs and memory: {nodes}"


def _apart_on(one: Apart) -> str:
    takes = f"NUMA {'+'.join(map(str, one.place.numa_nodes))}"
    free = f"devices are free on NUMA {'+'.join(map(str, one.devices))}" if one.devices else "no devices are free"
    return f"{one.place.node} takes {takes}, {free}"


def _some(names: Sequence[str], between: str = ", ") -> str:
    more = len(names) - _SHOWN
    return between.join(names if more <= 1 else [*names[:_SHOWN], f"{more} more"])
