"""Whether a gang would fit if no other pod ran, and what is missing if not."""

from tests.builders.gangs import GPU, RACK, TOPOLOGY, ZONE, gpus, group, podset, racks, whole_nodes
from tests.builders.records import resident, tell
from webhook.engine.gang.backfill_reservation import nodes_of
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Constraint, Gang
from webhook.engine.gang.resolvable import assign_when_empty
from webhook.engine.gang.result import GangAssignment, Shortfall
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import Domain
from webhook.engine.topology.tree_cache import TopologyTrees

# zone-a ─┬─ rack-1 ── n0 [8]  n1 [4]        [GPUs of each node]
#         └─ rack-2 ── n2 [8]
PLACES = racks(n0="zone-a/rack-1", n1="zone-a/rack-1", n2="zone-a/rack-2")
GPUS = {"n0": {GPU: 8}, "n1": {GPU: 4}, "n2": {GPU: 8}}


def busy() -> ClusterState:
    """All GPUs are taken by other pods."""
    cluster = whole_nodes(places=PLACES, free=GPUS)
    for name, free in GPUS.items():
        tell(cluster, resident(name=f"on-{name}", node=name, requests=free))
    return cluster


def answers(asked: Gang, within: Domain | None = None) -> tuple[GangAssignment, GangAssignment]:
    """The assignments now, and if no other pod ran."""
    snapshot = Snapshot(busy().node_arrays())
    tree = TopologyTrees().tree(TOPOLOGY, snapshot.node_arrays)
    now = snapshot if within is None else snapshot.closed(~nodes_of(tree, within))
    return assign_gang(now, tree, asked), assign_when_empty(snapshot, tree, asked, within)


def test_a_group_that_waits_for_other_pods_to_leave_has_a_place_then() -> None:
    now, empty = answers(group(podset(name="w", of=gpus(4), count=3), constraint=Constraint(RACK)))
    assert (now.assigned, empty.assigned) == (False, True)


def test_of_one_that_fits_not_even_then_it_says_what_the_best_domain_holds_and_what_each_more_pod_takes() -> None:
    now, empty = answers(group(podset(name="w", of=gpus(4), count=5), constraint=Constraint(RACK)))
    assert not now.assigned
    assert (empty.assigned, empty.exhaustive) == (False, True)
    assert empty.why == (
        Shortfall("example.com/rack", (("example.com/zone", "zone-a"), ("example.com/rack", "rack-1")), 3, 5, GPU, 4),
    )


def test_members_that_run_stay_and_take_their_room() -> None:
    # Of the 5 pods that zone-a holds in all, 1 runs: beside it there is room for 4.
    for count, fits in ((4, True), (5, False)):
        members = podset(name="w", of=gpus(4), count=count, running=[(0, "n0")])
        assert answers(group(members, constraint=Constraint(ZONE)))[1].assigned is fits


def test_a_group_that_has_begun_is_held_to_its_domain() -> None:
    # In rack-2 there are 2 places.
    rack_2 = Domain(RACK, 1)
    for count, fits in ((2, True), (3, False)):
        assert (
            answers(group(podset(name="w", of=gpus(4), count=count), constraint=Constraint(RACK)), rack_2)[1].assigned
            is fits
        )
