"""What a pod waits for that the cluster does not have, or does not say, yet: only what contradicts denies it."""

from typing import Any

import jsonpatch
import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt, resource, zone
from tests.builders.pods import guaranteed, pod
from tests.unit.admission.node_affinity import admits
from webhook.admission.pod.mutation import mutate_pod
from webhook.engine.decide import decide
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.gates import has_gate
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.patches.affinity_patch import required_terms
from webhook.model.names import PLACEMENT, POD_GROUP_NAME
from webhook.placing.pod.decision import PodDecision, Verdict
from webhook.placing.pod.schedulability import UnschedulableReason, awaits_node, look_ahead
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import GateMode, NoCapacity, Rules

NEVER = Rules(gate="Never")
BEST_EFFORT = '{"numaTopologyPolicy": "BestEffort"}'


def annotation(mutation: PodDecision) -> str:
    text: str = mutation.mutated["metadata"]["annotations"][PLACEMENT]
    return text


# a [16]  best-effort      b [16]  says "strict"
ODD = cluster_snapshot(
    node(name="a"),
    nrt(node="a", free=[16], policy="best-effort"),
    node(name="b"),
    nrt(node="b", free=[16], policy="strict"),
)


def test_a_node_whose_policy_cannot_be_read_is_waited_for_and_named_with_what_it_says() -> None:
    mutation = mutate_pod(pod(), ODD, Rules())
    assert mutation.verdict is Verdict.WAIT
    named = "(b: topologyManagerPolicy 'strict')"
    assert f"the NUMA policy of 1 of the 2 nodes it may go to is unknown {named}" in mutation.message
    assert f"excluded: 1 unknown NUMA policy {named}, 1 NUMA policy mismatch" in mutation.message
    assert named in annotation(mutation)
    only_b = cluster_snapshot(node(name="b"), nrt(node="b", free=[16], policy="strict"))
    assert (
        f"the NUMA policy of the one node it may go to is unknown {named}" in mutate_pod(pod(), only_b, NEVER).message
    )


def test_the_first_such_node_by_name_stands_for_all() -> None:
    several = cluster_snapshot(
        *(node(name=name) for name in "zxy"), *(nrt(node=name, free=[16], policy=f"odd-{name}") for name in "zxy")
    )
    assert "3 unknown NUMA policy (x: topologyManagerPolicy 'odd-x')" in mutate_pod(pod(), several, NEVER).message


def test_a_pod_goes_elsewhere_meanwhile_and_says_which_node_it_avoids() -> None:
    mutation = mutate_pod(pod(numa=BEST_EFFORT), ODD, NEVER)
    assert mutation.verdict is Verdict.ALLOW
    assert "1 of 2 nodes fits; best a " in mutation.message
    assert "excluded: 1 unknown NUMA policy (b: topologyManagerPolicy 'strict')" in mutation.message


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        # The exporter of b, or c, has not spoken yet.
        (
            cluster_snapshot(node(name="a"), nrt(node="a", free=[16], policy="best-effort"), node(name="b")),
            "for 1 of the 2 nodes it may go to",
        ),
        (
            cluster_snapshot(node(name="a"), nrt(node="a", free=[16], policy="strict"), node(name="b"), node(name="c")),
            "for 2 of the 3 nodes it may go to, and the NUMA policy of 1 of the 3 nodes it may go to is unknown (a: ",
        ),
    ],
)
def test_while_some_node_is_not_known_others_that_contradict_deny_nothing(
    cluster: ClusterSnapshot, message: str
) -> None:
    mutation = mutate_pod(pod(), cluster, Rules())
    assert mutation.verdict is Verdict.WAIT
    assert message in mutation.message


POOL = {"pool": "gpu"}


def with_gpu() -> dict[str, Any]:
    return pod(containers=[guaranteed(devices={"example.com/gpu": 1})])


# All that is there contradicts SingleNUMANode; the pool that does not is scaled to zero.
OTHERS = cluster_snapshot(
    node(name="a"),
    node(name="b"),
    nrt(node="a", free=[16, 16], policy="best-effort"),
    nrt(node="b", free=[16, 16], policy="restricted"),
)
TAINTED = cluster_snapshot(
    node(name="a", taints=[{"key": "system", "effect": "NoSchedule"}]),
    nrt(node="a", free=[16, 16], policy="best-effort"),
)


@pytest.mark.parametrize(
    ("raw", "cluster", "message"),
    [
        (pod(nodeSelector=POOL), OTHERS, "its own node selector, affinity and tolerations let it onto none"),
        (pod(), TAINTED, "its own node selector, affinity and tolerations let it onto none"),
        (with_gpu(), OTHERS, "none could take it even if it were empty: no node has example.com/gpu"),
        (pod(cpu="40"), OTHERS, "it asks for 40 cpu, the largest node has 32 (a)"),
        (pod(), cluster_snapshot(), "the cluster has no nodes"),
    ],
)
def test_nodes_that_a_pod_would_not_go_to_anyway_say_nothing_about_those_to_come(
    raw: dict[str, Any], cluster: ClusterSnapshot, message: str
) -> None:
    mutation = mutate_pod(raw, cluster, Rules())
    assert (mutation.verdict, mutation.reason) == (Verdict.WAIT, "")
    assert message in mutation.message


def test_a_node_that_contradicts_and_would_take_the_pod_denies_it() -> None:
    assert mutate_pod(pod(), OTHERS, Rules()).reason == "NoCompatibleNode"


def tainted(*keys: str, known: bool = True, **spec: Any) -> ClusterSnapshot:
    """A node that would take the pod without its taints, and one whose policy contradicts it.

    known: whether the first one has an NRT.
    """
    return cluster_snapshot(
        node(name="a", taints=[{"key": key, "effect": "NoSchedule"} for key in keys], **spec),
        *([nrt(node="a", free=[16])] if known else []),
        node(name="b"),
        nrt(node="b", free=[16], policy="restricted"),
    )


@pytest.mark.parametrize(
    ("cluster", "taint"),
    [
        (tainted("node.kubernetes.io/disk-pressure"), "node.kubernetes.io/disk-pressure"),
        (tainted("node.kubernetes.io/unreachable"), "node.kubernetes.io/unreachable"),
        (tainted("node.kubernetes.io/unschedulable", unschedulable=True), "node.kubernetes.io/unschedulable"),
        (tainted("dedicated"), "dedicated"),
    ],
)
def test_a_pod_waits_for_a_node_that_is_tainted_for_now_and_its_text_names_the_taint(
    cluster: ClusterSnapshot, taint: str
) -> None:
    mutation = mutate_pod(pod(), cluster, Rules())
    assert (mutation.verdict, mutation.gated) == (Verdict.WAIT, True)
    assert f"1 node could take it without an untolerated taint {taint}=:NoSchedule on a" in mutation.message
    assert '"a"' not in repr(mutate_pod(pod(), cluster, NEVER).constraint)


def test_a_pod_waits_for_what_a_new_node_will_publish_but_not_for_a_control_plane() -> None:
    starting = mutate_pod(pod(), tainted("node.kubernetes.io/not-ready", known=False), Rules())
    assert starting.verdict is Verdict.WAIT
    assert "no NUMA topology is known for 1 of the 2 nodes it may go to" in starting.message
    control_plane = tainted("node-role.kubernetes.io/control-plane", known=False)
    assert mutate_pod(pod(), control_plane, Rules()).reason == "NoCompatibleNode"


def test_a_pod_that_no_node_tolerates_is_told_the_taint() -> None:
    assert "let it onto none: untolerated taint system=:NoSchedule on a" in mutate_pod(pod(), TAINTED, Rules()).message


# NUMA 0 has 13 CPUs for pods, NUMA 1 has 16.
RESERVED = cluster_snapshot(
    node(name="a"),
    nrt(
        node="a",
        zones=[
            zone(numa_id=0, resources=[resource(name="cpu", capacity=16, allocatable=13)]),
            zone(numa_id=1, resources=[resource(name="cpu", capacity=16)]),
        ],
    ),
)


@pytest.mark.parametrize(
    ("init", "app", "verdict"),
    [(1, 14, Verdict.WAIT), (14, 1, Verdict.ALLOW), (14, 16, Verdict.ALLOW), (1, 17, Verdict.DENY)],
)
def test_an_empty_node_is_not_always_the_best_one(init: int, app: int, verdict: Verdict) -> None:
    raw = pod(initContainers=[guaranteed(name="init", cpu=init)], containers=[guaranteed(name="app", cpu=app)])
    mutation = mutate_pod(raw, RESERVED, Rules())
    assert mutation.verdict is verdict
    waits = "it fits no empty node, but could once other pods hold the first NUMA nodes: no single NUMA node with "
    assert (waits in mutation.message) is (verdict is Verdict.WAIT)


@pytest.mark.parametrize(
    ("apps", "verdict"),
    [
        ((9, 9, 9), Verdict.DENY),
        ((9, 9, 7), Verdict.ALLOW),
        # 4 takes NUMA 0 as long as 12 would fit there.
        ((4, 12, 12), Verdict.DENY),
        # 2 and 11 fit NUMA 0, so that 16 has NUMA 1.
        ((2, 11, 16), Verdict.ALLOW),
    ],
)
def test_containers_that_fit_together_in_no_state_are_denied(apps: tuple[int, ...], verdict: Verdict) -> None:
    # NUMA 0 [13]  NUMA 1 [16]
    raw = pod(containers=[guaranteed(name=f"app-{n}", cpu=cpu) for n, cpu in enumerate(apps)])
    assert mutate_pod(raw, RESERVED, Rules()).verdict is verdict


def test_a_denial_names_what_disagrees_and_not_how_many_others_there_are() -> None:
    cluster = cluster_snapshot(
        node(name="a"),
        nrt(node="a", free=[16, 16], policy="restricted"),
        *(node(name=f"b{n}", unschedulable=True) for n in range(3)),
        *(nrt(node=f"b{n}", free=[16, 16], policy="best-effort") for n in range(3)),
    )
    denied = mutate_pod(pod(cpu="20", numa='{"numaTopologyPolicy": "Restricted"}'), cluster, Rules())
    assert denied.reason == "Unalignable"
    assert "cpu needs 2 NUMA nodes, memory 1" in denied.message


# a, b [16 16] single-numa-node, c [16 16] best-effort; the pool gpu is scaled to zero       [free cpus per NUMA node]
SCALED_TO_ZERO = cluster_snapshot(
    *(node(name=name) for name in "abc"),
    *(nrt(node=name, free=[16, 16]) for name in "ab"),
    nrt(node="c", free=[16, 16], policy="best-effort"),
)


@pytest.mark.parametrize("gate", ["Always", "WhenNeeded", "Never"])
@pytest.mark.parametrize("no_capacity", ["gate", "allow"])
def test_a_pod_whose_nodes_are_to_come_is_left_to_the_scheduler(gate: GateMode, no_capacity: NoCapacity) -> None:
    raw, rules = pod(nodeSelector=POOL), Rules(gate=gate, no_capacity=no_capacity)
    mutation = mutate_pod(raw, SCALED_TO_ZERO, rules)
    assert (mutation.verdict, mutation.warnings) == (Verdict.WAIT, (mutation.message,))
    created = jsonpatch.apply_patch(raw, list(mutation.operations))
    assert not has_gate(created)
    placement = created["metadata"]["annotations"][PLACEMENT]
    assert placement.startswith("waiting for a node: SingleNUMANode: none of 3 nodes fits now\nits own node selector")
    labels = {"kubernetes.io/hostname": "new", **POOL}
    assert admits(created, "new", labels)
    # Should c come to match, its policy contradicts all the same.
    assert not admits(created, "c", {**labels, "kubernetes.io/hostname": "c"})
    assert mutate_pod(created, SCALED_TO_ZERO, rules).operations == ()


def test_however_many_nodes_contradict_those_to_come_stay_open() -> None:
    names = [f"n{number:03}" for number in range(70)]
    contradicting = (
        raw for name in names for raw in (node(name=name), nrt(node=name, free=[16], policy="best-effort"))
    )
    others = cluster_snapshot(*contradicting, node(name="s"), nrt(node="s", free=[16]))
    created = mutate_pod(pod(nodeSelector=POOL), others, Rules()).mutated
    assert admits(created, "new", {"kubernetes.io/hostname": "new", **POOL})
    assert required_terms(created) is None


def test_a_bare_pods_own_node_affinity_stays_as_it_is_written() -> None:
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    raw = pod(affinity=affinity)
    assert mutate_pod(raw, SCALED_TO_ZERO, Rules()).mutated["spec"] == raw["spec"]
    owned = pod(affinity=affinity, metadata={"ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]})
    assert required_terms(mutate_pod(owned, SCALED_TO_ZERO, Rules()).mutated) != terms


def test_in_a_cluster_without_nodes_only_members_of_a_gang_are_gated_and_none_where_the_operator_denies() -> None:
    created = mutate_pod(pod(), cluster_snapshot(), Rules()).mutated
    assert not has_gate(created)
    assert created["metadata"]["annotations"][PLACEMENT].endswith("none of 0 nodes fits now\nthe cluster has no nodes")
    member = pod(nodeSelector=POOL, annotations={POD_GROUP_NAME: "g"})
    assert has_gate(mutate_pod(member, SCALED_TO_ZERO, Rules()).mutated)
    denied = mutate_pod(pod(nodeSelector=POOL), SCALED_TO_ZERO, Rules(no_capacity="Deny"))
    assert (denied.verdict, denied.reason) == (Verdict.DENY, "NoNode")


NO_TOPOLOGY = cluster_snapshot(node(name="a"))


@pytest.mark.parametrize(
    ("raw", "cluster"),
    [
        (pod(nodeSelector=POOL), SCALED_TO_ZERO),
        (pod(cpu="33"), SCALED_TO_ZERO),
        (pod(), cluster_snapshot()),
        (pod(cpu="33"), NO_TOPOLOGY),
        (pod(), NO_TOPOLOGY),
        (pod(cpu="17"), SCALED_TO_ZERO),
        (pod(numa='{"numaTopologyPolicy": "Restricted"}'), SCALED_TO_ZERO),
        (pod(), cluster_snapshot(node(name="a", unschedulable=True), nrt(node="a", free=[0]))),
    ],
)
def test_the_short_way_to_know_agrees_with_the_schedulability(raw: dict[str, Any], cluster: ClusterSnapshot) -> None:
    read = Pod.from_object(raw)
    intent, _ = parse_numa_intent(read.annotations)
    node_arrays, options = cluster.nodes.node_arrays, Rules().engine
    no_node = look_ahead(node_arrays, read, intent, options).reason_code is UnschedulableReason.NO_NODE
    assert awaits_node(decide(cluster.nodes, read, intent, options)) is no_node
