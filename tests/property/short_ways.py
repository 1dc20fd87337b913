"""Machines and pods for which the ways around a search over all sets of NUMA nodes could go wrong."""

from hypothesis import strategies as st

from tests.builders.records import GI, node, pod, state
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.nrt import NodeTopology, Publisher, Zone, ZoneResource
from webhook.model.policy import NUMAPolicy, Scope

BEST_EFFORT, RESTRICTED = NUMAPolicy.BEST_EFFORT, NUMAPolicy.RESTRICTED
GPU = "example.com/gpu"
NIC = "example.com/nic"
HUGE = "hugepages-2Mi"
CAPACITIES = (
    {"cpu": 8000, "memory": 8 * GI, GPU: 2},
    {"cpu": 12000, "memory": 6 * GI, GPU: 2},
    {"cpu": 8000, "memory": 8 * GI, GPU: 2, HUGE: 2 * GI},
)


@st.composite
def topologies(draw: st.DrawFn, name: str, policies: tuple[NUMAPolicy, ...], most: int = 6) -> NodeTopology:
    """A machine of up to `most` NUMA nodes, equal or not. Each resource is unused, used up or in between."""
    alike = draw(st.sampled_from((CAPACITIES[0], CAPACITIES[0], CAPACITIES[2], None)))
    zones = []
    for numa_id in range(draw(st.integers(1, most))):
        capacity = alike or draw(st.sampled_from(CAPACITIES))
        resources = {}
        for resource, amount in capacity.items():
            unit = GI if amount >= GI else 1000 if resource == "cpu" else 1
            free = draw(st.one_of(st.just(amount), st.integers(0, amount // unit).map(unit.__mul__)))
            resources[resource] = ZoneResource(amount, amount, free)
        zones.append(Zone(numa_id, f"node-{numa_id}", {}, resources))
    return NodeTopology(
        node=name,
        policy=draw(st.sampled_from(policies)),
        scope=draw(st.sampled_from(Scope)),
        zones=tuple(zones),
        publisher=draw(st.sampled_from((Publisher.SUBTRACTS, Publisher.SUBTRACTS, Publisher.TOTAL))),
    )


@st.composite
def snapshots(draw: st.DrawFn, policies: tuple[NUMAPolicy, ...], most: int = 6) -> Snapshot:
    names = [f"n{number}" for number in range(draw(st.integers(1, 4)))]
    whole = {"cpu": 10**6, "memory": 2**45, HUGE: 2**45, GPU: 100, "pods": 110}
    nodes = [node(name=name, allocatable=whole) for name in names]
    return Snapshot(state(*nodes, *(draw(topologies(name, policies, most)) for name in names)).node_arrays())


@st.composite
def wide_pods(draw: st.DrawFn, containers: int = 1) -> Pod:
    """A Guaranteed pod that often needs several NUMA nodes for each of its resources."""
    lists = []
    for _ in range(draw(st.integers(1, containers))):
        amounts = {"cpu": str(draw(st.integers(1, 40))), "memory": f"{draw(st.integers(1, 40))}Gi"}
        if draw(st.booleans()):
            amounts[GPU] = str(draw(st.integers(0, 6)))
        if draw(st.sampled_from((False, False, True))):
            amounts[HUGE] = f"{draw(st.integers(0, 6))}Gi"
        lists.append(amounts)
    return pod(*lists, policy=draw(st.sampled_from((None, "Restricted", "BestEffort"))))


def requested(snapshot: Snapshot, wanted: Pod) -> PodRequest:
    intent, _ = parse_numa_intent(wanted.annotations)
    return PodRequest.of(wanted, intent, snapshot.node_arrays.resources)
