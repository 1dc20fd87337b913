"""Gangs whose pods run in several domains, and how many of them one domain could have taken.

1. The pods of each gang that have a node, and the domains of these nodes at the finest level of each topology.
2. For a gang in more than one domain: what is free on each node, plus what the gang itself has there.
3. Its pods are put into each domain, larger ones first. The domain that takes most is the best one.

What counts as free is the node's total, on nodes that are ready and not cordoned, where selectors and tolerations of
the pods allow them. NUMA nodes and other rules of placement are not considered, so it is an upper bound of a placement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Nodes
from webhook.engine.filter.node_fit import eligible
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.membership import membership_of
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.patches.managed_fields import ManagedFields, without_ours
from webhook.formats.topology import Topology
from webhook.model.errors import UserError
from webhook.model.names import HOSTNAME_LABEL, JOB_COMPLETION_INDEX, LWS_GROUP_INDEX, MANAGED_FIELDS
from webhook.model.raw import Raw
from webhook.model.resources import PODS
from webhook.state.cluster_snapshot import ClusterSnapshot

# Source: scheduler-plugins pkg/coscheduling, volcano pkg/apis/scheduling, jobset and Kubeflow's trainer.
_LABELS: Final = ("scheduling.x-k8s.io/pod-group", "jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name")
_VOLCANO: Final = "scheduling.k8s.io/group-name"
_LWS: Final = "leaderworkerset.sigs.k8s.io/name"


@dataclass(frozen=True, slots=True, order=True)
class GangKey:
    """A gang. id: distinguishes gangs of the same name."""

    namespace: str
    name: str
    id: str


def gang_of(raw: Raw) -> GangKey | None:
    """The gang of a pod, also where no annotation of this service says so; None if it is in none.

    In this order: the gang that the pod's annotations name; the PodGroup of another scheduler; the group of a
    LeaderWorkerSet, a JobSet, a job of Kubeflow; an Indexed Job. Pods of other controllers do not depend on each other.
    """
    metadata = raw["metadata"]
    namespace = str(metadata.get("namespace") or "")
    if (membership := membership_of(raw)) is not None:
        return GangKey(namespace, membership.name, membership.group)
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if _LWS in labels:
        name = f"{labels[_LWS]}/{labels.get(LWS_GROUP_INDEX, '0')}"
        return GangKey(namespace, name, _LWS)
    for label in _LABELS:
        if label in labels:
            return GangKey(namespace, str(labels[label]), label)
    if _VOLCANO in annotations:
        return GangKey(namespace, str(annotations[_VOLCANO]), _VOLCANO)
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == "Job" and JOB_COMPLETION_INDEX in annotations:
            return GangKey(namespace, str(owner.get("name", "")), "Job")
    return None


_SEPARATOR: Final = "/"


@dataclass(frozen=True, slots=True)
class SplitGangView:
    """A gang over several domains of one level."""

    namespace: str
    name: str
    pods: int
    """Those with a node in a domain of this level."""
    topology: str
    level: str
    """The node label."""
    domains: int
    """How many domains its pods run in."""
    best: str
    """The domain that could take most of its pods: the values of the levels down to this one."""
    best_pods: int
    """How many."""


@dataclass(frozen=True, slots=True)
class _Member:
    node: str
    pod: Pod
    requests: tuple[tuple[str, int], ...]


class SplitGangs:
    """Collects the gangs of a cluster."""

    def __init__(self, snapshot: ClusterSnapshot, nodes: Mapping[str, Node]) -> None:
        self._snapshot = snapshot
        self._nodes = nodes
        self._gangs: dict[GangKey, list[_Member]] = {}

    def add(self, raw: Raw, resident: ResidentPod) -> None:
        """Take a bound pod that has not ended."""
        key = gang_of(raw)
        if key is None or resident.node not in self._nodes:
            return
        annotations = raw["metadata"].get("annotations") or {}
        try:
            pod = Pod.from_object(without_ours(raw, ManagedFields.parse(annotations.get(MANAGED_FIELDS))))
        except UserError:
            return  # the API server would not store it
        requests = tuple(sorted((name, amount) for name, amount in resident.requests.items() if amount > 0))
        self._gangs.setdefault(key, []).append(_Member(resident.node, pod, requests))

    def views(self) -> tuple[SplitGangView, ...]:
        """The gangs in more than one domain, with most domains first."""
        found = []
        for name in sorted(self._snapshot.topologies):
            level = _Level.finest(self._snapshot.topologies[name], self._snapshot.nodes, self._nodes)
            if level is not None:
                found += [view for key in sorted(self._gangs) if (view := self._view(key, level)) is not None]
        return tuple(sorted(found, key=lambda view: (-view.domains, view.namespace, view.name, view.topology)))

    def _view(self, key: GangKey, level: "_Level") -> SplitGangView | None:
        members = [member for member in self._gangs[key] if member.node in level.domain_of]
        spread = {level.domain_of[member.node] for member in members}
        if len(spread) < 2:
            return None
        held = _held_by(level, members, self._snapshot.nodes)
        best = max(range(len(held)), key=lambda number: (held[number], level.domains[number] in spread, -number))
        return SplitGangView(
            key.namespace,
            key.name,
            len(members),
            level.topology,
            level.label,
            len(spread),
            _SEPARATOR.join(level.domains[best]),
            int(held[best]),
        )


class _Level:
    """The finest level of a topology above the single node. A domain is the path of values down to it.

    domains: sorted. nodes: int [n], the indexes of the nodes in them, by domain. starts: int [domain], where the nodes
    of each begin.
    """

    def __init__(self, topology: str, labels: Sequence[str], snapshot: Snapshot, nodes: Mapping[str, Node]) -> None:
        self.topology = topology
        self.label = labels[-1]
        self.domain_of: dict[str, tuple[str, ...]] = {}
        members: dict[tuple[str, ...], list[int]] = {}
        for name in sorted(nodes):
            path = [nodes[name].labels.get(label) for label in labels]
            index = snapshot.node_arrays.index.get(name)
            if index is not None and all(value is not None for value in path):
                domain = self.domain_of[name] = tuple(str(value) for value in path)
                members.setdefault(domain, []).append(index)
        self.domains = sorted(members)
        self.nodes: Nodes = np.array([node for domain in self.domains for node in members[domain]], dtype=np.intp)
        sizes = np.array([len(members[domain]) for domain in self.domains], dtype=np.intp)
        self.starts: Nodes = np.cumsum(sizes) - sizes
        self.number_of: Nodes = np.repeat(np.arange(len(sizes)), sizes)
        """int [n]: the domain of each of `nodes`."""

    @classmethod
    def finest(cls, topology: Topology, snapshot: Snapshot, nodes: Mapping[str, Node]) -> "_Level | None":
        """The level; None if the topology has no level above the node, or no node has its labels."""
        labels = [label for label in topology.node_labels if label != HOSTNAME_LABEL]
        level = cls(topology.name, labels, snapshot, nodes) if labels else None
        return level if level is not None and level.domains else None


@dataclass(slots=True)
class _Class:
    """Members with equal requests. amounts: int64 [resource]; open_to: bool [node]."""

    amounts: Amounts
    open_to: Bools
    pods: int = 0


def _held_by(level: _Level, members: Sequence[_Member], snapshot: Snapshot) -> Amounts:
    """int64 [domain]: how many of the members each domain could hold."""
    names = sorted({name for member in members for name, _ in member.requests} | {PODS})
    snapshot = snapshot.covering(names)
    arrays = snapshot.node_arrays
    free = np.array([snapshot.node_free(arrays.resources.find(name)) for name in names])
    usable = arrays.ready & ~arrays.unschedulable
    classes: dict[tuple[tuple[str, int], ...], _Class] = {}
    for member in members:
        if member.requests not in classes:
            amounts = np.array([1 if name == PODS else dict(member.requests).get(name, 0) for name in names])
            classes[member.requests] = _Class(amounts, (usable & eligible(arrays, member.pod))[level.nodes])
        one = classes[member.requests]
        one.pods += 1
        free[:, arrays.index[member.node]] += one.amounts
    most = np.maximum(free.max(axis=1), 1)
    room = free[:, level.nodes]
    held = np.zeros(len(level.domains), dtype=np.int64)
    for one in sorted(classes.values(), key=lambda one: float((one.amounts / most).max()), reverse=True):
        taken = _taken(level, room, one)
        room -= one.amounts[:, None] * taken
        held += np.add.reduceat(taken, level.starts)
    return held


def _taken(level: _Level, room: Amounts, one: _Class) -> Amounts:
    """int64 [n]: how many pods of the class each node takes, if every domain gets all of them.

    room: int64 [resource, n]. In each domain the first nodes that have room are filled.
    """
    asked = one.amounts > 0
    fits: Amounts = (np.maximum(room[asked], 0) // one.amounts[asked, None]).min(axis=0)
    fits[~one.open_to] = 0
    before = np.cumsum(fits) - fits
    before -= before[level.starts][level.number_of]
    taken: Amounts = np.clip(one.pods - before, 0, fits)
    return taken
