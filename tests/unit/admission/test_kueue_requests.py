"""Workloads and pods with Kueue's topology annotations, with and without the setting, and where Kueue manages them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node
from tests.builders.pods import plain
from tests.builders.reviews import denied, review, warnings
from tests.builders.topologies import topology
from tests.unit.admission.workloads import job, template, workload
from webhook.admission.kueue_requests import asked_workload
from webhook.admission.pod.mutate import PodMutator, decide_creation
from webhook.admission.response import Allowed, Denied, Patched
from webhook.admission.workload.validate import WorkloadValidator
from webhook.formats.patches.json_patch import apply
from webhook.placing.pod.decision import PodDecision
from webhook.state.rules import Rules

REQUIRED = {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}
GROUPED = {**REQUIRED, "kueue.x-k8s.io/podset-group-name": "both"}
OURS = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "example.com/rack"}
QUEUE = {"kueue.x-k8s.io/queue-name": "team"}
CLUSTER = cluster_snapshot(topology(labels=("example.com/zone", "example.com/rack")), node(name="a"))
ON = Rules(kueue_annotations=True)


def decided(annotations: Mapping[str, str], rules: Rules = ON, **how: Any) -> PodDecision:
    return decide_creation(review(plain(annotations=annotations, **how)), CLUSTER, rules)


def annotations_of(found: PodDecision) -> dict[str, str]:
    return dict(found.mutated["metadata"]["annotations"])


def judged(raw: dict[str, Any], before: dict[str, Any] | None = None, rules: Rules = ON) -> Allowed | Denied:
    return WorkloadValidator(lambda: CLUSTER, rules).handle(review(raw, before))


def leader_worker_set(leader: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, Any]:
    templates = {"size": 3, "leaderTemplate": template(leader), "workerTemplate": template(worker)}
    return workload("LeaderWorkerSet", {"leaderWorkerTemplate": templates})


def test_without_the_setting_kueues_annotations_ask_for_nothing() -> None:
    assert decided(REQUIRED, Rules()).operations == ()
    assert judged(job(None, {**REQUIRED, "kueue.x-k8s.io/podset-slice-size": "0"}), rules=Rules()) == Allowed()


def test_a_pod_gets_ours_for_kueues_and_the_gate() -> None:
    found = decided(REQUIRED)
    assert found.gated
    assert OURS.items() <= annotations_of(found).items()
    again = decide_creation(review(found.mutated), CLUSTER, ON)
    assert (again.mutated, again.warnings) == (found.mutated, ())


def test_an_unconstrained_pod_is_managed_and_in_no_gang() -> None:
    found = decided({"kueue.x-k8s.io/podset-unconstrained-topology": "true"})
    assert found.gated
    assert annotations_of(found)["topology-webhook.dev/managed"] == "annotated"


@pytest.mark.parametrize(
    "how",
    [
        {"metadata": {"labels": QUEUE, "annotations": REQUIRED}},
        {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]},
    ],
)
def test_a_pod_that_kueue_manages_is_left_to_it(how: dict[str, Any]) -> None:
    found = decided(REQUIRED, **how)
    assert found.operations == ()
    assert "its topology annotations are left to Kueue, which manages it (" in found.message


def test_a_faulty_annotation_denies_the_pod_and_its_workload_by_field() -> None:
    faulty = {"kueue.x-k8s.io/podset-required-topology": "example.com/row"}
    assert decided(faulty).reason == "InvalidAnnotation"
    verdict = denied(judged(job(None, faulty)))
    assert verdict.message == (
        'spec.template.metadata.annotations[kueue.x-k8s.io/podset-required-topology]: "example.com/row" is no level of '
        "Topology network. Its node labels: example.com/zone, example.com/rack. Did you mean example.com/zone?"
    )
    assert judged(job(None, faulty), job(None, faulty)) == Allowed()


def test_equal_creations_are_not_answered_once_for_two_members_of_a_gang() -> None:
    mutator = PodMutator(lambda: CLUSTER, ON)
    first, second = (mutator.handle(review(plain(name=name, annotations=REQUIRED))) for name in ("p-0", "p-1"))
    assert isinstance(first, Patched)
    assert isinstance(second, Patched)
    assert mutator._answers._answers == {}


def test_a_workload_that_kueue_manages_is_left_to_it_with_a_warning() -> None:
    raw = job(None, REQUIRED)
    raw["metadata"]["labels"] = QUEUE
    (warning,) = warnings(judged(raw))
    assert warning == (
        "Kueue places the pods of this workload (label kueue.x-k8s.io/queue-name), so its topology annotations are "
        "left to Kueue."
    )
    assert asked_workload(raw, CLUSTER.topologies, ON).raw is raw


def test_an_annotation_on_the_workload_itself_has_no_effect() -> None:
    (warning,) = warnings(judged(job(REQUIRED)))
    assert warning == (
        "metadata.annotations[kueue.x-k8s.io/podset-required-topology] has no effect here. "
        "Write it on the pod template."
    )


def test_the_pod_sets_of_a_group_ask_as_one_workload() -> None:
    read = asked_workload(leader_worker_set(GROUPED, GROUPED), CLUSTER.topologies, ON).raw
    assert read["metadata"]["annotations"] == OURS
    templates = read["spec"]["leaderWorkerTemplate"]
    assert templates["leaderTemplate"]["metadata"]["annotations"] == GROUPED
    alone = asked_workload(leader_worker_set(REQUIRED, REQUIRED), CLUSTER.topologies, ON).raw
    assert alone["metadata"]["annotations"] == {}
    assert OURS.items() <= alone["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["annotations"].items()


def test_a_group_is_read_the_same_when_its_templates_have_ours_already() -> None:
    both = leader_worker_set({**GROUPED, **OURS}, {**GROUPED, **OURS})
    read = asked_workload(both, CLUSTER.topologies, ON).raw
    assert read == asked_workload(leader_worker_set(GROUPED, GROUPED), CLUSTER.topologies, ON).raw


@pytest.mark.parametrize(
    ("leader", "worker", "says"),
    [
        (GROUPED, REQUIRED, "1 of 2 pod templates name a pod set group, "),
        (GROUPED, {**GROUPED, "kueue.x-k8s.io/podset-group-name": "other"}, "This is another pod set group than "),
        (GROUPED, {**GROUPED, "kueue.x-k8s.io/podset-required-topology": "example.com/zone"}, "same level"),
    ],
)
def test_a_group_that_is_not_the_whole_workload_is_refused(
    leader: dict[str, str], worker: dict[str, str], says: str
) -> None:
    verdict = denied(judged(leader_worker_set(leader, worker)))
    assert says in verdict.message


def test_the_patch_of_a_pod_makes_what_was_decided_on() -> None:
    raw = plain(annotations=REQUIRED)
    found = decide_creation(review(raw), replace(CLUSTER), ON)
    assert apply(raw, map(dict, found.operations)) == found.mutated


LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"


def layers(*of: tuple[int, str]) -> dict[str, str]:
    return {LAYERS: json.dumps([{"topology": f"example.com/{level}", "size": size} for size, level in of])}


def test_faults_and_warnings_name_the_annotations_that_the_user_wrote() -> None:
    verdict = denied(judged(job(None, layers((4, "rack"), (2, "zone")))))
    assert verdict.message.startswith(f'spec.template.metadata.annotations[{LAYERS}]: "example.com/zone" is not finer')
    sliced = {"kueue.x-k8s.io/podset-slice-required-topology": "example.com/zone", **REQUIRED}
    coarser = denied(judged(job(None, {**sliced, "kueue.x-k8s.io/podset-slice-size": "2"})))
    assert coarser.message.startswith(
        "spec.template.metadata.annotations[kueue.x-k8s.io/podset-slice-required-topology]: "
        '"example.com/zone" is coarser than the required level'
    )
    found = decided(layers((4, "rack"), (2, "zone")))
    assert found.message.startswith(f"metadata.annotations[{LAYERS}]: ")


def test_so_do_those_of_a_pod_set_group_and_ours_keep_their_names() -> None:
    grouped = asked_workload(leader_worker_set(GROUPED, GROUPED), CLUSTER.topologies, ON)
    ours, kueues = next((ours, kueues) for ours, kueues in grouped.paths.items() if "required" in ours)
    assert ours == "metadata.annotations[kai.scheduler/topology-required-placement]"
    assert kueues.endswith(".metadata.annotations[kueue.x-k8s.io/podset-required-topology]")
    both = asked_workload(job(None, {**OURS, **REQUIRED}), CLUSTER.topologies, ON)
    assert both.told("spec.template.metadata.annotations[kai.scheduler/topology-required-placement]") == (
        "spec.template.metadata.annotations[kai.scheduler/topology-required-placement]"
    )
