"""Counting pods by division, compared with admitting them one by one in the kubelet's prediction."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.records import node, pod, resident, state, topology
from webhook.engine.gang.admission_replay import replay, settled
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.pod_counts import count
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.nrt import Publisher
from webhook.model.policy import NUMAPolicy, Scope

GPU = "nvidia.com/gpu"
GI = 2**30

amounts = st.fixed_dictionaries(
    {"cpu": st.integers(0, 8).map(lambda cpus: 1000 * cpus)},
    optional={"memory": st.integers(0, 4).map(lambda gigabytes: gigabytes * GI), GPU: st.integers(0, 3)},
)
machine = st.fixed_dictionaries(
    {
        "free": st.lists(amounts, min_size=1, max_size=3),
        "policy": st.sampled_from(NUMAPolicy),
        "scope": st.sampled_from(Scope),
        "publisher": st.sampled_from(Publisher),
        "max_numa_nodes": st.sampled_from([8, 2]),
    }
)
container = st.fixed_dictionaries(
    {"cpu": st.sampled_from(["1", "2", "500m", "3"])},
    optional={"memory": st.sampled_from(["1Gi", "2Gi"]), GPU: st.sampled_from(["0", "1", "2"])},
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(machine, min_size=1, max_size=3),
    st.lists(container, min_size=1, max_size=2),
    st.sampled_from([None, "SingleNUMANode", "Restricted", "BestEffort"]),
    st.booleans(),
)
def test_counts_are_what_a_node_admits_and_never_less_where_only_a_replay_tells(
    machines: list[dict[str, Any]], containers: list[dict[str, str]], policy: str | None, company: bool
) -> None:
    nodes = [
        node(name=f"n{index}", allocatable={"cpu": 20_000, "memory": 20 * GI, GPU: 6, "pods": 9})
        for index in range(len(machines))
    ]
    topologies = [topology(node=f"n{index}", **settings) for index, settings in enumerate(machines)]
    guests = (
        [resident(name="guest", node="n0", requests={"cpu": 1000}, numa={0: {"cpu": 1000}, 1: {"cpu": 0}})]
        if company
        else []
    )
    snapshot = Snapshot(state(*nodes, *topologies, *guests).node_arrays())
    asked = pod(*containers, policy=policy)
    kind = PodClass.of(snapshot, asked, parse_numa_intent(asked.annotations)[0])
    counted = count(snapshot, kind)
    admitted = replay(snapshot, {n: [kind] * 12 for n in range(len(machines)) if counted.nodes[n] > 0})
    for n, most in enumerate(counted.nodes.tolist()):
        got = len(admitted.get(n, ()))
        if kind.ways.open is not None and kind.ways.open[n]:
            assert got <= most
        else:
            assert got == min(most, 12)
    full = settled(snapshot, {n: [kind] * len(pods) for n, pods in admitted.items()})
    assert not count(full, kind).nodes[[n for n in admitted if len(admitted[n]) < 12]].any()
