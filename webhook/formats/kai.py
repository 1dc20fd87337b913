"""KAI-Scheduler's PodGroups (`scheduling.run.ai/v2alpha2`): what one that a user writes requests, and what we write.

A user's PodGroup:

    spec:
      topologyConstraint: {topology: network, requiredTopologyLevel: example.com/zone}
      subGroups:
        - {name: pair, topologyConstraint: {topology: network, requiredTopologyLevel: example.com/spine}}
        - {name: leader, parent: pair, minMember: 1}
        - {name: worker, parent: pair, minMember: 4, topologyConstraint: {…, requiredTopologyLevel: example.com/rack}}

A pod names its PodGroup in the annotation `pod-group-name`, and a subgroup without children in the label
`kai.scheduler/subgroup-name`.

1. Without subgroups, `minMember` pods start together, 1 if it is not set.
2. With subgroups, `minMember` pods of each subgroup without children do. A larger number above them cannot be met
   together with these and is a fault; an equal or smaller one adds nothing.
3. A topology constraint binds all pods below it. Subgroups may name different Topologies, up to a number of them. A
   subgroup below one that names a Topology names the same or none.

A PodGroup with a fault is kept with the fault, so that its own pods can report it. The one that the service itself
keeps for a gang of owners (`pod_group`) is not read: see `is_kept_by_us`.

Source: KAI-Scheduler v0.12 pkg/apis/scheduling/v2alpha2, pkg/scheduler/api/podgroup_info, docs/topology, pkg/podgrouper
(podgroup/handler.go; plugins defaultgrouper, ray).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from webhook.formats.kubernetes.owner_chain import OwnerChain
from webhook.formats.topology import LABEL_TOPOLOGIES, MAX_LABEL, Topology
from webhook.formats.user_pod_group import (
    LONGEST_NAME,
    LONGEST_OBJECT,
    MAX_SUBGROUPS,
    SubGroup,
    UserPodGroup,
    check_topologies,
)
from webhook.formats.workload.common_fields import MAX_PODS, at_most_topologies
from webhook.formats.workload.record import WorkloadGang
from webhook.formats.workload.topology_request import TopologyRequest, topology_request
from webhook.model.errors import UserError, UserErrors
from webhook.model.fields import mapping, mappings
from webhook.model.names import KAI_PRIORITY_CLASS, KAI_QUEUE, PLACEMENT
from webhook.model.wording import counted, did_you_mean, quoted

API_VERSION: Final = "scheduling.run.ai/v2alpha2"
_NOT_IN_A_LABEL: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_LABEL: Final = 63


def pod_group(
    owner_chain: OwnerChain, pod: Mapping[str, Any], minimum: int, topologies: Mapping[str, Topology], status: str
) -> dict[str, Any]:
    """The PodGroup of a gang: the fields that we send with server-side apply. Raises UserError.

        metadata: {name: pg-<top>-<uid>, ownerReferences: [the top], annotations: {topology-webhook.dev/placement: ..}}
        spec: {minMember, queue, priorityClassName, topologyConstraint, subGroups: [{name, minMember,
        topologyConstraint}]}

    - The queue is read from the label `kai.scheduler/queue`, the priority class from the label `priorityClassName`. The
      label on the top owner wins over the pod's. Without a label the field is left out.
    - A gang of several pod sets has a sub-group for each. A pod set that requests a level has its own constraint.
    - Levels are node labels, however the user named them.

    The pod already has the annotations from its owners. minimum: pods that must start together; status: the state of
    the gang as a sentence.
    """
    metadata, top = pod["metadata"], owner_chain.top
    labels = metadata.get("labels") or {}
    gang = owner_chain.gang(labels)
    several = gang is not None and len(gang.all_pod_sets()) > 1
    request = gang.request if gang and several else topology_request((metadata["annotations"], "metadata.annotations"))
    queue = _label(KAI_QUEUE, owner_chain, labels)
    priority = _label(KAI_PRIORITY_CLASS, owner_chain, labels) or (pod.get("spec") or {}).get("priorityClassName")
    parts = list(_parts(gang, topologies)) if gang and several else []
    return {
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": owner_chain.group_name(labels),
            "namespace": metadata["namespace"],
            **({"labels": {KAI_QUEUE: queue}} if queue else {}),
            "annotations": {PLACEMENT: status},
            "ownerReferences": [
                {"apiVersion": top.api_version, "kind": top.kind, "name": top.name, "uid": top.uid},
            ],
        },
        "spec": {
            "minMember": minimum,
            **({"queue": queue} if queue else {}),
            **({"priorityClassName": priority} if priority else {}),
            **_constrained(request, topologies),
            **({"subGroups": parts} if parts else {}),
        },
    }


def is_said(wanted: Any, found: Any) -> bool:
    """Whether an object has all the fields that we send, whatever else it has."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(is_said(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(is_said(one, other) for one, other in zip(wanted, found, strict=True))
        )
    return bool(wanted == found)


def _label(key: str, owner_chain: OwnerChain, labels: Mapping[str, str]) -> str:
    top = ((owner_chain.raw or {}).get("metadata") or {}).get("labels") or {}
    return str(top.get(key) or labels.get(key) or "")


def _parts(gang: WorkloadGang, topologies: Mapping[str, Topology]) -> Iterator[dict[str, Any]]:
    """The pod sets of a gang and of its subgroups, the latter with the subgroup's constraint."""
    for pod_set in gang.pod_sets:
        yield {"name": _dns_label(pod_set.name), "minMember": pod_set.minimum}
    for part in gang.gangs:
        for pod_set in part.all_pod_sets():
            constraint = _constrained(part.request, topologies)
            yield {"name": _dns_label(pod_set.name), "minMember": pod_set.minimum, **constraint}


def _constrained(request: TopologyRequest, topologies: Mapping[str, Topology]) -> dict[str, Any]:
    if request.topology is None or request.topology in LABEL_TOPOLOGIES:  # KAI-Scheduler knows objects only
        return {}
    levels = {"requiredTopologyLevel": request.required, "preferredTopologyLevel": request.preferred}
    topology = topologies.get(request.topology)
    named = {key: _node_label(level, topology) for key, level in levels.items() if level}
    return {"topologyConstraint": {"topology": request.topology, **named}}


def _node_label(level: str, topology: Topology | None) -> str:
    if topology is None:
        return level
    try:
        return topology.node_labels[topology.level(level)]
    except UserError:
        return level


def _dns_label(name: str) -> str:
    return _NOT_IN_A_LABEL.sub("-", name.lower())[:_LONGEST_LABEL].strip("-") or "pods"


LEVELS: Final = ("requiredTopologyLevel", "preferredTopologyLevel")
"""The fields of a topology constraint that name levels."""
MAX_DEPTH: Final = 4
"""The most subgroups within each other. Every level of them may be searched once for each domain of the one above."""
_SUBGROUPS: Final = "spec.subGroups"
_CONSTRAINT: Final = "topologyConstraint"
# Newer versions of the API: a minimum of subgroups instead of pods. Their default is all of them, as here.
_MIN_SUBGROUP: Final = "minSubGroup"


def read_pod_group(raw: Mapping[str, Any]) -> UserPodGroup:
    """A PodGroup that a user wrote; the faults of its spec are in the record."""
    metadata = mapping(raw, "metadata", "metadata")
    name, warnings = str(metadata.get("name") or ""), tuple[str, ...]()
    problems: tuple[str, ...] = ()
    try:
        spec, warnings = _spec(raw)
        whole = _whole(spec)
        warnings += tuple(_idle_minimums(spec, whole))
    except UserError as error:
        whole = SubGroup("", 1, f"spec.{_CONSTRAINT}")
        problems = tuple(f"PodGroup {name}: {fault}" for fault in error.faults)
    return UserPodGroup(str(metadata.get("namespace") or "default"), name, whole, problems, warnings)


def is_kept_by_us(raw: Mapping[str, Any]) -> bool:
    """Whether the service keeps the PodGroup for a gang of owners: it writes its status into each of these."""
    metadata = raw.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return isinstance(annotations, Mapping) and PLACEMENT in annotations


def _spec(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The spec, and a warning if its subgroups have the spelling of KAI's documentation, which no API server keeps."""
    spec = mapping(raw, "spec", "spec")
    if "subgroups" not in spec or "subGroups" in spec:
        return spec, ()
    warning = "spec.subgroups is read as spec.subGroups. Write it so: the API server drops the other spelling."
    return {**spec, "subGroups": spec["subgroups"]}, (warning,)


def _idle_minimums(spec: Mapping[str, Any], whole: SubGroup) -> Iterator[str]:
    """A warning for each minimum that is smaller than those of the subgroups below it together."""
    entries = {str(entry["name"]): entry for entry in mappings(spec, "subGroups", _SUBGROUPS)}
    for part in whole.all():
        own = (entries[part.name] if part.name else spec).get("minMember") or 0
        if part.parts and 0 < own < part.minimum:
            path = f"{part.path.removesuffix(_CONSTRAINT)}minMember"
            pods = counted(part.minimum, "pod")
            yield f"{path}: {own} has no effect, because the subgroups below start together with {pods}."


def _whole(spec: Mapping[str, Any]) -> SubGroup:
    """The tree of subgroups. Raises UserErrors with all faults."""
    entries = mappings(spec, "subGroups", _SUBGROUPS)
    if len(entries) > MAX_SUBGROUPS:
        raise UserError(_SUBGROUPS, f"There are {len(entries)} of them. A PodGroup may have at most {MAX_SUBGROUPS}.")
    faults: list[UserError] = []
    unknown = list(_faults_of_names(entries))
    for index, entry in enumerate([spec, *entries]):
        path = f"{_SUBGROUPS}[{index - 1}]" if index else "spec"
        below = [other for other in entries if (other.get("parent") or "") == (entry.get("name") if index else "")]
        if not unknown:  # else the number of those below is not known
            faults += _faults_of_min_subgroup(entry, len(below), path)
        faults += _faults_of_numbers(entry, path)
    faults += unknown
    if faults:
        raise UserErrors(faults)
    children: dict[str, list[int]] = {}
    for index, entry in enumerate(entries):
        children.setdefault(entry.get("parent") or "", []).append(index)
    _check_depth(entries)
    whole = _part(spec, "spec", children, entries)
    at_most_topologies({part.topology for part in whole.all() if part.topology}, _SUBGROUPS)
    for part in whole.parts:
        check_topologies(part, "")
    return whole


def _faults_of_min_subgroup(entry: Mapping[str, Any], below: int, path: str) -> Iterator[UserError]:
    """A minimum of subgroups other than all of those directly below."""
    value = entry.get(_MIN_SUBGROUP)
    if value is not None and (type(value) is not int or value != below or not below):
        have = f"there are {below}. Write {below}" if below else "none are below"
        text = f"{quoted(value)} is not supported: all subgroups start together, and {have}, or leave it out."
        yield UserError(f"{path}.{_MIN_SUBGROUP}", text)


def _faults_of_numbers(entry: Mapping[str, Any], path: str) -> Iterator[UserError]:
    """Faults of the minimum and the topology constraint of one entry."""
    value = entry.get("minMember")
    # 0 is the default of the API, as if it were not set.
    if value is not None and (type(value) is not int or not 0 <= value <= MAX_PODS):
        text = f"{quoted(value)} is not a number of pods. Write a whole number from 1 to {MAX_PODS}."
        yield UserError(f"{path}.minMember", text)
    where = f"{path}.{_CONSTRAINT}"
    try:
        constraint = mapping(entry, _CONSTRAINT, where)
    except UserError as fault:
        yield from fault.faults
        return
    for key, longest in (("topology", LONGEST_OBJECT), *((level, MAX_LABEL) for level in LEVELS)):
        named = constraint.get(key)
        if named is not None and (not isinstance(named, str) or len(named) > longest):
            yield UserError(
                f"{where}.{key}", f"{quoted(named)} is not a name of at most {counted(longest, 'character')}."
            )
    for level in LEVELS:
        if constraint.get(level) and not constraint.get("topology"):
            yield UserError(f"{where}.{level}", f"A level needs a topology. Name it in {where}.topology.")


def _faults_of_names(entries: Sequence[Mapping[str, Any]]) -> Iterator[UserError]:
    """Faults of the names: missing, duplicate, of an unknown parent, and parents in a circle."""
    names: dict[str, int] = {}
    for index, entry in enumerate(entries):
        path, name = f"{_SUBGROUPS}[{index}].name", entry.get("name")
        if name is None:
            yield UserError(path, "This is missing. Every subgroup needs a name.")
        elif not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
            yield UserError(path, f"{quoted(name)} is not a name of 1 to {LONGEST_NAME} characters.")
        elif name in names:
            yield UserError(path, f'"{name}" is the name of {_SUBGROUPS}[{names[name]}] already. Use another one.')
        else:
            names[name] = index
    parents: dict[int, int] = {}
    for index, entry in enumerate(entries):
        path, parent = f"{_SUBGROUPS}[{index}].parent", entry.get("parent")
        if parent is None or parent == "":
            continue
        if not isinstance(parent, str) or parent not in names:
            allocation = did_you_mean(parent, names) if isinstance(parent, str) else ""
            yield UserError(path, f"There is no subgroup {quoted(parent)}.{allocation}")
        else:
            parents[index] = names[parent]
    for index in parents:
        above, steps = index, 0
        while above in parents and steps <= len(parents):
            above, steps = parents[above], steps + 1
        if steps > len(parents):
            text = f'The parents of "{entries[index]["name"]}" lead in a circle. Leave one of them out.'
            yield UserError(f"{_SUBGROUPS}[{index}].parent", text)
            return


def _check_depth(entries: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError for subgroups that are nested too deeply."""
    parent = {entry["name"]: entry.get("parent") or "" for entry in entries}
    for index, entry in enumerate(entries):
        above, depth = entry["name"], 0
        while above:
            above, depth = parent[above], depth + 1
        if depth > MAX_DEPTH:
            text = f"This is level {depth} of subgroups within each other. At most {MAX_DEPTH} are supported."
            raise UserError(f"{_SUBGROUPS}[{index}].parent", text)


def _part(
    entry: Mapping[str, Any], path: str, children: Mapping[str, Sequence[int]], entries: Sequence[Mapping[str, Any]]
) -> SubGroup:
    """The subgroup of an entry, with those below. Raises UserError."""
    name = "" if path == "spec" else str(entry["name"])
    parts = tuple(
        _part(entries[index], f"{_SUBGROUPS}[{index}]", children, entries) for index in children.get(name, ())
    )
    own, below = entry.get("minMember") or 0, sum(part.minimum for part in parts)
    if parts and own > below:
        raise UserError(
            f"{path}.minMember",
            f"{own} is more than the {below} of the subgroups below together. Write minMember on these.",
        )
    minimum = below if parts else max(own, 1)
    if minimum > MAX_PODS:
        raise UserError(
            f"{path}.minMember",
            f"Together these are {counted(minimum, 'pod')}. Write numbers that make {MAX_PODS} at most.",
        )
    constraint = entry.get(_CONSTRAINT) or {}
    topology, required, preferred = (str(constraint.get(key) or "") for key in ("topology", *LEVELS))
    return SubGroup(name, minimum, f"{path}.{_CONSTRAINT}", topology, required, preferred, parts)
