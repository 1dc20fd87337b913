"""Annotations that mean less than their user thinks: a warning each, at the creation of a workload or a bare pod."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import pod
from tests.builders.reviews import denied, review, warnings
from tests.handlers import mutated
from tests.unit.admission.workloads import RACK, SPEC, deployment, job, pytorch_job, template, workload
from webhook.admission.annotation_warnings import annotation_warnings
from webhook.admission.response import Allowed, Denied, Patched
from webhook.admission.workload.validate import WorkloadValidator
from webhook.formats.topology import Level, Topology, TopologySource
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    MIN_MEMBER,
    NUMA_TOPOLOGY_SPEC,
    POD_GROUP_NAME,
    STRATEGY,
)
from webhook.state.rules import Rules

LEVELS = (Level("topology.kubernetes.io/zone"), Level("example.com/block"), Level("example.com/rack"))
TOPOLOGIES = {"network": Topology("network", TopologySource.KAI, LEVELS)}
CLUSTER = replace(cluster_snapshot(node(name="a"), nrt(node="a", free=[16])), topologies=TOPOLOGIES)
MISTYPED = "kai.scheduler/topology-requierd-placement"
NAMED = {KAI_TOPOLOGY: "network"}
SEGMENTS = {KAI_SEGMENT_SIZE: "2"}
BALANCED = {STRATEGY: "Balanced"}
NEVER = Rules(gate="Never")


def told(raw: dict[str, Any], rules: Rules = NEVER, before: dict[str, Any] | None = None) -> list[str]:
    """What the API server prints of a workload, without what is said of gate=Never unless that is the rule."""
    return list(warnings(WorkloadValidator(lambda: CLUSTER, rules).handle(review(raw, before))))


def of(raw: dict[str, Any], before: dict[str, Any] | None = None) -> list[str]:
    return told(raw, Rules(), before)


COARSER = (
    '"zone" is coarser than the required level "rack" of topology network, and adds nothing to it. Name a finer level.'
)
ON, BELOW = "metadata.annotations", "spec.template.metadata.annotations"
IN_CRON_JOB = "spec.jobTemplate.spec.template.metadata.annotations"
IN_WORKER = "spec.pytorchReplicaSpecs.Worker.template.metadata.annotations"
IN_SET = "spec.leaderWorkerTemplate.workerTemplate.metadata.annotations"
NO_SUCH_NAME = f"[{MISTYPED}] is not read. Did you mean {KAI_REQUIRED_PLACEMENT}?"
NO_LEVEL = (
    f"[{KAI_TOPOLOGY}] names a topology and no level, so that nothing of it is required or preferred. "
    f"Name a level in {KAI_REQUIRED_PLACEMENT} or {KAI_PREFERRED_PLACEMENT}."
)
NO_SEGMENTS = (
    f"[{KAI_SEGMENT_SIZE}] has no level, so that no segments are made. Name one in "
    f"{KAI_SEGMENT_REQUIRED_PLACEMENT} or {KAI_SEGMENT_PREFERRED_PLACEMENT}."
)
NO_GANG = (
    f"[{STRATEGY}] has no effect, because nothing else makes these pods a gang. Write {MIN_MEMBER}, or "
    f"{KAI_TOPOLOGY} with a level, beside it."
)
CRON_JOB = workload("CronJob", {"jobTemplate": {"spec": {"template": template({MISTYPED: "rack"})}}})
COARSE_ROLE = pytorch_job(template(), template({**NAMED, KAI_REQUIRED_PLACEMENT: "zone"}), RACK)
LEADER_WORKER_SET = {
    "size": 4,
    "subGroupPolicy": {"subGroupSize": 2},
    "workerTemplate": template({KAI_SEGMENT_PREFERRED_PLACEMENT: "zone"}),
}


@pytest.mark.parametrize(
    ("raw", "warning"),
    [
        pytest.param(job({**RACK, MISTYPED: "rack"}), ON + NO_SUCH_NAME, id="mistyped beside others"),
        pytest.param(job({MISTYPED: "rack"}), ON + NO_SUCH_NAME, id="mistyped alone"),
        pytest.param(job(RACK, {MISTYPED: "rack"}), BELOW + NO_SUCH_NAME, id="mistyped on the template"),
        pytest.param(CRON_JOB, IN_CRON_JOB + NO_SUCH_NAME, id="mistyped in a CronJob"),
        pytest.param(job(NAMED), ON + NO_LEVEL, id="no level"),
        pytest.param(job(None, NAMED), BELOW + NO_LEVEL, id="no level on the template"),
        pytest.param(job({**NAMED, KAI_REQUIRED_PLACEMENT: ""}), ON + NO_LEVEL, id="empty level"),
        pytest.param(job({**RACK, **SEGMENTS}), ON + NO_SEGMENTS, id="segments without a level"),
        pytest.param(job(BALANCED), ON + NO_GANG, id="strategy without a gang"),
        pytest.param(job(None, BALANCED), BELOW + NO_GANG, id="strategy on the template without a gang"),
        pytest.param(
            job({**RACK, **SEGMENTS, KAI_SEGMENT_PREFERRED_PLACEMENT: "zone"}),
            f"{ON}[{KAI_SEGMENT_PREFERRED_PLACEMENT}]: {COARSER}",
            id="segments preferred in more than what is required",
        ),
        pytest.param(COARSE_ROLE, f"{IN_WORKER}[{KAI_REQUIRED_PLACEMENT}]: {COARSER}", id="a role in more than that"),
        pytest.param(
            workload("LeaderWorkerSet", {"leaderWorkerTemplate": LEADER_WORKER_SET}, RACK),
            f"{IN_SET}[{KAI_SEGMENT_PREFERRED_PLACEMENT}]: {COARSER}",
            id="segments of a LeaderWorkerSet, by their own annotation",
        ),
    ],
)
def test_what_means_less_than_its_user_thinks_is_told_once(raw: dict[str, Any], warning: str) -> None:
    assert of(raw) == [warning]


@pytest.mark.parametrize(
    "raw",
    [
        job(RACK),
        job(NAMED, {KAI_REQUIRED_PLACEMENT: "rack"}),
        job(NAMED, {KAI_PREFERRED_PLACEMENT: "rack"}),
        job({**NAMED, **SEGMENTS, KAI_SEGMENT_REQUIRED_PLACEMENT: "rack"}),
        job(RACK, NAMED),
        job({**RACK, **BALANCED}),
        job(RACK, BALANCED),
        job(BALANCED, RACK),
        job({**NAMED, KAI_REQUIRED_PLACEMENT: "zone", **SEGMENTS, KAI_SEGMENT_REQUIRED_PLACEMENT: "rack"}),
        job({**NAMED, KAI_PREFERRED_PLACEMENT: "rack", **SEGMENTS, KAI_SEGMENT_REQUIRED_PLACEMENT: "zone"}),
        job({**RACK, **SEGMENTS, KAI_SEGMENT_REQUIRED_PLACEMENT: "rack"}),
    ],
)
def test_a_level_anywhere_in_the_workload_a_gangs_strategy_and_finer_segments_are_as_they_should_be(
    raw: dict[str, Any],
) -> None:
    assert of(raw) == []


def test_of_many_mistyped_names_the_first_are_told() -> None:
    raw = job({f"kai.scheduler/topology-required-{number}": "x" for number in range(10_000)})
    assert 0 < len(of(raw)) <= 10


@pytest.mark.parametrize("strategy", ["Balanced", "balanced"])
@pytest.mark.parametrize("numa", [None, "{}"])
def test_a_bare_pods_strategy_is_told_whether_the_pod_is_managed_or_not(numa: str | None, strategy: str) -> None:
    response = created(pod(numa=numa, annotations={STRATEGY: strategy}))
    assert [warning.partition(",")[0] for warning in response.warnings] == [
        f"metadata.annotations[{STRATEGY}] has no effect"
    ]


def test_a_pod_of_a_scheduling_group_names_its_strategy() -> None:
    raw = pod(annotations=BALANCED)
    raw["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    assert annotation_warnings(raw, TOPOLOGIES, Rules()) == ()


def refused(raw: dict[str, Any]) -> str:
    return denied(WorkloadValidator(lambda: CLUSTER, Rules()).handle(review(raw))).message


def test_segments_required_in_more_than_what_the_workload_requires_are_refused() -> None:
    raw = job({**RACK, **SEGMENTS, KAI_SEGMENT_REQUIRED_PLACEMENT: "zone"})
    assert refused(raw) == f"metadata.annotations[{KAI_SEGMENT_REQUIRED_PLACEMENT}]: {COARSER}"
    worker = template({**NAMED, **SEGMENTS, KAI_SEGMENT_REQUIRED_PLACEMENT: "zone"})
    assert refused(pytorch_job(template(), worker, RACK)).startswith(f"{IN_WORKER}[{KAI_SEGMENT_REQUIRED_PLACEMENT}]: ")


def test_with_gate_never_what_a_group_asks_has_no_effect() -> None:
    assert told(job(RACK)) == [
        (
            "With the setting gate=Never pods are placed one by one, and these have no effect: "
            f"metadata.annotations[{KAI_TOPOLOGY}], metadata.annotations[{KAI_REQUIRED_PLACEMENT}]. "
            "Only gate=Always and gate=WhenNeeded place gangs."
        )
    ]


def test_nor_has_a_policy_that_pods_would_take_from_the_workload() -> None:
    numa = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "Restricted"}'}
    (warning,) = told(deployment(numa))
    assert warning == (
        "With the setting gate=Never pods are placed one by one, and these have no effect: "
        f"metadata.annotations[{NUMA_TOPOLOGY_SPEC}]. "
        "Write the policy on the pod template: without one there, that of the namespace or of the settings counts."
    )
    assert told(deployment(None, numa | {"note": "x"})) != [warning]
    assert all("gate=Never" not in one for one in told(deployment(None, numa)))


def test_an_update_is_told_of_what_is_new_only() -> None:
    assert of(job({**RACK, MISTYPED: "rack", "note": "x"}), before=job({**RACK, MISTYPED: "rack"})) == []
    assert len(of(job({**RACK, MISTYPED: "rack"}), before=job(RACK))) == 1
    scaled = job(NAMED)
    scaled["spec"]["parallelism"] = 9
    assert of(scaled, before=job(NAMED)) == []


def test_workloads_of_other_schedulers_are_left_to_them() -> None:
    for raw in (job({**NAMED, MISTYPED: "rack"}), workload("example.com/v1/Odd", {"template": template()}, NAMED)):
        raw["spec"]["template"] = {"spec": {**SPEC, "schedulerName": "kai-scheduler"}}
        assert of(raw) == []


def created(raw: dict[str, Any], rules: Rules | None = None) -> Allowed | Patched | Denied:
    response = mutated(review(raw), CLUSTER, rules or Rules())
    assert isinstance(response, Allowed | Patched | Denied)
    return response


def test_a_bare_pod_is_told_the_same() -> None:
    raw = pod()
    raw["metadata"]["annotations"] |= {**NAMED, MISTYPED: "rack"}
    first, second = created(raw).warnings
    assert first == f"metadata.annotations[{MISTYPED}] is not read. Did you mean {KAI_REQUIRED_PLACEMENT}?"
    assert second.startswith(f"metadata.annotations[{KAI_TOPOLOGY}] names a topology and no level")
    raw["metadata"]["annotations"] |= {KAI_REQUIRED_PLACEMENT: "rack"}
    del raw["metadata"]["annotations"][MISTYPED]
    assert created(raw).warnings == ()
    (never,) = created(raw, NEVER).warnings
    assert never.startswith("With the setting gate=Never")


def test_a_pod_of_a_controller_is_not_for_that_one_was_told() -> None:
    raw = pod()
    raw["metadata"]["annotations"] |= {**NAMED, MISTYPED: "rack"}
    raw["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": "w", "controller": True}]
    assert created(raw).warnings == ()


@pytest.mark.parametrize("value", [3, None, ["rack"], {"a": "b"}])
def test_values_and_objects_that_no_schema_has_looked_at_do_no_harm(value: Any) -> None:
    for raw in (
        workload("example.com/v1/Odd", {"template": {"metadata": {"annotations": {MISTYPED: value}}}}),
        workload("example.com/v1/Odd", {"template": {"metadata": {"annotations": value}}}, NAMED),
        workload("example.com/v1/Odd", {"template": {"metadata": {"annotations": {KAI_TOPOLOGY: value}}}}),
    ):
        assert all(isinstance(one, str) for one in annotation_warnings(raw, TOPOLOGIES, NEVER))


def apart(key: str, **more: Any) -> dict[str, Any]:
    """A pod that keeps pods of its app off its domain."""
    term = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": key, **more}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spreading(key: str, **more: Any) -> dict[str, Any]:
    rule = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": key, "maxSkew": 1}
    return {"topologySpreadConstraints": [{**rule, "whenUnsatisfiable": "DoNotSchedule", **more}]}


def gang_of(spec: dict[str, Any], annotations: dict[str, str] = RACK) -> dict[str, Any]:
    raw = job(annotations)
    metadata = {"labels": {"app": "w", "role": "x"}}
    raw["spec"]["template"] = {"metadata": metadata, "spec": {**SPEC, **spec}}
    return raw


HOST = "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        (apart(HOST), True),
        (apart("example.com/rack"), True),
        (apart("example.com/chassis"), False),
        (spreading(HOST), True),
        (spreading("example.com/block"), True),
        (spreading("example.com/chassis"), False),
        (spreading("example.com/chassis", whenUnsatisfiable="ScheduleAnyway"), True),
        (apart(HOST, labelSelector={"matchLabels": {"app": "other"}}), True),
        (apart("example.com/chassis", labelSelector=None), True),
        (apart(HOST, namespaceSelector={}), True),
        (apart(HOST, namespaceSelector={"matchLabels": {"team": "x"}}), False),
        (apart("example.com/chassis", namespaces=["elsewhere"]), True),
        (apart(HOST, mismatchLabelKeys=["role"]), True),
    ],
    ids=str,
)
def test_what_members_keep_off_each_other_is_counted_or_told(spec: dict[str, Any], counted: bool) -> None:
    found = of(gang_of(spec))
    assert len(found) == (not counted)
    assert all(
        "is not counted when the gang is placed" in text and text.startswith("spec.template.spec.") for text in found
    )
    assert of(gang_of(spec, {})) == []
    assert of(gang_of(spec), gang_of(spec)) == []


def test_a_rule_of_one_template_about_another_is_told_and_many_rules_are_bounded() -> None:
    lead = template()
    lead["metadata"]["labels"], worker = {"app": "lead"}, template()
    worker["metadata"]["labels"], worker["spec"] = {"app": "w"}, SPEC
    lead["spec"] = {**SPEC, **apart(HOST)}
    raw = pytorch_job(lead, worker, RACK)
    (warning,) = of(raw)
    assert warning.startswith("spec.pytorchReplicaSpecs.Master.template.spec.affinity.podAntiAffinity.")
    many = {"topologySpreadConstraints": spreading("example.com/chassis")["topologySpreadConstraints"] * 5_000}
    assert len(of(gang_of(many))) <= 20
    each = [spreading(f"example.com/chassis-{number}") for number in range(5_000)]
    several: dict[str, Any] = {
        "topologySpreadConstraints": [rule for one in each for rule in one["topologySpreadConstraints"]]
    }
    bare = pod(annotations={**RACK, POD_GROUP_NAME: "g"}, metadata={"labels": {"app": "w"}}, **several)
    *_, last = annotation_warnings(bare, TOPOLOGIES, Rules())
    assert last == "7 more rules of these pods are not counted either."
    odd = {"affinity": {"podAntiAffinity": "x"}, "topologySpreadConstraints": [7, {"maxSkew": "1"}]}
    assert of(gang_of({**odd, "containers": [{"name": "a", "ports": [{"hostPort": "x"}, 3]}]})) == []


PORT = {"containers": [{"name": "a", "ports": [{"hostPort": 80}]}]}
OTHER = {**TOPOLOGIES, "storage": Topology("storage", TopologySource.KAI, (Level("example.com/row"),))}
IN_A_ROW = {KAI_TOPOLOGY: "storage", KAI_REQUIRED_PLACEMENT: "row"}


@pytest.mark.parametrize(
    ("spec", "in_another", "rule"),
    [
        (apart(HOST), True, ["affinity.podAntiAffinity.", "affinity.podAntiAffinity."]),
        (spreading(HOST), True, ["topologySpreadConstraints[0] ", "topologySpreadConstraints[0] "]),
        (PORT, True, ["containers: the host port 80/TCP ", "containers: the host port 80/TCP "]),
        (apart(HOST, labelSelector={"matchLabels": {"role": "none"}}), True, []),
        (apart(HOST), False, []),
        (PORT, False, []),
    ],
    ids=str,
)
def test_a_rule_about_pods_in_another_topology_is_told(spec: dict[str, Any], in_another: bool, rule: list[str]) -> None:
    lead, worker = template(), template(IN_A_ROW if in_another else {})
    for below in (lead, worker):
        below["metadata"]["labels"], below["spec"] = {"app": "w"}, {**SPEC, **spec}
    raw = pytorch_job(lead, worker, RACK)
    found = annotation_warnings(raw, OTHER, Rules())
    assert len(found) == len(rule)
    for role, begins, text in zip(("Master", "Worker"), rule, found, strict=False):
        assert text.startswith(f"spec.pytorchReplicaSpecs.{role}.template.spec.{begins}")
        assert "is not counted between parts of the gang in different topologies" in text
