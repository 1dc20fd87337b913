"""`topology-webhook explain KIND/NAME`: pods and workloads of a snapshot.

The cluster is that of tests/unit/views/racks.py; its numbers are worked out there.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.clusters import machine as fleet_machine
from tests.builders.devices import claim, claim_template, device_class, gpus, resource_slice
from tests.builders.pods import bound, created, gated
from tests.builders.workloads import workload
from tests.unit.cli.cluster_files import fields_of, written
from tests.unit.cli.conftest import Printed, run_command
from tests.unit.views.one_node import allocated, allocated_on
from tests.unit.views.racks import RACK, TOPOLOGY, ZONE, cluster, machine
from webhook.model.names import KAI_OBSERVED_PLACEMENT, MIN_MEMBER, PLACEMENT

NETWORK = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}
CONDITION = {
    "type": "topology-webhook.dev/Placed",
    "status": "False",
    "reason": "NoSingleNUMANode",
    "message": "waiting: x",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
}

NOWHERE = (
    "now fits nowhere: SingleNUMANode: none of 5 nodes fits now; none could align it even if it were empty: it asks "
    "for 20 cpu in one NUMA node, the largest has 16 (n0, NUMA 0); excluded: 2 insufficient resources, 1 cordoned, 1 "
    "no NUMA topology known, 1 no single NUMA node with 20 cpu, 1Gi memory"
)
FREE = "NUMA 0: 15 cpu, 64Gi memory free; NUMA 1: 16 cpu, 64Gi memory free"


def owned(kind: str, name: str, group: str = "batch", **metadata: Any) -> dict[str, Any]:
    reference = {"apiVersion": f"{group}/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    return {"ownerReferences": [reference], **metadata}


def test_a_node_that_rejected_a_pod_of_the_same_controller_is_avoided(tmp_path: Path) -> None:
    # n0 ── NUMA 0 [8]      [free cpus]
    status = {"phase": "Failed", "reason": "TopologyAffinityError", "startTime": "2030-01-01T00:00:00Z"}
    path = written(
        tmp_path,
        *fleet_machine(name="n0", free=(8,)),
        bound(name="first", node="n0", status=status, metadata=owned("ReplicaSet", "web", "apps")),
        gated(name="next", metadata=owned("ReplicaSet", "web", "apps")),
    )
    out = run_command("explain", "pod/next", cluster=path).stdout
    assert "1 node would fit but is avoided for now: it is used again once its NodeResourceTopology is newer" in out


def index(rank: int) -> dict[str, str]:
    return {"batch.kubernetes.io/job-completion-index": str(rank)}


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    waits = {PLACEMENT: "waiting: no single NUMA node with 20 cpu\nexcluded: 3 full"}
    return written(
        tmp_path,
        *cluster(),
        {**gated(name="large", cpu=20, annotations=waits), "status": {"conditions": [CONDITION]}},
        bound(name="job-b", node="n0", cpu=1, annotations=index(0) | allocated(1, 1), metadata=owned("Job", "train")),
        bound(name="job-a", node="n1", cpu=1, annotations=index(1), metadata=owned("Job", "train")),
        gated(name="job-c", cpu=20, annotations=index(2), metadata=owned("Job", "train")),
        bound(name="web-1", node="n3", cpu=1, numa=None, metadata=owned("ReplicaSet", "web-7d9f", "apps")),
        bound(name="web-2", node="n3", cpu=1, numa=None, metadata=owned("ReplicaSet", "web-api-5c4b", "apps")),
        *(gated(name=f"gang-{rank}", group="gang", cpu=16, annotations=NETWORK) for rank in range(3)),
    )


def explain(snapshot: Path, *arguments: object) -> Printed:
    return run_command("explain", *arguments, cluster=snapshot)


def lines(outcome: Printed) -> list[str]:
    return [" ".join(line.split()) for line in outcome.stdout.splitlines()]


# n0 ── NUMA 0 [16 of 16 free CPUs]  NUMA 1 [12 of 16]
def test_a_bound_pod_says_how_its_numa_nodes_are_known_and_which_observation_is_ignored(tmp_path: Path) -> None:
    def seen_on(numa: int) -> tuple[list[str], list[str]]:
        zone = {"zone": f"node-{numa}", "amount": {"cpu": "4"}}
        annotations = {**allocated_on("n0", 0, 4), KAI_OBSERVED_PLACEMENT: json.dumps([zone])}
        status = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}
        pod = bound(name="p", node="n0", cpu=4, annotations=annotations, status=status)
        path = written(tmp_path, *machine("n0", (16, 12), (2, 2), {}), pod)
        shown = run_command("nodes", "n0", cluster=path).stdout.splitlines()
        return lines(explain(path, "pod/p")), [" ".join(line.split()) for line in shown]

    explained, shown = seen_on(1)
    assert "NUMA 1: 4 cpu (observed by KAI-Scheduler's exporter)" in explained
    assert "NRT disagrees: the pod is elsewhere" in explained
    assert "default/p Guaranteed SingleNUMANode 1 Observed 4 cpu, 1Gi memory" in shown
    explained, shown = seen_on(7)
    assert "NUMA 0: 4 cpu (its NUMA allocation)" in explained
    why = "ignored: the NodeResourceTopology has no such NUMA nodes, or less on them"
    assert f"observed {why}" in explained
    assert f"default/p Guaranteed SingleNUMANode 0 Allocated, observation {why} 4 cpu, 1Gi memory" in shown


def test_a_pod_that_waits_has_its_decision_and_each_nodes_answer(snapshot: Path) -> None:
    outcome = explain(snapshot, "pod/large")
    assert (outcome.code, outcome.stderr) == (1, "")
    assert lines(outcome) == [
        "Pod default/large: Waiting",
        "decision waiting: no single NUMA node with 20 cpu",
        "excluded: 3 full",
        "Placed False, NoSingleNUMANode (since 2030-01-01T00:00:00Z)",
        "policy SingleNUMANode",
        NOWHERE,
        "NODE FITS WHY NOT",
        "n0 no insufficient cpu: 20 requested, 9500m free",
        "n1 no insufficient cpu: 20 requested, 15 free",
        "n2 no cordoned",
        "n4 no no NUMA topology known: the node has no NodeResourceTopology with NUMA nodes",
        f"n3 no no single NUMA node with 20 cpu, 1Gi memory ({FREE})",
    ]  # fmt: skip


def test_the_json_of_a_pod_has_the_documented_fields(snapshot: Path) -> None:
    answer = explain(snapshot, "pod/gang-0", "-o", "json").json
    assert yaml.safe_load(explain(snapshot, "pod/gang-0", "-o", "yaml").stdout) == answer
    assert set(answer) == fields_of("ExplainedPod")
    assert set(answer["pod"]) == fields_of("PodStanding")
    assert (answer["pod"]["state"], answer["pod"]["gang"], answer["pod"]["rank"]) == ("Waiting", "gang", 0)
    assert answer["group"]["required"] == RACK
    assert {node["node"]: node["reason"] for node in answer["perNode"]}["n2"] == "Unschedulable"
    large = explain(snapshot, "pod/large", "-o", "json").json
    assert set(large["pod"]["placed"]) == fields_of("PlacedView")
    assert (large["verdict"], large["group"]) == ("wait", None)


def low(name: str, numa: int, cpus: int, **how: Any) -> dict[str, Any]:
    """A pod of priority 0 on n3 that its exporter has reported."""
    return bound(name=name, node="n3", cpu=cpus, annotations=allocated_on("n3", numa, cpus), **how)


def full(tmp_path: Path, *objects: dict[str, Any]) -> Path:
    """n3 [0 0], and nothing else that a pod could use."""
    pods = (low("low-0", 0, 16), low("low-1", 1, 10, metadata={"labels": {"app": "db"}}), low("low-2", 1, 6))
    return written(tmp_path, *machine("n3", (0, 0), (0, 0), {ZONE: "zone-b", RACK: "rack-1"}), *pods, *objects)


def test_a_pod_that_waits_names_the_pods_of_lower_priority_that_would_end_for_it(tmp_path: Path) -> None:
    file = full(tmp_path, gated(name="urgent", cpu=4, priority=10), gated(name="calm", cpu=4, priority=0))
    answer = explain(file, "pod/urgent", "-o", "json").json["preemption"]
    assert set(answer) == fields_of("PreemptionView")
    assert set(answer["victims"][0]) == fields_of("VictimView")
    assert (answer["verdict"], answer["nodes"], answer["violations"]) == ("Victims", ["n3"], 0)
    assert [victim["name"] for victim in answer["victims"]] == ["low-2"]
    said = "preemption would start if 1 lower-priority pod terminated: default/low-2 (priority 0, n3)"
    assert said in lines(explain(file, "pod/urgent"))
    assert explain(file, "pod/calm", "-o", "json").json["preemption"]["verdict"] == "NoEnd"


def test_a_preemption_policy_of_never_is_respected(tmp_path: Path) -> None:
    file = full(tmp_path, gated(name="urgent", cpu=4, priority=10, preemptionPolicy="Never"))
    assert "preemption its preemptionPolicy is Never" in lines(explain(file, "pod/urgent"))


def test_a_disruption_budget_is_spared_and_broken_only_as_a_last_resort(tmp_path: Path) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    file = full(tmp_path, budget, gated(name="nine", cpu=9, priority=10))
    answer = explain(file, "pod/nine", "-o", "json").json["preemption"]
    assert ([victim["name"] for victim in answer["victims"]], answer["violations"]) == (["low-0"], 0)
    protected = low("low-0", 0, 16, priority=20)
    file = full(tmp_path, budget, gated(name="nine", cpu=9, priority=10))
    file.write_text(file.read_text().replace(json.dumps(low("low-0", 0, 16)), json.dumps(protected)))
    assert any("1 of them against a PodDisruptionBudget" in line for line in lines(explain(file, "pod/nine")))


def test_pods_that_are_being_deleted_are_waited_for(tmp_path: Path) -> None:
    ends = low("low-2", 1, 6, metadata={"deletionTimestamp": "2030-01-01T02:00:30Z"})
    file = full(tmp_path, gated(name="urgent", cpu=4, priority=10))
    file.write_text(file.read_text().replace(json.dumps(low("low-2", 1, 6)), json.dumps(ends)))
    said = "preemption starts on n3 once the pods that are terminating there are gone"
    assert said in lines(explain(file, "pod/urgent"))


def test_a_gang_that_waits_names_the_pods_that_would_end_for_all_of_it(tmp_path: Path) -> None:
    annotations = NETWORK | {MIN_MEMBER: "2"}
    gang = (gated(name=f"gang-{rank}", group="gang", cpu=16, annotations=annotations, priority=10) for rank in range(2))
    answer = explain(full(tmp_path, TOPOLOGY, *gang), "podgroup/gang", "-o", "json").json["waiting"][0]
    assert [victim["name"] for victim in answer["preemption"]["victims"]] == ["low-0", "low-1", "low-2"]


def test_a_pod_that_waits_says_what_an_autoscaler_is_asked_for_it(tmp_path: Path) -> None:
    file = full(tmp_path, gated(name="four", cpu=4), gated(name="huge", cpu=17))
    own = ("--autoscaler", "ClusterAutoscaler", "--node-group-labels", RACK)
    answer = explain(file, "pod/four", *own, "-o", "json").json["autoscaler"]
    assert set(answer) == fields_of("ScaleUpView")
    asked = "cluster-autoscaler is asked for a node of node group rack-1"
    assert answer == {"asked": True, "text": asked}
    assert f"autoscaler {asked}" in lines(explain(file, "pod/four", *own))
    assert explain(file, "pod/four", "-o", "json").json["autoscaler"] is None
    huge = explain(file, "pod/huge", *own, "-o", "json").json["autoscaler"]
    not_asked = "cluster-autoscaler is not asked for a node: "
    assert huge["text"] == f"{not_asked}no node like those of a node group could take it even if it were empty"


def test_a_gang_says_what_an_autoscaler_is_asked_for_it_once_its_members_exist(tmp_path: Path) -> None:
    gang = [gated(name=f"gang-{rank}", group="gang", cpu=16, annotations={MIN_MEMBER: "2"}) for rank in range(2)]
    own = ("podgroup/gang", "--autoscaler", "Karpenter", "--node-group-labels", RACK, "-o", "json")
    answer = explain(full(tmp_path, *gang), *own).json["waiting"][0]
    assert answer["autoscaler"]["text"] == "Karpenter is asked for nodes of node group rack-1"
    alone = explain(full(tmp_path, gang[0]), *own).json["waiting"][0]
    assert alone["autoscaler"] is None


def test_a_gang_says_that_its_machines_are_asked_for_by_one_request(tmp_path: Path) -> None:
    gang = [gated(name=f"gang-{rank}", group="gang", cpu=16, annotations={MIN_MEMBER: "2"}) for rank in range(2)]
    atomic = ("--provisioning-class", "best-effort-atomic-scale-up.autoscaling.x-k8s.io")
    own = ("podgroup/gang", "--autoscaler", "ClusterAutoscaler", *atomic, "--node-group-labels", RACK, "-o", "json")
    answer = explain(full(tmp_path, *gang), *own).json["waiting"][0]["autoscaler"]
    groups = "cluster-autoscaler is asked for nodes of node group rack-1"
    assert answer == {"asked": True, "text": f"{groups}; one ProvisioningRequest for 2 pods at once"}
    gang[0]["metadata"]["annotations"]["autoscaling.x-k8s.io/consume-provisioning-request"] = "mine"
    answer = explain(full(tmp_path, *gang), *own).json["waiting"][0]["autoscaler"]
    assert answer["asked"] is False
    assert answer["text"].endswith("pod gang-0 consumes ProvisioningRequest mine")


def test_no_autoscaler_is_asked_for_objects_in_files(tmp_path: Path) -> None:
    file = full(tmp_path)
    outcome = explain(file, "-f", file, "--autoscaler", "Karpenter")
    assert (outcome.code, outcome.stdout) == (2, "")
    assert "--autoscaler: an autoscaler is asked for pods that exist, so give KIND/NAME" in outcome.stderr


def test_a_pod_with_a_node_has_its_allocation_beside_the_nrt(snapshot: Path) -> None:
    answer = explain(snapshot, "po/job-b", "-o", "json").json
    pod = answer["pod"]
    assert (pod["state"], pod["node"], pod["domain"]) == ("Running", "n0", [[ZONE, "zone-a"], [RACK, "rack-1"]])
    assert pod["numaNodes"] == [{"id": 1, "amounts": {"cpu": 1_000}}]
    assert set(pod["hint"]) == fields_of("AllocationCheck")
    assert {frozenset(each) for each in pod["hint"]["amounts"]} == {frozenset(fields_of("AllocationAmount"))}
    # NUMA node 1 of n0 has 13 of 16 CPUs taken.
    assert (pod["hint"]["verdict"], pod["hint"]["amounts"][0]["taken"]) == ("Possible", 13_000)
    assert (answer["verdict"], answer["perNode"]) == (None, [])
    assert "NRT does not contradict it, and does not show which pods hold what is taken" in lines(
        explain(snapshot, "pod/job-b")
    )


def test_a_workloads_pods_are_listed_by_rank(snapshot: Path) -> None:
    outcome = explain(snapshot, "job/train")
    assert outcome.code == 1
    assert lines(outcome)[:6] == [
        "Job default/train: 1 Waiting, 2 Running",
        "POD RANK STATE NODE NUMA DOMAIN DISTANCE",
        "job-b 0 Running n0 1 zone-a / rack-1 -",
        "job-a 1 Running n1 - zone-a / rack-1 1",
        "job-c 2 Waiting - - - -",
        "1 neighbours in rank: 0 share the node, 1 share a rack, 1 share a zone",
    ]
    assert lines(outcome)[7] == "job-c waits"


def test_the_json_of_a_workload_has_the_documented_fields(snapshot: Path) -> None:
    answer = explain(snapshot, "jobs.batch/train", "-o", "json").json
    assert set(answer) == fields_of("ExplainedWorkload")
    assert answer["object"] == {"kind": "Job", "namespace": "default", "name": "train"}
    assert set(answer["ranks"]) == fields_of("RanksView")
    assert {frozenset(each) for each in answer["ranks"]["pods"]} == {frozenset(fields_of("RankedPod"))}
    assert {frozenset(each) for each in answer["ranks"]["shared"]} == {frozenset(fields_of("SharedLevel"))}
    (waiting,) = answer["waiting"]
    assert set(waiting) == fields_of("WaitingAnswer")
    assert (waiting["pod"], waiting["verdict"]) == ("job-c", "wait")


def test_a_gang_that_fits_nowhere_says_what_is_missing_at_its_level(tmp_path: Path) -> None:
    minimum = {"topology-webhook.dev/min-member": "3"}
    gang = [gated(name=f"g-{rank}", group="gang", cpu=16, annotations=NETWORK | minimum) for rank in range(3)]
    outcome = explain(written(tmp_path, *cluster(), *gang), "podgroup/gang")
    assert outcome.code == 1
    assert "LEVEL DOMAIN HOLDS NEEDED SHORT OF" in lines(outcome)
    assert "example.com/rack zone-a / rack-1 1 3 cpu" in lines(outcome)


def test_pods_are_found_through_the_owners_that_a_snapshot_has_or_else_by_name(snapshot: Path, tmp_path: Path) -> None:
    def names(reference: str, file: Path) -> list[str]:
        return [pod["name"] for pod in explain(file, reference, "-o", "json").json["pods"]]

    assert names("deploy/web", snapshot) == ["web-1"]
    assert names("deploy/web-api", snapshot) == ["web-2"]
    odd = workload(
        kind="ReplicaSet",
        name="web-7d9f",
        spec={},
        metadata={"uid": "uid-web-7d9f", **owned("Deployment", "other", "apps")},
    )
    known = tmp_path / "known.json"
    known.write_text(snapshot.read_text() + "\n" + json.dumps(odd))
    assert names("deploy/other", known) == ["web-1"]
    assert explain(known, "deploy/web").code == 2


def test_a_pod_that_is_assigned_is_judged_without_its_own_reservation(tmp_path: Path) -> None:
    raw = created(name="p", cpu=16, annotations=allocated(1, 16) | {})
    raw["metadata"]["annotations"]["topology-webhook.dev/numa"] = allocated(1, 16)["topology-webhook.dev/numa"].replace(
        "n0", "n1"
    )
    answer = explain(written(tmp_path, *cluster(), raw), "pod/p", "-o", "json").json
    assert (answer["pod"]["state"], answer["pod"]["node"]) == ("Assigned", "n1")
    assert {node["node"]: node["fits"] for node in answer["perNode"]}["n1"] is True


def test_errors_name_what_was_asked_for_and_what_exists(snapshot: Path) -> None:
    cases = {
        ("pod/larg",): "there is no Pod 'larg' in namespace 'default'. Did you mean large? There are: a0, b0,",
        ("job/trian",): "there is no Job 'trian' in namespace 'default'. Did you mean train? There are: train",
        ("jobset/x",): "there is no JobSet 'x' in namespace 'default'. It has no JobSet at all",
        ("podgroup/x",): "no pod in namespace 'default' is in the PodGroup 'x'. There are: gang, train",
        (
            "pod/x",
            "-n",
            "elsewhere",
        ): "in namespace 'elsewhere'. There is no such namespace; name another with --namespace",
        ("jub/x",): "'jub' is no kind that can be explained. Did you mean job? The kinds are cronjob, deployment,",
        ("train",): "'train' is not KIND/NAME, such as pod/train-0 or job/train",
        (): "give either KIND/NAME, such as pod/train-0, or files with -f",
        ("pod/large", "-f", "x.yaml"): "give either KIND/NAME, such as pod/train-0, or files with -f",
        ("-f", "x.yaml", "-n", "x"): "--namespace: objects in files name their own namespace",
    }
    for arguments, text in cases.items():
        outcome = explain(snapshot, *arguments)
        assert (outcome.code, outcome.stdout) == (2, ""), arguments
        assert text in outcome.stderr


def test_what_tenants_wrote_is_escaped(tmp_path: Path) -> None:
    evil = "\x1b[2J\u202e" + "x" * 50_000
    raw = gated(name="p", group=evil, annotations={PLACEMENT: evil})
    for reference in ("pod/p", "podgroup/y"):
        printed = explain(written(tmp_path, *cluster(), raw), reference)
        text = printed.stdout + printed.stderr
        assert all(character.isprintable() or character == "\n" for character in text)
        assert max(map(len, text.splitlines())) < 1_500


def test_a_pod_names_the_devices_that_its_claims_hold_and_one_that_waits_what_is_missing(tmp_path: Path) -> None:
    template = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
    made = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "runs-gpu"}]}
    snapshot = written(
        tmp_path,
        *machine("n0", (16, 16), (0, 0), {}),
        resource_slice("n0", gpus(1)),
        device_class(),
        claim_template(),
        claim(name="runs-gpu", node="n0", devices=["gpu-0"], owner="runs"),
        bound(name="runs", node="n0", cpu=1, status=made, **template),
        gated(name="waits", cpu=1, **template),
    )
    assert "device gpu.example.com/n0/gpu-0, NUMA 1 (claim default/runs-gpu)" in lines(explain(snapshot, "pod/runs"))
    printed = explain(snapshot, "pod/waits").stdout
    assert "its claim gpu is not made yet" in printed
    assert "devices of class gpu.example.com: 1 requested, 0 free" in printed


def test_a_pod_that_waits_for_devices_near_its_cpus_names_where_they_are(tmp_path: Path) -> None:
    made = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu"}]}
    raw = gated(name="p", cpu=4, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
    snapshot = written(
        tmp_path,
        *machine("n0", (16, 16), (0, 0), {}),
        resource_slice("n0", gpus(1)),
        device_class(),
        claim_template(),
        claim("p-gpu", owner=raw["metadata"]["uid"]),
        {**raw, "status": made},
    )
    printed = " ".join(explain(snapshot, "pod/p").stdout.split())
    assert "n0 takes NUMA 0, devices are free on NUMA 1" in printed
