"""Effective requests and QoS class of a pod."""

from typing import Any

import pytest

from tests.builders.pods import container, plain
from tests.unit.model import golden
from webhook.formats.kubernetes.pod import Pod, QoS

GI = 2**30


def sidecar(**requests: str) -> dict[str, Any]:
    return container(name="sidecar", requests=requests, restartPolicy="Always")


def init(**requests: str) -> dict[str, Any]:
    return container(name="init", requests=requests)


def app(**requests: str) -> dict[str, Any]:
    return container(name="app", requests=requests)


def pod(*containers: dict[str, Any], inits: tuple[dict[str, Any], ...] = (), **spec: Any) -> Pod:
    return Pod.from_object(plain(initContainers=list(inits), containers=list(containers), **spec))


def test_apps_add_up() -> None:
    assert pod(app(cpu="1", memory="1Gi"), app(cpu="500m")).requests == {"cpu": 1500, "memory": GI}


def test_the_largest_init_container_counts_where_it_asks_for_more_than_the_apps() -> None:
    assert pod(app(cpu="2", memory="1Gi"), inits=(init(cpu="3"), init(memory="512Mi"))).requests == {
        "cpu": 3000,
        "memory": GI,
    }


def test_sidecars_keep_running_beside_the_apps() -> None:
    assert pod(app(cpu="2"), inits=(sidecar(cpu="1"), sidecar(cpu="500m"))).requests == {"cpu": 3500}


def test_an_init_container_runs_beside_the_sidecars_before_it_only() -> None:
    # time  sidecar 1 ───────────────────────────
    #                 init 4 ─┐ sidecar 2 ───────  app 1
    assert pod(app(cpu="1"), inits=(sidecar(cpu="1"), init(cpu="4"), sidecar(cpu="2"))).requests == {"cpu": 5000}
    assert pod(app(cpu="1"), inits=(init(cpu="4"), sidecar(cpu="1"), sidecar(cpu="2"))).requests == {"cpu": 4000}


def test_overhead_comes_on_top() -> None:
    assert pod(app(cpu="1"), overhead={"cpu": "250m", "memory": "120Mi"}).requests == {
        "cpu": 1250,
        "memory": 120 * 2**20,
    }


def test_missing_requests_are_the_limits() -> None:
    read = pod(container(requests={"cpu": "1"}, limits={"cpu": "2", "memory": "1Gi"}))
    assert read.requests == {"cpu": 1000, "memory": GI}


def test_resources_at_pod_level_replace_the_containers_for_cpu_memory_and_huge_pages() -> None:
    read = pod(
        container(requests={"cpu": "1", "nvidia.com/gpu": "1"}),
        resources={"requests": {"cpu": "3", "hugepages-2Mi": "4Mi"}},
        overhead={"cpu": "100m"},
    )
    assert read.requests == {"cpu": 3100, "nvidia.com/gpu": 1, "hugepages-2Mi": 4 * 2**20}


def test_missing_requests_at_pod_level_are_what_the_containers_ask_for_else_the_limits() -> None:
    read = pod(app(cpu="1"), resources={"limits": {"cpu": "4", "memory": "2Gi"}})
    assert read.pod_level is not None
    assert read.pod_level.requests == {"cpu": 1000, "memory": 2 * GI}
    assert read.requests == {"cpu": 1000, "memory": 2 * GI}


def test_resources_at_pod_level_that_do_not_count_there_are_none() -> None:
    read = pod(app(cpu="1"), resources={"requests": {"nvidia.com/gpu": "1"}})
    assert read.pod_level is None
    assert read.requests == {"cpu": 1000}


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("read", "qos"),
    [
        (pod(container()), QoS.BEST_EFFORT),
        (pod(app(cpu="0")), QoS.BEST_EFFORT),
        (pod(container(limits={"nvidia.com/gpu": "1"})), QoS.BEST_EFFORT),
        (pod(container(limits=BOTH)), QoS.GUARANTEED),
        (pod(container(requests=BOTH, limits=BOTH)), QoS.GUARANTEED),
        (pod(container(requests={"cpu": "1000m", "memory": "1024Mi"}, limits=BOTH)), QoS.GUARANTEED),
        (pod(container(requests={"cpu": "500m"}, limits=BOTH)), QoS.BURSTABLE),
        (pod(app(**BOTH)), QoS.BURSTABLE),
        (pod(container(limits={"cpu": "1"})), QoS.BURSTABLE),
        (pod(container(limits=BOTH), container(name="second")), QoS.BURSTABLE),
        (pod(container(limits=BOTH), inits=(init(),)), QoS.BURSTABLE),
        (pod(container(limits=BOTH), inits=(container(name="init", limits=BOTH),)), QoS.GUARANTEED),
        (pod(container(), resources={"limits": BOTH}), QoS.GUARANTEED),
        (pod(container(limits=BOTH), resources={"requests": {"cpu": "2"}}), QoS.BURSTABLE),
    ],
)
def test_the_qos_class_looks_at_cpu_and_memory_of_all_containers_or_at_the_pod_level(read: Pod, qos: QoS) -> None:
    assert read.qos is qos


def test_the_qos_class_is_the_kubelets_for_every_golden_pod() -> None:
    wrong = [
        (case["id"], expected["pod"])
        for case in golden.cases("kubelet_admission")
        for raw, expected in zip(case["pods"], case["expect"]["pods"], strict=True)
        if Pod.from_object(raw).qos != expected["qos"]
    ]
    assert wrong == []
