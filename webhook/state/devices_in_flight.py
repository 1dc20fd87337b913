"""Devices that pods are about to get: no claim has them yet, and no other pod may count on them.

A pod counts on its node by what it requests, from its assignment on. One device can be requested by several names: by
each extended resource of its DeviceClass, and by each request of a claim that selects it. A count by one of them does
not show in the others, nor to the search for devices near CPUs. So the devices themselves are counted as taken:

1. Of the pods that count on a node, those without a claim for what they request are in flight (`claims_in_flight`).
2. Each of them, by name, gets the devices that kube-scheduler's allocator would take beside those before it. A change
   on the node computes them again, so that every replica finds the same.
3. They are the allocation of a claim that is not in the cluster, which counts like all others.

Where the allocator cannot say, or nothing is free, the pod counts by its request alone.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from webhook.engine.dra.device_allocation import DeviceAllocator, Verdict
from webhook.engine.dra.device_pools import Budget, DeviceInventory, NodeDevices
from webhook.formats.dra import Allocation, Claim, ClaimSpec, Request

# Of one pod on one node, of which evaluations of selectors take most; see device_allocation.OPERATIONS.
_OPERATIONS: Final = 20_000


class Requesting(NamedTuple):
    """A pod that counts on a node with what it requests of devices."""

    key: str
    """namespace/name."""
    uid: str
    amounts: tuple[tuple[str, int], ...]
    """By name of the resource, sorted."""


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A resource that a claim or template defines."""

    claim: Claim
    shared: bool = False
    """Whether any number of pods use the claim together."""
    parts: Mapping[str, int] | None = None
    """If it stands for a claim as a whole: what pods with it request of other rows for the same devices."""


class DevicesInFlight:
    """The devices of pods in flight, in the inventory beside those of claims. mark: what a changed claim concerns."""

    def __init__(self, inventory: DeviceInventory, mark: Callable[[Claim | None], None]) -> None:
        self._inventory = inventory
        self._allocator = DeviceAllocator(inventory)
        self._mark = mark
        self._on: dict[str, dict[str, Claim]] = {}  # node -> name -> the claim that has the devices

    def has(self, node: str, name: str) -> bool:
        """Whether devices of the node are counted under this name: see `claims_in_flight`."""
        return name in self._on.get(node, {})

    def put(self, offered: NodeDevices, wanted: Mapping[str, Sequence[Claim]]) -> None:
        """Count the devices of these pods on the node, and no others. wanted: see `claims_in_flight`."""
        before = self._on.pop(offered.name, {})
        for claim in before.values():
            self._inventory.remove_claim(claim.key)
        found: dict[str, Claim] = {}
        for name in sorted(wanted):
            fit = self._allocator.fitter(wanted[name], budget=Budget(_OPERATIONS)).on(offered)
            if fit.verdict is Verdict.FITS and fit.results:
                named = f"{name} on {offered.name}"
                found[name] = Claim("", named, "", ClaimSpec(), Allocation(fit.results))
                self._inventory.put_claim(found[name])
        if found:
            self._on[offered.name] = found
        for name in before.keys() | found.keys():
            if before.get(name) != found.get(name):
                self._mark(before.get(name))
                self._mark(found.get(name))


def claims_in_flight(
    pods: Iterable[Requesting], classes: Mapping[str, str], rows: Mapping[str, DeviceRow], served: Container[str]
) -> dict[str, Sequence[Claim]]:
    """The claims that pods on a node are about to get, by the pod, or by the row of a claim that pods share.

    classes: extended resource that the node's slices serve -> DeviceClass. rows: by resource. served: the uids of pods
    whose extended resources a claim has.
    """
    found: dict[str, Sequence[Claim]] = {}
    for pod in pods:
        amounts = Counter(dict(pod.amounts))
        extended = tuple(Request(name, classes[name], amounts[name]) for name in amounts if name in classes)
        claims = [Claim("", "", "", ClaimSpec(extended))] if extended and pod.uid not in served else []
        own = [(rows[name], name) for name in amounts if name in rows]
        for row, name in own:
            if row.shared and row.claim.allocation is None:
                found[name] = (row.claim,)
            elif row.parts is not None:
                claims += [row.claim] * amounts[name]
                amounts.subtract({part: count * amounts[name] for part, count in row.parts.items()})
        for row, name in own:
            if not row.shared and row.parts is None and amounts[name] > 0:
                (one,) = row.claim.spec.requests
                claims.append(replace(row.claim, spec=ClaimSpec((replace(one, count=amounts[name]),))))
        if claims:
            found[f"pod {pod.key}"] = claims
    return found
