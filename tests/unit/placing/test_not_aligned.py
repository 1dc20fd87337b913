"""A pod that asks for a policy and that no kubelet aligns is told so, with the container and the field to add."""

from typing import Any

import jsonpatch
import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import pod
from tests.handlers import mutated
from webhook.admission.pod.mutation import mutate_pod
from webhook.admission.response import Denied, Patched
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.model.names import PLACEMENT
from webhook.placing.pod.decision import PodDecision, RecentDecisions, Verdict
from webhook.state.rules import Rules

NO_LIMIT = 'container "main" has no limits.memory; set spec.containers[0].resources.limits.memory to 1Gi'
DENY = Rules(not_alignable="Deny")

# a [16 16]  b [16 16]   single-numa-node, by their kubelets        [free cpus per NUMA node]
KUBELETS = cluster_snapshot(node(name="a"), node(name="b"), nrt(node="a", free=[16, 16]), nrt(node="b", free=[16, 16]))


def koordlet(name: str) -> dict[str, Any]:
    raw = nrt(node=name, free=[16, 16], metadata={"labels": {"app.kubernetes.io/managed-by": "Koordinator"}})
    return {**raw, "attributes": [], "topologyPolicies": ["SingleNUMANodePodLevel"]}


def with_gpus(name: str, listed: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """A node of two GPUs a NUMA node; listed: its exporter says which NUMA node each is near."""
    machine = node(name=name)
    machine["status"]["allocatable"]["nvidia.com/gpu"] = "4"
    zones = nrt(node=name, free=(16, 16))
    if listed:
        for zone in zones["zones"]:
            zone["resources"].append({"name": "nvidia.com/gpu", "capacity": "2", "allocatable": "2", "available": "2"})
    return machine, zones


def burstable(policy: str = "SingleNUMANode", devices: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod that lacks a memory limit."""
    raw = pod(numa=f'{{"numaTopologyPolicy": "{policy}"}}', **spec)
    raw["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "4", "memory": "1Gi", **(devices or {})},
        "limits": {"cpu": "4", **(devices or {})},
    }
    return raw


def placement(raw: dict[str, Any], mutation: PodDecision) -> list[str]:
    written = jsonpatch.apply_patch(raw, list(mutation.operations))
    return str(written["metadata"]["annotations"][PLACEMENT]).splitlines()


@pytest.mark.parametrize("gate", ["Always", "WhenNeeded", "Never"])
def test_it_is_admitted_with_a_warning_and_a_clause_that_name_container_and_field(gate: Any) -> None:
    raw = burstable()
    mutation = mutate_pod(raw, KUBELETS, Rules(gate=gate))
    assert mutation.verdict is Verdict.ALLOW
    assert mutation.warnings == (f"SingleNUMANode is asked for, but no kubelet aligns this pod: {NO_LIMIT}",)
    assert "; ".join(placement(raw, mutation)[1:3]) == f"no kubelet aligns this pod: {NO_LIMIT}"


@pytest.mark.parametrize("gate", ["Always", "Never"])
def test_a_pod_that_fits_nowhere_now_is_told_the_same(gate: Any) -> None:
    full = cluster_snapshot(node(name="a", cpus=2), nrt(node="a", free=[1, 1]))
    raw = burstable()
    mutation = mutate_pod(raw, full, Rules(gate=gate))
    assert mutation.verdict is Verdict.WAIT
    assert mutation.warnings[0] == f"SingleNUMANode is asked for, but no kubelet aligns this pod: {NO_LIMIT}"
    assert f"no kubelet aligns this pod: {NO_LIMIT}" in mutation.message


@pytest.mark.parametrize("policy", ["SingleNUMANode", "Restricted", "BestEffort"])
def test_every_policy_that_is_asked_for_is_taken_at_its_word(policy: str) -> None:
    kubelet = {"SingleNUMANode": "single-numa-node", "Restricted": "restricted", "BestEffort": "best-effort"}[policy]
    mutation = mutate_pod(
        burstable(policy), cluster_snapshot(node(name="a"), nrt(node="a", free=[16, 16], policy=kubelet)), Rules()
    )
    assert mutation.warnings == (f"{policy} is asked for, but no kubelet aligns this pod: {NO_LIMIT}",)


@pytest.mark.parametrize("spec", ["{}", '{"numaTopologyPolicy": ""}'])
def test_a_pod_that_asks_for_no_policy_is_told_nothing(spec: str) -> None:
    raw = burstable()
    raw["metadata"]["annotations"] = pod(numa=spec)["metadata"]["annotations"]
    assert mutate_pod(raw, KUBELETS, DENY).warnings == ()


def test_a_guaranteed_pod_of_whole_cpus_is_told_nothing() -> None:
    mutation = mutate_pod(pod(), KUBELETS, DENY)
    assert (mutation.verdict, mutation.warnings) == (Verdict.ALLOW, ())
    assert "kubelet" not in mutation.message


def test_of_fractional_cpus_the_cpus_are_named_for_memory_is_aligned() -> None:
    (warning,) = mutate_pod(pod(cpu="1500m"), KUBELETS, Rules()).warnings
    assert warning == (
        'SingleNUMANode is asked for, but no kubelet aligns the CPUs of this pod: container "main" asks for 1500m cpu, '
        "not for whole CPUs; set spec.containers[0].resources.requests.cpu to 2 and "
        "spec.containers[0].resources.limits.cpu to 2"
    )


@pytest.mark.parametrize("publisher", ["koordlet", "policy none"])
def test_where_the_numa_nodes_are_ours_to_choose_nothing_is_wrong(publisher: str) -> None:
    published = koordlet("k") if publisher == "koordlet" else nrt(node="k", free=[16, 16], policy="none")
    mutation = mutate_pod(burstable(), cluster_snapshot(node(name="k"), published), DENY)
    assert mutation.verdict is Verdict.ALLOW
    # That a kubelet with policy none may ignore the choice is another warning.
    assert [text for text in mutation.warnings if "not enforced there" not in text] == []
    assert "kubelet" not in mutation.message


def test_where_only_some_nodes_do_not_align_it_their_number_is_said_and_it_is_not_denied() -> None:
    mixed = cluster_snapshot(node(name="a"), nrt(node="a", free=[16, 16]), node(name="k"), koordlet("k"))
    for rules in (Rules(), DENY):
        mutation = mutate_pod(burstable(), mixed, rules)
        assert mutation.verdict is Verdict.ALLOW
        assert mutation.warnings == (
            f"SingleNUMANode is asked for, but the kubelets of 1 of 2 nodes do not align this pod: {NO_LIMIT}",
        )


def test_only_nodes_that_the_pod_may_go_to_count() -> None:
    mixed = cluster_snapshot(node(name="a"), nrt(node="a", free=[16, 16]), node(name="k"), koordlet("k"))
    on_koordlets = burstable(nodeSelector={"kubernetes.io/hostname": "k"})
    assert mutate_pod(on_koordlets, mixed, DENY).warnings == ()
    on_kubelets = burstable(nodeSelector={"kubernetes.io/hostname": "a"})
    assert mutate_pod(on_kubelets, mixed, DENY).verdict is Verdict.DENY


def test_a_device_near_a_numa_node_is_aligned_for_any_pod_and_only_the_placement_says_what_is_not() -> None:
    raw = burstable(devices={"nvidia.com/gpu": "1"})
    mutation = mutate_pod(raw, cluster_snapshot(*with_gpus("g")), DENY)
    assert (mutation.verdict, mutation.warnings) == (Verdict.ALLOW, ())
    assert f"; kubelets align only nvidia.com/gpu of this pod: {NO_LIMIT}; " in mutation.message


def test_of_fractional_cpus_beside_a_device_only_the_cpus_are_not_aligned() -> None:
    mutation = mutate_pod(pod(cpu="1500m", devices={"nvidia.com/gpu": 1}), cluster_snapshot(*with_gpus("g")), Rules())
    assert "; kubelets align nvidia.com/gpu, but not the CPUs of this pod: container " in mutation.message


# a (single-numa-node) aligns no fractional CPUs, and weak (none) aligns nothing: there are not two kinds of nodes.
def test_a_node_that_enforces_nothing_does_not_count_as_one_that_aligns_it() -> None:
    objects = (
        node(name="a"),
        nrt(node="a", free=[16, 16]),
        node(name="weak"),
        nrt(node="weak", free=[16], policy="none"),
    )
    for rules in (Rules(), DENY):
        mutation = mutate_pod(pod(cpu="1500m"), cluster_snapshot(*objects), rules)
        assert mutation.verdict is Verdict.ALLOW
        assert "SingleNUMANode is asked for, but no kubelet aligns the CPUs of this pod" in mutation.warnings[0]


def test_a_device_that_is_near_no_numa_node_aligns_nothing() -> None:
    raw = burstable(devices={"nvidia.com/gpu": "1"})
    (warning,) = mutate_pod(raw, cluster_snapshot(*with_gpus("g", listed=False)), Rules()).warnings
    assert warning == f"SingleNUMANode is asked for, but no kubelet aligns this pod: {NO_LIMIT}"


@pytest.mark.parametrize("capacity", ["4", "0"])
def test_while_its_devices_are_away_it_is_not_denied(capacity: str) -> None:
    machine, zones = with_gpus("g", listed=False)
    machine["status"]["capacity"] = {"nvidia.com/gpu": capacity}
    machine["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    beside = node(name="a", devices={"nvidia.com/gpu": 4}), nrt(node="a", free=[1, 1], cpus=1)
    raw = burstable(devices={"nvidia.com/gpu": "1"})
    assert mutate_pod(raw, cluster_snapshot(machine, zones, *beside), DENY).verdict is not Verdict.DENY


def test_while_no_numa_node_is_known_it_is_warned_about_and_not_denied() -> None:
    unknown_policy = cluster_snapshot(node(name="a"), nrt(node="a", free=[16, 16], policy="tomorrow"))
    for cluster in (cluster_snapshot(node(name="a")), cluster_snapshot(), unknown_policy):
        mutation = mutate_pod(burstable(), cluster, DENY)
        assert mutation.verdict is Verdict.WAIT
        assert mutation.warnings[0] == f"SingleNUMANode is asked for, but no kubelet aligns this pod: {NO_LIMIT}"


def test_deny_refuses_it_in_the_same_words() -> None:
    mutation = mutate_pod(burstable(), KUBELETS, DENY)
    assert (mutation.verdict, mutation.reason) == (Verdict.DENY, "NotAlignable")
    assert mutation.message == f"SingleNUMANode is asked for, but no kubelet aligns this pod: {NO_LIMIT}"
    assert mutation.operations == ()


# A kubelet with the feature gate PodLevelResourceManagers aligns a Guaranteed one, and no Node shows the gate.
@pytest.mark.parametrize(("requested", "verdict"), [("4", Verdict.ALLOW), ("3", Verdict.DENY)])
def test_a_pod_with_pod_level_resources_is_denied_only_if_no_feature_gate_aligns_it(
    requested: str, verdict: Verdict
) -> None:
    amounts = {"cpu": "4", "memory": "1Gi"}
    raw = pod(numa='{"numaTopologyPolicy": "SingleNUMANode"}')
    raw["spec"]["resources"] = {"limits": amounts, "requests": {**amounts, "cpu": requested}}
    raw["spec"]["containers"][0]["resources"] = {}
    mutation = mutate_pod(raw, KUBELETS, DENY)
    assert mutation.verdict is verdict
    told = "the pod has resources of its own (kubelets' feature gate PodLevelResourceManagers is not read)"
    assert told in (mutation.message or mutation.warnings[0])


def test_the_place_of_a_template_in_its_workload_stands_in_the_warning_and_the_denial() -> None:
    told = NO_LIMIT.replace("spec.containers", "spec.template.spec.containers")
    assert mutate_pod(burstable(), KUBELETS, Rules(), "spec.template.").warnings[0].endswith(told)
    assert mutate_pod(burstable(), KUBELETS, DENY, "spec.template.").message.endswith(told)


def test_the_api_server_gets_the_warning_with_the_patch_and_the_reason_with_the_denial() -> None:
    review = {"uid": "1", "kind": {"kind": "Pod"}, "operation": "CREATE", "userInfo": {"username": "u"}}
    request = AdmissionRequest.from_object(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {**review, "object": burstable()},
        }
    )
    patched, denied = (mutated(request, KUBELETS, rules) for rules in (Rules(), DENY))
    assert isinstance(patched, Patched)
    assert patched.warnings == (f"SingleNUMANode is asked for, but no kubelet aligns this pod: {NO_LIMIT}",)
    assert isinstance(denied, Denied)
    assert denied.reason == "NotAlignable"


def test_pods_that_ask_for_the_same_share_a_plan_with_its_warning() -> None:
    recent = RecentDecisions()
    first, second = (mutate_pod(burstable(), KUBELETS, Rules(), recent=recent) for _ in range(2))
    assert first.nodes is not None
    assert second.nodes is None
    assert second.warnings == first.warnings
