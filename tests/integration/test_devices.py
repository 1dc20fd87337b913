"""Devices of Dynamic Resource Allocation on the real control plane: its scheduler allocates the claims.

rack a: plugin  [1 1] GPUs by a device plugin, near NUMA node 0 and 1
rack b: dra-b0  dra-b1  with 2 GPUs each in ResourceSlices, near NUMA node 0
rack c: dra-c0  dra-c1  with 1 GPU each
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.devices import DRIVER, claim_template, device_class, gpus, request, resource_slice
from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL, Machine
from tests.cluster.racked import webhook
from tests.integration.members import member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

__all__ = ["webhook"]  # a fixture

GPU = "nvidia.com/gpu"
API = "/apis/resource.k8s.io/v1"
SLICES = {"dra-b0": 2, "dra-b1": 2, "dra-c0": 1, "dra-c1": 1}


def machine(name: str, rack: str, **how: Any) -> Machine:
    return Machine(name, free=(16, 16), labels={ZONE_LABEL: "z", RACK_LABEL: rack}, **how)


@pytest.fixture
def devices(control_plane: ControlPlane, known: Callable[..., None], pods: Pods) -> Iterator[None]:
    api = control_plane.api
    made = [
        (f"{API}/deviceclasses", device_class(resource=GPU)),
        *((f"{API}/resourceslices", resource_slice(name, gpus(*[0] * count))) for name, count in SLICES.items()),
    ]
    for path, raw in made:
        api.create(path, raw)
    api.create(f"{API}/namespaces/{pods.namespace}/resourceclaimtemplates", claim_template(namespace=pods.namespace))
    known(machine("plugin", "a", devices={GPU: (1, 1)}), *(machine(name, name.partition("-")[2][0]) for name in SLICES))
    yield
    for path, raw in reversed(made):
        api.delete(f"{path}/{raw['metadata']['name']}")


def with_gpus(name: str, count: int, *, resource: str = GPU, **how: Any) -> dict[str, Any]:
    """A pod that requests GPUs as an extended resource."""
    raw = pod(name, cpu=2, **how)
    resources = raw["spec"]["containers"][0]["resources"]
    for amounts in (resources["requests"], resources["limits"]):
        amounts[resource] = str(count)
    return raw


def with_claim(name: str, template: str, **how: Any) -> dict[str, Any]:
    """A pod with a claim that is made from a template."""
    raw = pod(name, **{"cpu": 2, **how}, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": template}])
    raw["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return raw


def test_a_gang_and_pods_go_where_devices_are_and_nothing_is_denied_that_a_node_can_run(
    control_plane: ControlPlane, devices: None, pods: Pods
) -> None:
    # Racks b and c have CPUs for the gang, a and b GPUs for two members, and only b for three.
    gang = [member("g", number, 3, cpu=2) for number in range(3)]
    for raw in gang:
        raw["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        raw["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    control_plane.api.in_parallel(partial(pods.create, raw) for raw in gang)
    pods.wait_until_bound("g-0", "g-1", "g-2")
    assert set(pods.bound().values()) == {"dra-b0", "dra-b1"}
    claims = control_plane.api.get(f"{API}/namespaces/{pods.namespace}/resourceclaims")["items"]
    found = [result for raw in claims for result in raw["status"]["allocation"]["devices"]["results"]]
    assert {one["driver"] for one in found} == {DRIVER}
    assert len({(one["pool"], one["device"]) for one in found}) == 3

    # The device plugin's node has two GPUs, but not near one NUMA node; a node with slices has them once the gang ends.
    pods.create(with_gpus("two", 2))
    pods.wait_until_told("two", "WaitingForPlacement", "could take it once other pods leave")
    assert pods.gated() == {"two"}
    pods.create(with_gpus("one", 1))
    pods.wait_until_bound("one")
    pods.delete("g-0", "g-1", "g-2")
    pods.wait_until_bound("two")
    assert pods.bound()["two"] in {"dra-b0", "dra-b1"}


# near [4 16]  gpu-0 and gpu-1 near NUMA node 0, gpu-2 and gpu-3 near NUMA node 1      [free CPUs per NUMA node]
def test_the_claim_of_a_gated_pod_gets_a_device_near_the_cpus_that_its_kubelet_takes(
    control_plane: ControlPlane, known: Callable[..., None], pods: Pods
) -> None:
    api, claims = control_plane.api, f"{API}/namespaces/{pods.namespace}/resourceclaims"
    made = [(f"{API}/deviceclasses", device_class()), (f"{API}/resourceslices", resource_slice("near"))]
    for path, raw in made:
        api.create(path, raw)
    api.create(f"{API}/namespaces/{pods.namespace}/resourceclaimtemplates", claim_template(namespace=pods.namespace))
    known(Machine("near", free=(4, 16)))
    try:
        pods.create(with_claim("p", "gpu", cpu=8))
        pods.wait_until_bound("p")
        assert pods.allocation("p") == ("near", [1])
        pods.wait_until_says("p", "devices gpu-2 on NUMA 1")
        (claim,) = api.get(claims)["items"]
        (found,) = claim["status"]["allocation"]["devices"]["results"]
        assert (found["device"], found["pool"]) == ("gpu-2", "near")
        uid = pods.get("p")["metadata"]["uid"]
        assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": uid}]
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        # Only we have allocated it: the scheduler has found it so, and left it.
        writers = {one["manager"] for one in claim["metadata"]["managedFields"] if one.get("subresource") == "status"}
        assert not any("scheduler" in one for one in writers), writers
        pods.delete("p")
        control_plane.wait_for("the claim to go with its pod", lambda: not api.get(claims)["items"])
    finally:
        for path, raw in reversed(made):
            api.delete(f"{path}/{raw['metadata']['name']}")


@pytest.mark.long
def test_a_pool_of_device_plugins_and_slices_runs_every_kind_of_request_until_its_last_device_is_taken(
    control_plane: ControlPlane, devices: None, pods: Pods
) -> None:
    # Two GPUs by a device plugin and six in slices; no create is denied, and each pod goes where its kind can run.
    pair = claim_template("pair", [request(count=2)], namespace=pods.namespace)
    control_plane.api.create(f"{API}/namespaces/{pods.namespace}/resourceclaimtemplates", pair)
    of_class = f"deviceclass.resource.kubernetes.io/{DRIVER}"
    for raw, nodes in (
        (with_gpus("extended-2", 2), {"dra-b0", "dra-b1"}),
        (with_claim("claim-2", "pair"), {"dra-b0", "dra-b1"}),
        (with_gpus("class-1", 1, resource=of_class), {"dra-c0", "dra-c1"}),
        (with_claim("claim-1", "gpu"), {"dra-c0", "dra-c1"}),
        (with_gpus("extended-1", 1), {"plugin"}),
        (with_gpus("another-1", 1), {"plugin"}),
    ):
        name = raw["metadata"]["name"]
        pods.create(raw)
        pods.wait_until_bound(name)
        assert pods.bound()[name] in nodes, name
    assert len({pods.bound()[name] for name in ("extended-2", "claim-2")}) == 2

    late = {"more-extended": with_gpus("more-extended", 2), "more-claim": with_claim("more-claim", "pair")}
    for name, raw in late.items():
        pods.create(raw)
        pods.wait_until_told(name, "WaitingForPlacement")
    assert pods.gated() == set(late)
    pods.delete("extended-2", "claim-2")
    pods.wait_until_bound(*late)
    assert {pods.bound()[name] for name in late} == {"dra-b0", "dra-b1"}
