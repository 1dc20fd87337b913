"""Workloads whose own annotations ask for a placement: their templates say so to their pods, and nothing else."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders.reviews import review
from tests.unit.admission.workloads import RACK, SPEC, deployment, job, template, workload
from webhook.admission.response import Allowed, Patched
from webhook.admission.workload.mutate import WorkloadMutator
from webhook.formats.patches.json_patch import apply
from webhook.model.names import INHERIT, STRATEGY
from webhook.state.rules import Rules

NUMA = {"scheduling.koordinator.sh/numa-topology-spec": "{}"}
MARK = {INHERIT: "true"}


def marked(raw: dict[str, Any], before: dict[str, Any] | None = None) -> dict[str, Any]:
    response = WorkloadMutator(Rules()).handle(review(raw, before))
    if isinstance(response, Allowed):
        return raw
    assert isinstance(response, Patched)
    document: dict[str, Any] = apply(raw, map(dict, response.patch))
    return document


def on_template(raw: Mapping[str, Any]) -> dict[str, str]:
    annotations: dict[str, str] = (raw["spec"]["template"].get("metadata") or {}).get("annotations") or {}
    return annotations


@pytest.mark.parametrize(
    ("raw", "mark"),
    [
        (job(RACK), MARK),
        (job(NUMA), MARK),
        (job(RACK, NUMA), {**NUMA, **MARK}),
        (job(RACK, RACK), RACK),
        (job(RACK, {INHERIT: "false"}), {INHERIT: "false"}),
        (job({"note": "x"}), {}),
        (job(None, RACK), RACK),
        (job({STRATEGY: "Balanced"}), {}),
        (job(RACK, {STRATEGY: "Balanced"}), {STRATEGY: "Balanced", **MARK}),
    ],
)
def test_a_template_is_marked_when_the_workload_asks_and_the_template_makes_no_group(
    raw: dict[str, Any], mark: dict[str, str]
) -> None:
    assert on_template(marked(raw)) == mark


def test_templates_of_any_depth_are_found_below_whatever_asks() -> None:
    jobs = [
        {"name": "a", "template": {"metadata": {"annotations": RACK}, "spec": {"template": {"spec": SPEC}}}},
        {"name": "b", "template": {"spec": {"template": {"metadata": None, "spec": SPEC}}}},
    ]
    found = marked(workload("JobSet", {"replicatedJobs": jobs}))["spec"]["replicatedJobs"]
    assert found[0]["template"]["spec"]["template"]["metadata"] == {"annotations": MARK}
    assert found[1] == jobs[1]
    whole = marked(workload("JobSet", {"replicatedJobs": jobs}, RACK))
    assert whole["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["metadata"] == {"annotations": MARK}


def test_what_another_scheduler_places_is_left_alone() -> None:
    raw = job(RACK)
    raw["spec"]["template"] = {"spec": {**SPEC, "schedulerName": "volcano"}}
    assert marked(raw) == raw


def test_a_mark_stays_through_an_update_that_leaves_it_out() -> None:
    assert on_template(marked(job(RACK), before=job(RACK, MARK))) == MARK
    # a Job's template cannot change, so neither can the mark when the wish is gone
    assert on_template(marked(job(), before=job(RACK, MARK))) == MARK
    assert on_template(marked(deployment(), before=deployment(RACK, MARK))) == {}


def test_a_new_wish_marks_templates_that_may_change_and_no_others() -> None:
    assert on_template(marked(deployment(RACK), before=deployment())) == MARK
    assert on_template(marked(job(RACK), before=job())) == {}


def test_an_update_that_asks_for_nothing_new_makes_no_new_pods() -> None:
    assert on_template(marked(deployment(RACK), before=deployment(RACK))) == {}


def test_a_rollout_marks_what_was_there_before_this_service_and_scaling_it_does_not() -> None:
    before, scaled, restarted = deployment(RACK), deployment(RACK), deployment(RACK, {"restartedAt": "now"})
    scaled["spec"]["replicas"] = 3
    assert on_template(marked(scaled, before)) == {}
    assert on_template(marked(restarted, before)) == {"restartedAt": "now", **MARK}
    assert on_template(marked(job(RACK, {"note": "x"}), before=job(RACK))) == {"note": "x"}


def test_the_pod_that_submits_a_ray_jobs_work_is_no_part_of_its_cluster() -> None:
    cluster = {"headGroupSpec": {"template": template()}}
    spec = {"rayClusterSpec": cluster, "submitterPodTemplate": template()}
    found = marked(workload("RayJob", spec, RACK))["spec"]
    assert found["rayClusterSpec"]["headGroupSpec"]["template"]["metadata"]["annotations"] == MARK
    assert found["submitterPodTemplate"] == template()


@pytest.mark.parametrize(
    "odd",
    [
        {"metadata": "x", "spec": SPEC},
        {"metadata": {"annotations": "x"}, "spec": SPEC},
        {"metadata": {"annotations": ["x"]}, "spec": SPEC},
        {"spec": {**SPEC, "schedulerName": ["x"]}},
        {"spec": {**SPEC, "schedulerName": {"x": 1}}},
    ],
)
def test_what_is_no_pod_in_a_template_without_a_schema_is_left_as_it_is(odd: dict[str, Any]) -> None:
    raw = workload("example.com/v1/Odd", {"template": odd}, RACK)
    assert marked(raw) == raw
