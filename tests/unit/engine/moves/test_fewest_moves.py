"""The fewest moves, compared with an exhaustive search on small random clusters."""

import random
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import pytest

from tests.builders.nodes import node, nrt, resource, zone
from tests.builders.pods import bound, gated
from tests.builders.topologies import topology
from webhook.cli.input.documents import Item, Source
from webhook.cli.input.offline_cluster import Cluster, cluster_of
from webhook.cli.offline.defrag_plan import plan_moves
from webhook.engine.decide import decide
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.state.rules import Rules
from webhook.views.defragmentation import DefragmentationView, Defragments

RACK = "example.com/rack"
GANG = {
    "kai.scheduler/topology": "network",
    "kai.scheduler/topology-required-placement": "rack",
    "topology-webhook.dev/min-member": "2",
}
SIZE = 8
"""CPUs of a NUMA node."""

Zone = tuple[str, int]
"""(node, NUMA id)."""
Held = dict[str, tuple[Zone, int]]
"""Running pod -> where it runs, and its CPUs."""


def objects(held: Held, fixed: set[str], racks: dict[str, str]) -> list[dict[str, Any]]:
    """The cluster as exporters show it. fixed: pods without a controller."""
    found: list[dict[str, Any]] = [topology(labels=(RACK,))]
    for name, rack in racks.items():
        free = [SIZE - sum(cpus for zone_, cpus in held.values() if zone_ == (name, numa)) for numa in range(2)]
        zones = [
            zone(
                numa_id=numa,
                resources=[
                    resource(name="cpu", capacity=SIZE, available=cpus),
                    resource(name="memory", capacity="64Gi"),
                ],
            )
            for numa, cpus in enumerate(free)
        ]
        written = {
            "managedFields": [
                {"manager": "nfd", "operation": "Update", "time": "2030-01-01T02:00:00Z", "fieldsV1": {"f:zones": {}}}
            ]
        }
        found += [
            node(name=name, cpus=2 * SIZE, labels={RACK: rack}),
            nrt(node=name, zones=zones, metadata=written),
        ]
    for name, ((on, numa), cpus) in held.items():
        allocation = f'{{"node":"{on}","numaNodeResources":[{{"node":{numa},"resources":{{"cpu":"{cpus}"}}}}]}}'
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"u-{name}", "controller": True}
        metadata = {} if name in fixed else {"ownerReferences": [owner]}
        annotations = {"topology-webhook.dev/numa": allocation}
        found.append(bound(name=name, node=on, cpu=cpus, annotations=annotations, metadata=metadata))
    return found


def cluster(raws: Sequence[dict[str, Any]]) -> Cluster:
    return cluster_of([Item(Source("test", ""), 1, 1, "", raw) for raw in raws])


def plan(raws: Sequence[dict[str, Any]]) -> DefragmentationView:
    (view,) = plan_moves(cluster(raws), [raw for raw in raws if raw["kind"] == "Pod"], Rules(), 1).views
    return view


def random_cluster(seed: int, nodes: int) -> tuple[Held, set[str], dict[str, str]]:
    chance = random.Random(seed)  # noqa: S311 # a fixed seed, no secret
    racks = {f"n{number}": f"rack-{number % 2}" for number in range(nodes)}
    held: Held = {}
    for name in racks:
        for numa in range(2):
            left = SIZE
            while left and chance.random() < 0.7:
                cpus = chance.randint(1, min(left, 6))
                held[f"p{len(held)}"] = (name, numa), cpus
                left -= cpus
    return held, {name for name in held if chance.random() < 0.3}, racks


def size_of_waiting(seed: int) -> int:
    """CPUs, so that never two are in one NUMA node."""
    return 5 + seed % 4


def free_of(held: Held, racks: dict[str, str]) -> dict[Zone, int]:
    free = {(name, numa): SIZE for name in racks for numa in range(2)}
    for zone_, cpus in held.values():
        free[zone_] -= cpus
    return free


def all_fit(sizes: list[int], free: dict[Zone, int]) -> bool:
    """Whether pods of these sizes fit, each in one NUMA node: by trying every way."""
    if not sizes:
        return True
    return any(all_fit(sizes[1:], {**free, at: left - sizes[0]}) for at, left in set_of_kinds(free) if left >= sizes[0])


def set_of_kinds(free: dict[Zone, int]) -> Iterator[tuple[Zone, int]]:
    """NUMA nodes, of those with equal room only one."""
    return iter({left: (at, left) for at, left in free.items()}.values())


def fewest_for_pod(cpus: int, held: Held, fixed: set[str], racks: dict[str, str]) -> int | None:
    """The fewest pods of one node whose move lets a pod start there; 0: it fits anyway; None: there are none."""
    if any(left >= cpus for left in free_of(held, racks).values()):
        return 0
    for size in range(1, len(held) + 1):
        for on in racks:
            movable = [name for name, ((where, _), _) in held.items() if where == on and name not in fixed]
            for moved in combinations(movable, size):
                free = free_of({name: one for name, one in held.items() if name not in moved}, racks)
                sizes = sorted((held[name][1] for name in moved), reverse=True)
                for numa in range(2):
                    left = free[on, numa] - cpus
                    if left >= 0 and all_fit(sizes, {**free, (on, numa): left}):
                        return size
    return None


@pytest.mark.parametrize("seed", range(40))
def test_a_pod_needs_the_fewest_moves(seed: int) -> None:
    held, fixed, racks = random_cluster(seed, 3)
    cpus = size_of_waiting(seed)
    view = plan([*objects(held, fixed, racks), gated(name="waits", cpu=cpus)])
    fewest = fewest_for_pod(cpus, held, fixed, racks)
    if fewest is None:
        assert view.verdict in {Defragments.NO_MOVES, Defragments.NOT_FOUND}
        return
    assert view.verdict in {Defragments.FITS, Defragments.MOVES}, f"{fewest} moves are enough"
    assert (len(view.moves), view.at_least) == (fewest, fewest)
    assert_it_works(view, cpus, held, racks)


def fewest_for_gang(cpus: int, held: Held, fixed: set[str], racks: dict[str, str]) -> int | None:
    """The fewest pods whose move lets two pods start in one rack."""
    movable = [name for name in held if name not in fixed]
    for size in range(len(movable) + 1):
        for moved in combinations(movable, size):
            free = free_of({name: one for name, one in held.items() if name not in moved}, racks)
            sizes = sorted((held[name][1] for name in moved), reverse=True)
            for rack in sorted(set(racks.values())):
                inside = [at for at in free if racks[at[0]] == rack]
                for first, second in combinations(inside, 2):
                    left = {**free, first: free[first] - cpus, second: free[second] - cpus}
                    if min(left.values()) >= 0 and all_fit(sizes, left):
                        return size
    return None


@pytest.mark.parametrize("seed", range(40))
def test_a_gang_needs_the_fewest_moves(seed: int) -> None:
    held, fixed, racks = random_cluster(seed, 3)
    cpus = size_of_waiting(seed)
    gang = [gated(name=f"g-{rank}", group="g", cpu=cpus, annotations=GANG) for rank in range(2)]
    view = plan([*objects(held, fixed, racks), *gang])
    fewest = fewest_for_gang(cpus, held, fixed, racks)
    if fewest is None:
        assert view.verdict in {Defragments.NO_MOVES, Defragments.NOT_FOUND}
        return
    assert view.verdict in {Defragments.FITS, Defragments.MOVES, Defragments.NOT_FOUND}
    if view.verdict is not Defragments.NOT_FOUND:
        assert view.at_least <= fewest <= len(view.moves)
        assert_it_works(view, cpus, held, racks)


def test_nearly_all_gangs_have_the_fewest_moves() -> None:
    found: list[bool] = []
    for seed in range(40):
        held, fixed, racks = random_cluster(seed, 3)
        cpus = size_of_waiting(seed)
        gang = [gated(name=f"g-{rank}", group="g", cpu=cpus, annotations=GANG) for rank in range(2)]
        if fewest := fewest_for_gang(cpus, held, fixed, racks):
            view = plan([*objects(held, fixed, racks), *gang])
            found.append(view.verdict is Defragments.MOVES and len(view.moves) == fewest)
    assert len(found) >= 10
    assert sum(found) >= 0.9 * len(found)


def assert_it_works(view: DefragmentationView, cpus: int, held: Held, racks: dict[str, str]) -> None:
    """The places of a plan hold all pods together, by the sums of each NUMA node and by the engine."""
    after = dict(held)
    for move in view.moves:
        after[move.name] = (move.to_node, move.to_numa_nodes[0]), held[move.name][1]
    for number, start in enumerate(view.starts):
        after[f"start-{number}"] = (start.node, start.numa_nodes[0]), cpus
    assert min(free_of(after, racks).values()) >= 0
    before_start = {name: one for name, one in after.items() if not name.startswith("start-")}
    snapshot = cluster(objects(before_start, set(), racks)).cache.snapshot().nodes
    raw = gated(name="waits", cpu=cpus)
    waiting = decide(snapshot, Pod.from_object(raw), parse_numa_intent(raw["metadata"]["annotations"])[0])
    assert all(waiting.fits[snapshot.node_arrays.index[start.node]] for start in view.starts)
