"""A pod that asks for a policy and that no kubelet aligns is told so, with the container and the field to add."""

import asyncio
from functools import partial
from time import monotonic, time
from typing import Any

import jsonpatch
import pytest

from tests.builders.clusters import assuming, cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import pod
from tests.builders.reviews import denied, review
from tests.handlers import mutated
from tests.unit.controllers.placement.peers import APART, nobody
from tests.unit.controllers.placement.peers import burstable as waiting
from webhook.admission.pod.mutation import mutate_pod
from webhook.admission.response import Patched
from webhook.engine.decide import Decision
from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.single_node import NodeAlone, node_for
from webhook.model.names import PLACEMENT
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.gated_gang import GangAssigner
from webhook.placing.gang.kept_domain import KeptDomains
from webhook.placing.pod.assignment import Assignment, NoAssignment, find_assignment, why_unassigned
from webhook.placing.pod.decision import PodDecision, RecentDecisions, Verdict
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import units_of
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_snapshot import ClusterSnapshot
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
    near = {"nvidia.com/gpu": (2, 2)} if listed else None
    return node(name=name, devices={"nvidia.com/gpu": 4}), nrt(node=name, free=(16, 16), devices=near)


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


@pytest.mark.parametrize("capacity", ["4", "0"])
def test_while_its_devices_are_away_it_is_not_denied(capacity: str) -> None:
    machine, zones = with_gpus("g", listed=False)
    machine["status"]["capacity"] = {"nvidia.com/gpu": capacity}
    machine["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    beside = node(name="a", devices={"nvidia.com/gpu": 4}), nrt(node="a", free=[1, 1], cpus=1)
    raw = burstable(devices={"nvidia.com/gpu": "1"})
    assert mutate_pod(raw, cluster_snapshot(machine, zones, *beside), DENY).verdict is not Verdict.DENY


def told(what: str = f"this pod: {NO_LIMIT}", policy: str = "SingleNUMANode", whose: str = "no kubelet aligns") -> str:
    return f"{policy} is asked for, but {whose} {what}"


FULL = cluster_snapshot(node(name="a", cpus=2), nrt(node="a", free=[1, 1]))


@pytest.mark.parametrize(
    ("cluster", "verdict"), [(KUBELETS, Verdict.ALLOW), (FULL, Verdict.WAIT)], ids=["fits", "fits nowhere now"]
)
@pytest.mark.parametrize("gate", ["Always", "WhenNeeded", "Never"])
def test_it_is_admitted_with_a_warning_and_a_clause_that_name_container_and_field(
    cluster: ClusterSnapshot, verdict: Verdict, gate: Any
) -> None:
    raw = burstable()
    mutation = mutate_pod(raw, cluster, Rules(gate=gate))
    assert mutation.verdict is verdict
    assert mutation.warnings[0] == told()
    assert f"no kubelet aligns this pod: {NO_LIMIT}" in mutation.message
    if verdict is Verdict.ALLOW:
        assert mutation.warnings == (told(),)
        assert "; ".join(placement(raw, mutation)[1:3]) == f"no kubelet aligns this pod: {NO_LIMIT}"


def machines(**policies: str) -> ClusterSnapshot:
    """Nodes of two NUMA nodes with 16 free CPUs each, by kubelet policy, or `koordlet`."""
    nodes = [node(name=name) for name in policies]
    nrts = (
        koordlet(name) if policy == "koordlet" else nrt(node=name, free=[16, 16], policy=policy)
        for name, policy in policies.items()
    )
    return cluster_snapshot(*nodes, *nrts)


FRACTION = pod(cpu="1500m")
FRACTIONAL = (
    'the CPUs of this pod: container "main" asks for 1500m cpu, not for whole CPUs; set '
    "spec.containers[0].resources.requests.cpu to 2 and spec.containers[0].resources.limits.cpu to 2"
)
MIXED = machines(a="single-numa-node", k="koordlet")
WEAK = machines(a="single-numa-node", weak="none")
GPU = burstable(devices={"nvidia.com/gpu": "1"})
ON_K, ON_A = (burstable(nodeSelector={"kubernetes.io/hostname": name}) for name in "ka")
UNLISTED = cluster_snapshot(*with_gpus("g", listed=False))
SOME = told(whose="the kubelets of 1 of 2 nodes do not align")


@pytest.mark.parametrize(
    ("raw", "cluster", "warning", "denied"),
    [
        (burstable("Restricted"), machines(a="restricted"), told(policy="Restricted"), True),
        (burstable("BestEffort"), machines(a="best-effort"), told(policy="BestEffort"), True),
        (pod(), KUBELETS, "", False),
        (FRACTION, KUBELETS, told(FRACTIONAL), True),
        (burstable(), machines(k="koordlet"), "", False),
        (burstable(), machines(k="none"), "", False),
        (burstable(), MIXED, SOME, False),
        (ON_K, MIXED, "", False),
        (ON_A, MIXED, told(), True),
        (GPU, UNLISTED, told(), True),
        # a aligns no fractional CPUs, and weak aligns nothing: there are not two kinds of nodes.
        (FRACTION, WEAK, told(FRACTIONAL), False),
    ],
    ids=[
        "every policy is taken at its word",
        "BestEffort too",
        "Guaranteed with whole CPUs",
        "of fractional CPUs only these are named: memory is aligned",
        "koordlet: the NUMA nodes are ours to choose",
        "policy none: so they are",
        "only some nodes do not align it",
        "nodes it may not go to do not count",
        "nor do they save it",
        "a device near no NUMA node",
        "a node that enforces nothing is none that aligns",
    ],
)
def test_what_no_kubelet_aligns_is_warned_about_and_denied_where_the_operator_says_so(
    raw: dict[str, Any], cluster: ClusterSnapshot, warning: str, denied: bool
) -> None:
    warned, judged = (mutate_pod(raw, cluster, rules) for rules in (Rules(), DENY))
    # That a kubelet with policy none may ignore the choice is another warning.
    texts = [text for text in warned.warnings if "not enforced there" not in text]
    assert texts == ([warning] if warning else [])
    assert (warned.verdict, judged.verdict) == (Verdict.ALLOW, Verdict.DENY if denied else Verdict.ALLOW)
    if denied:
        assert (judged.reason, judged.message, judged.operations) == ("NotAlignable", warning, ())
    elif not warning:
        assert "kubelet" not in judged.message
        assert "kubelet" not in warned.message


@pytest.mark.parametrize("spec", ["{}", '{"numaTopologyPolicy": ""}'])
def test_a_pod_that_asks_for_no_policy_is_told_nothing(spec: str) -> None:
    raw = burstable()
    raw["metadata"]["annotations"] = pod(numa=spec)["metadata"]["annotations"]
    assert mutate_pod(raw, KUBELETS, DENY).warnings == ()


def test_a_device_near_a_numa_node_is_aligned_for_any_pod_and_only_the_placement_says_what_is_not() -> None:
    mutation = mutate_pod(GPU, cluster_snapshot(*with_gpus("g")), DENY)
    assert (mutation.verdict, mutation.warnings) == (Verdict.ALLOW, ())
    assert f"; kubelets align only nvidia.com/gpu of this pod: {NO_LIMIT}; " in mutation.message
    fraction = pod(cpu="1500m", devices={"nvidia.com/gpu": 1})
    text = mutate_pod(fraction, cluster_snapshot(*with_gpus("g")), Rules()).message
    assert "; kubelets align nvidia.com/gpu, but not the CPUs of this pod: container " in text


def test_while_no_numa_node_is_known_it_is_warned_about_and_not_denied() -> None:
    for cluster in (cluster_snapshot(node(name="a")), cluster_snapshot(), machines(a="tomorrow")):
        mutation = mutate_pod(burstable(), cluster, DENY)
        assert mutation.verdict is Verdict.WAIT
        assert mutation.warnings[0] == told()


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
    patched, refused = (mutated(review(burstable()), KUBELETS, rules) for rules in (Rules(), DENY))
    assert isinstance(patched, Patched)
    assert patched.warnings == (told(),)
    assert denied(refused).reason == "NotAlignable"


def test_pods_that_ask_for_the_same_share_a_plan_with_its_warning() -> None:
    recent = RecentDecisions()
    first, second = (mutate_pod(burstable(), KUBELETS, Rules(), recent=recent) for _ in range(2))
    assert first.nodes is not None
    assert second.nodes is None
    assert second.warnings == first.warnings


# a [16]   single-numa-node, by its kubelet       [free cpus per NUMA node]
ONE_NODE = cluster_snapshot(node(name="a"), nrt(node="a", free=[16]))


def found(pod: GatedPod, rules: Rules) -> Assignment | Decision | NoAssignment:
    return find_assignment(ONE_NODE.nodes, pod, rules, nobody)


def test_the_place_says_what_its_kubelet_does_not_align() -> None:
    for one in (waiting(), waiting(inherits=True)):
        assignment = found(one, Rules())
        assert isinstance(assignment, Assignment)
        assert assignment.not_aligned
        assert f"fits; its kubelet does not align this pod: {NO_LIMIT}; best a" in assignment.text


def test_of_a_pod_whose_node_the_scheduler_chooses_it_is_said_of_all_nodes() -> None:
    assignment = found(waiting(**APART), Rules())
    assert isinstance(assignment, Assignment)
    assert f"; no kubelet aligns this pod: {NO_LIMIT}; " in assignment.text


def test_a_pod_that_waits_for_room_says_it_too() -> None:
    pod = waiting(cpu="16")
    full = cluster_snapshot(node(name="a"), nrt(node="a", free=[16]), node(name="b", cpus=8))
    closed = full.nodes.closed(full.nodes.node_arrays.has_topology)
    decision = find_assignment(closed, pod, Rules(), nobody)
    assert isinstance(decision, Decision)
    assert f"; no kubelet aligns this pod: {NO_LIMIT}; excluded" in why_unassigned(decision, pod, Rules(), 0).text


def test_with_deny_a_pod_waits_whose_policy_its_creation_could_not_know() -> None:
    refused = found(waiting(inherits=True), DENY)
    assert isinstance(refused, NoAssignment)
    assert refused.text == f"waiting: SingleNUMANode is asked for, but no kubelet aligns this pod: {NO_LIMIT}"


def test_with_deny_a_pod_that_was_admitted_before_is_placed() -> None:
    assert isinstance(found(waiting(), DENY), Assignment)


class ClusterOfPolicies:
    """The node a, with nothing promised."""

    def snapshot(self) -> Any:
        return ONE_NODE

    def node_for(self, name: str, pod: str) -> tuple[NodeAlone, NodeSums] | None:
        return node_for(ONE_NODE.nodes.node_arrays, Ledger(), name, pod)

    def assume(self, assumed_pod: AssumedPod) -> None:
        del assumed_pod


async def placed_together(rules: Rules, *, inherits: bool) -> Any:
    cluster: Any = ClusterOfPolicies()
    members = (waiting(name, inherits=inherits, group="g", cpu="1") for name in ("g-0", "g-1"))
    (gang,) = units_of(members)
    assert isinstance(gang, GatedGang)
    placer = GangAssigner(cluster, assuming(cluster), rules, KeptDomains(cluster, 0, float, monotonic, time))
    return await placer.assign(gang, 2, {}, (), partial(asyncio.sleep, 0))


async def test_members_of_a_group_say_it_and_wait_alike() -> None:
    for _, assignment, _ in await placed_together(Rules(), inherits=False):
        assert assignment.text.endswith(f"; its kubelet does not align this pod: {NO_LIMIT}")
    refused = await placed_together(DENY, inherits=True)
    assert refused.text == f"waiting: SingleNUMANode is asked for, but no kubelet aligns this pod: {NO_LIMIT}"
