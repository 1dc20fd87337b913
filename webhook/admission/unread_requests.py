"""Requests about a placement in the names of other projects, which only their own programs read: a warning for each.

1. Only a workload or bare pod that asks this service for a placement is warned. Others are not ours.
2. What Koordinator's, KAI's, Volcano's and the scheduler-plugins' schedulers read has no effect on a pod that another
   scheduler places. So has what a Job of Volcano says of a placement in fields of its own.
3. Exclusive placement by JobSet and LeaderWorkerSet: the operator adds pod affinity to the first pod of each job or
   replica, and creates the others after that pod is scheduled. A gang that starts together would wait for them.
4. Kueue's topology annotations, while the setting is off and nothing shows that Kueue manages the object. With the
   setting also on any other object, names of a pod set that are not read at all.

Source: koordinator apis/extension; jobset pkg/webhooks/pod_*.go; lws pkg/controllers/pod_controller.go; KAI-Scheduler
pkg/common/constants; scheduler-plugins apis/scheduling/v1alpha1; volcano.sh/apis pkg/apis/scheduling/v1beta1 and
batch/v1alpha1.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from webhook.admission.workload.templates import Template, templates_in
from webhook.formats.kubernetes.membership import GROUP_ANNOTATIONS
from webhook.formats.kubernetes.native_pod_group import scheduling_group_of
from webhook.formats.kueue import KUEUE_ANNOTATIONS, asks_kueue, why_kueues
from webhook.formats.workload.common_fields import MAX_POD_SETS
from webhook.formats.workload.volcano import scheduler_of_pods
from webhook.model.json_text import shortened
from webhook.model.names import (
    COSCHEDULING_POD_GROUP_LABEL,
    EXACT_MATCH_RESERVATION,
    GPU_FRACTION,
    GPU_MEMORY,
    JOBSET_EXCLUSIVE,
    KAI_REQUIRED_PLACEMENT,
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
    POD_GROUP_NAME,
    RESOURCE_SPEC,
    VOLCANO_GROUP,
    VOLCANO_NUMA_POLICY,
)
from webhook.model.nearest import did_you_mean
from webhook.model.raw import Raw
from webhook.state.rules import Rules

_NUMA: Final = frozenset({NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC})
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
_MOST: Final = 10
_KINDS: Final = ("labels", "annotations")


def unread_requests(raw: Raw, rules: Rules) -> tuple[str, ...]:
    """The warnings about an object's requests to others; none if it asks for nothing here."""
    templates = list(islice(templates_in(raw), MAX_POD_SETS))
    places = list(_places(raw, templates))
    annotations = [found for path, found in places if path.endswith("annotations")]
    in_gang = any(not GROUP_ANNOTATIONS.isdisjoint(each) for each in annotations)
    in_gang = in_gang or any(scheduling_group_of(template.raw) for template in templates)
    unknown = () if why_kueues(raw) else tuple(islice(_unknown_of_kueue(places), _MOST))
    if not in_gang and all(_NUMA.isdisjoint(each) for each in annotations):
        return unknown if rules.kueue_annotations else ()
    found = [
        *_of_schedulers(places),
        *_of_volcano(raw),
        *(_exclusive(places) if in_gang else ()),
        *_of_kueue(raw, places, rules),
        *unknown,
    ]
    return tuple(dict.fromkeys(found))[:_MOST]


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


def _of_schedulers(places: list[tuple[str, Raw]]) -> Iterator[str]:
    """Step 2."""
    for path, found in places:
        for name in found:
            reader, instead = _READERS.get(name, ("", ""))
            if name.startswith(KOORDINATOR_GANG):
                reader, instead = "Koordinator's scheduler reads", _GANG_HERE
            if reader:
                yield f"{path}[{shortened(name)}] has no effect: only {reader} it. {instead}".rstrip()


def _of_volcano(raw: Raw) -> Iterator[str]:
    """Step 2, for the fields of a Volcano Job."""
    spec = raw.get("spec")
    if scheduler_of_pods(raw) is None or not isinstance(spec, Mapping):
        return
    tasks = found if isinstance(found := spec.get("tasks"), list) else []
    for path, below in [("spec", spec), *((f"spec.tasks[{index}]", task) for index, task in enumerate(tasks))]:
        for field, instead in _OF_VOLCANO.items() if isinstance(below, Mapping) else ():
            if below.get(field):
                yield f"{path}.{field} has no effect: only Volcano's scheduler reads it. {instead}"


def _exclusive(places: list[tuple[str, Raw]]) -> Iterator[str]:
    """Step 3."""
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
    """Step 4."""
    if rules.kueue_annotations or why_kueues(raw):
        return
    for path, found in places:
        if path.endswith("annotations") and asks_kueue(found):
            yield f"{path}: Kueue's topology annotations are not read, because the setting kueueAnnotations is off."
            return


def _unknown_of_kueue(places: list[tuple[str, Raw]]) -> Iterator[str]:
    """Step 4: names of a pod set that are no annotation of Kueue, or of a version that is not known here."""
    for path, found in places:
        for name in found if path.endswith("annotations") else ():
            if name.startswith(_OF_POD_SET) and name not in KUEUE_ANNOTATIONS:
                yield f"{path}[{shortened(name)}] is not read.{did_you_mean(name, KUEUE_ANNOTATIONS)}"
