"""The topology tree: domains are paths and slices, and a change of one node does not rebuild it."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.builders.gangs import LEVELS, TOPOLOGY, topology_of, tree_of
from tests.builders.records import node, state
from webhook.engine.gang.workload_gang import NO_TOPOLOGY
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.topology import Topology
from webhook.model.names import HOSTNAME_LABEL

# The example of KAI-Scheduler's design of topology-aware scheduling:
#
# datacenter [32 GPUs]
# ├─ zone-a [16] ─┬─ rack-a1 [6] ── a1 [2]  a2 [2]  a3 [2]
# │               ├─ rack-a2 [4] ── a4 [4]
# │               └─ rack-a3 [6] ── a5 [2]  a6 [2]  a7 [2]
# ├─ zone-b [10] ─┬─ rack-b1 [8] ── b1 [4]  b2 [4]
# │               └─ rack-b2 [2] ── b3 [2]
# └─ zone-c  [6] ─── rack-c1 [6] ── c1 [2]  c2 [4]
EXAMPLE = {
    "a1": ("zone-a", "rack-a1", 2),
    "a2": ("zone-a", "rack-a1", 2),
    "a3": ("zone-a", "rack-a1", 2),
    "a4": ("zone-a", "rack-a2", 4),
    "a5": ("zone-a", "rack-a3", 2),
    "a6": ("zone-a", "rack-a3", 2),
    "a7": ("zone-a", "rack-a3", 2),
    "b1": ("zone-b", "rack-b1", 4),
    "b2": ("zone-b", "rack-b1", 4),
    "b3": ("zone-b", "rack-b2", 2),
    "c1": ("zone-c", "rack-c1", 2),
    "c2": ("zone-c", "rack-c1", 4),
}
NAMES = list(EXAMPLE)


def example(*, hosts: bool) -> TopologyTree:
    labels = ["datacenter", *LEVELS, *([HOSTNAME_LABEL] if hosts else [])]
    paths = [["dc", zone, rack, *([name] if hosts else [])] for name, (zone, rack, _) in EXAMPLE.items()]
    return tree_of(paths, topology_of(*labels))


def domain(tree: TopologyTree, name: str) -> Domain:
    """The domain of this value, or the node of this name."""
    if name in EXAMPLE:
        return Domain(tree.node_level, int(tree.positions()[NAMES.index(name)]))
    for level in range(1, tree.node_level):
        for number in range(tree.size(level)):
            if tree.path(Domain(level, number))[-1:] and tree.path(Domain(level, number))[-1][1] == name:
                return Domain(level, number)
    raise LookupError(name)


@pytest.mark.parametrize("hosts", [True, False])
@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [("c1", "c2", 2), ("rack-b1", "a1", 5), ("a1", "a1", 0), ("a1", "a7", 4), ("zone-a", "rack-a1", 1)],
)
def test_the_distance_of_domains_is_their_steps_in_the_tree(one: str, other: str, steps: int, hosts: bool) -> None:
    tree = example(hosts=hosts)
    assert tree.distance(domain(tree, one), domain(tree, other)) == steps
    assert tree.distance(domain(tree, other), domain(tree, one)) == steps


@pytest.mark.parametrize("hosts", [True, False])
def test_amounts_add_up_along_the_tree(hosts: bool) -> None:
    tree = example(hosts=hosts)
    gpus = np.array([amount for _, _, amount in EXAMPLE.values()], dtype=np.int64)[tree.order]
    assert [tree.sums(level, gpus).tolist() for level in range(4)] == [[32], [32], [16, 10, 6], [6, 4, 6, 8, 2, 6]]
    assert tree.lift(3, 2, tree.sums(3, gpus)).tolist() == [16, 10, 6]
    assert tree.sums(tree.node_level, gpus).tolist() == gpus.tolist()


def test_a_host_name_level_is_the_level_of_nodes() -> None:
    assert example(hosts=True).node_level == example(hosts=False).node_level == 4
    tree = example(hosts=True)
    assert tree.path(domain(tree, "c2"))[-1] == (HOSTNAME_LABEL, "c2")


# zone-a ── rack-1 ── n0
# zone-b ── rack-1 ── n1
def test_racks_of_one_name_in_two_zones_are_two_domains() -> None:
    tree = tree_of([("zone-a", "rack-1"), ("zone-b", "rack-1")])
    assert tree.size(2) == 2
    assert tree.path(Domain(2, 0)) == ((LEVELS[0], "zone-a"), (LEVELS[1], "rack-1"))
    assert tree.distance(Domain(2, 0), Domain(2, 1)) == 4


# zone-a ─┬─ rack-1 ── n0
#         └─ (no rack) ── n1
# (no zone) ── n2 (though it has a rack)
def test_a_node_without_a_label_is_in_no_domain_of_that_level_and_below() -> None:
    tree = tree_of([("zone-a", "rack-1"), ("zone-a", None), (None, "rack-1")])
    assert [tree.real(level).tolist() for level in (1, 2)] == [[True, False], [True, False, False]]
    assert tree.sums(1, np.ones(3, dtype=np.int64)).tolist() == [2, 1]
    assert {label: sorted(nodes.tolist()) for label, nodes in tree.unlabelled()} == {LEVELS[0]: [2], LEVELS[1]: [1, 2]}


def test_values_may_hold_dots_and_slashes_and_look_like_paths() -> None:
    tree = tree_of([("a/b", "c.d"), ("a", "b/c.d")])
    assert tree.size(1) == tree.size(2) == 2


def test_siblings_are_in_the_order_a_person_counts() -> None:
    tree = tree_of([("zone", f"rack-{number}") for number in (10, 9, 2, 100, 1)])
    assert [tree.path(Domain(2, number))[-1][1] for number in range(5)] == [
        "rack-1",
        "rack-2",
        "rack-9",
        "rack-10",
        "rack-100",
    ]


def test_nodes_that_share_a_host_name_are_one_domain_of_that_level() -> None:
    tree = tree_of([("zone", "host"), ("zone", "host"), ("zone", "other")], topology_of(LEVELS[0], HOSTNAME_LABEL))
    assert tree.size(2) == 2
    assert tree.node_level == 3


def test_a_cluster_without_nodes_is_a_tree() -> None:
    tree = tree_of([])
    assert tree.n == 0
    assert tree.sums(ROOT, np.zeros(0, dtype=np.int64)).tolist() == [0]


def contents(tree: TopologyTree) -> list[object]:
    """The content of a tree, without empty domains."""
    found: list[object] = [tree.order.tolist(), None if tree.hosts is None else tree.hosts.codes.tolist()]
    for level in range(tree.node_level):
        for number in range(tree.size(level)):
            at = Domain(level, number)
            inside = tree.order[tree.span(at)].tolist()
            if inside:
                found.append((level, tree.path(at), bool(tree.real(level)[number]), inside))
    return found


def labels(path: Sequence[str | None]) -> dict[str, str]:
    keys = (*LEVELS, HOSTNAME_LABEL)
    return {key: value for key, value in zip(keys, path, strict=True) if value is not None}


@pytest.mark.parametrize("topology", [topology_of(*LEVELS, HOSTNAME_LABEL), TOPOLOGY, NO_TOPOLOGY], ids=str)
def test_a_tree_kept_up_node_by_node_is_the_tree_built_again(topology: Topology) -> None:
    rng = np.random.default_rng(5)

    def path(name: str) -> tuple[str | None, ...]:
        zone = rng.choice(["a", "b", "c10", "c9", ""])
        rack = rng.choice(["r1", "r2", "r10", ""])
        return (str(zone) or None, str(rack) or None, name if rng.random() < 0.9 else None)

    cluster = state(*(node(name=f"n{index}", labels=labels(path(f"n{index}"))) for index in range(6)))
    trees = TopologyTrees()
    trees.tree(topology, cluster.node_arrays())
    for turn in range(300):
        name = f"n{rng.integers(9)}"
        if rng.random() < 0.3 and len(cluster.nodes) > 1:
            cluster.delete_node(name)
        else:
            cluster.upsert_node(node(name=name, labels=labels(path(name))))
        if turn % 3:
            continue
        node_arrays = cluster.node_arrays()
        assert contents(trees.tree(topology, node_arrays)) == contents(TopologyTrees().tree(topology, node_arrays))


def test_a_tree_takes_in_the_first_node_that_has_its_labels() -> None:
    cluster = state(node(name="n0"), node(name="n1"))
    trees = TopologyTrees()
    trees.tree(TOPOLOGY, cluster.node_arrays())
    cluster.upsert_node(node(name="n1", labels=labels(("a", "r1", None))))
    node_arrays = cluster.node_arrays()
    assert contents(trees.tree(TOPOLOGY, node_arrays)) == contents(TopologyTrees().tree(TOPOLOGY, node_arrays))


def test_a_tree_outlives_values_that_are_forgotten() -> None:
    topology = topology_of(HOSTNAME_LABEL, *LEVELS)
    cluster, trees = state(node(name="fixed", labels=labels(("a", "r1", "fixed")))), TopologyTrees()
    for number in range(1_200):
        cluster.upsert_node(node(name=f"n{number}", labels=labels(("a", "r1", f"n{number}"))))
        cluster.delete_node(f"n{number - 1}")
        node_arrays = cluster.node_arrays()
        assert contents(trees.tree(topology, node_arrays)) == contents(TopologyTrees().tree(topology, node_arrays))


# Groups without a Topology have a tree that is its root alone.
def test_a_tree_without_levels_takes_in_changed_new_and_deleted_nodes() -> None:
    cluster = state(node(name="n0"), node(name="n1"))
    trees = TopologyTrees()
    trees.tree(NO_TOPOLOGY, cluster.node_arrays())
    cluster.upsert_node(node(name="n1", labels={"example.com/rack": "r"}))
    cluster.upsert_node(node(name="n0", allocatable={"cpu": 1}))
    assert trees.tree(NO_TOPOLOGY, cluster.node_arrays()).order.tolist() == [0, 1]
    cluster.upsert_node(node(name="n2"))
    assert trees.tree(NO_TOPOLOGY, cluster.node_arrays()).order.tolist() == [0, 1, 2]
    cluster.delete_node("n0")
    assert named(trees.tree(NO_TOPOLOGY, cluster.node_arrays()), cluster) == ["n1", "n2"]


def named(tree: TopologyTree, cluster: ClusterState) -> list[str]:
    """The names of the nodes in the order of the tree."""
    return [cluster.node_arrays().names[n] for n in tree.order.tolist()]


@pytest.mark.parametrize("topology", [TOPOLOGY, NO_TOPOLOGY], ids=str)
def test_nodes_of_one_domain_are_in_order_of_name_however_they_came(topology: Topology) -> None:
    here = labels(("a", "r", None))
    trees, names = TopologyTrees(), ["n3", "n1", "n4"]
    cluster = state(*(node(name=name, labels=here) for name in names))
    assert named(trees.tree(topology, cluster.node_arrays()), cluster) == ["n1", "n3", "n4"]
    cluster.upsert_node(node(name="n2", labels=here))
    assert named(trees.tree(topology, cluster.node_arrays()), cluster) == ["n1", "n2", "n3", "n4"]
    cluster.delete_node("n3")  # the last column takes its place
    assert named(trees.tree(topology, cluster.node_arrays()), cluster) == ["n1", "n2", "n4"]
    cluster.delete_node("n1")
    cluster.upsert_node(node(name="n5", labels=here))
    assert named(trees.tree(topology, cluster.node_arrays()), cluster) == ["n2", "n4", "n5"]


def test_what_is_free_on_a_node_does_not_touch_the_tree() -> None:
    cluster = state(*(node(name=f"n{index}", labels=labels(("a", "r", None))) for index in range(3)))
    trees = TopologyTrees()
    before = trees.tree(TOPOLOGY, cluster.node_arrays())
    cluster.upsert_node(node(name="n1", allocatable={"cpu": 1}, labels=labels(("a", "r", None)), cordoned=True))
    assert trees.tree(TOPOLOGY, cluster.node_arrays()) is before


def test_trees_of_several_topologies_live_side_by_side() -> None:
    other = topology_of(LEVELS[1])
    node_arrays = state(node(name="n0", labels=labels(("a", "r", None)))).node_arrays()
    trees = TopologyTrees()
    assert (trees.tree(TOPOLOGY, node_arrays).node_level, trees.tree(other, node_arrays).node_level) == (3, 2)
    trees.forget([other])
    assert trees.tree(other, node_arrays) is trees.tree(other, node_arrays)
