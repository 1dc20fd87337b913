"""What only other schedulers and operators read: who asks for a placement here is told that it has no effect."""

from typing import Any

import pytest

from tests.builders.pods import plain
from tests.unit.admission.workloads import RACK, job, job_set, template, workload
from webhook.admission.annotation_warnings import unread_requests
from webhook.model.names import NUMA_TOPOLOGY_SPEC
from webhook.state.rules import Rules

NUMA = {NUMA_TOPOLOGY_SPEC: "{}"}
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
KUEUES = {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}


def told(raw: dict[str, Any], **rules: Any) -> tuple[str, ...]:
    return unread_requests(raw, Rules(**rules))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gang.scheduling.koordinator.sh/name", "only Koordinator's scheduler reads it. For a gang here write"),
        ("scheduling.koordinator.sh/exact-match-reservation", "only Koordinator's scheduler reads it."),
        ("scheduling.koordinator.sh/device-allocate-hint", "only Koordinator's scheduler reads it."),
        ("scheduling.k8s.io/group-name", "only Volcano reads it. For a gang here write"),
        ("volcano.sh/numa-topology-policy", f"only Volcano reads it. Write {NUMA_TOPOLOGY_SPEC}."),
        ("gpu-fraction", "only KAI-Scheduler shares GPUs by it."),
    ],
)
def test_an_annotation_for_another_scheduler_is_named_with_its_reader(name: str, says: str) -> None:
    (on_pod,) = told(plain(annotations={**NUMA, name: "x"}))
    assert on_pod.startswith(f"metadata.annotations[{name}] has no effect: {says}")
    (on_template,) = told(job(NUMA, {name: "x"}))
    assert on_template.startswith(f"spec.template.metadata.annotations[{name}] has no effect: ")


@pytest.mark.parametrize("label", ["pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group"])
def test_so_is_a_label_that_names_a_gang_for_another_scheduler(label: str) -> None:
    (warning,) = told(plain(metadata={"labels": {label: "g"}, "annotations": NUMA}))
    assert warning.startswith(f"metadata.labels[{label}] has no effect: ")


UNKNOWN = "kueue.x-k8s.io/podset-require-topology"


def test_a_name_of_a_pod_set_that_is_not_known_is_named_unless_kueue_places_the_pods() -> None:
    said = f"[{UNKNOWN}] is not read. Did you mean kueue.x-k8s.io/podset-required-topology?"
    assert told(job({}, {UNKNOWN: "rack"}), kueue_annotations=True) == (f"spec.template.metadata.annotations{said}",)
    assert told(plain(annotations={UNKNOWN: "rack"}), kueue_annotations=True) == (f"metadata.annotations{said}",)
    assert told(plain(annotations={**NUMA, UNKNOWN: "rack"})) == (f"metadata.annotations{said}",)
    assert told(plain(annotations={UNKNOWN: "rack"})) == ()
    queued = plain(metadata={"annotations": {**NUMA, UNKNOWN: "x"}, "labels": {"kueue.x-k8s.io/queue-name": "q"}})
    assert told(queued, kueue_annotations=True) == ()
    hostile = {f"kueue.x-k8s.io/podset-{number}\x1b{'x' * 9_000}": "" for number in range(99)}
    warnings = told(plain(annotations=hostile), kueue_annotations=True)
    assert len(warnings) == 10
    assert all(one.isprintable() and len(one) < 200 for one in warnings)


def test_who_asks_for_nothing_here_is_not_told() -> None:
    theirs = {"gang.scheduling.koordinator.sh/name": "g", EXCLUSIVE: "rack", **KUEUES}
    assert told(plain(annotations=theirs)) == told(job(theirs, theirs)) == ()


def test_exclusive_placement_by_an_operator_and_a_gang_wait_for_each_other() -> None:
    below = {"spec": {"template": template()}}
    (warning,) = told(job_set(below, annotations={**RACK, EXCLUSIVE: "rack"}))
    assert warning.startswith(f"metadata.annotations[{EXCLUSIVE}] cannot be combined with a gang: ")
    # Pods that are placed one by one follow it: the scheduler picks the node of the first one of each job.
    assert told(job_set(below, annotations={**NUMA, EXCLUSIVE: "rack"})) == ()
    lws = "leaderworkerset.sigs.k8s.io/exclusive-topology"
    templates = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}}
    assert told(workload("LeaderWorkerSet", templates, {**RACK, lws: "rack"}))


def test_kueues_annotations_are_not_read_while_the_setting_is_off() -> None:
    raw = job(NUMA, KUEUES)
    (warning,) = told(raw)
    assert warning.startswith("spec.template.metadata.annotations: Kueue's topology annotations are not read")
    assert told(raw, kueue_annotations=True) == ()
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    assert told(raw) == ()


def test_many_are_told_of_ten_and_odd_types_of_none() -> None:
    many = {f"gang.scheduling.koordinator.sh/{'x' * 200}{n}": "" for n in range(1_000)}
    found = told(plain(annotations={**NUMA, **many}))
    assert len(found) <= 10
    assert all(len(text) < 400 for text in found)
    assert told({"metadata": {"annotations": NUMA, "labels": ["x"]}, "spec": {"containers": []}}) == ()
