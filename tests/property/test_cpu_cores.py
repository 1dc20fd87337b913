"""CPU bind policies compared with giving the CPUs themselves: every core, every thread, pod after pod."""

from collections import Counter
from functools import cache
from itertools import combinations, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.gangs import podset
from tests.builders.koordlet import bound_pod, koordlet_nrt, resident
from tests.builders.nodes import node
from webhook.engine.decide import decide
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.pod_counts import count
from webhook.engine.gang.workload_gang import NO_TOPOLOGY
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.nrt import NodeTopology

MACHINES = st.fixed_dictionaries(
    {"zones": st.integers(1, 2), "cores": st.integers(1, 3), "threads": st.integers(1, 2)},
)


@st.composite
def taken_machines(draw: st.DrawFn) -> tuple[dict[str, int], list[int]]:
    """A machine, and the CPUs that a pod of Koordinator's scheduler has."""
    machine = draw(MACHINES)
    cpus = machine["zones"] * machine["cores"] * machine["threads"]
    return machine, sorted(draw(st.sets(st.integers(0, cpus - 1), max_size=cpus - 1)))


def snapshot_of(machine: dict[str, Any], taken: list[int]) -> Snapshot:
    """Node n0 with a pod in each NUMA node that has those of the taken CPUs which are there."""
    of_zone = machine["cores"] * machine["threads"]
    state = ClusterState()
    state.upsert_node(Node.from_object(node(name="n0", cpus=of_zone * machine["zones"])))
    state.upsert_topology(NodeTopology.from_object(koordlet_nrt(node="n0", **machine)))
    for zone in range(machine["zones"]):
        if here := [cpu for cpu in taken if cpu // of_zone == zone]:
            numa = {zone: str(len(here))}
            state.upsert_pod(resident(f"held-{zone}", str(len(here)), cpuset=",".join(map(str, here)), numa=numa))
    return Snapshot(state.node_arrays())


def holds(cpus: frozenset[int], required: str, threads: int) -> bool:
    """Whether a set of CPUs satisfies the policy (koordinator: satisfiedRequiredCPUBindPolicy)."""
    cores = {cpu // threads for cpu in cpus}
    return len(cores) * (threads if required == "FullPCPUs" else 1) == len(cpus)


def choices(free: frozenset[int], amount: int, required: str, threads: int) -> list[frozenset[int]]:
    sets = map(frozenset, combinations(sorted(free), amount))
    return [cpus for cpus in sets if holds(cpus, required, threads)]


def most(free: frozenset[int], amount: int, required: str, threads: int) -> int:
    """How many pods one set of CPUs holds at most."""
    return max(
        (1 + most(free - cpus, amount, required, threads) for cpus in choices(free, amount, required, threads)),
        default=0,
    )


def free_by_zone(machine: dict[str, int], taken: list[int]) -> list[frozenset[int]]:
    of_zone = machine["cores"] * machine["threads"]
    return [
        frozenset(range(zone * of_zone, (zone + 1) * of_zone)) - frozenset(taken) for zone in range(machine["zones"])
    ]


@settings(max_examples=200, deadline=None)
@given(
    taken_machines(),
    st.integers(1, 6),
    st.sampled_from(["FullPCPUs", "SpreadByPCPUs"]),
    st.sampled_from(["", "SingleNUMANode"]),
)
def test_a_pod_fits_where_such_cpus_are_free(
    machine_taken: tuple[dict[str, int], list[int]], amount: int, required: str, policy: str
) -> None:
    machine, taken = machine_taken
    raw: dict[str, Any] = bound_pod(str(amount), required, policy=policy)
    pod = Pod.from_object(raw)
    decided = decide(snapshot_of(machine, taken), pod, parse_numa_intent(pod.annotations)[0])
    places = free_by_zone(machine, taken)
    if not policy:
        places = [frozenset().union(*places)]
    assert bool(decided.fits[0]) == any(choices(free, amount, required, machine["threads"]) for free in places)


@settings(max_examples=200, deadline=None)
@given(
    taken_machines(),
    st.integers(1, 4),
    st.sampled_from(["FullPCPUs", "SpreadByPCPUs"]),
    st.sampled_from(["", "SingleNUMANode"]),
)
def test_a_node_counts_as_many_pods_as_get_such_cpus(
    machine_taken: tuple[dict[str, int], list[int]], amount: int, required: str, policy: str
) -> None:
    machine, taken = machine_taken
    pod = Pod.from_object(bound_pod(str(amount), required, policy=policy))
    snapshot = snapshot_of(machine, taken)
    counted = count(snapshot, PodClass.of(snapshot, pod, parse_numa_intent(pod.annotations)[0]))
    places = free_by_zone(machine, taken)
    if not policy:
        places = [frozenset().union(*places)]
    assert counted.nodes[0] == sum(most(free, amount, required, machine["threads"]) for free in places)


@st.composite
def taken_wide_machines(draw: st.DrawFn) -> tuple[dict[str, int], list[int]]:
    """A machine with 4 or 8 threads per core (POWER), and the CPUs that a pod of Koordinator's scheduler has."""
    machine = {
        "zones": draw(st.integers(1, 2)),
        "cores": draw(st.integers(1, 3)),
        "threads": draw(st.sampled_from([4, 8])),
    }
    cpus = machine["zones"] * machine["cores"] * machine["threads"]
    return machine, sorted(draw(st.sets(st.integers(0, cpus - 1), max_size=cpus - 1)))


@cache
def most_of_cores(free: tuple[int, ...], amount: int, required: str, threads: int) -> int:
    """The same as `most`, from the free CPUs of each core: which thread of a core it is makes no difference."""
    if required == "FullPCPUs":
        return free.count(threads) // (amount // threads) if amount % threads == 0 else 0
    found = 0
    for cores in combinations([at for at, each in enumerate(free) if each], amount):
        left = tuple(sorted(each - (at in cores) for at, each in enumerate(free)))
        found = max(found, 1 + most_of_cores(left, amount, required, threads))
    return found


@settings(max_examples=200, deadline=None)
@given(
    taken_wide_machines(),
    st.sampled_from([1, 2, 3, 4, 6, 8, 16]),
    st.sampled_from(["FullPCPUs", "SpreadByPCPUs"]),
    st.sampled_from(["", "SingleNUMANode"]),
)
def test_with_more_threads_a_node_counts_no_pods_that_get_no_such_cpus(
    machine_taken: tuple[dict[str, int], list[int]], amount: int, required: str, policy: str
) -> None:
    machine, taken = machine_taken
    pod = Pod.from_object(bound_pod(str(amount), required, policy=policy))
    snapshot = snapshot_of(machine, taken)
    counted = count(snapshot, PodClass.of(snapshot, pod, parse_numa_intent(pod.annotations)[0]))
    threads = machine["threads"]
    zones = [
        tuple(sorted(sum(cpu // threads == core for cpu in free) for core in {cpu // threads for cpu in free}))
        for free in free_by_zone(machine, taken)
    ]
    places = zones if policy else [tuple(sorted(each for zone in zones for each in zone))]
    truth = sum(most_of_cores(place, amount, required, threads) for place in places)
    if required == "FullPCPUs":
        assert counted.nodes[0] == truth
    else:
        # Which CPUs of a core are free is not known per core, so more than one pod may be counted too low.
        assert min(truth, 1) <= counted.nodes[0] <= truth


def both_fit(zones: list[frozenset[int]], threads: int, whole: list[int], plain: list[int]) -> bool:
    """Whether pods of whole cores and others fit, each within one of these sets of CPUs: every share is tried."""
    for places in product(range(len(zones)), repeat=len(whole) + len(plain)):
        held = True
        for at, free in enumerate(zones):
            cores = Counter(cpu // threads for cpu in free)
            of_whole = sum(cpus for cpus, place in zip(whole, places, strict=False) if place == at)
            of_plain = sum(cpus for cpus, place in zip(plain, places[len(whole) :], strict=True) if place == at)
            in_cores = threads * sum(count == threads for count in cores.values())
            held = held and of_whole <= in_cores and of_whole + of_plain <= len(free)
        if held:
            return True
    return False


@settings(max_examples=150, deadline=None)
@given(
    taken_machines(),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from(["", "SingleNUMANode"]),
)
def test_a_gang_of_pods_with_whole_cores_and_others_is_placed_where_both_fit(
    machine_taken: tuple[dict[str, int], list[int]], cores: int, whole: int, plain: int, cpus: int, policy: str
) -> None:
    machine, taken = machine_taken
    snapshot, threads = snapshot_of(machine, taken), machine["threads"]
    with_cores = Pod.from_object(bound_pod(str(cores * threads), "FullPCPUs", policy=policy))
    others = Pod.from_object(bound_pod(str(cpus), policy=policy, name="q"))
    gang = Gang(
        "g", sets=(podset(name="whole", of=with_cores, count=whole), podset(name="plain", of=others, count=plain))
    )
    tree = TopologyTrees().tree(NO_TOPOLOGY, snapshot.node_arrays)
    places = free_by_zone(machine, taken)
    if not policy:
        places = [frozenset().union(*places)]
    truth = both_fit(places, threads, [cores * threads] * whole, [cpus] * plain)
    assert assign_gang(snapshot, tree, gang).assigned == truth
