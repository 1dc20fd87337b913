"""Finds pods that may be on other NUMA nodes than replayed, because room was freed or taken unseen.

A kubelet gives each pod the first NUMA nodes with room, in the order of arrival. A pod that found room on a lower NUMA
node is not where it was replayed. The pods that came after it may be

- on the NUMA node that it left free, if that is lower than their own;
- on any other NUMA node with room, if theirs has no room left.

More room makes a kubelet prefer a lower NUMA node, never a higher one. A NUMA node has room for a pod if it can
allocate the pod's amounts beside all pods that came before and are certainly there.
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
    """Whether it is there in any case."""
    uncertain: bool
    """Whether it is known already that it may have other NUMA nodes."""
    may_find: bool
    """Whether the freed room may have been free when it arrived."""


@dataclass(slots=True)
class _Zones:
    """What the earlier pods hold on each NUMA node when the next pod arrives."""

    topology: NodeTopology
    held: dict[int, list[Mapping[str, int]]] = field(default_factory=dict)
    """NUMA id -> amounts of the pods that are certainly there."""
    come: dict[int, list[Mapping[str, int]]] = field(default_factory=dict)
    """NUMA id -> amounts of the pods that may be there but were not replayed there."""

    def have_room(self, numa_id: int, amounts: Mapping[str, int], *, at_least: bool = False) -> bool:
        """Whether there may be room. at_least: whether there is room in any case."""
        zone = next((zone for zone in self.topology.zones if zone.id == numa_id), None)
        if zone is None:
            return False
        there = added([*self.held.get(numa_id, ()), *(self.come.get(numa_id, ()) if at_least else ()), amounts])
        return all(name not in zone.resources or zone.resources[name].allocatable >= there[name] for name in there)


def displaced(
    arrived: Iterable[Arrived], room: Collection[int], topology: NodeTopology
) -> Mapping[str, frozenset[int]]:
    """Pod -> the NUMA nodes on which it may be besides those of its hint; only pods that have any.

    arrived: in the order of arrival. room: the NUMA nodes on which room was freed.
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
        elif not pod.uncertain:
            for numa_id, amounts in pod.hint.items():
                zones.held.setdefault(numa_id, []).append(amounts)
    return found


def _others(pod: Arrived, room: Collection[int], left: Collection[int], zones: _Zones) -> frozenset[int]:
    everywhere: Sequence[int] = [zone.id for zone in zones.topology.zones]
    if all(zones.have_room(numa_id, amounts, at_least=True) for numa_id, amounts in pod.hint.items()):
        free = {*(room if pod.may_find else ()), *left}
        everywhere = [numa_id for numa_id in everywhere if numa_id in free and numa_id < max(pod.hint)]
    whole = added(pod.hint.values())
    # The share that a pod on several NUMA nodes would take of another one is unknown.
    fits = len(pod.hint) > 1
    return frozenset(
        numa_id for numa_id in everywhere if numa_id not in pod.hint and (fits or zones.have_room(numa_id, whole))
    )
