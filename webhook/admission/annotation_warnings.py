"""Warnings about what a workload or a bare pod asks for that has less effect than expected, although it is valid.

1. A name that is not read, but is similar to one that is (`meant`).
2. A topology without a level, and segments without a level.
3. A strategy, if nothing makes the pods a gang.
4. A level inside a finer one: of segments, or of a pod set.
5. Requests in the names of other projects that only their programs read (`unread_requests`).
6. With `gate=Never`, annotations that only apply to gangs or to pods of an owner.
7. Rules of a gang's pods about each other that are not counted when it is placed.
8. A Job of Volcano that Volcano's scheduler places, which is its default and reads none of our names.

An object that a workload of a kind that is read here creates is not checked, because that one was. What another
controller creates may be completed by what stands on that controller: nothing is said of a missing level.

Source of the others' names: koordinator apis/extension; jobset pkg/webhooks/pod_*.go; lws
pkg/controllers/pod_controller.go; KAI-Scheduler pkg/common/constants; scheduler-plugins apis/scheduling/v1alpha1;
volcano.sh/apis pkg/apis/scheduling/v1beta1 and batch/v1alpha1.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from webhook.admission.workload.templates import Template, templates_in
from webhook.engine.gang.workload_gang import topology_named, topology_of
from webhook.formats.kubernetes.exclusions import (
    PodExclusions,
    ignored_rule_text,
    limits_of,
    rule_across_text,
    rules_across,
)
from webhook.formats.kubernetes.membership import GANG_REQUESTS, GROUP_ANNOTATIONS, may_be_in_group
from webhook.formats.kubernetes.native_pod_group import scheduling_group_of
from webhook.formats.kubernetes.owner_chain import INHERITED
from webhook.formats.kueue import KUEUE_ANNOTATIONS, asks_kueue, why_kueues
from webhook.formats.topology import Topology
from webhook.formats.workload.common_fields import MAX_POD_SETS
from webhook.formats.workload.levels import coarser_levels
from webhook.formats.workload.readers import is_made_by_another, made_by, read_workload
from webhook.formats.workload.record import WorkloadGang, WorkloadPodSet
from webhook.formats.workload.volcano import scheduler_of_pods
from webhook.model import names
from webhook.model.errors import UserError
from webhook.model.fields import mapping
from webhook.model.json_text import shortened
from webhook.model.names import (
    COSCHEDULING_POD_GROUP_LABEL,
    DOMAIN_OF_LEVEL,
    EXACT_MATCH_RESERVATION,
    GPU_FRACTION,
    GPU_MEMORY,
    GROVE_POD_GANG,
    INHERIT,
    INJECT_ENV,
    JOBSET_EXCLUSIVE,
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    KOORDINATOR_DEVICE_HINT,
    KOORDINATOR_DEVICE_JOINT,
    KOORDINATOR_GANG,
    KOORDINATOR_GPU_PARTITION,
    KOORDINATOR_POD_GROUP_LABEL,
    KUEUE_POD_SET,
    LWS_EXCLUSIVE,
    LWS_SUBGROUP_EXCLUSIVE,
    MIN_MEMBER,
    NUMA_TOPOLOGY_SPEC,
    OUR_DOMAIN,
    PCIE_ROOT,
    POD_GROUP_NAME,
    RESOURCE_SPEC,
    STRATEGY,
    VOLCANO_GROUP,
    VOLCANO_NUMA_POLICY,
)
from webhook.model.raw import Raw
from webhook.model.wording import counted, did_you_mean
from webhook.placing.gang.workload_judgement import annotations_in
from webhook.state.rules import Rules

_NUMA_NAMES: Final = frozenset({NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC})
_GANG_HERE: Final = f"For a gang here write {POD_GROUP_NAME} and {MIN_MEMBER}."
_POLICY_HERE: Final = f"Write {NUMA_TOPOLOGY_SPEC}."
_READERS: Final[Mapping[str, tuple[str, str]]] = {
    KOORDINATOR_POD_GROUP_LABEL: ("Koordinator's scheduler reads", _GANG_HERE),
    COSCHEDULING_POD_GROUP_LABEL: ("the Coscheduling plugin of scheduler-plugins reads", _GANG_HERE),
    VOLCANO_GROUP: ("Volcano reads", _GANG_HERE),
    VOLCANO_NUMA_POLICY: ("Volcano reads", _POLICY_HERE),
    EXACT_MATCH_RESERVATION: ("Koordinator's scheduler reads", ""),
    KOORDINATOR_DEVICE_HINT: ("Koordinator's scheduler reads", ""),
    KOORDINATOR_DEVICE_JOINT: ("Koordinator's scheduler reads", ""),
    KOORDINATOR_GPU_PARTITION: ("Koordinator's scheduler reads", ""),
    GROVE_POD_GANG: ("Grove's schedulers read", "The setting grovePodGangs lets this service read it, too."),
    GPU_FRACTION: ("KAI-Scheduler shares GPUs by", ""),
    GPU_MEMORY: ("KAI-Scheduler shares GPUs by", ""),
}
"""Annotation or label -> who reads it, and what to write instead."""
_OF_VOLCANO: Final[Mapping[str, str]] = {
    "networkTopology": f"Write {KAI_TOPOLOGY} with {KAI_REQUIRED_PLACEMENT}.",
    "partitionPolicy": f"Write {KAI_SEGMENT_SIZE} with {KAI_SEGMENT_REQUIRED_PLACEMENT} on the task's template.",
    "topologyPolicy": _POLICY_HERE,
}
"""Field of a Volcano Job or of its tasks -> what to write instead."""
_EXCLUSIVE: Final = (JOBSET_EXCLUSIVE, LWS_EXCLUSIVE, LWS_SUBGROUP_EXCLUSIVE)
_OF_POD_SET: Final = f"{KUEUE_POD_SET}-"
# Each warning quotes names of the user, and people read only a few.
_MOST_UNREAD: Final = 10
_KINDS: Final = ("labels", "annotations")


def unread_requests(raw: Raw, rules: Rules) -> tuple[str, ...]:
    """The warnings about an object's requests for a placement in the names of other projects, one for each.

    1. Only a workload or bare pod that asks this service for a placement is warned. Others are not ours.
    2. What Koordinator's, KAI's, Volcano's and the scheduler-plugins' schedulers read has no effect on a pod that
       another scheduler places. So has what a Job of Volcano says of a placement in fields of its own.
    3. Exclusive placement by JobSet and LeaderWorkerSet: the operator adds pod affinity to the first pod of each job or
       replica, and creates the others after that pod is scheduled. A gang that starts together would wait for them.
    4. Kueue's topology annotations, while the setting is off and nothing shows that Kueue manages the object. With the
       setting also on any other object, names of a pod set that are not read at all.
    """
    templates = list(islice(templates_in(raw), MAX_POD_SETS))
    places = list(_places(raw, templates))
    annotations = [found for path, found in places if path.endswith("annotations")]
    in_gang = any(not GROUP_ANNOTATIONS.isdisjoint(each) for each in annotations)
    in_gang = in_gang or any(scheduling_group_of(template.raw) for template in templates)
    unknown = () if why_kueues(raw) else tuple(islice(_unknown_of_kueue(places), _MOST_UNREAD))
    if not in_gang and all(_NUMA_NAMES.isdisjoint(each) for each in annotations):
        return unknown if rules.kueue_annotations else ()
    found = [
        *_of_schedulers(places, rules),
        *_of_volcano_jobs(raw),
        *(_exclusive(places) if in_gang else ()),
        *_of_kueue(raw, places, rules),
        *unknown,
    ]
    return tuple(dict.fromkeys(found))[:_MOST_UNREAD]


def _places(raw: Raw, templates: Iterable[Template]) -> Iterator[tuple[str, Raw]]:
    """Path -> labels or annotations, of the object and of its templates."""
    metadata = [("", raw.get("metadata"))]
    metadata += [(one.prefix, one.raw.get("metadata")) for one in templates if one.path]
    for prefix, held in metadata:
        if not isinstance(held, Mapping):
            continue
        for kind in _KINDS:
            if isinstance(found := held.get(kind), Mapping):
                yield f"{prefix}metadata.{kind}", found


def _of_schedulers(places: list[tuple[str, Raw]], rules: Rules) -> Iterator[str]:
    """Step 2 of `unread_requests`."""
    for path, found in places:
        for name in found:
            reader, instead = _READERS.get(name, ("", ""))
            if name.startswith(KOORDINATOR_GANG):
                reader, instead = "Koordinator's scheduler reads", _GANG_HERE
            if reader and not (name == GROVE_POD_GANG and rules.grove_pod_gangs):
                yield f"{path}[{shortened(name)}] has no effect: only {reader} it. {instead}".rstrip()


def _of_volcano_jobs(raw: Raw) -> Iterator[str]:
    """Step 2 of `unread_requests`, for the fields of a Volcano Job."""
    spec = raw.get("spec")
    if scheduler_of_pods(raw) is None or not isinstance(spec, Mapping):
        return
    tasks = found if isinstance(found := spec.get("tasks"), list) else []
    for path, below in [("spec", spec), *((f"spec.tasks[{index}]", task) for index, task in enumerate(tasks))]:
        for field, instead in _OF_VOLCANO.items() if isinstance(below, Mapping) else ():
            if below.get(field):
                yield f"{path}.{field} has no effect: only Volcano's scheduler reads it. {instead}"


def _exclusive(places: list[tuple[str, Raw]]) -> Iterator[str]:
    """Step 3 of `unread_requests`."""
    for path, found in places:
        for name in _EXCLUSIVE:
            if name in found:
                yield (
                    f"{path}[{name}] cannot be combined with a gang: its operator adds pod affinity, which is not "
                    "followed within a gang, and holds pods back until others are scheduled, which wait for the whole "
                    f"gang. Remove it. {KAI_SEGMENT_SIZE} and {KAI_SEGMENT_REQUIRED_PLACEMENT} keep the pods of a job "
                    "or replica in one domain."
                )


def _of_kueue(raw: Raw, places: list[tuple[str, Raw]], rules: Rules) -> Iterator[str]:
    """Step 4 of `unread_requests`."""
    if rules.kueue_annotations or why_kueues(raw):
        return
    for path, found in places:
        if path.endswith("annotations") and asks_kueue(found):
            yield f"{path}: Kueue's topology annotations are not read, because the setting kueueAnnotations is off."
            return


def _unknown_of_kueue(places: list[tuple[str, Raw]]) -> Iterator[str]:
    """Step 4 of `unread_requests`, for names that are not read at all.

    They are no annotation of Kueue, or one of a version that is not known here.
    """
    for path, found in places:
        for name in found if path.endswith("annotations") else ():
            if name.startswith(_OF_POD_SET) and name not in KUEUE_ANNOTATIONS:
                yield f"{path}[{shortened(name)}] is not read.{did_you_mean(name, KUEUE_ANNOTATIONS)}"


READ: Final = INHERITED | {INHERIT, INJECT_ENV, PCIE_ROOT}
"""The annotations that users write on pods and workloads."""

_OURS: Final = frozenset(name for name in vars(names).values() if isinstance(name, str) and name.startswith(OUR_DOMAIN))
# Longer than any name that we read: the cost of a comparison is the product of both lengths.
_LONGEST: Final = 80
# Ratios of equal letters. topology-required has 0.78 with topology-required-placement; names of KAI-Scheduler and
# Koordinator with another meaning have less than 0.7.
_SIMILAR: Final = 0.75
_SIMILAR_DOMAIN: Final = 0.85


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _split(name: str) -> tuple[str, str]:
    """The domain with its slash, and the word."""
    domain, slash, says = name.rpartition("/")
    return domain + slash, says


# Domain -> word -> name. Word -> its domains -> name.
_BY_DOMAIN: Final = {
    domain: {_split(name)[1]: name for name in sorted(READ) if _split(name)[0] == domain}
    for domain in {_split(name)[0] for name in READ}
}
_BY_SAYING: Final = {
    says: {_split(name)[0]: name for name in sorted(READ) if _plain(_split(name)[1]) == says}
    for says in {_plain(_split(name)[1]) for name in READ}
}
_NONE: Final[Mapping[str, str]] = {}


def is_compared(name: str) -> bool:
    """Whether `meant` compares this name, which takes up to a millisecond."""
    if name in READ or name in _OURS or name.startswith(DOMAIN_OF_LEVEL) or len(name) > _LONGEST:
        return False
    domain, says = _split(name)
    return domain in _BY_DOMAIN or _plain(says) in _BY_SAYING


@lru_cache(maxsize=1024)
def meant(name: str) -> str | None:
    """The name that this one most likely stands for; None if it is correct, or similar to none.

    A name is a domain, a slash and a word. Letters and digits are compared in lower case:
    1. In the same domain the word is similar, or is the beginning of ours.
    2. In a similar domain the word is the same.
    """
    if not is_compared(name):
        return None
    domain, says = _split(name)
    close = [
        *_close(says, _BY_DOMAIN.get(domain, _NONE), _SIMILAR),
        *_close(domain, _BY_SAYING.get(_plain(says), _NONE), _SIMILAR_DOMAIN),
    ]
    return max(close)[1] if close else None


def _close(word: str, wanted: Mapping[str, str], least: float) -> Iterator[tuple[float, str]]:
    """The similar candidates: the similarity of each, and the name that it belongs to."""
    matcher = SequenceMatcher(None, "", _plain(word), autojunk=False)
    for other, name in wanted.items():
        matcher.set_seq1(_plain(other))
        begins = other.startswith(f"{word}-") and "-" in word
        if begins or matcher.quick_ratio() >= least:
            similarity = matcher.ratio()
            if begins or similarity >= least:
                yield similarity, name


_LEVELS: Final = (KAI_REQUIRED_PLACEMENT, KAI_PREFERRED_PLACEMENT)
_SEGMENT_LEVELS: Final = (KAI_SEGMENT_REQUIRED_PLACEMENT, KAI_SEGMENT_PREFERRED_PLACEMENT)
# An object can have tens of thousands of names, and comparing one takes up to a millisecond.
_MOST_COMPARED: Final = 10
_MOST_PATHS: Final = 5
# A pod set has up to some thirty, and a workload a thousand pod sets.
_MOST_RULES: Final = 10
_PLACES_GROUPS: Final = "Only gate=Always and gate=WhenNeeded place gangs."
_READS_TEMPLATES: Final = (
    "Write the policy on the pod template: without one there, that of the namespace or of the settings counts."
)

Sets = Mapping[str, Mapping[str, Any]]
"""Path -> annotations, of the object and its templates."""


def annotation_warnings(raw: Mapping[str, Any], topologies: Mapping[str, Topology], rules: Rules) -> tuple[str, ...]:
    """The warnings about the annotations of an object; none if they are invalid, because then it is denied."""
    if is_made_by_another(raw):
        return ()
    sets = _sets(raw)
    if _is_others(raw, rules):
        return tuple(_of_volcano(raw, sets))
    is_whole = made_by(raw) is None
    return (
        *_mistyped(sets),
        *(_without_level(sets) if is_whole else ()),
        *(_without_gang(raw, sets) if is_whole else ()),
        *_coarser(raw, topologies),
        *unread_requests(raw, rules),
        *_ignored_rules(raw, sets, topologies),
        *_without_gate(raw, sets, rules),
    )


def unmanaged_warnings(raw: Mapping[str, Any], rules: Rules) -> tuple[str, ...]:
    """The warnings about a pod that is not ours: a misspelt name would have made it, a strategy alone does not."""
    if is_made_by_another(raw) or _is_others(raw, rules):
        return ()
    sets = _sets(raw)
    return (*_mistyped(sets), *_without_gang(raw, sets))


def _sets(raw: Mapping[str, Any]) -> Sets:
    found = islice(annotations_in(raw), MAX_POD_SETS)
    return {path: annotations for path, annotations in found if isinstance(annotations, Mapping)}


def _is_others(raw: Mapping[str, Any], rules: Rules) -> bool:
    """Whether all its pods have another scheduler."""
    schedulers = {template.scheduler for template in templates_in(raw)}
    return bool(schedulers) and schedulers.isdisjoint(rules.scheduler_names)


def _of_volcano(raw: Mapping[str, Any], sets: Sets) -> Iterator[str]:
    scheduler = scheduler_of_pods(raw)
    if scheduler is not None and (lost := _found(sets, INHERITED)):
        yield (
            f"The scheduler {shortened(scheduler)} places the pods of this Job, and these have no effect: "
            f"{_some(lost)}. Write spec.schedulerName: default-scheduler to have this service place them."
        )


def _mistyped(sets: Sets) -> Iterator[str]:
    names = ((path, name) for path, annotations in sets.items() for name in annotations if is_compared(name))
    for path, name in islice(names, _MOST_COMPARED):
        if wanted := meant(name):
            yield f"{path}[{shortened(name)}] is not read. Did you mean {wanted}?"


def _without_level(sets: Sets) -> Iterator[str]:
    levels = {key for annotations in sets.values() for key, text in annotations.items() if text}
    if levels.isdisjoint({*_LEVELS, *_SEGMENT_LEVELS}):
        for path in _places_of(sets, KAI_TOPOLOGY):
            yield (
                f"{path}[{KAI_TOPOLOGY}] names a topology and no level, so that nothing of it is required or "
                f"preferred. Name a level in {' or '.join(_LEVELS)}."
            )
    if levels.isdisjoint(_SEGMENT_LEVELS):
        for path in _places_of(sets, KAI_SEGMENT_SIZE):
            yield (
                f"{path}[{KAI_SEGMENT_SIZE}] has no level, so that no segments are made. "
                f"Name one in {' or '.join(_SEGMENT_LEVELS)}."
            )


def _without_gang(raw: Mapping[str, Any], sets: Sets) -> Iterator[str]:
    is_in_native_group = any(scheduling_group_of(template.raw) for template in templates_in(raw))
    if is_in_native_group or any(may_be_in_group(annotations) for annotations in sets.values()):
        return
    for path in _places_of(sets, STRATEGY):
        yield (
            f"{path}[{STRATEGY}] has no effect, because nothing else makes these pods a gang. Write {MIN_MEMBER}, or "
            f"{KAI_TOPOLOGY} with a level, beside it."
        )


def _places_of(sets: Sets, key: str) -> Iterator[str]:
    """The first path with this annotation."""
    return islice((path for path, annotations in sets.items() if annotations.get(key)), 1)


def _coarser(raw: Mapping[str, Any], topologies: Mapping[str, Topology]) -> Iterator[str]:
    try:
        workload = read_workload(raw)
        found = [
            sentence
            for gang in (workload.distinct if workload else ())
            for sentence in coarser_levels(gang, topology_of(gang, topologies), topologies)
        ]
    except UserError:
        return  # it is denied, or its topology may be created later
    yield from dict.fromkeys(found)


def _ignored_rules(raw: Mapping[str, Any], sets: Sets, topologies: Mapping[str, Topology]) -> Iterator[str]:
    if GROUP_ANNOTATIONS.isdisjoint(key for annotations in sets.values() for key in annotations):
        return
    found: list[str] = []
    try:
        workload = read_workload(raw)
        for gang in workload.distinct if workload else ():
            own = topology_of(gang, topologies)
            by_topology: dict[str, list[WorkloadPodSet]] = {}
            for pod_set, name in _with_topology(gang, own.name):
                by_topology.setdefault(name, []).append(pod_set)
            parts = [(name, pod_set) for name, pod_sets in by_topology.items() for pod_set in pod_sets]
            pods = [_rules_of(pod_set.template, workload.namespace if workload else "") for _, pod_set in parts]
            start = 0
            for name, pod_sets in by_topology.items():
                levels = own.node_labels if name == own.name else topology_named(name, topologies, "").node_labels
                for index, path in limits_of(pods[start : start + len(pod_sets)], levels)[1]:
                    found.append(ignored_rule_text(_below(pod_sets[index], path), name))
                start += len(pod_sets)
            across = rules_across(pods, [name for name, _ in parts])
            found += [rule_across_text(_below(parts[index][1], path)) for index, path in across]
    except UserError:
        return  # it is denied, or its topology may be created later
    texts = list(dict.fromkeys(found))
    yield from texts[:_MOST_RULES]
    if (more := len(texts) - _MOST_RULES) > 0:
        yield f"{counted(more, 'more rule of these pods is', 'more rules of these pods are')} not counted either."


def _with_topology(gang: WorkloadGang, topology: str) -> Iterator[tuple[WorkloadPodSet, str]]:
    """The pod sets of a gang, each with the name of the topology that it is in. topology: that of the gang above."""
    topology = gang.request.topology or topology
    yield from ((pod_set, topology) for pod_set in gang.pod_sets)
    for part in gang.gangs:
        yield from _with_topology(part, topology)


def _below(pod_set: WorkloadPodSet, path: str) -> str:
    return f"{pod_set.path}.{path}" if pod_set.path else path


def _rules_of(template: Mapping[str, Any], namespace: str) -> tuple[Mapping[str, str], PodExclusions | None]:
    labels = mapping(mapping(template, "metadata", "metadata"), "labels", "metadata.labels")
    return labels, PodExclusions.of(mapping(template, "spec", "spec"), namespace, labels)


def _without_gate(raw: Mapping[str, Any], sets: Sets, rules: Rules) -> Iterator[str]:
    if rules.gate != "Never":
        return
    of_pods = {f"{template.prefix}metadata.annotations" for template in templates_in(raw)}
    of_groups = _found(sets, GANG_REQUESTS)
    of_groups += [
        f"{template.prefix}spec.schedulingGroup.podGroupName"
        for template in islice(templates_in(raw), MAX_POD_SETS)
        if scheduling_group_of(template.raw)
    ]
    policies = _found({path: found for path, found in sets.items() if path not in of_pods}, _NUMA_NAMES)
    if lost := [*of_groups, *policies]:
        cures = [_PLACES_GROUPS] * bool(of_groups) + [_READS_TEMPLATES] * bool(policies)
        yield (
            "With the setting gate=Never pods are placed one by one, and these have no effect: "
            f"{_some(lost)}. {' '.join(cures)}"
        )


def _found(sets: Sets, keys: Collection[str]) -> list[str]:
    return [f"{path}[{key}]" for path, annotations in sets.items() for key in annotations if key in keys]


def _some(paths: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
    return f"{', '.join(paths[:_MOST_PATHS])}{more}"
