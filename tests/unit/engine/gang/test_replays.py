"""Gangs on nodes of which only a replay can tell: how many replays a gang may cost, and what is found with these."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.builders.gangs import podset, tree_of
from tests.builders.pods import container
from tests.builders.records import GI, node, pod, state, topology
from webhook.engine.gang import gang_assignment as replays
from webhook.engine.gang.admission_replay import Admitted, replay, state_hashes
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import ANYWHERE, Gang
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.result import GangAssignment
from webhook.engine.gang.workload_gang import NO_TOPOLOGY
from webhook.engine.kubelet import all_sets
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import NUMAPolicy

if TYPE_CHECKING:
    from webhook.formats.kubernetes.node import Node
    from webhook.formats.nrt import NodeTopology

# On a restricted node with 16 CPUs in each NUMA node it fits by sums. The kubelet rejects it: 20 CPUs need two NUMA
# nodes, 8Gi need one, and the allocations must agree.
AMOUNTS = {"cpu": "20", "memory": "8Gi"}
TWO = pod(spec={"containers": [container(name=f"c{n}", requests=AMOUNTS, limits=AMOUNTS) for n in range(2)]})
# NUMA nodes of 32 CPUs each hold one container.
LARGE = (32, 32, 32)
# So many states of smaller ones, and all reject the pod.
DIFFERENT = [(16, 16, 16), (16, 16, 15), (16, 15, 16), (15, 16, 16), (14, 16, 16), (16, 14, 16), (16, 16, 14)]


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes each replay had."""
    counts: list[int] = []

    def counted(snapshot: Snapshot, sequences: Mapping[int, Sequence[PodClass]]) -> dict[int, tuple[Admitted, ...]]:
        counts.append(len(sequences))
        with monkeypatch.context() as patched:
            patched.setattr(all_sets, "MOST_ENTRIES", 1 << 19)
            return replay(snapshot, sequences)

    monkeypatch.setattr(replays, "replay", counted)
    # When they are counted, all are judged by their sums: as the last ones of thousands are.
    monkeypatch.setattr(all_sets, "MOST_ENTRIES", 0)
    return counts


def snapshot_of(*frees: tuple[int, ...]) -> Snapshot:
    machines: list[Node | NodeTopology] = []
    for number, free in enumerate(frees):
        name, most = f"n{number:03}", 32 if free == LARGE else 16
        whole = {"cpu": 1000 * most, "memory": 64 * GI}
        allocatable = {"cpu": whole["cpu"] * len(free), "memory": whole["memory"] * len(free), "pods": 110}
        zones = [{"cpu": 1000 * cpu, "memory": 64 * GI} for cpu in free]
        machines += [
            node(name=name, allocatable=allocatable),
            topology(node=name, free=zones, capacity=whole, policy=NUMAPolicy.RESTRICTED),
        ]
    return Snapshot(state(*machines).node_arrays())


def placed(snapshot: Snapshot, members: int = 1) -> GangAssignment:
    gang = Gang("g", ANYWHERE, (podset(name="w", of=TWO, count=members),))
    return assign_gang(snapshot, tree_of([()] * snapshot.node_arrays.n, NO_TOPOLOGY), gang)


def test_nodes_in_one_state_are_replayed_once(replayed: list[int]) -> None:
    found = placed(snapshot_of(*[(16, 16, 16)] * 100, LARGE))
    assert [one.node for one in found.pods()] == ["n100"]
    assert len(replayed) <= 3


def test_of_different_nodes_ever_more_are_replayed_at_once(replayed: list[int]) -> None:
    found = placed(snapshot_of(*((cpus, 16, 16 - cpus % 3) for cpus in range(8, 17) for _ in range(12)), LARGE))
    assert [one.node for one in found.pods()] == ["n108"]
    assert len(replayed) <= 3


def test_beyond_the_budget_a_gang_may_wait_but_this_is_not_certain(
    replayed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "_MOST_ENTRIES", 0)
    found = placed(snapshot_of(*DIFFERENT, LARGE))
    assert (found.assigned, found.exhaustive) == (False, False)
    assert len(replayed) == 1


def test_all_members_of_a_gang_are_on_nodes_that_admit_them(replayed: list[int]) -> None:
    found = placed(snapshot_of(*DIFFERENT, LARGE, *DIFFERENT, LARGE), members=2)
    assert {one.node for one in found.pods()} == {"n007", "n015"}
    assert replayed
    assert not placed(snapshot_of(*DIFFERENT, LARGE, *DIFFERENT, LARGE), members=3).assigned


def test_equal_states_have_equal_hashes_and_others_do_not() -> None:
    hashes = state_hashes(snapshot_of((6, 6), (6, 6), (6, 5), (5, 6)))
    assert hashes[0] == hashes[1]
    assert len(np.unique(hashes)) == 3
