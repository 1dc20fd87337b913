"""Pods that a kubelet would align, with or without an annotation."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.pods import container
from tests.builders.records import cpus, node, pod, state, topology
from webhook.engine.kubelet.alignable import is_aligned_somewhere
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.formats.kubernetes.node import Taint
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.nrt import NodeTopology
from webhook.model.policy import NUMAPolicy

GPU = "example.com/gpu"
BURSTABLE: dict[str, Any] = {"containers": [container(requests={"cpu": "4", "memory": "1Gi"})]}


def cluster(*topologies: NodeTopology, **of_node: Any) -> NodeArrays:
    names = [one.node for one in topologies]
    return state(*(node(name=name, **of_node) for name in names), *topologies).node_arrays()


def with_device(pieces: int, **more: str) -> Pod:
    amounts = {GPU: str(pieces), **more}
    return pod(spec={"containers": [container(requests=amounts, limits={GPU: str(pieces)})]})


# n0 ── NUMA 0 [8 cpus, 64 of memory, 1 GPU]  NUMA 1 [8 cpus, 64 of memory, 1 GPU]
ALL_LISTED = [{"cpu": 8000, "memory": 64 * 2**30, "hugepages-2Mi": 2**30, GPU: 1}] * 2
STRICT = cluster(topology(node="n0", free=ALL_LISTED))
CPU_ONLY = cluster(topology(node="n0", free=cpus(8, 8)))


@pytest.mark.parametrize(
    ("asks", "everything", "cpus_alone"),
    [
        (pod({"cpu": "4", "memory": "1Gi"}), True, True),
        (pod({"cpu": "1500m", "memory": "1Gi"}), True, False),
        (pod({"cpu": "500m", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}), True, True),
        (pod({"cpu": "100m", "memory": "1Gi", "hugepages-2Mi": "2Mi"}), True, False),
        (pod(spec=BURSTABLE), False, False),
        (pod({}), False, False),
        (with_device(1), True, False),
        (with_device(1, cpu="500m"), True, False),
        (with_device(0), False, False),
        (pod({"cpu": "0", "memory": "0"}), False, False),
    ],
)
def test_cpus_memory_and_huge_pages_of_guaranteed_pods_and_devices_of_any(
    asks: Pod, everything: bool, cpus_alone: bool
) -> None:
    assert is_aligned_somewhere(STRICT, asks) is everything
    assert is_aligned_somewhere(CPU_ONLY, asks) is cpus_alone


def test_resources_at_pod_level_are_not_aligned_and_devices_of_such_a_pod_are() -> None:
    amounts = {"cpu": "4", "memory": "1Gi"}
    level = {"resources": {"requests": amounts, "limits": amounts}}
    assert not is_aligned_somewhere(STRICT, pod({"cpu": "4", "memory": "1Gi"}, spec=level))
    assert is_aligned_somewhere(STRICT, pod({"cpu": "4", "memory": "1Gi", GPU: "1"}, spec=level))


def test_init_containers_count() -> None:
    amounts = {"cpu": "2", "memory": "1Gi"}
    init = container(name="i", requests=amounts, limits=amounts)
    assert is_aligned_somewhere(CPU_ONLY, pod({"cpu": "500m", "memory": "1Gi"}, spec={"initContainers": [init]}))


@pytest.mark.parametrize("policy", NUMAPolicy)
def test_only_a_node_with_a_policy_aligns(policy: NUMAPolicy) -> None:
    found = is_aligned_somewhere(
        cluster(topology(node="n0", free=cpus(8, 8), policy=policy)), pod({"cpu": "4", "memory": "1Gi"})
    )
    assert found is (policy is not NUMAPolicy.NONE)


def test_a_node_whose_policy_is_unknown_may_align() -> None:
    unknown = replace(topology(node="n0", free=cpus(8, 8), policy=NUMAPolicy.NONE), unknown_policy="attribute: strict")
    assert is_aligned_somewhere(cluster(unknown), pod({"cpu": "4", "memory": "1Gi"}))


def test_a_device_that_no_numa_node_lists_is_not_aligned() -> None:
    assert not is_aligned_somewhere(CPU_ONLY, with_device(1))
    assert not is_aligned_somewhere(cluster(), pod({"cpu": "4", "memory": "1Gi"}))


@pytest.mark.parametrize(
    ("of_node", "spec"),
    [
        ({"labels": {"pool": "numa"}}, {"nodeSelector": {"pool": "web"}}),
        ({"taints": [Taint("numa", "", "NoSchedule")]}, {}),
    ],
)
def test_a_node_that_the_pod_cannot_go_to_does_not_count(of_node: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    strict = cluster(topology(node="n0", free=cpus(8, 8)), **of_node)
    assert not is_aligned_somewhere(strict, pod({"cpu": "4", "memory": "1Gi"}, spec=spec))
    tolerant = {"tolerations": [{"operator": "Exists"}], "nodeSelector": of_node.get("labels", {})}
    assert is_aligned_somewhere(strict, pod({"cpu": "4", "memory": "1Gi"}, spec=tolerant))


@pytest.mark.parametrize("of_node", [{"cordoned": True}, {"ready": False}])
def test_a_node_that_is_away_for_a_while_counts(of_node: Mapping[str, Any]) -> None:
    assert is_aligned_somewhere(
        cluster(topology(node="n0", free=cpus(8, 8)), **of_node), pod({"cpu": "4", "memory": "1Gi"})
    )
