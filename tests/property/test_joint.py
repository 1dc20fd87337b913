"""NUMA nodes that the service picks, compared with a plain search over all sets of them."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.records import GI, node, pod, state, topology
from tests.unit.engine.decisions import decision, reasons
from webhook.model.policy import NUMAPolicy

CPUS, MEMORY = 8, 16
whole = {"cpu": 1000 * CPUS, "memory": MEMORY * GI}
machines = st.lists(st.tuples(st.integers(0, CPUS), st.integers(0, MEMORY)), min_size=1, max_size=4)


def best_sets(free: list[tuple[int, int]], cpus: int, memory: int, widest: int) -> list[tuple[int, ...]]:
    """The narrowest sets that hold the pod, and of these the fullest with the pod."""
    for width in range(1, widest + 1):
        holding = []
        for chosen in combinations(range(len(free)), width):
            cores, gib = (sum(free[zone][kind] for zone in chosen) for kind in (0, 1))
            if all(all(free[zone]) for zone in chosen) and cores >= cpus and gib >= memory:
                holding.append(((cores - cpus) / (width * CPUS) + (gib - memory) / (width * MEMORY), chosen))
        if holding:
            least = min(left for left, _ in holding)
            return [chosen for left, chosen in holding if left <= least + 1e-9]
    return []


@settings(deadline=None, max_examples=300)
@given(
    machines, st.integers(1, 20), st.integers(1, 40), st.sampled_from(["SingleNUMANode", "Restricted", "BestEffort"])
)
def test_the_narrowest_then_fullest_numa_nodes_that_hold_a_pod_together_are_taken(
    free: list[tuple[int, int]], cpus: int, memory: int, policy: str
) -> None:
    zones = [{"cpu": 1000 * cores, "memory": gib * GI} for cores, gib in free]
    cluster = state(node(name="n"), topology(node="n", free=zones, capacity=whole, policy=NUMAPolicy.NONE))
    decided = decision(cluster, pod({"cpu": str(cpus), "memory": f"{memory}Gi"}, policy=policy))
    expected = best_sets(free, cpus, memory, 1 if policy == "SingleNUMANode" else len(free))
    if not expected:
        assert (reasons(decided)["n"] == "Fits") == (policy == "BestEffort")
        return
    (best,) = decided.best(1)
    assert best.numa_nodes in expected
    given_out = dict(decided.allocation(0))
    assert set(given_out) <= set(best.numa_nodes)
    for resource, amount, unit in (("cpu", 1000 * cpus, 1000), ("memory", memory * GI, 1)):
        parts = {numa_id: amounts.get(resource, 0) for numa_id, amounts in given_out.items()}
        assert sum(parts.values()) == amount
        assert all(part <= zones[numa_id][resource] and part % unit == 0 for numa_id, part in parts.items())
