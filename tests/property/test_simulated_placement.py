"""The simulation asks the engine itself, and places single pods and gangs where the Planner would."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.clusters import cluster_cache, machine
from tests.builders.pods import SINGLE, gated, guaranteed
from tests.builders.topologies import topology
from tests.builders.workloads import workload
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.workload.readers import read_workload
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, MIN_MEMBER, NUMA_TOPOLOGY_SPEC
from webhook.placing.gang.gang_search import GangSearch, GatedGang
from webhook.placing.planner import Planner
from webhook.placing.pod.assignment import Assignment
from webhook.simulation.placement import Placed, WebhookPlacement
from webhook.simulation.room import Room
from webhook.simulation.workload import GangRequest, PodGroup, PodKind, Scenario, SimulatedWorkload, Wanted, WantedGang
from webhook.state.rules import Rules

RACK = "example.com/rack"

# For each node its rack, and the free CPUs of its two NUMA nodes.
clusters = st.lists(st.tuples(st.sampled_from("ab"), st.tuples(st.integers(0, 8), st.integers(0, 8))), min_size=1)


def objects(cluster: list[tuple[str, tuple[int, int]]]) -> list[dict[str, Any]]:
    nodes = (machine(name=f"n{n}", free=free, labels={RACK: rack}) for n, (rack, free) in enumerate(cluster))
    return [topology(labels=(RACK,)), *(raw for one in nodes for raw in one)]


def kind_of(raw: dict[str, Any]) -> PodKind:
    pod = Pod.from_object(raw)
    return PodKind(pod, parse_numa_intent(pod.annotations)[0])


@settings(max_examples=200, deadline=None)
@given(clusters, st.integers(1, 9), st.sampled_from([SINGLE, '{"numaTopologyPolicy": "BestEffort"}', None]))
def test_a_pod_goes_where_the_planner_places_it(
    cluster: list[tuple[str, tuple[int, int]]], cpus: int, numa: str | None
) -> None:
    raw = gated(cpu=cpus, numa=numa)
    cache = cluster_cache(*objects(cluster), raw)
    planner, snapshot = Planner(cache, Rules()), cache.snapshot()
    wanted = SimulatedWorkload("p", 0.0, (PodGroup(kind_of(raw), 1),))
    (pod,) = Wanted(Scenario(snapshot, [wanted], Rules(), 1.0)).pods
    placed = WebhookPlacement(Room(snapshot), 0, Rules()).place(pod, frozenset())
    answer = planner.place(planner.read(raw, None))
    if isinstance(answer, Assignment):
        assert placed == Placed(answer.allocation.node, answer.allocation.numa_nodes)
    else:
        assert placed is None


@settings(max_examples=100, deadline=None)
@given(clusters, st.integers(1, 9), st.integers(2, 5), st.booleans())
def test_a_gang_goes_where_the_planner_places_it(
    cluster: list[tuple[str, tuple[int, int]]], cpus: int, count: int, is_bound: bool
) -> None:
    asked = {KAI_TOPOLOGY: "network", KAI_REQUIRED_PLACEMENT: RACK} if is_bound else {}
    asked |= {NUMA_TOPOLOGY_SPEC: SINGLE, MIN_MEMBER: str(count)}
    raws = [gated(name=f"g-{number}", cpu=cpus, group="g", annotations=asked) for number in range(count)]
    cache = cluster_cache(*objects(cluster), *raws)
    planner, snapshot = Planner(cache, Rules()), cache.snapshot()

    members = tuple(planner.read(raw, None) for raw in raws)
    assert members[0].membership is not None
    unit = planner.unit(GatedGang(members[0].membership, members))
    assert unit is not None
    found = planner.search(unit)
    assert isinstance(found, GangSearch)

    template = {"spec": {"containers": [guaranteed(cpu=cpus)], "restartPolicy": "Never"}}
    spec = {"parallelism": count, "completions": count, "template": template}
    read = read_workload(workload(kind="Job", api_version="batch/v1", annotations=asked, spec=spec))
    assert read is not None
    names = tuple(name for each in read.gangs for pod_set in each.pod_sets for name in pod_set.pods)
    of = SimulatedWorkload("g", 0.0, (PodGroup(kind_of(raws[0]), count, names),), gang=GangRequest(read))
    wanted = Wanted(Scenario(snapshot, [of], Rules(), 1.0)).pods
    request = WantedGang(GangRequest(read), {pod.name: pod for pod in wanted})
    placed = WebhookPlacement(Room(snapshot), 0, Rules()).place_gang(request, frozenset())
    assert Counter(one.node for _, one in placed) == Counter(pod.node for pod in found.placement.pods())
