"""Devices for a pod's claims on the NUMA nodes that its kubelet takes for CPUs, memory and device plugins.

No driver of Dynamic Resource Allocation gives its kubelet NUMA hints, so the kubelet's choice does not depend on these
devices. It is predicted (`Decision.numa_nodes`), and the devices have to follow it:

1. The nodes are tried in the order of their rank, until one is found or the budget is used.
2. On each, the claims get the devices that kube-scheduler's allocator would take if there were no others than those on
   the NUMA nodes, and those that publish none.
3. Of the first `FIRST_NODES` that have devices, one wins where their NUMA nodes are published, then one where several
   devices are on one PCIe root. If one root is required, other nodes do not count.
4. A node whose free devices are all near other NUMA nodes does not fit, and `Apart` says where these are.

What a decision can cost: a node costs `OPERATIONS_OF_NODE` at least, and each search of its devices what the allocator
takes; nodes with equal devices share the answer. All of it is taken from one budget of `OPERATIONS`, some 0.1 s. When
that is used, the result is `cut_short`, and the devices are left to kube-scheduler. So a tenant whose selectors or
constraints make each search long gets claims that are not aligned, after a tenth of a second; how often the leader
spends that is bounded by the turns of namespaces (webhook.placing.fair_order).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from webhook.engine.dra.device_allocation import Cause, DeviceAllocator, Fit, Taken, Verdict
from webhook.engine.dra.device_pools import Budget, NodeDevices
from webhook.formats.dra import PCIE_ROOT_ATTRIBUTES, Claim, Device, Result

OPERATIONS: Final = 100_000
"""Operations of one decision, of about a microsecond each. What selectors say is usually known by then: templates and
claims are counted on all nodes when they appear (webhook.state.devices). Nodes of eight devices that no pod with such
claims was tried on cost 120 more: 800 of them use the budget.
"""
OPERATIONS_OF_NODE: Final = 15
"""Those of a node of eight devices whose answer is known: 5,000 such nodes use three quarters of the budget."""
MOST_APART: Final = 8
"""Nodes whose devices are looked up only to say where they are: a text names fewer."""
FIRST_NODES: Final = 16
"""Usually one of the first is as good as any; a node that is far worse is not taken for the sake of a PCIe root."""


class Place(NamedTuple):
    """A node for a pod."""

    node: str
    numa_nodes: tuple[int, ...]
    """The NUMA ids that its kubelet takes, ascending; empty: it is not known, and any device will do."""


class Apart(NamedTuple):
    """A node whose kubelet takes other NUMA nodes than those of the free devices."""

    place: Place
    devices: tuple[int, ...]
    """The NUMA ids of devices that could be allocated otherwise; empty: none could be, or nobody has looked."""


@dataclass(frozen=True, slots=True)
class AlignedPlace:
    """A node with the devices that the claims get there."""

    place: Place
    devices: tuple[tuple[Taken, ...], ...]
    """For each claim, in the order of the claims."""
    one_root: bool = False
    """Whether the devices that publish a PCIe root have one in common."""

    @property
    def is_known(self) -> bool:
        """Whether at least one of the devices is known to be on the NUMA nodes."""
        return bool(self.place.numa_nodes) and any(one.device.numa_nodes for claim in self.devices for one in claim)

    @property
    def quality(self) -> tuple[bool, bool]:
        """The greater, the better."""
        return self.is_known, self.one_root

    @property
    def results(self) -> tuple[tuple[Result, ...], ...]:
        """The devices of each claim as allocations."""
        return tuple(tuple(one.result() for one in claim) for claim in self.devices)


@dataclass(slots=True)
class AlignedSearch:
    """What a search found, and what it met on the nodes that it passed over."""

    found: AlignedPlace | None = None
    apart: list[Apart] = field(default_factory=list)
    """The nodes that do not fit, in order."""
    unknown: str = ""
    """Why kube-scheduler could perhaps allocate on a node where this code cannot say; of the first such node."""
    cut_short: bool = False
    """Whether nodes were not tried."""


class AlignedFitter:
    """The claims of a pod, ready for each node. one_root: whether one PCIe root is required, not just preferred."""

    def __init__(
        self,
        allocator: DeviceAllocator,
        claims: Sequence[Claim],
        *,
        pod_uid: str = "",
        one_root: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self._budget = budget or Budget(OPERATIONS)
        self._claims = claims
        self._any = allocator.fitter(claims, pod_uid=pod_uid, budget=self._budget)
        self._requires = one_root
        several = sum(2 if one.count is None else one.count for claim in claims for one in claim.spec.requests) > 1
        self._alike = None
        if several:
            root = PCIE_ROOT_ATTRIBUTES[0]
            self._alike = allocator.fitter(claims, pod_uid=pod_uid, alike=root, budget=self._budget)

    def search(
        self, places: Iterable[Place], devices_of: Callable[[str], NodeDevices], also: Sequence[Result] = ()
    ) -> AlignedSearch:
        """The best of the places, which are in the order of their rank. also: what counts as taken besides."""
        search = AlignedSearch()
        fitting = 0
        for place in places:
            if not self._budget.take(OPERATIONS_OF_NODE):
                search.cut_short = True
                break
            devices = devices_of(place.node)
            found = self.on(place, devices, also)
            if isinstance(found, AlignedPlace):
                fitting += 1
                if search.found is None or found.quality > search.found.quality:
                    search.found = found
                if found.quality == (True, self._alike is not None) or fitting == FIRST_NODES:
                    break
            elif found.verdict is Verdict.DOES_NOT_FIT:
                looks = len(search.apart) < MOST_APART
                search.apart.append(Apart(place, self._elsewhere(devices, also) if looks else ()))
            elif found.cause is Cause.TOO_LONG:
                search.cut_short = True
            else:
                search.unknown = search.unknown or f"{found.cause.phrase}: {found.detail}"
        return search

    def on(self, place: Place, devices: NodeDevices, also: Sequence[Result] = ()) -> AlignedPlace | Fit:
        """The devices on one node, or why there are none. also: as for `search`."""
        numa_nodes = place.numa_nodes or None
        fit = self._any.on(devices, numa_nodes=numa_nodes, also=also)
        if fit.verdict is not Verdict.DOES_NOT_FIT and self._alike is not None:
            alike = self._alike.on(devices, numa_nodes=numa_nodes, also=also)
            fit = alike if self._requires or alike.verdict is Verdict.FITS else fit
        if own := next((one.device for claim in fit.devices for one in claim if _is_schedulers(one.device)), None):
            return Fit(Verdict.CANNOT_SAY, cause=Cause.SCHEDULERS, detail=str(own.id))
        return AlignedPlace(place, fit.devices, _has_one_root(fit)) if fit.verdict is Verdict.FITS else fit

    def _elsewhere(self, devices: NodeDevices, also: Sequence[Result]) -> tuple[int, ...]:
        """The NUMA ids of devices that the claims would get if these did not matter."""
        fit = self._any.on(devices, also=also)
        return tuple(
            sorted({one.device.numa_nodes[0] for claim in fit.devices for one in claim if one.device.numa_nodes})
        )


def _is_schedulers(device: Device) -> bool:
    """Whether kube-scheduler has to do more for the device than allocate it: for shares, drivers, or its own sums."""
    return device.shared or device.binding_conditions or device.maps_node_resources


def _has_one_root(fit: Fit) -> bool:
    """Whether at least two devices publish a PCIe root, and all that do have one in common."""
    roots = [{*one.device.pcie_roots} for claim in fit.devices for one in claim if one.device.pcie_roots]
    return len(roots) > 1 and bool(set.intersection(*roots))
