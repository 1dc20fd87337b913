"""Workloads as they are written: what their pods would fail over is refused with the field, the value and the cure."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.reviews import denied, review, warnings
from tests.unit.admission.workloads import RACK, SPEC, job, job_set, pytorch_job, template, workload
from webhook.admission.response import Allowed, Denied
from webhook.admission.workload.validate import WorkloadValidator
from webhook.formats.topology import Level, Topology, TopologySource
from webhook.formats.workload.readers import MAKERS
from webhook.state.rules import Rules

LEVELS = (Level("topology.kubernetes.io/zone"), Level("example.com/rack"))
TOPOLOGIES = {"network": Topology("network", TopologySource.KAI, LEVELS)}
ROW = {**RACK, "kai.scheduler/topology-required-placement": "racks"}
TOPOLOGY_ON_TEMPLATE = "spec.template.metadata.annotations[kai.scheduler/topology]: "
BAD_NUMA = {"scheduling.koordinator.sh/numa-topology-spec": '{"numaTopologyPolicy": "SingleNuma"}'}
REQUIRED = "kai.scheduler/topology-required-placement"
NUMA, STATUS = "topology-webhook.dev/numa", "scheduling.koordinator.sh/resource-status"
ONLY_OURS = "Only topology-webhook writes this, into pods. Leave it out."
SWITCHES = "topology-webhook.dev/inherit", "topology-webhook.dev/inject-env"


def judged(raw: dict[str, Any], before: dict[str, Any] | None = None) -> Allowed | Denied:
    cluster = replace(cluster_snapshot(), topologies=TOPOLOGIES)
    return WorkloadValidator(lambda: cluster, Rules()).handle(review(raw, before))


@pytest.mark.parametrize(
    "raw",
    [
        job(),
        job(RACK),
        job(None, RACK),
        job({"kai.scheduler/batch-min-member": "2"}),
        job({NUMA: "{}"}),
        job(None, {"topology-webhook.dev/placement": "placed"}),  # mutation writes it again
        *(job(None, {key: "true"}) for key in SWITCHES),
        workload("Job", {"parallelism": 150_001, "template": template()}),
        workload("Job", {"parallelism": "many", "template": template()}, RACK),  # the kind itself refuses it
    ],
)
def test_what_can_be_meant_so_passes(raw: dict[str, Any]) -> None:
    assert judged(raw) == Allowed()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        *(
            (job(None, {key: "{}"}), f"spec.template.metadata.annotations[{key}]: {ONLY_OURS}")
            for key in (NUMA, STATUS)
        ),
        (
            job(ROW),
            (
                f'metadata.annotations[{REQUIRED}]: "racks" is no level of topology network. Its levels are, from '
                "coarse to fine: topology.kubernetes.io/zone, example.com/rack. Did you mean rack?"
            ),
        ),
        *(
            (
                job(None, {key: "yes"}),
                f'spec.template.metadata.annotations[{key}]: "yes" is not allowed here. Write "true" or "false".',
            )
            for key in SWITCHES
        ),
        (
            workload("Job", {"parallelism": 150_001, "template": template()}, RACK),
            "spec.parallelism: 150001 is not a number of pods. Write a whole number from 0 to 150000.",
        ),
    ],
    ids=["NUMA nodes", "resource status", "unknown level", "inherit", "inject-env", "more pods than any cluster runs"],
)
def test_what_pods_would_fail_over_is_refused_with_the_cure_and_what_was_let_in_may_stay(
    raw: dict[str, Any], message: str
) -> None:
    verdict = denied(judged(raw))
    assert (verdict.reason, verdict.message) == ("InvalidAnnotation", message)
    assert judged(raw, raw) == Allowed()


@pytest.mark.parametrize(
    ("raw", "path", "says"),
    [
        (job(None, {**RACK, "kai.scheduler/topology": "netwrok"}), TOPOLOGY_ON_TEMPLATE, "Did you mean network?"),
        (job(ROW, BAD_NUMA), "", "racks"),
        (job(ROW, BAD_NUMA), "", "SingleNuma"),
        (job(None, {"kai.scheduler/segment-size": 4}), "", "must be text, not 4"),
        (
            workload(
                "LeaderWorkerSet",
                {"replicas": 150_000, "leaderWorkerTemplate": {"size": 150_000, "workerTemplate": template()}},
                RACK,
            ),
            "",
            "Together these are 22500000000 pods",
        ),
    ],
    ids=["unknown topology", "of several faults one", "and the other", "no text", "a product beyond any cluster"],
)
def test_other_faults_are_refused_with_their_place_and_value(raw: dict[str, Any], path: str, says: str) -> None:
    verdict = denied(judged(raw))
    assert verdict.message.startswith(path)
    assert says in verdict.message


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (workload("CronJob", {"jobTemplate": {"spec": {"template": template(ROW)}}}), "spec.jobTemplate"),
        (workload("Deployment", {"template": template(ROW)}), "spec.template"),
        (job_set({"spec": {"template": template(ROW)}}), "spec.replicatedJobs[0].template.spec.template"),
        (pytorch_job(template(), template(ROW)), "spec.pytorchReplicaSpecs.Worker.template"),
        (
            workload(
                "RayJob",
                {
                    "rayClusterSpec": {
                        "headGroupSpec": {"template": template()},
                        "workerGroupSpecs": [{"replicas": 2, "template": template(ROW)}],
                    }
                },
            ),
            "spec.rayClusterSpec.workerGroupSpecs[0].template",
        ),
        (
            workload("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template(ROW)}}),
            "spec.leaderWorkerTemplate.workerTemplate",
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_every_kind_is_read_down_to_its_templates(raw: dict[str, Any], path: str) -> None:
    verdict = denied(judged(raw))
    assert verdict.message.startswith(path)
    assert "Did you mean rack?" in verdict.message


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (job(BAD_NUMA), "metadata.annotations["),
        (job(None, BAD_NUMA), "spec.template.metadata.annotations["),
        (workload("example.com/v1/Unheard", {"pods": [{"template": template(BAD_NUMA)}]}), "spec.pods[0].template."),
    ],
    ids=["workload", "template", "any kind"],
)
def test_numa_annotations_are_judged_wherever_they_stand(raw: dict[str, Any], path: str) -> None:
    verdict = denied(judged(raw))
    assert verdict.message.startswith(path)
    assert verdict.message.count('SingleNuma" is unknown') == 1
    assert "Did you mean SingleNUMANode?" in verdict.message


def test_unknown_fields_are_warned_about() -> None:
    odd = {"scheduling.koordinator.sh/numa-topology-spec": '{"numaTopologyPolice": "Restricted"}'}
    (warning,) = warnings(judged(job(None, odd)))
    assert "Did you mean numaTopologyPolicy?" in warning


def test_a_workload_that_was_let_in_is_scaled_and_one_that_becomes_faulty_is_refused() -> None:
    scaled = job(ROW)
    scaled["spec"]["parallelism"] = 3
    assert judged(scaled, before=job(ROW)) == Allowed()
    assert isinstance(judged(job(ROW), before=job(RACK)), Denied)


def test_workloads_of_other_schedulers_are_left_to_them() -> None:
    raw = job(ROW)
    raw["spec"]["template"] = {"spec": {**SPEC, "schedulerName": "kai-scheduler"}}
    assert judged(raw) == Allowed()


def made_by(raw: dict[str, Any], api_version: str, kind: str) -> dict[str, Any]:
    reference = {"apiVersion": api_version, "kind": kind, "name": "train", "controller": True}
    return {**raw, "metadata": {**raw["metadata"], "ownerReferences": [reference]}}


@pytest.mark.parametrize(("group", "kind"), sorted(MAKERS))
def test_what_a_controller_makes_of_a_workload_that_is_read_was_judged_with_it(group: str, kind: str) -> None:
    assert judged(made_by(job(ROW), f"{group}/v1" if group else "v1", kind)) == Allowed()


@pytest.mark.parametrize("raw", [job(ROW), job(None, ROW), job(BAD_NUMA)], ids=["on it", "on its template", "numa"])
@pytest.mark.parametrize(("group", "kind"), [("kubeflow.org", "Trial"), ("example.com", "Job"), ("", "JobSet")])
def test_what_any_other_controller_makes_is_judged_as_a_users_own(raw: dict[str, Any], group: str, kind: str) -> None:
    assert judged(made_by(raw, f"{group}/v1" if group else "v1", kind)) == judged(raw) != Allowed()


def test_of_what_an_unread_controller_makes_the_controller_may_name_the_topology() -> None:
    level = {key: text for key, text in RACK.items() if key != "kai.scheduler/topology"}
    assert isinstance(judged(job(level)), Denied)
    assert judged(made_by(job(level), "workload.codeflare.dev/v1beta2", "AppWrapper")) == Allowed()


def volcano_job(scheduler: str = "", **task: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"tasks": [{"name": "a", "replicas": 1, "template": template(), **task}]}
    if scheduler:
        spec["schedulerName"] = scheduler
    return workload("batch.volcano.sh/v1alpha1/Job", spec, RACK)


def test_who_leaves_a_volcano_job_to_volcanos_scheduler_is_told_that_nothing_here_is_read() -> None:
    (warning,) = warnings(judged(volcano_job()))
    assert warning == (
        "The scheduler volcano places the pods of this Job, and these have no effect: "
        "metadata.annotations[kai.scheduler/topology], metadata.annotations[kai.scheduler/topology-required-placement]."
        " Write spec.schedulerName: default-scheduler to have this service place them."
    )
    assert judged(volcano_job("default-scheduler")) == Allowed()


def test_and_what_only_that_scheduler_reads_of_a_job_that_is_placed_here_is_named() -> None:
    raw = volcano_job("default-scheduler", topologyPolicy="restricted", partitionPolicy={"partitionSize": 2})
    raw["spec"]["networkTopology"] = {"mode": "hard"}
    fields = ["spec.networkTopology", "spec.tasks[0].partitionPolicy", "spec.tasks[0].topologyPolicy"]
    assert [text.partition(" ")[0] for text in warnings(judged(raw))] == fields


@pytest.mark.parametrize("spec", ["x", 3, [1], {"containers": 7}, {"schedulerName": ["a"]}])
def test_templates_that_no_schema_has_looked_at_do_no_harm(spec: Any) -> None:
    roles = {"Worker": {"template": {"metadata": {"annotations": RACK}, "spec": spec}}}
    raw = workload("PyTorchJob", {"pytorchReplicaSpecs": roles}, ROW)
    assert isinstance(judged(raw), Allowed | Denied)


def test_variables_are_asked_for_on_the_template() -> None:
    assert warnings(judged(job({"topology-webhook.dev/inject-env": "true"}))) == (
        "metadata.annotations[topology-webhook.dev/inject-env] has no effect here. Write it on the pod template.",
    )


@pytest.mark.parametrize(
    ("kind", "spec", "cure"),
    [
        ("StatefulSet", {"replicas": 3}, "podManagementPolicy: Parallel"),
        (
            "LeaderWorkerSet",
            {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 3, "workerTemplate": template()}},
            "startupPolicy: LeaderCreated",
        ),
        (
            "MPIJob",
            {
                "launcherCreationPolicy": "WaitForWorkersReady",
                "mpiReplicaSpecs": {"Launcher": {"template": template()}, "Worker": {"template": template()}},
            },
            "launcherCreationPolicy: AtStartup",
        ),
    ],
)
def test_pods_that_are_made_when_others_run_cannot_start_with_them(kind: str, spec: dict[str, Any], cure: str) -> None:
    key = "topology-webhook.dev/min-member"
    asks = workload(kind, {"template": template(), **spec}, {key: "3"})
    verdict = denied(judged(asks))
    assert verdict.message.startswith(f"metadata.annotations[{key}]: ")
    assert verdict.message.endswith(f". Write spec.{cure}, or leave this out.")
    field, _, value = cure.partition(": ")
    assert judged({**asks, "spec": {**asks["spec"], field: value}}) == Allowed()


def test_a_minimum_on_the_template_is_told_there() -> None:
    key = "topology-webhook.dev/min-member"
    verdict = denied(judged(workload("StatefulSet", {"replicas": 3, "template": template({key: "2"})})))
    told = (
        f"spec.template.metadata.annotations[{key}]: 2 pods never start together here: before one of them runs there "
    )
    assert verdict.message.startswith(f"{told}are no more than 1.")
    assert judged(workload("StatefulSet", {"replicas": 1, "template": template({key: "2"})})) == Allowed()
