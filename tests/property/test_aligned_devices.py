"""The devices of a pod's claims are near the CPUs that its kubelet takes, and such as upstream's allocator gives."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.clusters import cluster_cache, machine
from tests.builders.devices import NUMA, claim, device_class, gpus, match, request, resource_slice
from tests.builders.pods import gated
from tests.property.exhaustive_allocation import Exhaustive
from webhook.engine.dra.device_pools import DeviceInventory
from webhook.formats.dra import Claim, DeviceClass, Slice
from webhook.placing.planner import Limits, Planner
from webhook.placing.pod.assignment import Assignment, NoAssignment
from webhook.placing.pod.wait_reason import WaitReason
from webhook.state.rules import Rules

CLASSES: Final = {"gpu.example.com": DeviceClass.from_object(device_class())}
UID: Final = "uid-p"

free_cpus = st.lists(st.integers(0, 8), min_size=2, max_size=2)
device_zones = st.lists(st.sampled_from([0, 1, None]), max_size=4)
nodes = st.lists(st.tuples(free_cpus, device_zones, st.sets(st.integers(0, 3))), min_size=1, max_size=4)
requests = st.lists(st.integers(1, 2), min_size=1, max_size=2)
claims_of_pod = st.lists(st.tuples(requests, st.booleans()), min_size=1, max_size=2)


def raw_claim(number: int, counts: Sequence[int], *, alike: bool) -> dict[str, Any]:
    wanted = [request(f"r{at}", count) for at, count in enumerate(counts)]
    return claim(f"c{number}", wanted, owner=UID, constraints=[match(NUMA)] if alike else [])


def first_of(
    node: str, zones: Sequence[int | None], free: set[int], near: int | None, claims: Sequence[Claim]
) -> list[list[str]] | None:
    """What an allocator takes that sees these devices alone. near: a NUMA node; those of others are not there."""
    inventory = DeviceInventory()
    shown = [at for at in sorted(free) if near is None or zones[at] in {near, None}]
    raw = resource_slice(node, gpus(*zones))
    raw["spec"]["devices"] = [raw["spec"]["devices"][at] for at in shown]
    inventory.put_slice(Slice.from_object(raw))
    return Exhaustive(inventory.on(node, {}), claims, CLASSES).first()


@given(nodes, claims_of_pod, st.integers(1, 8))
def test_the_devices_are_near_the_cpus_and_such_as_upstreams_allocator_gives(
    machines: list[tuple[list[int], list[int | None], set[int]]],
    wanted: list[tuple[list[int], bool]],
    cpu: int,
) -> None:
    objects: list[Mapping[str, Any]] = [device_class()]
    for number, (cpus, zones, taken) in enumerate(machines):
        name = f"n{number}"
        objects += machine(name=name, free=cpus)
        objects.append(resource_slice(name, gpus(*zones)))
        held = [f"gpu-{at}" for at in sorted(taken) if at < len(zones)]
        if held:
            objects.append(claim(f"held-{number}", node=name, devices=held))
    raws = [raw_claim(number, counts, alike=alike) for number, (counts, alike) in enumerate(wanted)]
    entries = [{"name": f"e{number}", "resourceClaimTemplateName": f"t{number}"} for number in range(len(raws))]
    made = [{"name": f"e{number}", "resourceClaimName": f"c{number}"} for number in range(len(raws))]
    pod = gated(name="p", cpu=cpu, resourceClaims=entries)
    pod["metadata"]["uid"] = UID
    pod.setdefault("status", {})["resourceClaimStatuses"] = made
    cache = cluster_cache(*objects, *raws, pod)
    planner = Planner(cache, Rules(), Limits(assume_ttl=1e12))
    found = planner.place(planner.read(cache.gated_pods()["default/p"], None))

    claims = [Claim.from_object(raw) for raw in raws]
    # single-numa-node: the kubelet takes the lowest NUMA node that has the CPUs
    takes = {
        f"n{at}": next((k for k, free in enumerate(cpus) if free >= cpu), None)
        for at, (cpus, _, _) in enumerate(machines)
    }
    near, anywhere = dict[str, list[list[str]]](), set[str]()
    for at, (_, zones, taken) in enumerate(machines):
        name, free = f"n{at}", {*range(len(zones))} - taken
        if takes[name] is not None and (first := first_of(name, zones, free, takes[name], claims)):
            near[name] = first
        if takes[name] is not None and first_of(name, zones, free, None, claims):
            anywhere.add(name)
    if isinstance(found, Assignment) and found.devices:
        node = found.allocation.node
        assert [numa for numa, _ in found.allocation.numa_nodes] == [takes[node]]
        assert [[one.device.name for one in claim.results] for claim in found.devices] == near[node]
    elif isinstance(found, Assignment):  # nothing says where the devices are
        assert "is published" in found.text
        assert near
    else:
        assert not near
        if anywhere and isinstance(found, NoAssignment):
            assert found.reason == WaitReason.DEVICES_APART
