"""Pods on nodes whose NUMA nodes the service picks, one after another, compared with a plain search over all sets."""

from dataclasses import dataclass
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.records import GI, node, pod, state, topology
from tests.unit.engine.decisions import decision
from webhook.engine.decide import Decision
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.model.policy import NUMAPolicy

CPUS = 8  # of each NUMA node


@dataclass
class ExclusivePod:
    """An assigned pod."""

    single: bool
    node: str
    numa: dict[int, int]
    """NUMA id -> CPUs."""


def fits_somewhere(assigned: list[ExclusivePod], name: str, zones: int, single: bool, cpus: int) -> bool:
    """Search all sets of NUMA nodes with room and without pods of the other kind."""
    for width in range(1, 2 if single else zones + 1):
        for chosen in combinations(range(zones), width):
            free = sum(CPUS - used(assigned, name, zone) for zone in chosen)
            minded = single or width > 1
            if free >= cpus and not (minded and any(held_by(assigned, name, zone, not single) for zone in chosen)):
                return True
    return False


def used(assigned: list[ExclusivePod], name: str, zone: int) -> int:
    return sum(one.numa.get(zone, 0) for one in assigned if one.node == name)


def held_by(assigned: list[ExclusivePod], name: str, zone: int, single: bool) -> bool:
    """Whether a SingleNUMANode pod, or a pod that spans several NUMA nodes, is there."""
    here = [one for one in assigned if one.node == name and zone in one.numa]
    return any(one.single if single else not one.single and len(one.numa) > 1 for one in here)


def placement(decided: Decision, single: bool) -> ExclusivePod:
    """The best candidate, and what it takes."""
    best = decided.best(1)[0]
    n = decided.snapshot.node_arrays.index[best.node]
    numa = {numa_id: amounts["cpu"] // 1000 for numa_id, amounts in decided.allocation(n)}
    assert set(numa) <= set(best.numa_nodes)
    return ExclusivePod(single, best.node, numa)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.tuples(st.booleans(), st.integers(1, 20)), max_size=10),
)
def test_no_numa_node_holds_both_kinds_and_none_is_over_committed(
    machines: list[int], asked: list[tuple[bool, int]]
) -> None:
    names = [f"n{number}" for number in range(len(machines))]
    whole = {"cpu": 1000 * CPUS}
    nodes = [
        node(name=name, allocatable={"cpu": 1000 * CPUS * zones, "memory": 99 * GI, "pods": 99})
        for name, zones in zip(names, machines, strict=True)
    ]
    nrts = [
        topology(node=name, free=[whole] * zones, policy=NUMAPolicy.NONE)
        for name, zones in zip(names, machines, strict=True)
    ]
    cluster = state(*nodes, *nrts)
    ledger = Ledger()
    assigned: list[ExclusivePod] = []
    for number, (single, cpus) in enumerate(asked):
        wanted = pod({"cpu": str(cpus)}, policy="SingleNUMANode" if single else "Restricted")
        decided = decision(cluster, wanted, ledger=ledger)
        for n, name in enumerate(decided.snapshot.node_arrays.names):
            zones = machines[names.index(name)]
            assert decided.fits[n] == fits_somewhere(assigned, name, zones, single, cpus), (name, assigned)
        if not decided.fit_count:
            continue
        one = placement(decided, single)
        assert sum(one.numa.values()) == cpus
        assigned.append(one)
        amounts = {zone: {"cpu": 1000 * taken} for zone, taken in one.numa.items()}
        policy = NUMAPolicy.SINGLE_NUMA_NODE if single else NUMAPolicy.RESTRICTED
        ledger.put(Reservation.of(f"default/{number}", one.node, amounts, wanted.requests, policy=policy))
    for name, zones in zip(names, machines, strict=True):
        for zone in range(zones):
            assert used(assigned, name, zone) <= CPUS
            assert not (held_by(assigned, name, zone, single=True) and held_by(assigned, name, zone, single=False))
