"""The ranks of a workload: places, and distances worked out by hand.

    zone-a ─┬─ rack-1 ── n0  n1
            └─ rack-2 ── n2
    zone-b ─── rack-1 ── n3
    (none) ───────────── n4  n5, without labels

Levels up to the common domain: same node 0, same rack 1, same zone 2, else 3.
"""

import pytest

from tests.builders.clusters import cluster_cache
from tests.builders.nodes import node
from tests.builders.pods import bound
from tests.builders.topologies import topology
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.views.domains import tree_of
from webhook.views.ranks import PodWithRank, RanksView, gang_ranks, ranks_view, topology_of_pods

ZONE, RACK = "example.com/zone", "example.com/rack"
TOPOLOGY = topology(labels=(ZONE, RACK))
RACKS = {
    "n0": {ZONE: "zone-a", RACK: "rack-1"},
    "n1": {ZONE: "zone-a", RACK: "rack-1"},
    "n2": {ZONE: "zone-a", RACK: "rack-2"},
    "n3": {ZONE: "zone-b", RACK: "rack-1"},
    "n4": {},
    "n5": {},
}
NODES = [node(name=name, labels=labels) for name, labels in RACKS.items()]


def ranked(*places: str, gang: str = "train") -> list[PodWithRank]:
    return [PodWithRank(f"p-{rank}", gang, rank, place, (0,)) for rank, place in enumerate(places)]


def view(*pods: PodWithRank, labels: tuple[str, ...] = (ZONE, RACK)) -> RanksView:
    cache = cluster_cache(topology(labels=labels), *NODES)
    snapshot = cache.snapshot()
    (one,) = cache.topologies_by_name().values()
    return ranks_view(pods, tree_of(snapshot.nodes, one, TopologyTrees()), snapshot.nodes.node_arrays.index)


def test_each_pod_has_its_path_and_its_distance_to_the_one_before_it() -> None:
    found = view(*ranked("n0", "n0", "n1", "n2", "n3"))
    assert [pod.distance for pod in found.pods] == [None, 0, 1, 2, 3]
    assert found.pods[3].domain == ((ZONE, "zone-a"), (RACK, "rack-2"))
    assert (found.topology, found.levels, found.neighbours) == ("network", (ZONE, RACK), 4)


def test_neighbours_that_share_a_node_share_all_above_it() -> None:
    found = view(*ranked("n0", "n0", "n1", "n2", "n3"))
    assert [(each.level, each.neighbours) for each in found.shared] == [("node", 1), (RACK, 2), (ZONE, 3), (None, 4)]


@pytest.mark.parametrize(("one", "other", "distance"), [("n4", "n5", 3), ("n4", "n0", 3), ("n4", "n4", 0)])
def test_nodes_without_labels_share_the_cluster_alone(one: str, other: str, distance: int) -> None:
    assert view(*ranked(one, other)).pods[1].distance == distance


def test_a_pod_without_a_node_has_no_neighbours() -> None:
    found = view(*ranked("n0", "", "n1"))
    assert [pod.distance for pod in found.pods] == [None, None, None]
    assert (found.neighbours, found.pods[1].domain) == (0, ())


def test_neighbours_are_in_one_gang_and_their_ranks_follow_each_other() -> None:
    pods = [
        *ranked("n0", "n1", gang="a"),
        *ranked("n0", "n3", gang="b"),
        PodWithRank("late", "b", 3, "n3", None),
        PodWithRank("none", "b", None, "n3", None),
        PodWithRank("again", "b", 0, "n2", None),
    ]
    found = view(*reversed(pods))
    assert [(pod.gang, pod.name, pod.distance) for pod in found.pods] == [
        ("a", "p-0", None), ("a", "p-1", 1),
        ("b", "again", None), ("b", "p-0", None), ("b", "p-1", 3), ("b", "late", None), ("b", "none", None),
    ]  # fmt: skip


def test_a_level_of_host_names_is_the_node() -> None:
    found = view(*ranked("n0", "n1"), labels=(ZONE, RACK, "kubernetes.io/hostname"))
    assert [(each.level, each.neighbours) for each in found.shared] == [("node", 0), (RACK, 1), (ZONE, 1), (None, 1)]
    assert found.pods[1].domain == ((ZONE, "zone-a"), (RACK, "rack-1"), ("kubernetes.io/hostname", "n1"))


def test_the_topology_is_the_one_that_pods_name_else_the_only_one() -> None:
    one, two = (cluster_cache(topology(name=name, labels=(ZONE,))).topologies_by_name() for name in ("one", "two"))
    assert topology_of_pods(["missing", "two"], {**one, **two}) is two["two"]
    assert topology_of_pods([""], one) is one["one"]
    assert topology_of_pods([], {**one, **two}) is None


def test_a_gang_of_the_cache_has_the_same_view() -> None:
    members = [bound(name=f"m-{rank}", node=place, cpu=1, group="train") for rank, place in enumerate(("n0", "n1"))]
    cache = cluster_cache(TOPOLOGY, *NODES, *members, bound(name="x-0", node="n0", namespace="b", group="train"))
    found = gang_ranks(cache, "default", "train", TopologyTrees())
    assert found is not None
    assert [(pod.name, pod.rank, pod.node, pod.distance) for pod in found.pods] == [
        ("m-0", 0, "n0", None), ("m-1", 1, "n1", 1),
    ]  # fmt: skip
    assert gang_ranks(cache, "default", "none", TopologyTrees()) is None
