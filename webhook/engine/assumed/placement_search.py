"""Where pods are, worked out from what their node's NodeResourceTopology shows as taken of each NUMA node.

The NRT's fingerprint says which pods it has counted. Each of them is in one of a few places that are possible for it;
together they hold exactly what is taken. A place remains possible if some combination with exactly these sums uses it.

1. What counts: the resources of which as much is taken on the whole node as the pods hold. One of which nothing is
   taken is none that the kubelet's managers give away. If anything else is taken, or less, the NRT proves nothing.
2. Pods with one possible place are taken off. From the first of the others to the last: which amounts can be left
   (a state is what is left of each NUMA node and resource).
3. From the last to the first: which of these states lead to nothing left. A place remains if it joins two of those.
4. One pod may be anywhere, in any shares: it has what is left of the others. Two of these, and nothing is proven.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.model.nrt import NodeTopology

# Places tried, over all states: some ms. Equal pods lead to equal states, so a node of a hundred pods needs less. Pods
# that all differ could need any number of them, and whoever creates pods chooses their sizes.
_MOST_STEPS: Final = 1 << 14

_State = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that the NRT has counted."""

    pod: str
    """namespace/name."""
    amounts: Mapping[str, int]
    """Resource -> what it holds in all."""
    places: Sequence[NumaAmounts] | None
    """Where it may hold that; None: on any NUMA nodes, in any shares."""


Located = Mapping[str, Sequence[NumaAmounts]]
"""Pod -> the places that remain possible. None for every pod: the NRT contradicts what was taken to be possible."""


def locate(topology: NodeTopology, pods: Sequence[Candidate]) -> Located | None:
    """The places that remain possible for each pod; None: the NRT proves nothing.

    pods: all that it has counted. A pod that holds nothing of what counts is left out of the answer.
    """
    taken = taken_on(topology)
    resources = _given_away(taken, pods)
    if resources is None:
        return None
    pods = [pod for pod in pods if not resources.isdisjoint(pod.amounts)]
    anywhere = [pod for pod in pods if pod.places is None]
    if len(anywhere) > 1:
        return None
    cells = [(numa_id, resource) for numa_id in taken for resource in resources]
    assigned = sorted((pod for pod in pods if pod.places is not None), key=lambda pod: len(pod.places or ()))
    steps = [[_state(numa, cells) for numa in pod.places or ()] for pod in assigned]
    start = tuple(taken[numa_id].get(resource, 0) for numa_id, resource in cells)
    layers = _forward(start, steps)
    if layers is None:
        return None
    ends = layers[-1] if anywhere else layers[-1] & {(0,) * len(cells)}
    remaining = _backward(layers, steps, ends)
    found: dict[str, Sequence[NumaAmounts]] = {
        pod.pod: [(pod.places or ())[number] for number in numbers]
        for pod, numbers in zip(assigned, remaining, strict=True)
    }
    for pod in anywhere:
        whole = pod.amounts.keys() <= resources
        found[pod.pod] = [_place(end, cells) for end in ends] if whole else ()
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
    """The resources that tell something; None where something is taken by others, or not all that the pods hold."""
    shown, held = added(taken.values()), added(pod.amounts for pod in pods)
    if any(shown.get(resource, 0) not in {0, amount} for resource, amount in held.items()):
        return None
    return frozenset(resource for resource in held if shown.get(resource, 0))


def _forward(start: _State, steps: Sequence[Sequence[_State]]) -> list[set[_State]] | None:
    """The states before each step and after the last; None where they are too many."""
    layers = [{start}]
    tried = 0
    for places in steps:
        tried += len(layers[-1]) * len(places)
        if tried > _MOST_STEPS:
            return None
        after = {_less(state, numa) for state in layers[-1] for numa in places}
        layers.append({state for state in after if min(state, default=0) >= 0})
    return layers


def _backward(
    layers: Sequence[set[_State]], steps: Sequence[Sequence[_State]], ends: set[_State]
) -> Sequence[Sequence[int]]:
    """For each step the indexes of the places that lead from the start to one of the ends."""
    remaining: list[Sequence[int]] = []
    for before, places in zip(reversed(layers[:-1]), reversed(steps), strict=True):
        useful: set[_State] = set()
        numbers = []
        for number, numa in enumerate(places):
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


def _place(state: _State, cells: Sequence[tuple[int, str]]) -> NumaAmounts:
    numa: dict[int, dict[str, int]] = {}
    for (numa_id, resource), amount in zip(cells, state, strict=True):
        if amount:
            numa.setdefault(numa_id, {})[resource] = amount
    return numa
