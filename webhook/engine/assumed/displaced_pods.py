"""Pods that may be on other NUMA nodes than was replayed since some room came free unseen, or was taken unseen.

A kubelet gives each pod the first NUMA nodes with room, in the order in which they arrive. So one that found room lower
down is not where it was replayed, and those that came after it may have

- the room that it left, if that is lower than their own;
- no room left where it is now, and any other NUMA node with room.

More room makes a kubelet prefer a lower NUMA node, never a higher one. A NUMA node has room for a pod if it can
allocate that beside all that came before and are there for certain.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.model.nrt import NodeTopology


@dataclass(frozen=True, slots=True)
class Arrived:
    """A pod with a hint that is on a node, or on its way there."""

    pod: str
    """namespace/name."""
    hint: NumaAmounts
    certain: bool
    """Whether it is there whatever happened."""
    doubtful: bool
    """Whether it may be elsewhere as far as is known already."""
    may_find: bool
    """Whether the room may have been free when it arrived."""


@dataclass(slots=True)
class _Zones:
    """What is on each NUMA node when the next pod arrives."""

    topology: NodeTopology
    held: dict[int, list[Mapping[str, int]]] = field(default_factory=dict)
    """By those that are there for certain."""
    come: dict[int, list[Mapping[str, int]]] = field(default_factory=dict)
    """By those that may be there, and were not replayed there."""

    def have_room(self, numa_id: int, amounts: Mapping[str, int], *, at_least: bool = False) -> bool:
        """Whether there may be room; at_least: whether there is in any case."""
        zone = next((zone for zone in self.topology.zones if zone.id == numa_id), None)
        if zone is None:
            return False
        there = added([*self.held.get(numa_id, ()), *(self.come.get(numa_id, ()) if at_least else ()), amounts])
        return all(name not in zone.resources or zone.resources[name].allocatable >= there[name] for name in there)


def displaced(
    arrived: Iterable[Arrived], room: Collection[int], topology: NodeTopology
) -> Mapping[str, frozenset[int]]:
    """The NUMA nodes on which each pod may be besides those of its hint, of those for which there are any.

    arrived: in the order of arrival. room: the NUMA nodes on which some came free.
    """
    zones = _Zones(topology)
    left: set[int] = set()
    found: dict[str, frozenset[int]] = {}
    for pod in arrived:
        others = frozenset() if pod.certain else _others(pod, room, left, zones)
        if others:
            found[pod.pod] = others
            left |= pod.hint.keys()
            whole = added(pod.hint.values())
            for numa_id in others:
                zones.come.setdefault(numa_id, []).append(whole)
        elif not pod.doubtful:
            for numa_id, amounts in pod.hint.items():
                zones.held.setdefault(numa_id, []).append(amounts)
    return found


def _others(pod: Arrived, room: Collection[int], left: Collection[int], zones: _Zones) -> frozenset[int]:
    everywhere: Sequence[int] = [zone.id for zone in zones.topology.zones]
    if all(zones.have_room(numa_id, amounts, at_least=True) for numa_id, amounts in pod.hint.items()):
        free = {*(room if pod.may_find else ()), *left}
        everywhere = [numa_id for numa_id in everywhere if numa_id in free and numa_id < max(pod.hint)]
    whole = added(pod.hint.values())
    # What one over several NUMA nodes would take of another is not known.
    fits = len(pod.hint) > 1
    return frozenset(
        numa_id for numa_id in everywhere if numa_id not in pod.hint and (fits or zones.have_room(numa_id, whole))
    )
