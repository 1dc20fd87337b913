"""Manifests that the peers document, in whole files as users apply them: a right answer, or a clear word.

Sources: kubernetes-sigs/jobset site/static/examples/workload-aware-scheduling and /simple; kubernetes-sigs/lws
docs/examples; kubernetes-sigs/kueue site/static/examples and keps/2724-topology-aware-scheduling; kubernetes/website
docs/concepts/workloads/workload-api; NVIDIA/KAI-Scheduler docs/developer/designs; koordinator-sh/koordinator.sh
docs/user-manuals. Only the facts are theirs: kinds, names of fields and annotations, and numbers.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.builders.native_pod_groups import native_pod_group
from tests.builders.nodes import node
from tests.builders.pod_groups import pod_group
from tests.builders.pods import plain
from tests.builders.workloads import workload
from tests.unit.cli.conftest import run_review
from webhook.model.raw import Draft

RACK, BLOCK = "topology.example.com/rack", "topology.example.com/block"
KUEUE = "kueue.x-k8s.io/podset-"
QUEUE = {"kueue.x-k8s.io/queue-name": "tas-user-queue"}


def topology(*levels: str) -> Draft:
    spec = {"levels": [{"nodeLabel": level} for level in levels]}
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "racks"}, "spec": spec}


# block-a ─┬─ rack-1 ── n0 [2]  n1 [1]        [free CPUs]
#          └─ rack-2 ── n2 [2]  n3 [2]
NODES = {"n0": ("1", 2), "n1": ("1", 1), "n2": ("2", 2), "n3": ("2", 2)}
CLUSTER = [
    topology(BLOCK, RACK),
    *(node(name=name, cpus=cpus, labels={BLOCK: "a", RACK: rack}) for name, (rack, cpus) in NODES.items()),
]


def answers(folder: Path, *objects: Draft, flags: tuple[str, ...] = ()) -> dict[str, Draft]:
    """Kind -> the entry of its last object."""
    (folder / "cluster.json").write_text("\n".join(map(json.dumps, CLUSTER)))
    (folder / "objects.json").write_text("\n".join(map(json.dumps, objects)))
    outcome = run_review("-f", folder / "objects.json", "-o", "json", *flags, cluster=folder / "cluster.json")
    assert outcome.code in {0, 1}, outcome.stderr
    return {entry["object"]["kind"]: entry for entry in outcome.json}


def template(cpu: str = "1", annotations: Mapping[str, str] | None = None, **spec: Any) -> Draft:
    container = {"name": "worker", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"annotations": dict(annotations or {})}, "spec": {"containers": [container], **spec}}


def job_set(
    replicas: int, pods: int, of: Draft, annotations: Mapping[str, str] | None = None, labels: Any = None
) -> Draft:
    spec = {"completions": pods, "parallelism": pods, "template": of}
    jobs = [{"name": "rj", "replicas": replicas, "template": {"spec": spec}}]
    metadata = {"labels": labels} if labels else {}
    return workload(kind="JobSet", name="js", annotations=annotations, metadata=metadata, spec={"replicatedJobs": jobs})


def native_workload(name: str, minimum: int) -> Draft:
    templates = [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": minimum}}}]
    body = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "metadata": {"name": name}}
    return {**body, "spec": {"podGroupTemplates": templates}}


IN_GROUP = {"schedulingGroup": {"podGroupName": "js-abc-workers-def"}}


@pytest.mark.parametrize(("cpu", "verdict"), [("500m", "allow"), ("1", "allow"), ("2", "wait")])
def test_jobsets_workload_pod_group_and_job_set_are_one_gang_in_one_rack(
    tmp_path: Path, cpu: str, verdict: str
) -> None:
    ref: Draft = {"podGroupTemplateRef": {"workload": {"workloadName": "js-abc", "podGroupTemplateName": "workers"}}}
    group = native_pod_group(name="js-abc-workers-def", minimum=4, level=RACK, **ref)
    found = answers(tmp_path, native_workload("js-abc", 4), group, job_set(2, 2, template(cpu, **IN_GROUP)))
    assert (found["JobSet"]["verdict"], found["PodGroup"]["warnings"]) == (verdict, [])
    if verdict == "allow":
        racks = {NODES[pod["node"]][0] for pod in found["JobSet"]["group"]["pods"]}
        assert (len(found["JobSet"]["group"]["pods"]), len(racks)) == (4, 1)


def test_its_groups_without_a_constraint_are_the_schedulers(tmp_path: Path) -> None:
    group = native_pod_group(name="js-abc-workers-def", minimum=6, priorityClassName="high", disruptionMode="PodGroup")
    found = answers(tmp_path, native_workload("js-abc", 6), group, job_set(3, 2, template("4", **IN_GROUP)))
    assert found["JobSet"]["message"].startswith("unmanaged: ")
    claims: Draft = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
    (warning,) = answers(tmp_path, native_pod_group(minimum=6, **claims))["PodGroup"]["warnings"]
    assert "need not be near the CPUs" in warning


def test_a_priority_class_in_the_scheduling_policy_is_not_the_groups(tmp_path: Path) -> None:
    group = native_pod_group(schedulingPolicy={"priorityClassName": "high-priority"})
    warnings = answers(tmp_path, group)["PodGroup"]["warnings"]
    assert "PodGroup g: spec.schedulingPolicy: This names neither gang nor basic. Write one of them." in warnings
    assert "spec.schedulingPolicy.priorityClassName is not read." in warnings


def test_a_group_with_an_invalid_constraint_holds_its_pods(tmp_path: Path) -> None:
    constraints: Draft = {"schedulingConstraints": {"topology": [{"key": BLOCK}, {"key": RACK}]}}
    member = plain(schedulingGroup={"podGroupName": "g"})
    found = answers(tmp_path, native_pod_group(minimum=1, **constraints), member)
    assert (found["Pod"]["verdict"], found["PodGroup"]["verdict"]) == ("wait", "wait")
    assert "There are 2 constraints, and only one is supported." in found["Pod"]["message"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("alpha.jobset.sigs.k8s.io/exclusive-topology", "JobSet"),
        ("leaderworkerset.sigs.k8s.io/exclusive-topology", "LeaderWorkerSet"),
    ],
)
def test_exclusive_placement_is_the_operators_and_no_gang_beside_it(tmp_path: Path, name: str, kind: str) -> None:
    def asked(annotations: Mapping[str, str]) -> Draft:
        if kind == "JobSet":
            return job_set(2, 1, template(), annotations)
        spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}}
        return workload(kind=kind, spec=spec, annotations=annotations)

    alone = answers(tmp_path, asked({name: RACK}))[kind]
    assert (alone["message"][:10], alone["warnings"]) == ("unmanaged:", [])
    level = {"kai.scheduler/topology": "racks", "kai.scheduler/topology-required-placement": BLOCK}
    (warning,) = answers(tmp_path, asked({name: RACK, **level}))[kind]["warnings"]
    assert "cannot be combined with a gang" in warning


SLICED = {f"{KUEUE}slice-required-topology": RACK, f"{KUEUE}slice-size": "2"}


@pytest.mark.parametrize(
    "asked", [{f"{KUEUE}required-topology": RACK}, SLICED, {f"{KUEUE}unconstrained-topology": "true"}]
)
def test_kueues_examples_name_a_queue_and_are_left_to_it(tmp_path: Path, asked: dict[str, str]) -> None:
    manifest = job_set(1, 4, template(annotations=asked), labels=QUEUE)
    theirs = answers(tmp_path, manifest, flags=("--kueue-annotations=true",))["JobSet"]
    assert "are left to Kueue, which manages its owner" in theirs["message"]
    del manifest["metadata"]["labels"]
    ours = answers(tmp_path, manifest, flags=("--kueue-annotations=true",))["JobSet"]
    assert (ours["verdict"], ours["warnings"]) == ("allow", [])
    off = answers(tmp_path, manifest)["JobSet"]
    assert "are Kueue's, which are not read" in off["message"]


def test_the_lists_of_slices_may_not_end_in_a_comma(tmp_path: Path) -> None:
    text = f'[{{"topology": "{BLOCK}", "size": "4"}},\n {{"topology": "{RACK}", "size": "2"}},\n]'

    def answer(layers: str) -> Draft:
        manifest = job_set(1, 4, template(annotations={f"{KUEUE}slice-required-topology-constraints": layers}))
        return answers(tmp_path, manifest, flags=("--kueue-annotations=true",))["JobSet"]

    faulty = answer(text)
    assert (faulty["verdict"], "is not valid JSON at line 3" in faulty["message"]) == ("deny", True)
    assert answer(text.replace("},\n]", "}]"))["verdict"] == "allow"


def test_kais_first_design_of_constraints_is_told_to_be_unread(tmp_path: Path) -> None:
    constraints = {"subGroups": {"decode": {"requiredTopologyLevel": "rack"}}}
    parts = ({"name": "decode", "minMember": 4}, {"name": "prefill", "minMember": 1})
    found = answers(tmp_path, pod_group(*parts, minMember=2, topologyConstraints=constraints))["PodGroup"]
    assert found["warnings"] == [
        "spec.minMember: 2 has no effect, because the subgroups below start together with 5 pods.",
        "spec.topologyConstraints is not read. Did you mean topologyConstraint?",
    ]


def test_kais_minimum_of_subgroups_is_its_default_or_refused(tmp_path: Path) -> None:
    parts = [{"name": f"prefill-{n}", "minMember": 8} for n in range(4)]
    (warning,) = answers(tmp_path, pod_group(*parts, minSubGroup=3))["PodGroup"]["warnings"]
    assert "spec.minSubGroup: 3 is not supported: all subgroups start together, and there are 4." in warning
    nested = [{"name": "above", "minSubGroup": 2}, *({**part, "parent": "above"} for part in parts[:2]), *parts[2:]]
    assert answers(tmp_path, pod_group(*parts, minSubGroup=4))["PodGroup"]["warnings"] == []
    assert answers(tmp_path, pod_group(*nested, minSubGroup=3))["PodGroup"]["warnings"] == []


@pytest.mark.parametrize("policy", ["FullPCPUs", "SpreadByPCPUs", "None"])
def test_koordinators_manifests_name_its_scheduler_and_without_it_nothing_is_ignored(
    tmp_path: Path, policy: str
) -> None:
    asked = {"scheduling.koordinator.sh/resource-spec": json.dumps({"preferredCPUBindPolicy": policy})}
    gang = {"gang.scheduling.koordinator.sh/name": "gang-example", "gang.scheduling.koordinator.sh/min-available": "2"}
    labels = {"koordinator.sh/qosClass": "LSR"}
    raw = plain(cpu=2, metadata={"labels": labels, "annotations": {**asked, **gang}}, schedulerName="koord-scheduler")
    assert "the scheduler koord-scheduler places it" in answers(tmp_path, raw)["Pod"]["message"]
    del raw["spec"]["schedulerName"]
    entry = answers(tmp_path, raw)["Pod"]
    assert entry["verdict"] == "allow"
    assert sum("has no effect: only Koordinator's scheduler" in text for text in entry["warnings"]) == (
        2 if policy == "None" else 3
    )


def test_a_pod_of_a_reservation_is_refused(tmp_path: Path) -> None:
    asked = {
        "scheduling.koordinator.sh/numa-topology-spec": '{"numaTopologyPolicy": ""}',
        "scheduling.koordinator.sh/reservation-affinity": json.dumps({"reservationSelector": {"app": "demo"}}),
    }
    entry = answers(tmp_path, plain(annotations=asked))["Pod"]
    assert (entry["verdict"], "requires a Reservation" in entry["message"]) == ("deny", True)
