"""Kubelets that give whole cores only: by what an operator states on the Node, and by what their rejections say."""

from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, put
from tests.builders.nodes import node, nrt
from tests.builders.pods import bound, gated, guaranteed, pod
from webhook.admission.binding.decision import Given, Refusal, guard
from webhook.admission.pod.mutation import mutate_pod
from webhook.formats.kubernetes.kubelet_options import NO_OPTIONS, KubeletOptions, stated_options, threads_named
from webhook.formats.kubernetes.timestamps import utc
from webhook.model.names import KUBELET_OPTIONS, NUMA_ALLOCATION
from webhook.placing.pod.binding_pod import BindingPod
from webhook.placing.pod.decision import PodDecision, Verdict
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

NOW = 1_000_000
UNEVEN = "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
TOO_FEW = (
    "Pod was rejected: SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 2, "
    "requested CPUs = 4, CPUs per core = 4"
)


def stating(text: str, free: tuple[int, ...] = (8, 8), name: str = "n0") -> list[dict[str, Any]]:
    raw = node(name=name)
    raw["metadata"]["annotations"] = {KUBELET_OPTIONS: text}
    return [raw, nrt(node=name, free=free)]


@pytest.mark.parametrize(
    ("text", "options", "problems"),
    [
        ("full-pcpus-only=true,threads-per-core=2", KubeletOptions(2), 0),
        (" threads-per-core = 4 , full-pcpus-only = true,", KubeletOptions(4), 0),
        ("prefer-closest-numa-nodes=true", KubeletOptions(prefer_closest=True), 0),
        ("full-pcpus-only=false,threads-per-core=2", NO_OPTIONS, 0),
        ("full-pcpus-only=true", NO_OPTIONS, 1),
        ("full-pcpus-only=yes", NO_OPTIONS, 1),
        ("threads-per-core=9,align-by-socket=true", NO_OPTIONS, 2),
        ("max-allowable-numa-nodes=64", KubeletOptions(max_numa_nodes=64), 0),
        ("max-allowable-numa-nodes=7,max-allowable-numa-nodes=1025,max-allowable-numa-nodes=", NO_OPTIONS, 3),
        ("align-by-socket=true,numa-nodes-per-socket=2", KubeletOptions(numa_per_socket=2), 0),
        ("numa-nodes-per-socket=2", NO_OPTIONS, 0),
        ("distribute-cpus-across-numa=true", KubeletOptions(spread_cpus=True), 0),
        ("distribute-cpus-across-cores=true", KubeletOptions(spread_cpus=True), 0),
        ("distribute-cpus-across-numa=true,distribute-cpus-across-cores=true", KubeletOptions(spread_cpus=True), 1),
        ("strict-cpu-reservation=true,prefer-align-cpus-by-uncorecache=true", NO_OPTIONS, 0),
        ("static-cpu=true,full-pcpus", NO_OPTIONS, 2),
        ("threads-per-core=\u0662,full-pcpus-only=true", NO_OPTIONS, 2),
        ("x" * 1000, NO_OPTIONS, 1),
        ("", NO_OPTIONS, 0),
    ],
)
def test_a_statement_is_read_and_what_cannot_be_is_named(text: str, options: KubeletOptions, problems: int) -> None:
    found: list[str] = []
    assert stated_options({KUBELET_OPTIONS: text}, found) == options
    assert len(found) == problems


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("align-by-sockets=true", "'align-by-sockets' is none of"),
        ("align-by-sockets=true", "Did you mean align-by-socket?"),
        ("align-by-socket=1", "align-by-socket is true or false"),
        ("align-by-socket=true", "align-by-socket=true needs numa-nodes-per-socket=, such as 2"),
        ("max-allowable-numa-nodes=4", "max-allowable-numa-nodes is a number from 8 to 1024"),
        ("full-pcpus-only=true,threads-per-core=2,distribute-cpus-across-cores=true", "does not start with both"),
    ],
)
def test_what_is_wrong_with_a_statement_is_said(text: str, said: str) -> None:
    found: list[str] = []
    stated_options({KUBELET_OPTIONS: text}, found)
    assert any(said in problem for problem in found), found


def chosen(text: str, raw: dict[str, Any]) -> tuple[Verdict, list[int]]:
    """The verdict and the promised NUMA nodes on an empty restricted node of four NUMA nodes: 8 CPUs, 16 GiB each."""
    stated = stating(text)
    stated[1] = nrt(node="n0", free=[8] * 4, cpus=8, memory="16Gi", policy="restricted")
    found = mutate_pod(raw, cluster_cache(*stated).snapshot(), Rules())
    split = found.nodes.allocation(0) if found.fit_count and found.nodes is not None else ()
    return found.verdict, [numa_id for numa_id, _ in split]


# n0 has two sockets: NUMA 0 and 1, and NUMA 2 and 3. 6 CPUs need one NUMA node, 20Gi two, 40Gi three.
def test_a_kubelet_that_aligns_by_socket_prefers_sets_within_one() -> None:
    raw = pod(cpu=6, memory="20Gi", numa='{"numaTopologyPolicy": ""}')
    assert chosen("", raw)[0] is Verdict.DENY
    # CPUs are preferred on both NUMA nodes of a socket, as the memory is.
    assert chosen("align-by-socket=true,numa-nodes-per-socket=2", raw)[0] is Verdict.ALLOW
    across = pod(cpu=6, memory="40Gi", numa='{"numaTopologyPolicy": ""}')
    assert chosen("align-by-socket=true,numa-nodes-per-socket=2", across)[0] is Verdict.WAIT


@pytest.mark.parametrize("text", ["distribute-cpus-across-numa=true", "align-by-socket=true,numa-nodes-per-socket=2"])
def test_no_allocation_names_numa_nodes_where_an_option_spreads_cpus(text: str) -> None:
    wide = pod(cpu=10, memory="20Gi", numa='{"numaTopologyPolicy": ""}')
    assert chosen("", wide)[1] == [0, 1]
    assert chosen(text, wide) == (Verdict.ALLOW, [])
    narrow = pod(cpu=5, memory="5Gi", numa='{"numaTopologyPolicy": ""}')
    assert chosen(text, narrow)[1] == ([0] if "numa=" in text else [])


@pytest.mark.parametrize(
    ("message", "threads"),
    [
        (UNEVEN, 2),
        (TOO_FEW, 4),
        ("Pod was rejected", 0),
        (UNEVEN.replace("2", "99"), 0),
        ("cpus per core = 2", 0),
        (["x"], 0),
    ],
)
def test_a_kubelet_names_its_threads_per_core(message: Any, threads: int) -> None:
    assert threads_named({"message": message}) == threads


@pytest.mark.parametrize(
    ("inits", "apps", "free", "fits"),
    [
        ((), (3,), (8, 8), False),
        ((), (3, 3), (8, 8), False),
        ((), (4,), (8, 8), True),
        ((3,), (4,), (8, 8), False),
        # The app uses the CPUs of the init container again, but its kubelet counts them as taken.
        ((8,), (8,), (8, 8), True),
        ((8,), (8,), (8, 7), False),
        ((8, 8), (8,), (8, 8), True),
        ((2,), (8,), (8, 2), True),
        ((2,), (8,), (8, 0), False),
        ((), (4, 4), (8, 0), True),
    ],
)
def test_a_kubelet_that_gives_whole_cores_is_predicted_with_its_init_containers(
    inits: tuple[int, ...], apps: tuple[int, ...], free: tuple[int, ...], fits: bool
) -> None:
    raw = pod(
        initContainers=[guaranteed(name=f"init-{n}", cpu=cpu) for n, cpu in enumerate(inits)],
        containers=[guaranteed(name=f"app-{n}", cpu=cpu) for n, cpu in enumerate(apps)],
    )
    cache = cluster_cache(*stating("full-pcpus-only=true,threads-per-core=2", free))
    found = mutate_pod(raw, cache.snapshot(), Rules())
    assert (found.fit_count == 1) is fits
    assert mutate_pod(raw, cluster_cache(*stating("", free)).snapshot(), Rules()).fit_count == 1


class ClusterOfOptions:
    """Two nodes of 8 and 8 free CPUs. n0 has been ready since long ago, and its kubelet rejects pods."""

    def __init__(self) -> None:
        self.cache = ClusterCache(clock=lambda: float(NOW))
        for name in ("n0", "n1"):
            self.starts(name, NOW - 1000)
            put(self.cache, nrt(node=name, free=(8, 8)))

    def starts(self, name: str, at: int) -> None:
        raw = node(name=name)
        raw["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": utc(at)}]
        put(self.cache, raw)

    def rejects(self, message: str = UNEVEN, namespace: str = "default", on: str = "n0", name: str = "first") -> None:
        status = {"phase": "Failed", "reason": "SMTAlignmentError", "message": message, "startTime": utc(NOW)}
        raw = bound(name=name, namespace=namespace, node=on, cpu=3, status=status)
        self.cache.failed_pods.upsert(f"{namespace}/{name}", raw)

    def creates(self, cpu: int = 3, **how: Any) -> PodDecision:
        return mutate_pod(pod(cpu=cpu, **how), self.cache.snapshot(), Rules())


def test_other_pods_of_the_namespace_learn_from_a_rejection_and_say_so() -> None:
    cluster = ClusterOfOptions()
    cluster.rejects()
    learned = cluster.creates()
    assert learned.fit_count == 1
    assert "1 CPUs are no multiple of the threads per core" in learned.message
    assert learned.nodes is not None
    said = f"; its kubelet rejected a pod of this namespace (SMTAlignmentError at {utc(NOW)})"
    assert learned.nodes.explain(0)[1].endswith(said)
    assert cluster.creates(cpu=4).fit_count == 2


def test_a_forged_rejection_changes_nothing_for_other_namespaces() -> None:
    cluster = ClusterOfOptions()
    cluster.rejects(namespace="tenant")
    assert cluster.creates().fit_count == 2
    assert cluster.creates(namespace="tenant").fit_count == 1


def test_what_is_learned_ends_when_the_node_becomes_ready_again() -> None:
    cluster = ClusterOfOptions()
    cluster.rejects()
    cluster.starts("n0", NOW - 500)
    assert cluster.creates().fit_count == 1
    cluster.starts("n0", NOW + 1)
    assert cluster.creates().fit_count == 2
    cluster.rejects()
    cluster.rejects(name="of-the-list")  # an old one that a new replica sees after the node
    assert cluster.creates().fit_count == 2


def test_what_is_learned_denies_no_pod() -> None:
    cluster = ClusterOfOptions()
    cluster.rejects()
    cluster.rejects(on="n1", name="second")
    waiting = cluster.creates()
    assert (waiting.verdict, waiting.fit_count) == (Verdict.WAIT, 0)
    why = f"2 nodes could take it if their kubelets did not insist on whole cores (n0: SMTAlignmentError at {utc(NOW)}"
    assert why in waiting.message
    stated = cluster_cache(*stating("full-pcpus-only=true,threads-per-core=2"))
    assert mutate_pod(pod(cpu=3), stated.snapshot(), Rules()).reason == "NoCompatibleNode"


def test_only_nodes_that_may_take_it_are_said_to_once_pods_leave() -> None:
    cluster = ClusterOfOptions()
    put(cluster.cache, nrt(node="n1", free=(2, 2)))
    cluster.rejects()
    assert "; 1 node could take it once other pods leave; " in cluster.creates().message


def test_a_namespace_learns_of_a_bounded_number_of_nodes() -> None:
    cluster = ClusterOfOptions()
    for number in range(300):
        cluster.rejects(on=f"x{number}", name=f"p{number}")
    assert len(cluster.cache.avoided.by_key()["/default"]) == 256


def test_a_binding_is_refused_by_what_was_learned() -> None:
    cluster = ClusterOfOptions()
    raw = gated(name="p", cpu=3, schedulingGates=None)
    put(cluster.cache, raw)
    before = BindingPod.from_object(raw, Rules())
    assert isinstance(guard(before, "n0", cluster.cache.kubelet_admission("n0", "default/p"), Rules()), Given)
    cluster.rejects()
    after = before.learning("n0", cluster.cache.avoided.by_key())
    refused = guard(after, "n0", cluster.cache.kubelet_admission("n0", "default/p"), Rules())
    assert isinstance(refused, Refusal)
    assert refused.reason == "NotWholeCores"
    assert before.learning("n1", cluster.cache.avoided.by_key()) is before


# Pinned to n0 before anything was learned: a refusal would last until that is forgotten.
@pytest.mark.parametrize(
    ("kind", "refused"), [("ReplicaSet", False), ("StatefulSet", False), ("Job", True), ("", True)]
)
def test_a_pod_that_is_pinned_there_is_rejected_by_its_kubelet_if_its_controller_then_makes_another(
    kind: str, refused: bool
) -> None:
    cluster = ClusterOfOptions()
    cluster.rejects()
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o", "controller": True}
    pinned = gated(name="p", cpu=3, schedulingGates=None, annotations={NUMA_ALLOCATION: '{"node": "n0"}'})
    pinned["metadata"]["ownerReferences"] = [owner] if kind else []
    after = BindingPod.from_object(pinned, Rules()).learning("n0", cluster.cache.avoided.by_key())
    verdict = guard(after, "n0", cluster.cache.kubelet_admission("n0", "default/p"), Rules())
    assert isinstance(verdict, Refusal) is refused
