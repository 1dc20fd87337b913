"""No pod is denied that some state of the cluster admits: residents and taints come and go.

The states are those of the plain kubelet of tests/conformance/reference.py. It fills a machine with small pods, of
which any may leave again, so that any NUMA nodes are free. The pod is decided on when the machine is empty, with and
without a taint of its node, beside a node that is too small. Its devices may be away meanwhile, beside a node that has
as many and never aligns them.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders import pods as builders
from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt, resource
from tests.conformance.reference import RefusedError, admit
from tests.conformance.reference_machine import Machine
from tests.property.machines import GPU, machines, pods, published
from webhook.admission.pod.mutation import mutate_pod
from webhook.formats.kubernetes.pod import Pod
from webhook.model.names import NUMA_TOPOLOGY_SPEC
from webhook.placing.pod.decision import Verdict
from webhook.state.rules import Rules

# States that are tried of each machine, beside the empty one.
STATES = 12
OWN = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": ""}'}
TAINT = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
# NUMA 0 has 13 CPUs for pods and NUMA 1 has 16; the init container takes NUMA 0 as long as it has room.
SMALL_FIRST = {
    "policy": "single-numa-node",
    "scope": "container",
    "reservedCPUs": "0-2",
    "numa": [{"cpus": 16, "memory": "8Gi"}] * 2,
    "distances": [[10, 20], [20, 10]],
    "devices": {},
    "options": {},
}


Shown = Callable[[int], tuple[int, int]]
"""How many there are -> capacity and allocatable."""
AWAY: dict[str, tuple[Shown, Shown | None]] = {  # of the Node and, if it lists them at all, of the NRT
    "an exporter that is behind": (lambda count: (count, count), lambda count: (count, 0)),
    "an exporter that saw none": (lambda count: (count, count), lambda _: (0, 0)),
    "a device plugin that restarts": (lambda count: (count, 0), lambda count: (count, 0)),
    "the same before the exporter saw it": (lambda count: (count, 0), lambda count: (count, count)),
    "the same, and none listed": (lambda count: (count, 0), None),
    "a device that is unhealthy": (lambda count: (count, max(0, count - 1)), lambda count: (count, max(0, count - 1))),
    "a kubelet that restarts": (lambda _: (0, 0), lambda _: (0, 0)),
    "the same, and none listed now": (lambda _: (0, 0), None),
}


def without_devices(
    machine: dict[str, Any], topology: dict[str, Any], how: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Node and NRT while devices are away."""
    of_node, of_zone = AWAY[how]
    status = machine["status"]
    status["capacity"] = dict(status["allocatable"])
    for name in status["allocatable"].keys() & {GPU}:
        status["capacity"][name], status["allocatable"][name] = map(str, of_node(int(status["allocatable"][name])))
    for zone in topology["zones"]:
        for listed in [one for one in zone["resources"] if one["name"] == GPU]:
            zone["resources"].remove(listed)
            if of_zone is not None:
                capacity, allocatable = of_zone(int(listed["capacity"]))
                zone["resources"].append(resource(name=GPU, capacity=capacity, allocatable=allocatable))
    return machine, topology


def guaranteed(name: str, cpu: str, memory: str = "1Gi", **more: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory, **more}
    return builders.container(name=name, requests=amounts, limits=amounts)


INIT_OF_ONE = builders.created(
    name="pod",
    namespace="test",
    numa=None,
    initContainers=[guaranteed("init", "1")],
    containers=[guaranteed("app", "14")],
)


# Two devices near each NUMA node.
WITH_DEVICES = {
    **SMALL_FIRST,
    "devices": {GPU: {"gpu-0": [0], "gpu-1": [0], "gpu-2": [1], "gpu-3": [1]}},
}
OF_TWO_DEVICES = builders.created(
    name="pod", namespace="test", numa=None, containers=[guaranteed("app", "2", **{GPU: "2"})]
)


def is_admitted(machine: Machine, raw: dict[str, Any]) -> bool:
    try:
        admit(machine, Pod.from_object(raw))
    except RefusedError:
        return False
    return True


def small_pods(random: Random, description: dict[str, Any]) -> list[dict[str, Any]]:
    """Pods of one CPU, 1Gi and sometimes a device: more than the machine takes."""
    count = sum(numa["cpus"] for numa in description["numa"])
    devices = [len(of_kind) for of_kind in description["devices"].values()]
    return [
        builders.created(
            name=f"small-{index}",
            namespace="test",
            numa=None,
            containers=[
                guaranteed("c", "1", random.choice(("1Gi", "1Mi")), **({GPU: "1"} if index < sum(devices) else {}))
            ],
        )
        for index in range(count)
    ]


def some_state_admits(description: dict[str, Any], raw: dict[str, Any], seed: int) -> bool:
    """Whether the empty machine or one of some random states of its pods admits the pod."""
    if is_admitted(Machine(description), raw):
        return True
    for state in range(STATES):
        random = Random(seed + state)  # noqa: S311 - no secret
        machine = Machine(description)
        filled = small_pods(random, description)
        random.shuffle(filled)
        here = [one["metadata"]["name"] for one in filled if is_admitted(machine, one)]
        # Those of the first NUMA nodes came first, so that runs of them leave whole NUMA nodes free.
        first, last = sorted(random.choices(range(len(here) + 1), k=2))
        for name in here[first:last]:
            machine.remove(f"test/{name}")
        if is_admitted(machine, raw):
            return True
    return False


@settings(max_examples=60, deadline=None)
@given(machines(("best-effort", "restricted", "single-numa-node")), pods("pod"), st.integers(0, 2**32), st.booleans())
@example(SMALL_FIRST, INIT_OF_ONE, 1, False)
@example(SMALL_FIRST, INIT_OF_ONE, 1, True)
def test_no_pod_is_denied_that_some_state_admits(
    description: dict[str, Any], raw: dict[str, Any], seed: int, tainted: bool
) -> None:
    asking = {**raw, "metadata": {**raw["metadata"], "annotations": OWN}}
    amounts = {name: len(devices) for name, devices in description["devices"].items()}
    taints = [TAINT] if tainted else []
    cluster = cluster_snapshot(
        node(name="node", cpus=1000, memory="1Ti", devices=amounts, taints=taints),
        published(description, Machine(description)),
        node(name="other", cpus=1),
        nrt(node="other", free=[1], policy="none"),
    )
    if mutate_pod(asking, cluster, Rules()).verdict is Verdict.DENY:
        assert not some_state_admits(description, raw, seed)


@settings(max_examples=60, deadline=None)
@given(
    machines(("best-effort", "restricted", "single-numa-node")),
    pods("pod"),
    st.integers(0, 2**32),
    st.sampled_from(sorted(AWAY)),
    st.sampled_from(("", "SingleNUMANode", "Restricted")),
)
@example(WITH_DEVICES, OF_TWO_DEVICES, 1, "a device plugin that restarts", "")
@example(WITH_DEVICES, OF_TWO_DEVICES, 1, "a kubelet that restarts", "SingleNUMANode")
@example(WITH_DEVICES, OF_TWO_DEVICES, 1, "an exporter that is behind", "")
def test_nor_one_that_fits_once_devices_are_back(
    description: dict[str, Any], raw: dict[str, Any], seed: int, how: str, policy: str
) -> None:
    annotations = {NUMA_TOPOLOGY_SPEC: f'{{"numaTopologyPolicy": "{policy}"}}'}
    asking = {**raw, "metadata": {**raw["metadata"], "annotations": annotations}}
    amounts = {name: len(devices) for name, devices in description["devices"].items()}
    cluster = cluster_snapshot(
        *without_devices(
            node(name="node", cpus=1000, memory="1Ti", devices=amounts),
            published(description, Machine(description)),
            how,
        ),
        node(name="other", cpus=1000, memory="1Ti", devices=amounts),
        nrt(node="other", free=[1, 1], cpus=1, memory="1Gi", devices={GPU: (1, 1)}),
    )
    same_policy = not policy or policy.lower() == description["policy"].replace("-numa-node", "numanode")
    if same_policy and mutate_pod(asking, cluster, Rules()).verdict is Verdict.DENY:
        assert not some_state_admits(description, raw, seed)
