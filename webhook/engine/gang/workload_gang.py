"""Placement of a workload: its gangs, one after the other.

1. Templates become pods; the workload's NUMA annotations apply to templates that have none.
2. Levels that the user named become levels of the tree.
3. Running pods are left out, and counted as running on their nodes.
4. Parts that name another topology than their gang are placed in that one (see `several_topologies`).
5. Each gang is placed in what the earlier ones leave.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from webhook.engine.gang.admission_replay import settled
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Constraint, Gang, Member, OtherTopology, PodSet, Segments
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.resolvable import empty_but_for
from webhook.engine.gang.result import GangAssignment
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.koordinator.intent import NUMAIntent, parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.topology import LABEL_TOPOLOGIES, Topology
from webhook.formats.workload.common_fields import annotations_of, strategy_of_gang
from webhook.formats.workload.record import Workload, WorkloadGang, WorkloadPodSet
from webhook.model.errors import UserError, UserErrors
from webhook.model.json_text import shortened
from webhook.model.limits import check_size
from webhook.model.names import KAI_TOPOLOGY, NUMA_DEFAULTS, NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from webhook.model.options import GangStrategy
from webhook.model.wording import did_you_mean

NO_TOPOLOGY: Final = Topology("", None, ())
"""For gangs without a topology: all nodes are one domain."""

Running = Mapping[str, str]
"""Pod name (as in its pod set) -> the node it runs on."""

_NOT_RUNNING: Final[Running] = {}
_NUMA: Final = {NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC}


TreeOf = Callable[[WorkloadGang], tuple[Topology, TopologyTree]]
"""The topology that a part of a gang names, and its tree. Raises UserError."""


@dataclass(frozen=True, slots=True)
class _Reader:
    workload: Workload
    topology: Topology
    running: Running
    first_ranks: Mapping[int, int]
    """Id of a pod set -> the first of its ranks, which continue from pod set to pod set of the gang."""
    tree_of: TreeOf | None = None
    """None: the gang has no parts in other topologies."""

    def elsewhere(self, part: WorkloadGang) -> bool:
        """Whether a part is in another topology than its gang."""
        return self.tree_of is not None and part.request.topology not in {None, self.topology.name}


def assign_workload(
    workload: Workload,
    snapshot: Snapshot,
    topologies: Mapping[str, Topology],
    trees: TopologyTrees,
    running: Running = _NOT_RUNNING,
    strategy: GangStrategy = GangStrategy.BIN_PACK,
    *,
    when_empty: bool = False,
) -> tuple[GangAssignment, ...]:
    """The assignment of each gang; raises UserError for faults in the workload's annotations or templates.

    when_empty: as if only its own pods ran.
    """
    requested = []
    for of in workload.gangs:
        topology = topology_of(of, topologies)
        gang = gang_of(workload, of, topology, running, partial(_tree_of, topologies, trees, snapshot))
        requested.append((trees.tree(topology, snapshot.node_arrays), gang))
    if when_empty:
        snapshot = empty_but_for(snapshot, [gang for _, gang in requested])
    placements = []
    for index, (tree, gang) in enumerate(requested):
        placement = assign_gang(snapshot, tree, gang, strategy)
        placements.append(placement)
        if index + 1 < len(requested):
            snapshot = with_gang(placement)
    return tuple(placements)


def with_gang(placement: GangAssignment) -> Snapshot:
    """What an assigned gang leaves of the snapshot in which it was assigned."""
    return settled(placement.snapshot, _sequences(placement.snapshot, placement))


def _tree_of(
    topologies: Mapping[str, Topology], trees: TopologyTrees, snapshot: Snapshot, part: WorkloadGang
) -> tuple[Topology, TopologyTree]:
    topology = topology_of(part, topologies)
    return topology, trees.tree(topology, snapshot.node_arrays)


def _sequences(snapshot: Snapshot, placement: GangAssignment) -> dict[int, list[PodClass]]:
    """The pods of an assignment by node (n)."""
    sequences: dict[int, list[PodClass]] = {}
    for each in placement.assignments:
        pod_class = PodClass.of(snapshot, each.podset.pod, each.podset.intent)
        for node in each.nodes.tolist():
            sequences.setdefault(node, []).append(pod_class)
    return sequences


def topology_of(gang: WorkloadGang, topologies: Mapping[str, Topology]) -> Topology:
    """The topology that a gang and its subgroups name; raises UserError if it does not exist."""
    for subgroup in (gang, *gang.gangs):
        name = subgroup.request.topology
        if name is not None:
            return topology_named(name, topologies, subgroup.request.topology_path)
    return NO_TOPOLOGY


def topology_named(name: str, topologies: Mapping[str, Topology], path: str) -> Topology:
    """The topology of this name; raises UserError. path: the annotations that name it."""
    if name not in topologies:
        known = ", ".join(sorted(topologies.keys() - LABEL_TOPOLOGIES)) or "none"
        hint = did_you_mean(name, topologies)
        text = f'There is no topology "{shortened(name)}". Those of this cluster: {known}.{hint}'
        raise UserError(f"{path}[{KAI_TOPOLOGY}]", text)
    return topologies[name]


def gang_of(
    workload: Workload,
    gang: WorkloadGang,
    topology: Topology,
    running: Running = _NOT_RUNNING,
    tree_of: TreeOf | None = None,
) -> Gang:
    """The spec of a gang of the workload; raises UserError for faults in the workload's annotations or templates."""
    strategy = strategy_of_gang(workload, gang)
    first_ranks = {id(pod_set): ranks.start for ranks, pod_set in gang.by_rank()}
    reader = _Reader(workload, topology, running, first_ranks, tree_of)
    return replace(_gang(gang, reader), strategy=strategy, elsewhere=tuple(_elsewhere(gang, reader)))


def _elsewhere(gang: WorkloadGang, reader: _Reader) -> Iterator[OtherTopology]:
    """The parts in other topologies, those of one topology together."""
    parts: dict[str | None, list[WorkloadGang]] = {}
    below = list(gang.gangs)
    for part in below:
        if reader.elsewhere(part):
            parts.setdefault(part.request.topology, []).append(part)
        else:
            below += part.gangs
    for some in parts.values():
        if reader.tree_of is not None:
            topology, tree = reader.tree_of(some[0])
            there = replace(reader, topology=topology, tree_of=None)
            yield OtherTopology.of(tree, [_gang(part, there) for part in some])


def check_gang(
    workload: Workload,
    gang: WorkloadGang,
    topology: Topology,
    topologies: Mapping[str, Topology] = MappingProxyType({}),
) -> None:
    """Raise UserError as `gang_of` does, without listing pods: a gang of 150,000 takes no longer than one of two.

    topologies: those in which parts may be besides the gang's own.
    """
    strategy_of_gang(workload, gang)
    if gang.request.levels:
        gang.request.resolve(topology)
    for pod_set in gang.pod_sets:
        _read(pod_set, workload)
        _segments(pod_set, topology)
    for subgroup in gang.gangs:
        own = subgroup.request.topology in {None, topology.name}
        check_gang(workload, subgroup, topology if own else topology_of(subgroup, topologies), topologies)


def _gang(gang: WorkloadGang, reader: _Reader) -> Gang:
    return Gang(
        gang.name,
        Constraint.of(gang.request.resolve(reader.topology)) if gang.request.levels else Constraint(),
        tuple(_set(pod_set, reader) for pod_set in gang.pod_sets),
        tuple(_gang(subgroup, reader) for subgroup in gang.gangs if not reader.elsewhere(subgroup)),
    )


def _set(pod_set: WorkloadPodSet, reader: _Reader) -> PodSet:
    pod, intent = _read(pod_set, reader.workload)
    first = reader.first_ranks[id(pod_set)]
    ranked = list(enumerate(pod_set.pods, first))
    begun = tuple((rank, reader.running[name]) for rank, name in ranked if name in reader.running)
    members = tuple(Member(name, rank) for rank, name in ranked if name not in reader.running)
    minimum = min(max(pod_set.minimum - len(begun), 0), len(members))
    return PodSet(pod_set.name, pod, intent, members, minimum, _segments(pod_set, reader.topology, first), begun)


def _segments(pod_set: WorkloadPodSet, topology: Topology, first: int = 0) -> Segments | None:
    return None if pod_set.segments is None else Segments.of(pod_set.segments, topology, first)


def _read(pod_set: WorkloadPodSet, workload: Workload) -> tuple[Pod, NUMAIntent]:
    """A pod of the template, and its NUMA request."""
    try:
        raw = _pod_object(pod_set, workload)
        if isinstance(raw["spec"], Mapping):
            check_size(raw["spec"])
        pod = Pod.from_object(raw)
        if pod_set.claimed:
            pod = replace(pod, requests=MappingProxyType({**pod.requests, **pod_set.claimed}))
        return pod, parse_numa_intent(pod.annotations)[0]
    except UserError as error:
        # The pod's own paths, below the template's.
        below = f"{pod_set.path}." if pod_set.path else ""
        raise UserErrors([type(fault)(f"{below}{fault.path}", fault.message) for fault in error.faults]) from error


def _pod_object(pod_set: WorkloadPodSet, workload: Workload) -> dict[str, Any]:
    """The template as a pod. The workload's NUMA annotations apply if the template has none, then the defaults."""
    own = annotations_of(pod_set.template, pod_set.path)
    held = {NUMA_DEFAULTS} if own.keys() & _NUMA else {NUMA_DEFAULTS, *_NUMA}
    above = {key: text for key, text in workload.annotations.items() if key in held}
    metadata = pod_set.template.get("metadata") or {}
    return {
        "metadata": {
            "namespace": workload.namespace,
            "name": pod_set.pods[0] if pod_set.pods else workload.name,
            "labels": metadata.get("labels") or {},
            "annotations": {**above, **own},
        },
        "spec": pod_set.template.get("spec") or {},
    }
