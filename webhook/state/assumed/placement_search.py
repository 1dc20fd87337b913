"""Finds the NUMA nodes of pods from what their node's NodeResourceTopology shows as taken of each NUMA node.

The NRT's fingerprint says which pods it reports. Each of them has one of a few possible placements, and together they
hold exactly what is taken. A placement remains possible if some combination with exactly these sums uses it.

1. Choose the resources to compare: those of which as much is taken on the whole node as the pods hold. A resource of
   which nothing is taken is not allocated by the kubelet's managers. If any other amount is taken, the NRT proves
   nothing.
2. Sort the pods by the number of their possible placements. From the first pod to the last, compute which amounts can
   be left. A state is what is left of each NUMA node and resource.
3. From the last pod to the first, find the states that lead to nothing left. A placement remains if it connects two of
   them.
4. One pod may be anywhere, in any shares: it has what the others leave. With two such pods the NRT proves nothing.

If each pod has one possible placement, as on most nodes, comparing their sums replaces steps 2 and 3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.formats.kubernetes.pod_resources import ContainerKind, QoS
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Zone
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import CPU, MEMORY, is_device, is_hugepages
from webhook.state.assumed.free_bounds import together

_ON_ONE: Final = frozenset({NUMAPolicy.SINGLE_NUMA_NODE, NUMAPolicy.RESTRICTED})
# Combinations of NUMA nodes for the containers of one pod; a pod with more counts as being anywhere.
_MOST_PLACEMENTS: Final = 64

Shares = Sequence[Mapping[str, int]]


def given_to(pod: ResidentPod, topology: NodeTopology) -> Shares | None:
    """What the kubelet's managers allocate to each container while it runs; None if that cannot be derived.

    It cannot be derived for pods with init containers: later containers reuse some of what those held.
    """
    if any(container.kind is ContainerKind.INIT for container in pod.containers):
        return None
    guaranteed = pod.qos is QoS.GUARANTEED and not pod.pod_level
    listed = frozenset(name for zone in topology.zones for name in zone.resources)
    shares = [_given(container.requests, listed, guaranteed=guaranteed) for container in pod.containers]
    return [share for share in shares if share]


def most_given_to(pod: ResidentPod, topology: NodeTopology) -> Mapping[str, int]:
    """An upper bound of what the kubelet's managers allocate to the pod; exact if `given_to` is known."""
    shares = given_to(pod, topology)
    return added(container.requests for container in pod.containers) if shares is None else added(shares)


def placements_of(shares: Shares, topology: NodeTopology) -> Sequence[NumaAmounts] | None:
    """The placements that a kubelet may have chosen for containers with these shares; None: any.

    - Under `single-numa-node`, each container is on one NUMA node; with scope `pod`, the whole pod is.
    - Under `restricted`, the same holds if one NUMA node can hold the container or pod at all.
    - Anything else may be on any NUMA nodes, in any shares.
    """
    if topology.policy not in _ON_ONE:
        return None
    parts = [added(shares)] if topology.scope is Scope.POD else list(shares)
    rooms = [[zone.id for zone in topology.zones if _can_hold(zone, part)] for part in parts]
    if not all(rooms) or prod(map(len, rooms)) > _MOST_PLACEMENTS:
        return None
    pairs = (zip(numa_ids, parts, strict=True) for numa_ids in product(*rooms))
    return [together({numa_id: part} for numa_id, part in pair) for pair in pairs]


def _given(requests: Mapping[str, int], listed: frozenset[str], *, guaranteed: bool) -> dict[str, int]:
    """What the managers allocate: devices; for Guaranteed pods also whole CPUs and memory. listed: by NUMA nodes."""
    return {
        name: amount
        for name, amount in requests.items()
        if amount > 0
        and name in listed
        and (
            is_device(name)
            or (guaranteed and (name == MEMORY or is_hugepages(name) or (name == CPU and amount % 1000 == 0)))
        )
    }


def _can_hold(zone: Zone, amounts: Mapping[str, int]) -> bool:
    """Whether the zone can allocate all amounts. A resource that it does not list is not compared."""
    listed = zone.resources
    return all(name not in listed or listed[name].allocatable >= amount for name, amount in amounts.items())


# The limit of placements tried, over all states: some ms. Equal pods lead to equal states, so a node of a hundred pods
# needs less. Pods that all differ could need any number, and any user can create such pods.
_MOST_STEPS: Final = 1 << 14

_State = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that the NRT reports."""

    pod: str
    """namespace/name."""
    amounts: Mapping[str, int]
    """Resource -> what it holds in all."""
    placements: Sequence[NumaAmounts] | None
    """Its possible placements; None: any NUMA nodes, in any shares."""


Located = Mapping[str, Sequence[NumaAmounts]]
"""Pod -> the placements that remain possible. Empty for every pod: the NRT contradicts the candidates' placements."""


def locate(topology: NodeTopology, pods: Sequence[Candidate]) -> Located | None:
    """The placements that remain possible for each pod; None: the NRT proves nothing.

    pods: all that the NRT reports. A pod that holds none of the compared resources is left out of the result.
    """
    taken = taken_on(topology)
    resources = _given_away(taken, pods)
    if resources is None:
        return None
    pods = [pod for pod in pods if not resources.isdisjoint(pod.amounts)]
    anywhere = [pod for pod in pods if pod.placements is None]
    if len(anywhere) > 1:
        return None
    if all(pod.placements is not None and len(pod.placements) == 1 for pod in pods):
        possible = _is_sum(taken, resources, [placement for pod in pods for placement in pod.placements or ()])
        return {pod.pod: list(pod.placements or ()) if possible else [] for pod in pods}
    cells = [(numa_id, resource) for numa_id in taken for resource in resources]
    assigned = sorted((pod for pod in pods if pod.placements is not None), key=lambda pod: len(pod.placements or ()))
    steps = [[_state(numa, cells) for numa in pod.placements or ()] for pod in assigned]
    start = tuple(taken[numa_id].get(resource, 0) for numa_id, resource in cells)
    layers = _forward(start, steps)
    if layers is None:
        return None
    ends = layers[-1] if anywhere else layers[-1] & {(0,) * len(cells)}
    remaining = _backward(layers, steps, ends)
    found: dict[str, Sequence[NumaAmounts]] = {
        pod.pod: [(pod.placements or ())[number] for number in numbers]
        for pod, numbers in zip(assigned, remaining, strict=True)
    }
    for pod in anywhere:
        whole = pod.amounts.keys() <= resources
        found[pod.pod] = [_placement(end, cells) for end in ends] if whole else ()
        if not whole and ends:
            return None
    return found


def taken_on(topology: NodeTopology) -> dict[int, dict[str, int]]:
    """NUMA id -> resource -> what the NRT shows as taken."""
    return {
        zone.id: {name: amounts.allocatable - amounts.available for name, amounts in zone.resources.items()}
        for zone in topology.zones
    }


def _given_away(taken: NumaAmounts, pods: Sequence[Candidate]) -> frozenset[str] | None:
    """The resources to compare; None if for some resource the taken amount is neither 0 nor what the pods hold."""
    shown, held = added(taken.values()), added(pod.amounts for pod in pods)
    if any(shown.get(resource, 0) not in {0, amount} for resource, amount in held.items()):
        return None
    return frozenset(resource for resource in held if shown.get(resource, 0))


def _is_sum(taken: NumaAmounts, resources: frozenset[str], placements: Sequence[NumaAmounts]) -> bool:
    """Whether the placements together hold exactly what is taken of these resources."""
    held: dict[tuple[int, str], int] = {}
    for placement in placements:
        for numa_id, amounts in placement.items():
            for resource, amount in amounts.items():
                held[numa_id, resource] = held.get((numa_id, resource), 0) + amount
    return all(
        held.get((numa_id, resource), 0) == amounts.get(resource, 0)
        for numa_id, amounts in taken.items()
        for resource in resources
    )


def _forward(start: _State, steps: Sequence[Sequence[_State]]) -> list[set[_State]] | None:
    """The states before each step and after the last; None if they are too many."""
    layers = [{start}]
    tried = 0
    for placements in steps:
        tried += len(layers[-1]) * len(placements)
        if tried > _MOST_STEPS:
            return None
        after = {_less(state, numa) for state in layers[-1] for numa in placements}
        layers.append({state for state in after if min(state, default=0) >= 0})
    return layers


def _backward(
    layers: Sequence[set[_State]], steps: Sequence[Sequence[_State]], ends: set[_State]
) -> Sequence[Sequence[int]]:
    """For each step, the indexes of the placements that lead from the start to one of the ends."""
    remaining: list[Sequence[int]] = []
    for before, placements in zip(reversed(layers[:-1]), reversed(steps), strict=True):
        useful: set[_State] = set()
        numbers = []
        for number, numa in enumerate(placements):
            here = {state for state in before if _less(state, numa) in ends}
            if here:
                numbers.append(number)
                useful |= here
        remaining.append(numbers)
        ends = useful
    return remaining[::-1]


def _state(numa: NumaAmounts, cells: Sequence[tuple[int, str]]) -> _State:
    return tuple(numa.get(numa_id, {}).get(resource, 0) for numa_id, resource in cells)


def _less(state: _State, numa: _State) -> _State:
    return tuple(left - amount for left, amount in zip(state, numa, strict=True))


def _placement(state: _State, cells: Sequence[tuple[int, str]]) -> NumaAmounts:
    numa: dict[int, dict[str, int]] = {}
    for (numa_id, resource), amount in zip(cells, state, strict=True):
        if amount:
            numa.setdefault(numa_id, {})[resource] = amount
    return numa
