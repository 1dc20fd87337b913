"""Grove's PodGangs (`scheduler.grove.io/v1alpha1`), which its operator makes of a PodCliqueSet, and how pods name one.

    metadata: {annotations: {grove.io/topology-name: racks}}
    spec:
      topologyConstraint: {packConstraint: {required: example.com/zone}}
      topologyConstraintGroupConfigs:
        - {name: simple-0-decode-0, podGroupNames: [simple-0-decode-0-leader, simple-0-decode-0-worker],
           topologyConstraint: {packConstraint: {required: example.com/rack}}}
      podgroups:
        - {name: simple-0-router, minReplicas: 1, podReferences: […]}
        - {name: simple-0-decode-0-leader, minReplicas: 1, podReferences: […]}
        - {name: simple-0-decode-0-worker, minReplicas: 4, podReferences: […], topologyConstraint: {…}}

1. `minReplicas` pods of each podgroup start together. With 0, none of them needs to; the operator writes that during
   an update.
2. A constraint binds all pods below it: those of the gang, of a group config, of a podgroup. Levels are node labels of
   the ClusterTopologyBinding that the annotation names (see `webhook.formats.topology`).
3. A pod is in the PodGang and the podgroup that its labels name. `podReferences` tells Grove's operator which of its
   pods may lose its gate (`grove.io/podgang-pending-creation`), without which they are not placed. It is not read
   here: it may name the pods of others.
4. The replicas of a scaling group beyond its minimum are PodGangs of their own. The operator opens the gate of their
   pods once those of the base PodGang are scheduled.

Source: grove scheduler/api/core/v1alpha1/podgang.go, operator/internal/controller/podcliqueset/components/podgang,
operator/internal/controller/podclique/components/pod/syncflow.go, operator/internal/scheduler/kai/backend.go (which
makes subgroups of it, too).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from webhook.formats.topology import MAX_LABEL
from webhook.formats.user_pod_group import LONGEST_NAME, LONGEST_OBJECT, MAX_SUBGROUPS, SubGroup, UserPodGroup
from webhook.formats.workload.common_fields import MAX_PODS
from webhook.model.errors import UserError, UserErrors
from webhook.model.fields import mapping, mappings
from webhook.model.json_text import shortened
from webhook.model.names import GROVE_POD_CLIQUE, GROVE_POD_GANG, GROVE_TOPOLOGY, KAI_TOPOLOGY, POD_GROUP_NAME
from webhook.model.wording import counted, did_you_mean, quoted

KIND: Final = "PodGang"
_LEVELS: Final = ("required", "preferred")
_CONSTRAINT: Final = "topologyConstraint"
_PACK: Final = "packConstraint"
_GROUPS: Final = "spec.podgroups"
_CONFIGS: Final = "spec.topologyConstraintGroupConfigs"
_TOPOLOGY: Final = f"metadata.annotations[{GROVE_TOPOLOGY}]"


def gang_of_pod(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> dict[str, str]:
    """The annotation that makes a pod a member of the PodGang which its labels name; {} if they name none.

    A gang that the pod names itself counts instead.
    """
    name, clique = labels.get(GROVE_POD_GANG), labels.get(GROVE_POD_CLIQUE)
    if not isinstance(name, str) or not name or not clique or annotations.get(POD_GROUP_NAME):
        return {}
    return {POD_GROUP_NAME: name}


def read_pod_gang(raw: Mapping[str, Any]) -> UserPodGroup:
    """A PodGang; the faults of its spec are in the record."""
    metadata = mapping(raw, "metadata", "metadata")
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "default")
    try:
        spec = mapping(raw, "spec", "spec")
        whole = _whole(spec, _topology_of(metadata))
    except UserError as error:
        problems = tuple(f"{KIND} {name}: {fault}" for fault in error.faults)
        return UserPodGroup(namespace, name, SubGroup("", 1, f"spec.{_CONSTRAINT}.{_PACK}"), problems, kind=KIND)
    return UserPodGroup(
        namespace,
        name,
        whole,
        kind=KIND,
        topology_path=_TOPOLOGY,
        priority_class=str(spec.get("priorityClassName") or ""),
        unused=("spec.reuseReservationRef",) if spec.get("reuseReservationRef") else (),
    )


def _topology_of(metadata: Mapping[str, Any]) -> str:
    """The name of its topology, also in KAI-Scheduler's annotation, as Grove's own backend for that reads it."""
    annotations = metadata.get("annotations")
    found = annotations if isinstance(annotations, Mapping) else {}
    name = found.get(GROVE_TOPOLOGY) or found.get(KAI_TOPOLOGY) or ""
    return name if isinstance(name, str) and len(name) <= LONGEST_OBJECT else ""


def _whole(spec: Mapping[str, Any], topology: str) -> SubGroup:
    """The gang with its group configs and podgroups. Raises UserErrors with all faults."""
    groups = mappings(spec, "podgroups", _GROUPS)
    configs = mappings(spec, "topologyConstraintGroupConfigs", _CONFIGS)
    for path, entries in ((_GROUPS, groups), (_CONFIGS, configs)):
        if len(entries) > MAX_SUBGROUPS:
            text = f"There are {len(entries)} of them. A PodGang may have at most {MAX_SUBGROUPS} here."
            raise UserError(path, text)
    if not groups:
        raise UserError(_GROUPS, "There are none. A PodGang needs at least one.")
    faults = [*_faults_of_groups(groups), *_faults_of_configs(configs, groups)]
    constrained = [("spec", spec), *_numbered(_CONFIGS, configs), *_numbered(_GROUPS, groups)]
    for path, entry in constrained:
        faults += _faults_of_constraint(entry, path, topology)
    if faults:
        raise UserErrors(faults)
    parts = [_part(entry, path, entry["name"], entry["minReplicas"], ()) for path, entry in _numbered(_GROUPS, groups)]
    by_name = {part.name: part for part in parts}
    inside: set[str] = set()
    nested: list[SubGroup] = []
    for path, entry in _numbered(_CONFIGS, configs):
        if below := tuple(by_name[name] for name in entry["podGroupNames"]):
            # A config may have the name of a podgroup, which only the latter's pods name.
            nested.append(_part(entry, path, entry["name"], sum(part.minimum for part in below), below))
            inside |= {part.name for part in below}
    at_root = (*nested, *(part for part in parts if part.name not in inside))
    minimum = sum(part.minimum for part in parts)
    if minimum > MAX_PODS:
        text = f"Together their minReplicas are {counted(minimum, 'pod')}. Write numbers that make {MAX_PODS} at most."
        raise UserError(_GROUPS, text)
    return _part(spec, "spec", "", minimum, at_root, topology)


def _numbered(path: str, entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((f"{path}[{index}]", entry) for index, entry in enumerate(entries))


def _part(
    entry: Mapping[str, Any], path: str, name: str, minimum: int, parts: tuple[SubGroup, ...], topology: str = ""
) -> SubGroup:
    """The subgroup of an entry without faults. topology: of the whole alone; those below are in the same."""
    pack = (entry.get(_CONSTRAINT) or {}).get(_PACK) or {}
    required, preferred = (str(pack.get(level) or "") for level in _LEVELS)
    where = f"{path}.{_CONSTRAINT}.{_PACK}"
    return SubGroup(name, minimum, where, topology, required, preferred, parts, _LEVELS)


def _faults_of_groups(groups: Sequence[Mapping[str, Any]]) -> Iterator[UserError]:
    names: dict[str, int] = {}
    for index, entry in enumerate(groups):
        path, name, value = f"{_GROUPS}[{index}]", entry.get("name"), entry.get("minReplicas")
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
            yield UserError(f"{path}.name", f"{quoted(name)} is not a name of 1 to {LONGEST_NAME} characters.")
        elif name in names:
            text = f'"{shortened(name)}" is the name of {_GROUPS}[{names[name]}] already. Use another one.'
            yield UserError(f"{path}.name", text)
        else:
            names[name] = index
        if type(value) is not int or not 0 <= value <= MAX_PODS:
            text = f"{quoted(value)} is not a number of pods. Write a whole number from 0 to {MAX_PODS}."
            yield UserError(f"{path}.minReplicas", text)


def _faults_of_configs(
    configs: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]
) -> Iterator[UserError]:
    """Faults of the names, each of which stands once at most: a podgroup in two configs would be in both domains."""
    listed_in_all = sum(len(found) for entry in configs if isinstance(found := entry.get("podGroupNames"), list))
    if listed_in_all > len(groups):
        text = f"They list {listed_in_all} podgroups, and there are {len(groups)}. A podgroup may be in one of them."
        yield UserError(_CONFIGS, text)
        return
    names = [name for entry in groups if isinstance(name := entry.get("name"), str)]
    known, taken = set(names), dict[str, str]()
    for path, entry in _numbered(_CONFIGS, configs):
        name, listed = entry.get("name"), entry.get("podGroupNames")
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_OBJECT:
            yield UserError(f"{path}.name", f"{quoted(name)} is not a name of 1 to {LONGEST_OBJECT} characters.")
        if not isinstance(listed, list):
            yield UserError(f"{path}.podGroupNames", f"This must be a list, not {quoted(listed)}.")
            continue
        for each in listed:
            if not isinstance(each, str) or each not in known:
                named = f'"{shortened(each)}".{did_you_mean(each, names)}' if isinstance(each, str) else quoted(each)
                yield UserError(f"{path}.podGroupNames", f"There is no podgroup {named}")
            elif each in taken:
                text = (
                    f'"{shortened(each)}" is in {taken[each]}.podGroupNames already. A podgroup may be in one of them.'
                )
                yield UserError(f"{path}.podGroupNames", text)
            else:
                taken[each] = path


def _faults_of_constraint(entry: Mapping[str, Any], path: str, topology: str) -> Iterator[UserError]:
    where = f"{path}.{_CONSTRAINT}"
    try:
        pack = mapping(mapping(entry, _CONSTRAINT, where), _PACK, f"{where}.{_PACK}")
    except UserError as fault:
        yield from fault.faults
        return
    for level in _LEVELS:
        key = pack.get(level)
        if key is not None and (not isinstance(key, str) or len(key) > MAX_LABEL):
            text = f"{quoted(key)} is not the key of a node label."
            yield UserError(f"{where}.{_PACK}.{level}", text)
        elif key and not topology:
            text = f"A level needs a topology. Name a ClusterTopologyBinding in {_TOPOLOGY}."
            yield UserError(f"{where}.{_PACK}.{level}", text)
