"""Pods whose CPUs are bound to physical cores. The cases are those of Koordinator's plugin nodenumaresource."""

from typing import Any

import pytest

from tests.builders.koordlet import bound_pod, koordlet_nrt, resident
from tests.builders.nodes import node, nrt
from tests.unit.engine.decisions import reasons
from webhook.engine.decide import Decision, decide
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.nrt import NodeTopology

LABEL = "node.koordinator.sh/cpu-bind-policy"
RATIO = "node.koordinator.sh/resource-amplification-ratio"


def cluster(
    *, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **machine: Any
) -> ClusterState:
    """Node n0, by default with two NUMA nodes of four cores with two threads each."""
    raw = node(name="n0", cpus=16, labels=labels)
    raw["metadata"]["annotations"] = annotations or {}
    state = ClusterState()
    state.upsert_node(Node.from_object(raw))
    state.upsert_topology(NodeTopology.from_object(koordlet_nrt(node="n0", **machine)))
    return state


def decision(state: ClusterState, raw: dict[str, Any], ledger: Ledger | None = None) -> Decision:
    pod = Pod.from_object(raw)
    return decide(Snapshot(state.node_arrays(), ledger), pod, parse_numa_intent(pod.annotations)[0])


def reason(state: ClusterState, raw: dict[str, Any], ledger: Ledger | None = None) -> str:
    return reasons(decision(state, raw, ledger))["n0"]


@pytest.mark.parametrize("policy", ["", "SingleNUMANode"])
def test_whole_cores_take_multiples_of_their_threads(policy: str) -> None:
    assert reason(cluster(), bound_pod("4", "FullPCPUs", policy=policy)) == "Fits"
    assert reason(cluster(), bound_pod("3", "FullPCPUs", policy=policy)) == "NotWholeCores"
    assert reason(cluster(threads=4, cores=2), bound_pod("2", "FullPCPUs", policy=policy)) == "NotWholeCores"
    assert reason(cluster(threads=1, cores=8), bound_pod("3", "FullPCPUs", policy=policy)) == "Fits"


def test_the_explanation_has_the_numbers() -> None:
    assert decision(cluster(), bound_pod("3", "FullPCPUs")).explain(0)[1] == (
        "CPUs are no multiple of the threads per core: 3 CPUs requested, 2 threads per core"
    )


# Each NUMA node: cores 0-1 2-3 4-5 6-7, of which 0, 2, 4 (8, 10, 12) are taken: one core is whole, four have a CPU
SPLIT = (
    resident("split-0", "3", cpuset="0,2,4", numa={0: "3"}),
    resident("split-1", "3", cpuset="8,10,12", numa={1: "3"}),
)


def test_a_numa_node_has_as_many_cpus_as_its_whole_cores() -> None:
    state = cluster()
    for pod in SPLIT:
        state.upsert_pod(pod)
    assert reason(state, bound_pod("2", "FullPCPUs", policy="SingleNUMANode")) == "Fits"
    decided = decision(state, bound_pod("4", "FullPCPUs", policy="SingleNUMANode"))
    assert decided.explain(0)[0].code == "NoSingleNUMANode"
    assert "NUMA 0: 2 cpu" in decided.explain(0)[1]
    assert decided.explain(0)[1].endswith("in such cores)")
    assert reason(state, bound_pod("5", policy="SingleNUMANode")) == "Fits"


def test_a_pod_without_a_numa_policy_has_the_whole_cores_of_the_node() -> None:
    state = cluster()
    for pod in SPLIT:
        state.upsert_pod(pod)
    assert reason(state, bound_pod("4", "FullPCPUs")) == "Fits"
    assert reason(state, bound_pod("6", "FullPCPUs")) == "TooFewCores"
    assert reason(state, bound_pod("6")) == "Fits"


@pytest.mark.parametrize(("policy", "most"), [("SingleNUMANode", 4), ("Restricted", 8), ("", 8)])
def test_a_spread_pod_has_one_cpu_of_each_core(policy: str, most: int) -> None:
    assert reason(cluster(), bound_pod(str(most), "SpreadByPCPUs", policy=policy)) == "Fits"
    assert reason(cluster(), bound_pod(str(most + 1), "SpreadByPCPUs", policy=policy)) != "Fits"


def test_a_spread_pod_uses_the_other_thread_of_a_core() -> None:
    state = cluster()
    for pod in SPLIT:
        state.upsert_pod(pod)
    assert reason(state, bound_pod("4", "SpreadByPCPUs", policy="SingleNUMANode")) == "Fits"


def test_what_the_kubelet_gave_is_taken_while_the_pod_is_there() -> None:
    # One CPU of each core of NUMA 0.
    state = cluster(given=[("team/other", "0,2,4,6")], cores=4, zones=1)
    full = bound_pod("2", "FullPCPUs", policy="SingleNUMANode")
    assert reason(state, full) == "Fits"  # it is not known, so it is gone
    state.upsert_pod(resident("other", "4"))
    assert reason(state, full) == "NoSingleNUMANode"
    state.delete_pod("team/other")
    assert reason(state, full) == "Fits"


def test_cpus_given_without_an_allocation_are_not_free() -> None:
    state = cluster(given=[("team/other", "0-3")], zones=1)
    state.upsert_pod(resident("other", "4"))
    assert state.node_arrays().available[state.node_arrays().resources.find("cpu"), 0, 0] == 4000
    state.upsert_pod(resident("other", "4", numa={0: "4"}))
    assert state.node_arrays().available[state.node_arrays().resources.find("cpu"), 0, 0] == 4000


@pytest.mark.parametrize("where", ["kubelet_reserved", "node_reserved"])
def test_reserved_cpus_are_not_free(where: str) -> None:
    state = cluster(zones=1, **dict[str, Any]({where: "0-1,2"}))
    arrays = state.node_arrays()
    cpu = arrays.resources.find("cpu")
    assert (arrays.available[cpu, 0, 0], arrays.zone_allocatable[cpu, 0, 0], arrays.capacity[cpu, 0, 0]) == (
        5000,
        5000,
        8000,
    )
    assert reason(state, bound_pod("4", "FullPCPUs", policy="SingleNUMANode")) == "Fits"
    assert reason(state, bound_pod("6", "FullPCPUs", policy="SingleNUMANode")) == "NoSingleNUMANode"
    assert reason(state, bound_pod("3", "SpreadByPCPUs", policy="SingleNUMANode")) == "Fits"
    assert reason(state, bound_pod("4", "SpreadByPCPUs", policy="SingleNUMANode")) == "NoSingleNUMANode"


def test_pods_of_which_only_amounts_are_known_take_split_cores_first() -> None:
    state = cluster(zones=1)
    state.upsert_pod(resident("split", "2", cpuset="0,2", numa={0: "2"}))
    state.upsert_pod(resident("shared", "2", numa={0: "2"}))
    # Two split CPUs and two whole cores are left of four cores.
    assert reason(state, bound_pod("4", "FullPCPUs", policy="SingleNUMANode")) == "Fits"
    state.upsert_pod(resident("more", "1", numa={0: "1"}))
    assert reason(state, bound_pod("4", "FullPCPUs", policy="SingleNUMANode")) == "NoSingleNUMANode"


@pytest.mark.parametrize(("policy", "short"), [("SingleNUMANode", "NoSingleNUMANode"), ("", "TooFewCores")])
def test_whole_cores_of_assumed_pods_are_not_free(policy: str, short: str) -> None:
    state, ledger = cluster(zones=1), Ledger()
    state.upsert_pod(resident("split", "2", cpuset="0,2", numa={0: "2"}))
    full = bound_pod("4", "FullPCPUs", policy=policy)
    assert reason(state, full, ledger) == "Fits"
    ledger.put(Reservation.of("team/first", "n0", {0: {"cpu": 4000}} if policy else {}, {"cpu": 4000}))
    assert reason(state, full, ledger) == short


@pytest.mark.parametrize(
    ("label", "required", "cpu", "found"),
    [
        ("FullPCPUsOnly", "", "3", "NotWholeCores"),
        ("FullPCPUsOnly", "FullPCPUs", "4", "Fits"),
        ("FullPCPUsOnly", "SpreadByPCPUs", "4", "CPUBindPolicyMismatch"),
        ("SpreadByPCPUs", "FullPCPUs", "4", "CPUBindPolicyMismatch"),
        ("SpreadByPCPUs", "", "9", "TooFewCores"),
        ("SpreadByPCPUs", "", "8", "Fits"),
        ("None", "", "9", "Fits"),
    ],
)
def test_the_nodes_label_requires_a_policy_of_bound_cpus(label: str, required: str, cpu: str, found: str) -> None:
    assert reason(cluster(labels={LABEL: label}), bound_pod(cpu, required)) == found


@pytest.mark.parametrize("qos", ["LS", ""])
def test_pods_whose_cpus_are_not_bound_need_no_cores(qos: str) -> None:
    state = cluster(labels={LABEL: "FullPCPUsOnly"}, annotations={RATIO: '{"cpu": 2}'})
    assert reason(state, bound_pod("3", "FullPCPUs", qos=qos)) == "Fits"


@pytest.mark.parametrize("qos", ["LSR", ""])
def test_a_kubelet_with_full_pcpus_only_rejects_parts_of_cores_of_any_pod(qos: str) -> None:
    state = cluster(full_cores_only=True)
    assert reason(state, bound_pod("3", qos=qos)) == "NotWholeCores"
    assert reason(state, bound_pod("4", qos=qos)) == "Fits"


def test_a_kubelet_with_full_pcpus_only_leaves_shared_cpus_alone() -> None:
    assert reason(cluster(full_cores_only=True), bound_pod("3500m", qos="")) == "Fits"


def test_amplified_nodes_take_no_bound_cpus() -> None:
    state = cluster(annotations={RATIO: '{"cpu": 1.5}'})
    assert reason(state, bound_pod("4")) == "AmplifiedCPUs"
    assert reason(state, bound_pod("4", qos="LS")) == "Fits"


def test_where_no_cores_are_published_nothing_more_is_required() -> None:
    state = ClusterState()
    state.upsert_node(Node.from_object(node(name="n0", cpus=16)))
    state.upsert_topology(NodeTopology.from_object(nrt(node="n0", free=(8, 8), cpus=8)))
    assert reason(state, bound_pod("3", "FullPCPUs", policy="SingleNUMANode")) == "Fits"


def test_a_required_fraction_fits_nowhere() -> None:
    assert reason(cluster(), bound_pod("1500m", "FullPCPUs")) == "NotWholeCores"
    assert reason(cluster(), bound_pod("1500m", "SpreadByPCPUs")) == "NotWholeCores"
