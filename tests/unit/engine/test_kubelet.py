import pytest

from tests.builders.pods import container
from tests.builders.records import GI, cpus, node, pod, resident, state, topology
from tests.unit.engine.whole_way import whole_way
from webhook.engine import kubelet
from webhook.engine.numa_fit import NUMAFit
from webhook.engine.reason import REASONS, Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.nrt import Publisher
from webhook.model.policy import NUMAPolicy, Scope

NONE, BEST_EFFORT, RESTRICTED, SINGLE = NUMAPolicy
ZONE = {"cpu": 8000, "memory": 16 * GI}


def predict(cluster: ClusterState, wanted: Pod) -> NUMAFit:
    snapshot = Snapshot(cluster.node_arrays())
    intent, _ = parse_numa_intent(wanted.annotations)
    return kubelet.predict(snapshot, PodRequest.of(wanted, intent, snapshot.node_arrays.resources))


def outcome(fit: NUMAFit, index: int = 0) -> tuple[Reason, int]:
    return REASONS[fit.reason[index]], int(fit.mask[index])


# n [8 3]      [free cpus per NUMA node, 8 each]
@pytest.mark.parametrize(
    ("policy", "cpu", "memory", "expected"),
    [
        (SINGLE, "4", "1Gi", (Reason.FITS, 0b01)),
        (SINGLE, "9", "20Gi", (Reason.NO_SINGLE_NUMA_NODE, 0)),
        (RESTRICTED, "4", "1Gi", (Reason.FITS, 0b01)),
        (RESTRICTED, "9", "20Gi", (Reason.FITS, 0b11)),
        # memory that fits one NUMA node does not go with CPUs that need two
        (RESTRICTED, "9", "1Gi", (Reason.NOT_ALIGNED, 0)),
        (BEST_EFFORT, "9", "1Gi", (Reason.FITS, 0b11)),
        (BEST_EFFORT, "12", "1Gi", (Reason.ALLOCATION_FAILS, 0)),
        (NONE, "11", "1Gi", (Reason.FITS, 0)),
        (NONE, "12", "1Gi", (Reason.ALLOCATION_FAILS, 0)),
    ],
)
def test_each_policy_takes_what_its_kubelet_takes(
    policy: NUMAPolicy, cpu: str, memory: str, expected: tuple[Reason, int]
) -> None:
    free = [ZONE, ZONE | {"cpu": 3000}]
    cluster = state(node(name="n"), topology(node="n", free=free, capacity=ZONE, policy=policy))
    assert outcome(predict(cluster, pod({"cpu": cpu, "memory": memory}))) == expected


def test_restricted_refuses_two_numa_nodes_where_one_would_do_if_it_were_empty() -> None:
    free = [ZONE | {"cpu": 5000}, ZONE | {"cpu": 5000}]
    cluster = state(node(name="n"), topology(node="n", free=free, capacity=ZONE, policy=RESTRICTED))
    assert outcome(predict(cluster, pod({"cpu": "6", "memory": "1Gi"}))) == (Reason.NOT_ALIGNED, 0)


def test_cpus_and_devices_align_on_one_numa_node() -> None:
    # n [8 cpus | 8 cpus, 2 gpus]
    free = [ZONE, ZONE | {"nvidia.com/gpu": 2}]
    cluster = state(node(name="n", allocatable={"nvidia.com/gpu": 2}), topology(node="n", free=free))
    fit = predict(cluster, pod({"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}))
    assert outcome(fit) == (Reason.FITS, 0b10)
    assert fit.allocation(0) == ((1, {"cpu": 2000, "memory": GI, "nvidia.com/gpu": 1}),)


def test_shared_cpus_are_not_bound_to_numa_nodes() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[{"cpu": 1000, "memory": GI}] * 2))
    fractional = pod({"cpu": "1500m", "memory": "1Gi"})
    assert outcome(predict(cluster, fractional)) == (Reason.FITS, 0b01)
    burstable = pod(spec={"containers": [container(requests={"cpu": "9", "memory": "9Gi"})]})
    assert outcome(predict(cluster, burstable)) == (Reason.FITS, 0)


def test_an_init_container_leaves_what_it_took_to_the_containers_after_it() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE]))
    whole = {"cpu": "8", "memory": "16Gi"}
    init = container(name="init", requests=whole, limits=whole)
    sidecar = {**init, "restartPolicy": "Always"}
    assert predict(cluster, pod(whole, spec={"initContainers": [init]})).fits[0]
    assert not predict(cluster, pod(whole, spec={"initContainers": [sidecar]})).fits[0]


# n [8 8]: two containers of 6
@pytest.mark.parametrize(("scope", "fits"), [(Scope.CONTAINER, True), (Scope.POD, False)])
def test_scope_pod_aligns_the_containers_together(scope: Scope, fits: bool) -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE] * 2, scope=scope))
    six = {"cpu": "6", "memory": "1Gi"}
    assert predict(cluster, pod(six, six)).fits[0] == fits


def test_memory_over_several_numa_nodes_is_given_the_benefit_of_the_doubt() -> None:
    # 20 of 32 GiB in use: if by one pod over both NUMA nodes, another may join it
    free = [ZONE | {"memory": 2 * GI}, ZONE | {"memory": 10 * GI}]
    cluster = state(node(name="n"), topology(node="n", free=free, capacity=ZONE, policy=BEST_EFFORT))
    assert predict(cluster, pod({"cpu": "1", "memory": "12Gi"})).fits[0]
    assert not predict(cluster, pod({"cpu": "1", "memory": "13Gi"})).fits[0]


def test_devices_without_numa_nodes_are_counted_on_the_node() -> None:
    cluster = state(node(name="n", allocatable={"example.com/nic": 2}), topology(node="n", free=[ZONE]))
    assert outcome(predict(cluster, pod({"example.com/nic": "2"}))) == (Reason.FITS, 0)
    cluster.upsert_pod(resident(name="other", node="n", requests={"example.com/nic": 1}))
    assert not predict(cluster, pod({"example.com/nic": "2"})).fits[0]


def test_a_node_without_a_topology_takes_pods_that_do_not_insist() -> None:
    cluster = state(node(name="n"))
    assert predict(cluster, pod({"cpu": "1", "memory": "1Gi"})).fits[0]
    insisting = pod({"cpu": "1", "memory": "1Gi"}, policy="SingleNUMANode")
    assert outcome(predict(cluster, insisting)) == (Reason.NO_TOPOLOGY, 0)


def test_a_kubelet_does_not_align_on_more_numa_nodes_than_it_allows() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE] * 3, max_numa_nodes=2))
    assert outcome(predict(cluster, pod({"cpu": "1", "memory": "1Gi"}))) == (Reason.TOO_MANY_NUMA_NODES, 0)


def test_more_than_eight_numa_nodes_are_searched_by_the_same_way() -> None:
    cluster = state(node(name="n"), topology(node="n", free=cpus(*[2] * 10), policy=RESTRICTED, max_numa_nodes=16))
    fit = predict(cluster, pod({"cpu": "5", "memory": "1Gi"}))
    assert outcome(fit) == (Reason.FITS, 0b111)
    assert [numa_id for numa_id, _ in fit.allocation(0)] == [0, 1, 2]


def test_numa_ids_with_gaps_are_named_by_their_ids() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE | {"cpu": 0}, ZONE], ids=(2, 7)))
    fit = predict(cluster, pod({"cpu": "1", "memory": "1Gi"}))
    assert (outcome(fit), fit.allocation(0)[0][0]) == ((Reason.FITS, 0b10), 7)


# The kubelet does not align; Koordinator's agent puts the pod where it is told.
@pytest.mark.parametrize(("policy", "fits"), [("SingleNUMANode", False), ("BestEffort", True), (None, True)])
def test_where_the_kubelet_does_not_place_the_pods_own_policy_holds_for_the_whole_pod(
    policy: str | None, fits: bool
) -> None:
    free = [{"cpu": 4000, "memory": GI}] * 2
    cluster = state(node(name="n"), topology(node="n", free=free, policy=NONE, publisher=Publisher.TOTAL))
    assert predict(cluster, pod({"cpu": "2500m", "memory": "1Gi"}, {"cpu": "2500m"}, policy=policy)).fits[0] == fits


def test_the_refusal_names_the_manager_that_says_no() -> None:
    cluster = state(node(name="n"), topology(node="n", free=[ZONE] * 2, policy=SINGLE))
    snapshot = Snapshot(cluster.node_arrays())

    def refusal(amounts: dict[str, str]) -> Reason:
        wanted = pod(amounts)
        intent, _ = parse_numa_intent(wanted.annotations)
        return whole_way(snapshot, PodRequest.of(wanted, intent, snapshot.node_arrays.resources), 0)[0]

    assert refusal({"cpu": "9", "memory": "1Gi"}) is Reason.NO_SINGLE_NUMA_NODE
    # Memory that no set of NUMA nodes holds counts as "no preference" until it is to be allocated.
    assert refusal({"cpu": "1", "memory": "40Gi"}) is Reason.ALLOCATION_FAILS
    assert refusal({"cpu": "1", "memory": "1Gi"}) is Reason.FITS


# n ── NUMA 0 [0 of 16 cpus, 0 of 64Gi]  NUMA 1 [12, 48Gi]      [free], policy restricted
@pytest.mark.parametrize(
    ("held", "containers", "fits"),
    [
        # One pod on both keeps both for such pods; two pods, each on its own, do not. Their NRTs are the same
        # (tests/integration/test_replay.py).
        ([{0: (16, 64), 1: (4, 16)}], 1, False),
        ([{0: (16, 64)}, {1: (4, 16)}], 1, True),
        # Each of two containers may be on a NUMA node of its own.
        ([{0: (16, 64), 1: (4, 16)}], 2, True),
    ],
)
def test_the_allocations_of_pods_on_several_numa_nodes_tell_which_of_these_are_kept_for_such_pods(
    held: list[dict[int, tuple[int, int]]], containers: int, fits: bool
) -> None:
    free = [{"cpu": 0, "memory": 0}, {"cpu": 12_000, "memory": 48 * GI}]
    nrt = topology(node="n", free=free, capacity={"cpu": 16_000, "memory": 64 * GI}, policy=NUMAPolicy.RESTRICTED)
    pods = [
        resident(
            name=f"p{number}",
            node="n",
            requests={},
            numa={zone: {"cpu": cpu * 1000, "memory": memory * GI} for zone, (cpu, memory) in numa.items()},
            policy=NUMAPolicy.RESTRICTED,
            containers=[{"memory": GI}] * containers,
        )
        for number, numa in enumerate(held)
    ]
    asked = pod({"cpu": "6", "memory": "6Gi"})
    assert bool(predict(state(node(name="n"), nrt, *pods), asked).fits[0]) is fits
