"""Gangs, and clusters of zones and racks for them, as the engine reads them."""

from collections.abc import Mapping, Sequence

import numpy as np

from tests.builders.records import GI, cpus, node, pod, state, topology
from webhook.engine.gang.gang_spec import ANYWHERE, Constraint, Gang, Member, PodSet, Segments
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.topology.tree import TopologyTree
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.topology import Level, Topology, TopologySource
from webhook.model.policy import NUMAPolicy

ZONE, RACK = 1, 2
GPU = "nvidia.com/gpu"
LEVELS = ("example.com/zone", "example.com/rack")
TOPOLOGY = Topology("network", TopologySource.KAI, tuple(map(Level, LEVELS)))

Places = Mapping[str, tuple[str | None, str | None]]
"""Node name -> zone and rack, None where it lacks the label."""


def topology_of(*labels: str) -> Topology:
    """A topology with these labels as levels."""
    return Topology("network", TopologySource.KAI, tuple(map(Level, labels)))


def tree_of(paths: Sequence[Sequence[str | None]], topology: Topology = TOPOLOGY) -> TopologyTree:
    """The tree of nodes 0, 1, .. with these label values."""
    columns = []
    for level in range(len(topology.levels)):
        values: dict[str, int] = {}
        codes = [-1 if (value := path[level]) is None else values.setdefault(value, len(values)) for path in paths]
        columns.append((np.array(codes, dtype=np.int32), list(values)))
    return TopologyTree.build(topology, columns, np.arange(len(paths)))


def racks(**nodes: str) -> dict[str, tuple[str | None, str | None]]:
    """Where nodes are: n0="zone-a/rack-1"; an empty part is a missing label."""
    places = {}
    for name, path in nodes.items():
        zone, _, rack = path.partition("/")
        places[name] = (zone or None, rack or None)
    return places


def whole_nodes(*, places: Places, free: Mapping[str, Mapping[str, int]]) -> ClusterState:
    """A cluster without NUMA knowledge. free: per node GPUs, cpus (whole) and so on."""
    return state(*(_node(name, places[name], free[name]) for name in places))


def numa_nodes(
    *, places: Places, free: Mapping[str, Sequence[int]], policy: NUMAPolicy = NUMAPolicy.SINGLE_NUMA_NODE
) -> ClusterState:
    """A cluster of nodes with so many free CPUs per NUMA node."""
    nodes = [_node(name, places[name], {"cpu": 1000 * sum(free[name])}) for name in places]
    return state(*nodes, *(topology(node=name, free=cpus(*free[name]), policy=policy) for name in places))


def _node(name: str, place: tuple[str | None, str | None], free: Mapping[str, int]) -> Node:
    labels = {label: value for label, value in zip(LEVELS, place, strict=True) if value is not None}
    return node(name=name, allocatable={"cpu": 10**6, "memory": 1000 * GI, "pods": 110, **free}, labels=labels)


def gpus(amount: int = 1, **others: str) -> Pod:
    """A pod that asks for GPUs."""
    return pod({"cpu": "1", "memory": "1Gi", GPU: str(amount), **others})


def podset(
    *,
    name: str,
    of: Pod,
    count: int,
    minimum: int | None = None,
    segments: Segments | None = None,
    running: Sequence[tuple[int, str]] = (),
    preferring: tuple[tuple[Pod, int], ...] = (),
) -> PodSet:
    """A set of pods name-0, name-1, .. of one template; ranks that run already are left out."""
    intent, _ = parse_numa_intent(of.annotations)
    begun = {rank for rank, _ in running}
    members = tuple(Member(f"{name}-{rank}", rank) for rank in range(count + len(begun)) if rank not in begun)
    needed = len(members) if minimum is None else minimum
    return PodSet(name, of, intent, members, needed, segments, tuple(running), preferring)


def group(*parts: PodSet | Gang, constraint: Constraint = ANYWHERE, name: str = "group") -> Gang:
    """A group of sets and subgroups."""
    sets = tuple(part for part in parts if isinstance(part, PodSet))
    subgroups = tuple(part for part in parts if isinstance(part, Gang))
    return Gang(name, constraint, sets, subgroups)
