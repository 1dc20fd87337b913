"""Kubernetes' own PodGroups (`scheduling.k8s.io`): what one requests of its pods.

    spec: {schedulingPolicy: {gang: {minCount: 4}}, schedulingConstraints: {topology: [{key: example.com/rack}]}}

A pod names its group in `spec.schedulingGroup.podGroupName`.

1. `gang.minCount` pods start together. With the policy `basic` each pod may start alone.
2. `topology[0].key`, a node label, is the required level of the Topology that has it. If several Topologies have it and
   divide the nodes differently, the pods name one in `kai.scheduler/topology`.
3. Annotations of the pods and of their owners refine this (a preferred level, segments, NUMA alignment). One that
   contradicts it is a fault.
4. A group below a CompositePodGroup (1.37, alpha) is kube-scheduler's: it alone places the groups of the tree together.

A group with a fault is kept with the fault, so that its own pods can report it.

Source: k8s.io/api v0.36.3 scheduling/v1alpha2/types.go, v0.37.2 scheduling/v1alpha3/types.go and v1beta1/types.go (all
read for this).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from webhook.formats.dra import PodClaim, pod_claims
from webhook.formats.topology import MAX_LABEL, Topology, with_levels
from webhook.formats.workload.common_fields import MAX_PODS
from webhook.model.errors import UserError
from webhook.model.fields import mapping, mappings, whole_number
from webhook.model.json_text import shortened
from webhook.model.names import (
    KAI_BATCH_MIN_MEMBER,
    KAI_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
    MIN_MEMBER,
    POD_GROUP_NAME,
)
from webhook.model.wording import did_you_mean, quoted

CONDITION_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "v1beta1": "PodGroupInitiallyScheduled",
        "v1alpha3": "PodGroupInitiallyScheduled",
        "v1alpha2": "PodGroupScheduled",
    }
)
"""The versions that are read, by preference, and the condition of each that says whether the group is scheduled.

The fields of the first comment have the same names in all of them. Another version is an entry here.
"""

GATED_AS_A_WHOLE: Final = frozenset({"v1beta1", "v1alpha3"})
"""The versions of those whose scheduler tries no pod of a group while one of its unbound pods is gated, whatever the
group's policy; with v1alpha2 it queues each pod by itself.

Source: kubernetes v1.37.2 pkg/scheduler/backend/queue/scheduling_queue.go (runPreEnqueuePlugins), and v1.36.3.
"""

_POLICY: Final = "spec.schedulingPolicy"
_TOPOLOGY: Final = "spec.schedulingConstraints.topology"
# The defaults of the disruption mode, which the API server fills in: each pod by itself.
_BY_POD: Final[tuple[object, ...]] = ("Pod", {"single": {}})
# Names of Topologies, or of their levels, in one message.
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class NativePodGroup:
    """One PodGroup."""

    namespace: str
    name: str
    uid: str
    minimum: int | None
    """The pods that start together; None for the policy `basic`."""
    level: str
    """The node label of the required level; empty if there is no constraint."""
    priority: int | None
    """The group's own priority, which the API server resolves from `priorityClassName`."""
    faults: tuple[UserError, ...] = field(default=(), compare=False)
    problems: tuple[str, ...] = ()
    """The faults as sentences."""
    ignored: tuple[str, ...] = ()
    """Sentences about fields that are set and have no effect here."""
    conditions: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    """The conditions in its status, unparsed."""
    generation: int = field(default=0, compare=False)
    ends_whole: bool = False
    """Whether preemption ends all its pods or none, by `spec.disruptionMode`."""
    constrained: bool = False
    """Whether it requests a topology, valid or not, so that its pods are managed without an annotation of their own."""
    parent: str = ""
    """The CompositePodGroup that it is a part of; empty if it stands alone."""
    claims: tuple[PodClaim, ...] = ()
    """The claims whose devices its pods share: a pod uses one by an equal entry in its own `spec.resourceClaims`. Of a
    template there is one for the group, which its status names.
    """

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "NativePodGroup":
        """Read a PodGroup of any version in the table; faults of its spec are in the record."""
        metadata = mapping(raw, "metadata", "metadata")
        faults: list[UserError] = []
        minimum, level, priority, parent = None, "", None, ""
        try:
            spec = mapping(raw, "spec", "spec")
            level = _level(spec)
            minimum = _minimum(spec)
            priority = _priority(spec)
            parent = _parent(spec)
        except UserError as error:
            faults += error.faults
        name = str(metadata.get("name") or "")
        return cls(
            str(metadata.get("namespace") or "default"),
            name,
            str(metadata.get("uid") or ""),
            minimum,
            level,
            priority,
            tuple(faults),
            tuple(f"PodGroup {name}: {fault}" for fault in faults),
            tuple(_ignored(raw.get("spec"))),
            _conditions(raw),
            generation if type(generation := metadata.get("generation")) is int else 0,
            _ends_whole(raw.get("spec")),
            _is_constrained(raw.get("spec")),
            parent,
            pod_claims(raw),
        )

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    def request(self, asked: Mapping[str, str], topologies: Mapping[str, Topology]) -> dict[str, str]:
        """What it requests of a pod, as annotations. asked: those of the pod and its owners. Raises UserError."""
        if self.problems:
            raise UserError("", " ".join(self.problems))
        self._check(asked, POD_GROUP_NAME, self.name, "spec.schedulingGroup.podGroupName of the pod")
        requested: dict[str, str] = {}
        if self.minimum is not None:
            where = f"{_POLICY}.gang.minCount of PodGroup {self.name}"
            for annotation in (MIN_MEMBER, KAI_BATCH_MIN_MEMBER):
                if whole_number(asked.get(annotation, "")) != self.minimum:
                    self._check(asked, annotation, str(self.minimum), where)
            requested[MIN_MEMBER] = str(self.minimum)
        if self.level:
            topology = self._topology(asked.get(KAI_TOPOLOGY, ""), topologies)
            level = asked.get(KAI_REQUIRED_PLACEMENT)
            path = f"metadata.annotations[{KAI_REQUIRED_PLACEMENT}]"
            if level and topology.node_labels[topology.level(level, path)] != self.level:
                self._check(asked, KAI_REQUIRED_PLACEMENT, self.level, f"{_TOPOLOGY}[0].key of PodGroup {self.name}")
            requested |= {KAI_TOPOLOGY: topology.name, KAI_REQUIRED_PLACEMENT: self.level}
        return requested

    def _check(self, asked: Mapping[str, str], annotation: str, value: str, where: str) -> None:
        text = asked.get(annotation)
        if text and text != value:
            raise UserError(
                f"metadata.annotations[{annotation}]",
                f'"{shortened(text)}" is not "{value}", which is {where}. Leave the annotation out.',
            )

    def _topology(self, named: str, topologies: Mapping[str, Topology]) -> Topology:
        """The Topology that has the level. Raises UserError."""
        path = f"PodGroup {self.name}: {_TOPOLOGY}[0].key"
        if named and named not in topologies:
            raise UserError(
                f"metadata.annotations[{KAI_TOPOLOGY}]",
                f'There is no topology "{shortened(named)}".{did_you_mean(named, topologies)}',
            )
        among = {named: topologies[named]} if named else topologies
        found = with_levels((self.level,), among)
        if not found:
            levels = _levels_of(among, self.level)
            raise UserError(path, f'"{shortened(self.level)}" is a level of no Topology. {levels}')
        above = {topology.node_labels[: topology.node_labels.index(self.level)] for topology in found}
        if len(above) > 1:
            raise UserError(
                path,
                f'"{self.level}" is a level of several Topologies, below different levels: '
                f"{_names(topology.name for topology in found)}. "
                f"Name one of them in the annotation {KAI_TOPOLOGY} of the pods.",
            )
        return found[0]


def scheduling_group_of(raw: Mapping[str, Any]) -> str:
    """The name of the PodGroup in a pod's spec; empty without one."""
    spec = raw.get("spec")
    group = spec.get("schedulingGroup") if isinstance(spec, Mapping) else None
    name = group.get("podGroupName") if isinstance(group, Mapping) else None
    return name if isinstance(name, str) else ""


def _minimum(spec: Mapping[str, Any]) -> int | None:
    policy = mapping(spec, "schedulingPolicy", _POLICY)
    named = [each for each in ("basic", "gang") if policy.get(each) is not None]
    if len(named) != 1:
        what = "both gang and" if named else "neither gang nor"
        raise UserError(_POLICY, f"This names {what} basic. Write one of them.")
    if named == ["basic"]:
        return None
    path = f"{_POLICY}.gang.minCount"
    value = mapping(policy, "gang", f"{_POLICY}.gang").get("minCount")
    if type(value) is not int or not 1 <= value <= MAX_PODS:
        raise UserError(path, f"{quoted(value)} is not a number of pods. Write a whole number from 1 to {MAX_PODS}.")
    return value


def _level(spec: Mapping[str, Any]) -> str:
    constraints = mapping(spec, "schedulingConstraints", "spec.schedulingConstraints")
    entries = mappings(constraints, "topology", _TOPOLOGY)
    if not entries:
        return ""
    key = entries[0].get("key")
    if not isinstance(key, str) or not key or len(key) > MAX_LABEL:
        raise UserError(f"{_TOPOLOGY}[0].key", f"{quoted(key)} is not the key of a node label.")
    if len(entries) > 1:
        # Kubernetes allows one; which of several is the finest is not ours to guess.
        raise UserError(_TOPOLOGY, f"There are {len(entries)} constraints, and only one is supported. Leave one.")
    return key


def _is_constrained(spec: Any) -> bool:
    constraints = spec.get("schedulingConstraints") if isinstance(spec, Mapping) else None
    return bool(constraints.get("topology") if isinstance(constraints, Mapping) else constraints)


def _priority(spec: Mapping[str, Any]) -> int | None:
    value = spec.get("priority")
    return value if type(value) is int else None


def _parent(spec: Mapping[str, Any]) -> str:
    value = spec.get("parentCompositePodGroupName") or ""
    if not isinstance(value, str):
        raise UserError("spec.parentCompositePodGroupName", f"{quoted(value)} is not the name of a CompositePodGroup.")
    return shortened(value)


def _ignored(spec: Any) -> Iterable[str]:
    fields = spec if isinstance(spec, Mapping) else {}
    if fields.get("parentCompositePodGroupName"):
        yield (
            "spec.parentCompositePodGroupName leaves its pods to kube-scheduler, which places the whole tree: they are "
            "not gated for a place, and only their binding is checked."
        )
    if fields.get("resourceClaims"):
        yield "spec.resourceClaims is allocated by the scheduler: these devices need not be near the CPUs of the pods."


def _ends_whole(spec: Any) -> bool:
    mode = spec.get("disruptionMode") if isinstance(spec, Mapping) else None
    return bool(mode) and mode not in _BY_POD


def _conditions(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    status = raw.get("status")
    found = status.get("conditions") if isinstance(status, Mapping) else None
    return tuple(one for one in found if isinstance(one, Mapping)) if isinstance(found, list) else ()


def _levels_of(topologies: Mapping[str, Topology], level: str) -> str:
    objects = (topology for topology in topologies.values() if topology.source is not None)
    labels = list(dict.fromkeys(label for topology in objects for label in topology.node_labels))
    if not labels:
        return "There are no Topologies. Create one with this level."
    return f"Levels are: {_names(labels)}.{did_you_mean(level, labels)}"


def _names(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return ", ".join(listed[:_MOST_NAMED]) + more
