from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.conformance.plugin import NO_INTENT, add_node
from tests.conformance.reference_machine import Machine
from tests.property.machines import machines, pods, published
from tests.property.predictions import prediction, refusal
from tests.unit.engine.whole_way import whole_way
from webhook.engine import kubelet
from webhook.engine.reason import Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import Pod

STRICT = ("single-numa-node",)


def sequence(
    data: st.DataObject, description: Mapping[str, Any], machine: Machine, **sizes: int
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Pods one after the other, each with the pods that are there then. Some leave in between."""
    live: dict[str, Any] = {}
    for index in range(data.draw(st.integers(1, 5))):
        leaves: bool = data.draw(st.booleans())
        if live and leaves:
            gone = data.draw(st.sampled_from(sorted(live)))
            machine.remove(f"test/{gone}")
            del live[gone]
        raw = data.draw(pods(f"pod-{index}", **sizes))
        yield raw, live
        if f"test/pod-{index}" in machine.pods:
            live[f"pod-{index}"] = raw


@settings(max_examples=250, deadline=None)
@given(machines(), st.data())
def test_no_pod_that_a_kubelet_admits_is_refused(description: dict[str, Any], data: st.DataObject) -> None:
    machine = Machine(description)
    for raw, live in sequence(data, description, machine):
        fits = [prediction(description, machine, raw, live, told=told)[2].fits[0] for told in (False, True)]
        if refusal(machine, raw) is None:
            assert fits == [True, True]


@settings(max_examples=100, deadline=None)
@given(machines(), st.data())
def test_an_empty_machine_hides_nothing_from_the_prediction_of_one_container(
    description: dict[str, Any], data: st.DataObject
) -> None:
    raw = data.draw(pods("pod", containers=1, inits=0))
    machine = Machine(description)
    # A device near two NUMA nodes and one near none are counted as two that are near one.
    near = {len(nodes) for devices in machine.devices.values() for nodes in devices.values()}
    assume(not {0, 2} <= near)
    # What the node does not have at all is the node-level check's affair.
    assume(set(Pod.from_object(raw).requests) <= {"cpu", *machine.devices, *machine.memory[0].allocatable})
    _, _, fit = prediction(description, machine, raw, {})
    assert (refusal(machine, raw) is None) == fit.fits[0]


@settings(max_examples=100, deadline=None)
@given(machines(STRICT), st.data())
def test_the_exact_split_of_an_aligned_pod_is_what_the_kubelet_takes(
    description: dict[str, Any], data: st.DataObject
) -> None:
    machine = Machine(description)
    for raw, live in sequence(data, description, machine, containers=1, inits=0):
        _, _, fit = prediction(description, machine, raw, live)
        before = machine.published()
        if refusal(machine, raw) is not None or not fit.fits[0]:
            continue
        after = machine.published()
        ambiguous = any(len(near) != 1 for devices in machine.devices.values() for near in devices.values())
        taken = {
            node: {name: before[node][name].available - after[node][name].available for name in before[node]}
            for node in machine.nodes
        }
        taken = {node: {name: size for name, size in sizes.items() if size} for node, sizes in taken.items()}
        if not ambiguous:
            assert dict(fit.allocation(0)) == {node: sizes for node, sizes in taken.items() if sizes}


@settings(max_examples=100, deadline=None)
@given(machines(STRICT), st.data())
def test_the_short_way_and_the_whole_way_agree(description: dict[str, Any], data: st.DataObject) -> None:
    machine = Machine(description)
    for raw, live in sequence(data, description, machine):
        snapshot, request, fit = prediction(description, machine, raw, live)
        assert (whole_way(snapshot, request, 0)[0] is Reason.FITS) == fit.fits[0]
        refusal(machine, raw)


@settings(max_examples=40, deadline=None)
@given(st.lists(machines(), min_size=2, max_size=6), st.data())
def test_many_nodes_at_once_decide_like_each_alone(descriptions: list[dict[str, Any]], data: st.DataObject) -> None:
    raw = data.draw(pods("pod"))
    pod = Pod.from_object(raw)
    together = ClusterState()
    for index, description in enumerate(descriptions):
        nrt = {**published(description, Machine(description)), "metadata": {"name": f"node-{index}"}}
        allocatable = {name: len(devices) for name, devices in description["devices"].items()}
        add_node(together, f"node-{index}", allocatable, nrt)
    snapshot = Snapshot(together.node_arrays())
    fit = kubelet.predict(snapshot, PodRequest.of(pod, NO_INTENT, snapshot.node_arrays.resources))
    for index, description in enumerate(descriptions):
        _, _, alone = prediction(description, Machine(description), raw, {})
        node = snapshot.node_arrays.index[f"node-{index}"]
        assert (fit.fits[node], fit.mask[node]) == (alone.fits[0], alone.mask[0])
        assert fit.allocation(node) == alone.allocation(0)


@settings(max_examples=100, deadline=None)
@given(machines(("none", "best-effort", "restricted")), st.data())
def test_totals_and_widths_decide_like_all_sets_of_numa_nodes(description: dict[str, Any], data: st.DataObject) -> None:
    machine = Machine(description)
    for raw, live in sequence(data, description, machine, containers=1, inits=0):
        snapshot, request, fit = prediction(description, machine, raw, live)
        assert (whole_way(snapshot, request, 0)[0] is Reason.FITS) == fit.fits[0]
        if fit.wide is not None:
            assert fit.fits[0]
            assert int(fit.mask[0]).bit_count() > 1
        refusal(machine, raw)


#  NUMA 0 ── gpu-1, gpu-2    NUMA 2    [1 cpu, 2Gi each; gpu-0 is near none:
#  NUMA 1 ── gpu-2           NUMA 3     the NRT counts 2 + 1 = 3 devices all the same]
def test_a_device_near_none_beside_one_near_two_hides_no_node_that_admits() -> None:
    near = {"gpu-0": [], "gpu-1": [0], "gpu-2": [0, 1]}
    description = {
        "policy": "best-effort",
        "scope": "pod",
        "numa": [{"cpus": 1, "memory": "2Gi", "threadsPerCore": 1}] * 4,
        "distances": [[10 if left == right else 12 for right in range(4)] for left in range(4)],
        "devices": {"nvidia.com/gpu": near},
        "options": {},
    }
    asked = [("init", "1Gi", None), ("first", "1Gi", "3"), ("second", "4Gi", None)]
    started, *apps = [
        {"name": name, "resources": {"requests": amounts, "limits": amounts}}
        for name, memory, gpus in asked
        for amounts in [{"cpu": "500m", "memory": memory} | ({"nvidia.com/gpu": gpus} if gpus else {})]
    ]
    metadata = {"namespace": "test", "name": "pod", "uid": "pod"}
    raw = {"metadata": metadata, "spec": {"initContainers": [started], "containers": apps}}
    machine = Machine(description)
    _, _, fit = prediction(description, machine, raw, {})
    assert refusal(machine, raw) is None
    assert fit.fits[0]
