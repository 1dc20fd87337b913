"""The service's answer to a PodGroup or PodGang in a file: that to the pods which name it.

The service denies no PodGroup. If one has a fault, its pods wait, and the PodGroup's warnings name the field.

The unknown fields of a PodGroup in a file, which neither this service nor the API server would read.

The API server drops a field that its schema does not have, or rejects the object. A file was not checked by it, so
that a misspelt constraint would look as if there were none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from webhook.cli.input.documents import Item
from webhook.cli.input.object_reference import NATIVE_POD_GROUP, POD_GANG, POD_GROUP
from webhook.cli.offline.judgement import Judgement, worst
from webhook.formats.grove import read_pod_gang
from webhook.formats.kai import read_pod_group
from webhook.formats.kubernetes.membership import named_group, native_group
from webhook.formats.kubernetes.native_pod_group import CONDITION_TYPES, NativePodGroup
from webhook.model.json_text import shortened
from webhook.model.wording import did_you_mean
from webhook.placing.pod.decision import Verdict
from webhook.state.management import DEFAULT_NAMESPACE
from webhook.state.rules import Rules

Fields = Mapping[str, "Fields | None"]
"""The known fields, with those below them; None: whatever is below belongs to another reader."""

_NONE_BELOW: Final[Fields] = MappingProxyType({})
_CONSTRAINT: Final[Fields] = dict.fromkeys(("topology", "requiredTopologyLevel", "preferredTopologyLevel"))
_SUBGROUP: Final[Fields] = {"name": None, "minMember": None, "minSubGroup": None, "parent": None}
# Source: KAI-Scheduler v0.12 deployments/kai-scheduler/crds. `subgroups` has a warning of its own.
_KAI: Final[Fields] = {
    **dict.fromkeys(("minMember", "minSubGroup", "queue", "priorityClassName", "preemptibility", "markUnschedulable")),
    **dict.fromkeys(("schedulingBackoff", "backoffLimit", "completions", "parallelism")),
    "topologyConstraint": _CONSTRAINT,
    "subGroups": {**_SUBGROUP, "topologyConstraint": _CONSTRAINT},
    "subgroups": {**_SUBGROUP, "topologyConstraint": _CONSTRAINT},
}
_PACK: Final[Fields] = {"packConstraint": dict.fromkeys(("required", "preferred"))}
# Source: grove scheduler/api/core/v1alpha1/podgang.go.
_GROVE: Final[Fields] = {
    "podgroups": {**dict.fromkeys(("name", "podReferences", "minReplicas")), "topologyConstraint": _PACK},
    "topologyConstraint": _PACK,
    "topologyConstraintGroupConfigs": {"name": None, "podGroupNames": None, "topologyConstraint": _PACK},
    "priorityClassName": None,
    "reuseReservationRef": None,
}
# Source: k8s.io/api v0.36.3 scheduling/v1alpha2/types.go, v0.37.2 scheduling/v1alpha3/types.go and v1beta1/types.go.
_NATIVE: Final[Fields] = {
    "podGroupTemplateRef": None,
    "workloadRef": None,
    "schedulingPolicy": {"basic": _NONE_BELOW, "gang": {"minCount": None}},
    "schedulingConstraints": {"topology": {"key": None}},
    "resourceClaims": None,
    "disruptionMode": None,
    "priorityClassName": None,
    "priority": None,
    "preemptionPolicy": None,  # kube-scheduler demands that of the pods, which we read
    "parentCompositePodGroupName": None,
}
_FIELDS: Final = {POD_GROUP: _KAI, NATIVE_POD_GROUP: _NATIVE, POD_GANG: _GROVE}
# A file can have any number of them.
_MOST_NAMED: Final = 10


def unread_fields(kind: tuple[str, str], spec: Any) -> tuple[str, ...]:
    """Sentences about the unknown fields of a PodGroup's spec. kind: (group, kind)."""
    return tuple(islice(_unread(spec, _FIELDS[kind], "spec"), _MOST_NAMED))


def unread_version(kind: tuple[str, str], api_version: str) -> tuple[str, ...]:
    """A sentence if this service does not read the version of a PodGroup of Kubernetes itself."""
    version = api_version.rpartition("/")[2]
    if kind != NATIVE_POD_GROUP or version in CONDITION_TYPES:
        return ()
    told = f"apiVersion: {shortened(version)} is not read. Versions that are: {', '.join(sorted(CONDITION_TYPES))}. "
    return (f"{told}The PodGroup is judged as if it were of one of these.",)


def _unread(value: Any, fields: Fields, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, below in value.items():
            if name not in fields:
                yield f"{path}.{shortened(name)} is not read.{did_you_mean(name, fields)}"
            elif (known := fields[name]) is not None:
                yield from _unread(below, known, f"{path}.{name}")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, each in enumerate(value):
            yield from _unread(each, fields, f"{path}[{index}]")


POD_GANGS_ARE_NOT_READ: Final = "Grove's PodGangs are not read (setting grovePodGangs)"
POD_GROUPS: Final = frozenset({POD_GROUP, NATIVE_POD_GROUP, POD_GANG})


def judge_pod_group(item: Item, members: Mapping[str, Iterable[Judgement]], rules: Rules) -> Judgement:
    """The judgement of a PodGroup or PodGang. members: those of the pods of the call, by gang."""
    if (item.group, item.kind) == POD_GANG and not rules.grove_pod_gangs:
        return Judgement(item, Verdict.ALLOW, f"unmanaged: {POD_GANGS_ARE_NOT_READ}", item.body)
    if (item.group, item.kind) != NATIVE_POD_GROUP:
        users = (read_pod_gang if (item.group, item.kind) == POD_GANG else read_pod_group)(item.body)
        gang = named_group(item.namespace or DEFAULT_NAMESPACE, users.name)
        problems, warnings = users.problems, users.warnings
    else:
        native = NativePodGroup.from_object(item.body)
        gang = native_group(item.namespace or DEFAULT_NAMESPACE, native.name)
        problems, warnings = native.problems, native.ignored
    kind = item.group, item.kind
    warnings += unread_version(kind, item.api_version) + unread_fields(kind, item.body.get("spec"))
    why = "it is read with the pods that name it"
    if problems:
        why = "pods of it that are managed here wait for its correction"
    alone = Judgement(item, Verdict.ALLOW, f"unmanaged: {why}", item.body, (*problems, *warnings))
    found = list(members.get(gang, ()))
    if not found:
        return alone
    verdict = worst(one.verdict for one in found)
    first = next(one for one in found if one.verdict is verdict)
    return replace(alone, verdict=verdict, message=first.message, group=first.group)


def by_gang(pods: Iterable[Judgement]) -> dict[str, list[Judgement]]:
    """The judgements of pods by their gang."""
    found: dict[str, list[Judgement]] = {}
    for judgement in pods:
        gated = judgement.sets[0].outcome.gated if judgement.sets else None
        if gated is not None and gated.membership is not None:
            found.setdefault(gated.membership.group, []).append(judgement)
    return found
