"""Where the pods of a workload are by rank, and how far apart neighbours in rank are.

1. Pods are sorted by gang, rank and name. Neighbours are two pods of one gang that follow each other and whose ranks
   differ by one.
2. The distance of two nodes is the number of levels up to the finest domain that contains both: 0 on the same node, 1
   if they share a domain of the topology's last level, and so on up to the whole cluster.
3. Per level, the neighbours that share a domain are counted. Who shares a node shares all that is above it.

Nodes without the label of a level share no domain there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.topology import Topology
from webhook.model.names import KAI_TOPOLOGY
from webhook.state.cluster_cache import ClusterCache
from webhook.views.domains import level_names, tree_of


@dataclass(frozen=True, slots=True)
class PodWithRank:
    """A pod of the workload."""

    name: str
    gang: str
    """What its rank counts in: its gang, else its controller. Empty without either."""
    rank: int | None
    node: str
    """Empty while it has none."""
    numa_nodes: tuple[int, ...] | None
    """NUMA ids; None if they are not known."""


@dataclass(frozen=True, slots=True)
class RankedPod:
    """A pod and its place."""

    name: str
    gang: str
    rank: int | None
    node: str
    numa_nodes: tuple[int, ...] | None
    domain: tuple[tuple[str, str], ...]
    """(node label, value), coarse to fine."""
    distance: int | None
    """To the neighbour before it, in levels; None without one."""


@dataclass(frozen=True, slots=True)
class SharedLevel:
    """How many neighbours share a domain of a level."""

    level: str | None
    """The node label; "node" for the node; None for the whole cluster."""
    neighbours: int


@dataclass(frozen=True, slots=True)
class RanksView:
    """The pods of a workload by rank."""

    topology: str
    """The Topology that distances are measured in; empty without one."""
    levels: tuple[str, ...]
    """Its node labels, coarse to fine."""
    pods: tuple[RankedPod, ...]
    neighbours: int
    """Pairs of neighbours that both have a node."""
    shared: tuple[SharedLevel, ...]
    """From the node to the whole cluster."""


def ranks_view(pods: Iterable[PodWithRank], tree: TopologyTree, nodes: Mapping[str, int]) -> RanksView:
    """The view. nodes: name -> index in the snapshot of the tree."""
    ordered = sorted(pods, key=lambda pod: (pod.gang, pod.rank is None, pod.rank or 0, pod.name))
    places = [int(tree.positions()[nodes[pod.node]]) if pod.node in nodes else None for pod in ordered]
    distances: list[int | None] = [None] * len(ordered)
    for number, (before, pod) in enumerate(pairwise(ordered), 1):
        here, there = places[number], places[number - 1]
        if here is not None and there is not None and _are_neighbours(before, pod):
            distances[number] = distance(tree, there, here)
    rows = [
        RankedPod(pod.name, pod.gang, pod.rank, pod.node, pod.numa_nodes, _path(tree, place), steps)
        for pod, place, steps in zip(ordered, places, distances, strict=True)
    ]
    known = [steps for steps in distances if steps is not None]
    shared = tuple(
        SharedLevel(name, sum(steps <= up for steps in known)) for up, name in enumerate(reversed(level_names(tree)))
    )
    return RanksView(tree.topology.name, tree.topology.node_labels, tuple(rows), len(known), shared)


def distance(tree: TopologyTree, one: int, other: int) -> int:
    """Levels from two nodes (positions in the tree) up to the finest domain that contains both."""
    level = tree.node_level
    if one == other:
        return 0
    while level > ROOT:
        level -= 1
        domain = tree.containing(one, level)
        if domain == tree.containing(other, level) and (level == ROOT or bool(tree.real(level)[domain])):
            break
    return tree.node_level - level


def topology_of_pods(names: Iterable[str], topologies: Mapping[str, Topology]) -> Topology | None:
    """The Topology that pods ask for, else the only one of the cluster. names: those in their annotations."""
    asked = next((topologies[name] for name in names if name in topologies), None)
    return asked or (next(iter(topologies.values())) if len(topologies) == 1 else None)


def gang_ranks(cache: ClusterCache, namespace: str, name: str, trees: TopologyTrees) -> RanksView | None:
    """The members with a node of the gangs of this name; None if there are none."""
    found = {
        key: member
        for group, members in cache.gangs.groups().items()
        if group.partition("/")[0] == namespace and next(iter(members.values())).gang == name
        for key, member in members.items()
    }
    if not found:
        return None
    asked = [dict(member.wishes).get(KAI_TOPOLOGY, "") for member in found.values()]
    snapshot = cache.snapshot().nodes
    tree = tree_of(snapshot, topology_of_pods(asked, cache.topologies_by_name()), trees)
    pods = [
        PodWithRank(key.partition("/")[2], name, member.rank, member.node, _numa_nodes(cache, key, snapshot.ledger))
        for key, member in found.items()
    ]
    return ranks_view(pods, tree, snapshot.node_arrays.index)


def _numa_nodes(cache: ClusterCache, key: str, ledger: Ledger | None) -> tuple[int, ...] | None:
    """The NUMA nodes of a pod that has a node: where it is, or what is reserved for it until it is bound."""
    if (record := cache.state.pods.get(key)) is not None:
        found = cache.numa_nodes(record.node).get(key)
        return numa_ids(record.allocation if found is None else tuple(found.numa.items()) or None)
    reservation = None if ledger is None else ledger.get(key)
    return None if reservation is None else numa_ids(tuple(reservation.numa.items()))


def numa_ids(hint: Sequence[tuple[int, Mapping[str, int]]] | None) -> tuple[int, ...] | None:
    """The NUMA ids of a hint, ascending."""
    return None if hint is None else tuple(sorted(numa_id for numa_id, _ in hint))


def _are_neighbours(one: PodWithRank, other: PodWithRank) -> bool:
    return one.gang == other.gang and one.rank is not None and other.rank == one.rank + 1


def _path(tree: TopologyTree, position: int | None) -> tuple[tuple[str, str], ...]:
    return () if position is None else tree.path(Domain(tree.node_level, position))
