"""The answer to a gang: a node and NUMA nodes for every pod, or what is missing where."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from webhook.engine.arrays import Amounts
from webhook.engine.gang.gang_spec import Gang, PodSet
from webhook.engine.gang.segments_held import SegmentsShort
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import Domain, TopologyTree
from webhook.model.options import GangStrategy
from webhook.model.wording import counted

Path = tuple[tuple[str, str], ...]
"""(node label, value) from coarse to fine."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """How much of a gang the best domain of a level holds."""

    level: str
    """Node label of the level; empty for the cluster as a whole."""
    domain: Path
    holds: int
    needed: int
    resource: str
    """The resource that is short there; empty if the limit is not a resource but which nodes are eligible."""
    amount: int = 0
    """What one pod requests of it; for "pods" itself, 1."""
    segments: SegmentsShort | None = None
    """Segments that it does not hold; None if the pods are short one by one."""
    part: str = ""
    """The part and its topology, if the gang has parts in several topologies."""
    missing: tuple[str, ...] = ()
    """If no node is in a domain of the level: the label that no node has; or each label down to the level is on some
    node, but no node has all of these, the finest first."""

    @property
    def held(self) -> str:
        """For example "6 of 16 pods"."""
        if self.segments is None:
            return f"{self.holds} of {counted(self.needed, 'pod')}"
        short, kind = self.segments, self.segments.level.rpartition("/")[2]
        segments = counted(short.needed, "segment")
        return f"{short.holds} of {segments} of {counted(short.size, 'pod')}, each within one {kind}"

    def __str__(self) -> str:
        kind = self.level.rpartition("/")[2]
        if self.missing:
            lacking = f"none has the label {self.missing[0]}"
            lacking += f" beside {' and '.join(self.missing[1:])}" if self.missing[1:] else ""
            text = f"no node is in any {kind}: {lacking}"
            return f"{self.part}: {text}" if self.part else text
        name = f"{kind} {self.domain[-1][1]}" if self.domain else "the cluster"
        text = f"{name} holds {self.held}" + (f": {self.resource}" if self.resource else "")
        return f"{self.part}: {text}" if self.part else text


@dataclass(frozen=True, slots=True)
class PodAssignment:
    """The assignment of one pod."""

    name: str
    set: str
    rank: int
    node: str
    numa_nodes: tuple[int, ...]
    """NUMA ids, ascending; empty if the pod is not bound to any."""
    domain: Path


@dataclass(frozen=True, slots=True, eq=False)
class PodSetAssignment:
    """Assignments for pods of one pod set, all int64 and of the same length."""

    podset: PodSet
    members: Amounts
    """Indexes of the pod set's members, ascending: the order of rank."""
    nodes: Amounts
    """The node (n) of each."""
    masks: Amounts
    """Bit per position of a NUMA node; 0 = not bound to any."""


@dataclass(frozen=True, eq=False)
class GangAssignment:
    """The answer for one gang."""

    gang: Gang
    snapshot: Snapshot
    tree: TopologyTree
    assigned: bool
    """Whether at least the minimum of every pod set is assigned."""
    domain: Domain | None
    """The domain that holds all pods; None if not placed."""
    assignments: tuple[PodSetAssignment, ...]
    """Per pod set; empty if not placed."""
    explain: Callable[[], tuple[Shortfall, ...]]
    exhaustive: bool = True
    """Whether "not placed" is certain; False: the search exceeded its limit."""
    parts: "tuple[GangAssignment, ...]" = ()
    """If it has pods in several topologies: the placement in each of them; empty if not placed."""
    strategy: GangStrategy = GangStrategy.BIN_PACK
    """By which domains were chosen: its own, else the service's."""

    @property
    def name(self) -> str:
        """The name of the gang."""
        return self.gang.name

    def by_topology(self) -> "tuple[GangAssignment, ...]":
        """The placement in each topology: itself if there is one only."""
        return self.parts or (self,)

    @cached_property
    def why(self) -> tuple[Shortfall, ...]:
        """What is missing, coarse to fine, if not placed; computed on request."""
        return self.explain()

    def pods(self) -> Iterator[PodAssignment]:
        """Every assigned pod, pod set by pod set in order of rank."""
        for part in self.parts:
            yield from part.pods()
        if self.parts:
            return
        node_arrays, positions = self.snapshot.node_arrays, self.tree.positions()
        for each in self.assignments:
            columns = (each.members.tolist(), each.nodes.tolist(), each.masks.tolist())
            for index, node, mask in zip(*columns, strict=True):
                member = each.podset.members[index]
                ids = node_arrays.zone_ids[:, node].tolist()
                yield PodAssignment(
                    name=member.name,
                    set=each.podset.name,
                    rank=member.rank,
                    node=node_arrays.names[node],
                    numa_nodes=tuple(numa_id for z, numa_id in enumerate(ids) if mask >> z & 1),
                    domain=self.tree.path(Domain(self.tree.node_level, int(positions[node]))),
                )

    def unplaced(self) -> list[str]:
        """The members of elastic pod sets without an assignment, by name."""
        names = []
        for each in self.assignments:
            assigned = set(each.members.tolist())
            names += [member.name for index, member in enumerate(each.podset.members) if index not in assigned]
        return names

    def _label(self, level: int | None) -> str | None:
        """The node label of a level of the tree."""
        return None if level is None else self.tree.topology.node_labels[level - 1]

    def to_object(self) -> dict[str, Any]:
        """The answer as JSON."""
        domain = self.tree.path(self.domain) if self.domain is not None else ()
        return {
            "name": self.name,
            "topology": self.tree.topology.name or None,
            "required": self._label(self.gang.constraint.required),
            "preferred": self._label(self.gang.constraint.preferred),
            "strategy": self.strategy.value,
            "minimum": sum(podset.minimum for podset in self.gang.all_sets()),
            "placed": self.assigned,
            "domain": list(map(list, domain)) or None,
            "pods": [
                {
                    "name": pod.name,
                    "set": pod.set,
                    "rank": pod.rank,
                    "node": pod.node,
                    "numaNodes": list(pod.numa_nodes),
                    "domain": list(map(list, pod.domain)),
                }
                for pod in self.pods()
            ],
            "unplaced": self.unplaced(),
            "why": [
                {
                    "level": short.level,
                    "domain": list(map(list, short.domain)),
                    "holds": short.holds,
                    "needed": short.needed,
                    "resource": short.resource,
                    "segments": None if short.segments is None else short.segments.to_object(),
                    **({"part": short.part} if short.part else {}),
                    **({"missingLabels": list(short.missing)} if short.missing else {}),
                }
                for short in self.why
            ],
            "exhaustive": self.exhaustive,
            **({"parts": [_said_of_part(part) for part in self.parts]} if self.parts else {}),
        }


def _said_of_part(part: GangAssignment) -> dict[str, Any]:
    """What is said of the pods in one of several topologies."""
    said = part.to_object()
    kept = {key: said[key] for key in ("name", "topology", "required", "preferred", "minimum", "domain")}
    return kept | {"pods": [pod["name"] for pod in said["pods"]]}
