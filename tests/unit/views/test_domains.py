"""The numbers of each domain are those of the engine's snapshot."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.builders.clusters import cluster_cache, put
from tests.builders.nodes import node
from tests.builders.pods import bound, created
from tests.unit.views.racks import GPU, RACK, TOPOLOGY, ZONE, cluster, machine
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.model.errors import UserError
from webhook.state.cluster_cache import ClusterCache
from webhook.views.domains import DomainView, TopologyView, depth_of, part_of, topology_view, tree_of, usual_depth
from webhook.views.node_amounts import offered_resources, usual_resources

Numbers = tuple[str | None, str | None, int, int, dict[str, tuple[int, int, int | None]]]


def view(cache: ClusterCache, resources: tuple[str, ...] = ("cpu", GPU), depth: int = 3) -> TopologyView:
    topology = next(iter(cache.topologies_by_name().values()), None)
    levels = 0 if topology is None else len(topology.levels)
    return topology_view(cache, topology, resources, min(depth, levels + 1), TopologyTrees())


def walked(domain: DomainView) -> Iterator[DomainView]:
    yield domain
    for each in domain.domains:
        yield from walked(each)


def numbers(domain: DomainView) -> Numbers:
    amounts = {each.resource: (each.free, each.total, each.largest) for each in domain.amounts}
    return domain.level, domain.value, domain.usable, domain.nodes, amounts


def paths(domain: DomainView) -> Iterator[tuple[str | None, ...]]:
    yield ()
    for each in domain.domains:
        yield from ((each.value, *below) for below in paths(each))


def at(domain: DomainView, path: tuple[str | None, ...]) -> DomainView:
    for value in path:
        domain = next(each for each in domain.domains if each.value == value)
    return domain


@pytest.mark.parametrize("depth", range(4))
def test_a_part_is_what_the_whole_view_has_there(depth: int) -> None:
    cache, trees = cluster_cache(*cluster()), TopologyTrees()
    (topology,) = cache.topologies_by_name().values()
    snapshot = cache.snapshot().nodes
    tree = tree_of(snapshot, topology, trees)
    whole = topology_view(cache, topology, ("cpu", GPU), depth, trees).root
    found = list(paths(whole))
    assert len(found) == (1, 4, 8, 13)[depth]
    for path in found:
        part = part_of(path, snapshot, tree)
        assert part is not None
        assert topology_view(cache, topology, ("cpu", GPU), depth, trees, part).root == at(whole, path)


@pytest.mark.parametrize(
    "path", [("zone-c",), ("zone-b", "rack-2"), ("zone-a", "rack-1", "n3"), (None, None, "n4", "x")]
)
def test_a_path_that_leads_nowhere_has_no_part(path: tuple[str | None, ...]) -> None:
    cache = cluster_cache(*cluster())
    snapshot = cache.snapshot().nodes
    assert part_of(path, snapshot, tree_of(snapshot, cache.topologies_by_name()["network"], TopologyTrees())) is None


def test_every_domain_has_the_amounts_of_its_nodes() -> None:
    found = [numbers(domain) for domain in walked(view(cluster_cache(*cluster())).root)]
    assert found == [
        (None, None, 4, 5, {"cpu": (89_500, 160_000, 16_000), GPU: (14, 20, 2)}),
        (ZONE, "zone-a", 2, 3, {"cpu": (26_500, 96_000, 16_000), GPU: (6, 12, 2)}),
        (RACK, "rack-1", 2, 2, {"cpu": (26_500, 64_000, 16_000), GPU: (6, 8, 2)}),
        ("node", "n0", 1, 1, {"cpu": (10_500, 32_000, 8_000), GPU: (2, 4, 2)}),
        ("node", "n1", 1, 1, {"cpu": (16_000, 32_000, 16_000), GPU: (4, 4, 2)}),
        (RACK, "rack-2", 0, 1, {"cpu": (0, 32_000, 0), GPU: (0, 4, 0)}),
        ("node", "n2", 0, 1, {"cpu": (0, 32_000, 0), GPU: (0, 4, 0)}),
        (ZONE, "zone-b", 1, 1, {"cpu": (31_000, 32_000, 16_000), GPU: (4, 4, 2)}),
        (RACK, "rack-1", 1, 1, {"cpu": (31_000, 32_000, 16_000), GPU: (4, 4, 2)}),
        ("node", "n3", 1, 1, {"cpu": (31_000, 32_000, 16_000), GPU: (4, 4, 2)}),
        (ZONE, None, 1, 1, {"cpu": (32_000, 32_000, None), GPU: (4, 4, None)}),
        (RACK, None, 1, 1, {"cpu": (32_000, 32_000, None), GPU: (4, 4, None)}),
        ("node", "n4", 1, 1, {"cpu": (32_000, 32_000, None), GPU: (4, 4, None)}),
    ]


def test_a_block_is_not_larger_than_what_the_node_has_free() -> None:
    # 30 of 32 CPUs are requested, by pods without exclusive CPUs: the exporter shows 16 free on each NUMA node.
    cache = cluster_cache(
        *machine("n0", (16, 16), (2, 2), {}), bound(name="p", node="n0", cpu=30, numa=None, containers=shared(30))
    )
    (amounts,) = view(cache, ("cpu",)).root.amounts
    assert (amounts.free, amounts.largest) == (2_000, 2_000)


def shared(cpus: int) -> list[dict[str, object]]:
    return [{"name": "main", "resources": {"requests": {"cpu": str(cpus)}}}]


def test_what_an_unreported_pod_was_given_is_not_free() -> None:
    allocation = '{"node":"n0","numaNodeResources":[{"node":0,"resources":{"cpu":"10"}}]}'
    given = {"topology-webhook.dev/numa": allocation}
    later = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2030-01-01T03:00:00Z"}]
    cache = cluster_cache(
        *machine("n0", (16, 12), (2, 2), {}),
        bound(name="p", node="n0", cpu=10, annotations=given, status={"conditions": later}),
    )
    (amounts,) = view(cache, ("cpu",)).root.amounts
    assert (amounts.free, amounts.largest) == (22_000, 12_000)  # NUMA node 0 has 6 left


def test_gangs_stand_in_every_domain_with_members() -> None:
    found = {
        (domain.level, domain.value): [(gang.namespace, gang.name, gang.pods, gang.of) for gang in domain.gangs]
        for domain in walked(view(cluster_cache(*cluster())).root)
        if domain.gangs
    }
    train = "default", "train"
    other = ("team", "other", 1, 1)
    assert found == {
        (None, None): [(*train, 3, 3), other],
        (ZONE, "zone-a"): [(*train, 2, 3), other],
        (RACK, "rack-1"): [(*train, 1, 3)],  # the last of this name: that of zone-b
        ("node", "n0"): [(*train, 1, 3)],
        ("node", "n1"): [(*train, 1, 3), other],
        (ZONE, "zone-b"): [(*train, 1, 3)],
        ("node", "n3"): [(*train, 1, 3)],
    }


def test_a_gang_of_a_controller_has_its_name() -> None:
    owner = {"ownerReferences": [{"kind": "Job", "name": "learn", "uid": "u", "controller": True}]}
    asks = {"kai.scheduler/batch-min-member": "1"}
    pod = bound(name="learn-x", node="n0", annotations=asks, metadata=owner)
    root = view(cluster_cache(*machine("n0", (8, 8), (2, 2), {}), pod)).root
    assert [(gang.name, gang.pods) for gang in root.gangs] == [("learn", 1)]


def test_waiting_members_and_unknown_nodes_are_in_no_domain() -> None:
    cache = cluster_cache(
        *machine("n0", (8, 8), (2, 2), {}),
        created(name="g0", group="g"),
        bound(name="g1", node="gone", group="g"),
    )
    assert view(cache).root.gangs == ()


@pytest.mark.parametrize(("depth", "listed", "below"), [(0, 1, 3), (1, 4, 4), (2, 8, 5), (3, 13, 0)])
def test_only_the_wanted_levels_are_listed(depth: int, listed: int, below: int) -> None:
    found = view(cluster_cache(*cluster()), depth=depth)
    assert (len(list(walked(found.root))), found.domains_below) == (listed, below)
    assert found.depth == (None, ZONE, RACK, "node")[depth]


def test_a_cluster_without_topology_has_its_nodes() -> None:
    found = view(cluster_cache(node(name="n0"), node(name="n1")), ("cpu",), 1)
    assert (found.name, found.levels, [each.value for each in found.root.domains]) == ("", (), ["n0", "n1"])


def test_an_empty_cluster_has_an_empty_root() -> None:
    found = view(ClusterCache(), (), 1)
    assert (found.root.nodes, found.root.domains, found.root.amounts) == (0, (), ())


def test_a_depth_is_a_level_a_number_or_node() -> None:
    cache = cluster_cache(*cluster())
    tree = tree_of(cache.snapshot().nodes, cache.topologies_by_name()["network"], TopologyTrees())
    assert [depth_of(name, tree) for name in (ZONE, "rack", "node", "0", "2", "99")] == [1, 2, 3, 0, 2, 3]
    for wrong in ("racks", "-1", "100", "²", ""):
        with pytest.raises(UserError, match="is no level of topology network"):
            depth_of(wrong, tree)


def test_without_a_depth_the_finest_level_that_is_readable_is_listed() -> None:
    cache = cluster_cache(*cluster())
    assert usual_depth(tree_of(cache.snapshot().nodes, None, TopologyTrees())) == 1
    put(cache, *(node(name=f"m{number}", labels={ZONE: f"z{number % 2}"}) for number in range(100)))
    tree = tree_of(cache.snapshot().nodes, cache.topologies_by_name()["network"], TopologyTrees())
    assert usual_depth(tree) == 2


def test_the_usual_resources_are_those_that_most_nodes_offer() -> None:
    cache = cluster_cache(
        node(name="n0", devices={"a.com/one": 1}),
        node(name="n1", devices={GPU: 8, "b.com/two": 1, "c.com/three": 0}),
        node(name="n2", devices={GPU: 8, "b.com/two": 1}),
    )
    snapshot = cache.snapshot().nodes
    assert offered_resources(snapshot) == ("a.com/one", "b.com/two", "cpu", "memory", GPU)
    assert usual_resources(snapshot) == ("cpu", "memory", "b.com/two", GPU)


def test_the_sums_of_5000_nodes_are_those_of_a_plain_loop() -> None:
    random = np.random.default_rng(16)
    labels = [{ZONE: f"z{n % 4}", RACK: f"r{n % 80}"} for n in range(5_000)]
    used = random.integers(0, 33, 5_000).tolist()
    objects = [TOPOLOGY, *(node(name=f"n{n}", cpus=32, labels=labels[n]) for n in range(5_000))]
    pods = [bound(name=f"p{n}", node=f"n{n}", cpu=cpus, numa=None) for n, cpus in enumerate(used)]
    found = view(cluster_cache(*objects, *pods), ("cpu",), 2)
    assert {(zone.value, rack.value): rack.amounts[0].free for zone in found.root.domains for rack in zone.domains} == {
        (zone, rack): sum(1000 * (32 - used[n]) for n in range(5_000) if labels[n] == {ZONE: zone, RACK: rack})
        for zone, rack in {(each[ZONE], each[RACK]) for each in labels}
    }
