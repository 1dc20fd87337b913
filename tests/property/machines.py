"""Strategies: small machines, pods of about their size, and the NRT that an exporter would publish."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.builders import pods as builders
from tests.builders.nodes import nrt, resource, zone
from tests.conformance.reference_machine import Machine

GPU = "nvidia.com/gpu"
HUGEPAGES = "hugepages-2Mi"
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


@st.composite
def machines(draw: st.DrawFn, policies: tuple[str, ...] = POLICIES) -> dict[str, Any]:
    """A machine in the form of the golden kubelet cases: 1 to 4 NUMA nodes, equal or not."""
    z = draw(st.integers(1, 4))
    threads = draw(st.sampled_from((1, 1, 2)))
    alike = draw(st.booleans())
    huge = draw(st.booleans())
    cores, memory = st.integers(1, 6), st.integers(2, 8)
    common = (draw(cores), draw(memory))
    numa = []
    for _ in range(z):
        own_cores, own_memory = common if alike else (draw(cores), draw(memory))
        node: dict[str, Any] = {"cpus": own_cores * threads, "memory": f"{own_memory}Gi", "threadsPerCore": threads}
        if huge and (alike or draw(st.booleans())):
            node["hugepages"] = {HUGEPAGES: "2Gi"}
        numa.append(node)
    distances = [[10] * z for _ in range(z)]
    for left in range(z):
        for right in range(left):
            distances[left][right] = distances[right][left] = draw(st.sampled_from((12, 20, 32)))
    near = st.lists(st.integers(0, z - 1), max_size=2, unique=True).map(sorted)
    devices = {f"gpu-{index}": draw(near) for index in range(draw(st.integers(0, 4)))}
    closest = draw(st.booleans())
    return {
        "policy": draw(st.sampled_from(policies)),
        "scope": draw(st.sampled_from(("container", "pod"))),
        "numa": numa,
        "distances": distances,
        "devices": {GPU: devices} if devices else {},
        "options": {"prefer-closest-numa-nodes": "true"} if closest else {},
    }


@st.composite
def pods(draw: st.DrawFn, name: str, *, containers: int = 3, inits: int = 2) -> dict[str, Any]:
    """A pod of any QoS class with init containers and sidecars."""
    guaranteed = draw(st.sampled_from((True, True, True, False)))

    def container(name: str) -> dict[str, Any]:
        amounts: dict[str, str] = {}
        if guaranteed or draw(st.booleans()):
            amounts["cpu"] = draw(st.sampled_from(("500m", "1", "1", "2", "3", "4", "5", "7", "9")))
        if guaranteed or draw(st.booleans()):
            amounts["memory"] = f"{draw(st.sampled_from((1, 1, 2, 3, 4, 5, 7, 9)))}Gi"
        if guaranteed and draw(st.sampled_from((True, False, False, False))):
            amounts[HUGEPAGES] = draw(st.sampled_from(("1Gi", "2Gi", "3Gi")))
        if draw(st.sampled_from((True, False, False))):
            amounts[GPU] = str(draw(st.integers(0, 3)))
        limits = amounts if guaranteed else {key: amount for key, amount in amounts.items() if key == GPU}
        return builders.container(name=name, requests=amounts, limits=limits)

    started = [container(f"init-{index}") for index in range(draw(st.integers(0, inits)))]
    for init in started:
        if draw(st.booleans()):
            init["restartPolicy"] = "Always"
    apps = [container(f"app-{index}") for index in range(draw(st.integers(1, containers)))]
    return builders.created(name=name, namespace="test", numa=None, initContainers=started, containers=apps)


def published(description: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """The current NRT of the machine."""
    zones = []
    for numa_id, listed in machine.published().items():
        distances = {other: description["distances"][numa_id][other] for other in machine.nodes}
        resources = [
            resource(
                name=name,
                **{field: f"{value}m" if name == "cpu" else value for field, value in amounts._asdict().items()},
            )
            for name, amounts in listed.items()
        ]
        zones.append(zone(numa_id=numa_id, resources=resources, costs=distances))
    options = ",".join(f"{key}={value}" for key, value in description["options"].items())
    how = {"policy": description["policy"], "scope": description["scope"]}
    return nrt(node="node", zones=zones, attributes={"topologyManagerPolicyOptions": options}, **how)
