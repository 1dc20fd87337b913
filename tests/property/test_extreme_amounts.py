"""Whatever amounts pods request and nodes have, a decision on a small cluster succeeds and takes little memory.

Amounts are from nothing to the largest that the API server takes: nothing may be counted or allocated once per unit.
"""

import tracemalloc
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.clusters import cluster_cache
from tests.builders.gangs import podset
from tests.builders.nodes import node, nrt, resource, zone
from tests.builders.pods import created
from webhook.engine.decide import decide
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import ANYWHERE, Gang
from webhook.engine.gang.workload_gang import NO_TOPOLOGY
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.options import Options

# The largest of cpu is counted in millicores.
AMOUNTS = {
    "cpu": ("0", "1m", "3", "64", "1000000", str((2**63 - 1) // 1000)),
    "memory": ("0", "1", "1Ki", "8Gi", "9Gi", "100Ti", str(2**63 - 1)),
    "nvidia.com/gpu": ("0", "1", "8", "100000", str(2**63 - 1)),
}
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
REQUESTED = (None, "BestEffort", "Restricted", "SingleNUMANode")
# A decision on six machines takes less than one. One counter per byte of 8Gi would take 64Gi.
MOST_BYTES = 16 * 2**20


def random_snapshot(random: Random) -> Snapshot:
    zones, policy = random.randint(1, 4), random.choice(POLICIES)
    objects = []
    for number in range(random.randint(1, 6)):
        listed = [zone(numa_id=numa_id, resources=random_resources(random)) for numa_id in range(zones)]
        raw = node(name=f"n{number}")
        raw["status"]["allocatable"] |= {name: random.choice(amounts[2:]) for name, amounts in AMOUNTS.items()}
        objects += [raw, nrt(node=f"n{number}", zones=listed, policy=policy)]
    return cluster_cache(*objects).snapshot().nodes


def random_resources(random: Random) -> list[dict[str, Any]]:
    found = []
    for name, amounts in AMOUNTS.items():
        if random.random() < 0.9:
            capacity = random.choice(amounts)
            available = random.choice((capacity, capacity, "0", random.choice(amounts)))
            found.append(resource(name=name, capacity=capacity, available=available))
    return found


def random_pod(random: Random) -> Pod:
    policy, containers = random.choice(REQUESTED), []
    for number in range(random.choice((1, 1, 2))):
        requests = {name: random.choice(amounts) for name, amounts in AMOUNTS.items() if random.random() < 0.7}
        containers.append({"name": f"c{number}", "resources": {"requests": requests, "limits": requests}})
    numa = None if policy is None else f'{{"numaTopologyPolicy": "{policy}"}}'
    return Pod.from_object(created(name="p", numa=numa, containers=containers))


def decide_all(snapshot: Snapshot, wanted: Pod, members: int) -> None:
    intent, _ = parse_numa_intent(wanted.annotations)
    for fidelity in ("Kubelet", "Plugin"):
        decision = decide(snapshot, wanted, intent, Options(fidelity=fidelity))
        for candidate in decision.best(6):
            decision.allocation(snapshot.node_arrays.index[candidate.node])
    gang = Gang("g", ANYWHERE, (podset(name="w", of=wanted, count=members),))
    assign_gang(snapshot, TopologyTrees().tree(NO_TOPOLOGY, snapshot.node_arrays), gang)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_amount_makes_a_decision_fail_or_large(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    snapshot, wanted = random_snapshot(random), random_pod(random)
    tracemalloc.start()
    try:
        decide_all(snapshot, wanted, members=random.choice((1, 2, 5, 64)))
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


def test_a_full_node_among_others_that_hold_the_pod_on_two_numa_nodes() -> None:
    # n0 [0Gi 0Gi]  n1 [8Gi 8Gi]  n2 [8Gi 8Gi]; the pod needs 9Gi
    objects = []
    for number, free in enumerate(("0", "8Gi", "8Gi")):
        memory = resource(name="memory", capacity="8Gi", available=free)
        cpus = resource(name="cpu", capacity=8, available=8)
        zones = [zone(numa_id=numa_id, resources=[cpus, memory]) for numa_id in range(2)]
        objects += [node(name=f"n{number}", memory="16Gi"), nrt(node=f"n{number}", zones=zones, policy="best-effort")]
    wanted = Pod.from_object(created(cpu=1, memory="9Gi", numa=None))
    decision = decide(cluster_cache(*objects).snapshot().nodes, wanted, parse_numa_intent({})[0], Options())
    assert [(one.node, one.numa_nodes) for one in decision.best(3)] == [("n1", (0, 1)), ("n2", (0, 1))]
