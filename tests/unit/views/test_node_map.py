"""The map of the cluster of `racks.py`: each node's NUMA nodes with what is used, and domains where nodes are many."""

import pytest

from tests.builders.clusters import cluster_cache, put
from tests.builders.nodes import node, nrt
from tests.builders.pods import bound
from tests.unit.views.racks import GPU, RACK, TOPOLOGY, WRITTEN, ZONE, cluster
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.state.cluster_cache import ClusterCache
from webhook.views import node_map
from webhook.views.domains import WHOLE, part_of, tree_of
from webhook.views.node_map import Condition, GangHere, MapView, Marks, Tile, map_view


def view(
    cache: ClusterCache, *path: str, resource: str = "cpu", first: int | None = None, marks: Marks | None = None
) -> MapView:
    snapshot = cache.snapshot().nodes
    tree = tree_of(snapshot, next(iter(cache.topologies_by_name().values()), None), TopologyTrees())
    part = part_of(path, snapshot, tree) if path else WHOLE
    assert part is not None
    return map_view(cache, tree, part, resource, first, marks or Marks())


def tiles(found: MapView) -> dict[str, Tile]:
    return {tile.name: tile for block in found.blocks for tile in block.tiles}


def cells(tile: Tile) -> list[tuple[str, int, int]]:
    return [(cell.name, cell.used, cell.total) for cell in tile.cells]


def test_each_node_is_a_tile_in_the_block_of_its_rack_and_each_numa_node_a_cell() -> None:
    found = view(cluster_cache(*cluster()))
    assert [(block.values, [tile.name for tile in block.tiles]) for block in found.blocks] == [
        (("zone-a", "rack-1"), ["n0", "n1"]),
        (("zone-a", "rack-2"), ["n2"]),
        (("zone-b", "rack-1"), ["n3"]),
        ((None, None), ["n4"]),
    ]
    of = tiles(found)
    assert cells(of["n0"]) == [("0", 8_000, 16_000), ("1", 13_000, 16_000)]
    assert (of["n0"].used, of["n0"].total) == (21_500, 32_000)
    assert cells(of["n3"]) == [("0", 1_000, 16_000), ("1", 0, 16_000)]
    assert cells(of["n4"]) == [("", 0, 32_000)]  # no NUMA node is known
    assert of["n0"].gangs == (GangHere("default/train", 1),)
    assert found.gangs == (GangHere("default/train", 3), GangHere("team/other", 1))


def test_another_resource_fills_the_same_cells() -> None:
    of = tiles(view(cluster_cache(*cluster()), resource=GPU))
    assert cells(of["n0"]) == [("0", 2, 2), ("1", 0, 2)]
    assert cells(of["n1"]) == [("0", 0, 2), ("1", 0, 2)]


def test_what_is_not_known_or_takes_no_pods_is_said() -> None:
    gone = node(name="n5")
    gone["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    # Its exporter wrote at 02:00, and its pod was bound later.
    silent = [node(name="n6"), nrt(node="n6", free=(16, 16), metadata=WRITTEN)]
    late = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2030-01-01T03:00:00Z"}]}
    pod = bound(name="late", node="n6", status=late)
    cache = ClusterCache(clock=lambda: 2_000_000_000.0)
    put(cache, *cluster(), gone, *silent, pod)
    found = view(cache)
    assert {name: tile.condition for name, tile in tiles(found).items()} == {
        "n0": Condition.USABLE,
        "n1": Condition.USABLE,
        "n2": Condition.CORDONED,
        "n3": Condition.USABLE,
        "n4": Condition.UNKNOWN,
        "n5": Condition.NOT_READY,
        "n6": Condition.SILENT,
    }
    assert found.conditions[Condition.USABLE] == 3


def test_a_domain_shows_its_own_nodes_only() -> None:
    cache = cluster_cache(*cluster())
    assert list(tiles(view(cache, "zone-a"))) == ["n0", "n1", "n2"]
    assert list(tiles(view(cache, "zone-a", "rack-2"))) == ["n2"]
    assert view(cache, "zone-a", "rack-2").gangs == ()


def test_marks_are_on_the_numa_nodes_that_a_pod_would_use() -> None:
    cache = cluster_cache(*cluster())
    index = cache.snapshot().nodes.node_arrays.index
    of = tiles(view(cache, marks=Marks({index["n1"]: (2, {1})}, {index["n0"]: "no room"})))
    assert [cell.chosen for cell in of["n1"].cells] == [False, True]
    assert (of["n1"].pods, of["n1"].why, of["n0"].pods, of["n0"].why) == (2, "", 0, "no room")


# zone-a ── rack-1 ── n00 … n05      with room for 4 tiles of 2 nodes on the map
#        └─ rack-2 ── n06 … n09
def many() -> ClusterCache:
    nodes = [
        machine
        for n in range(10)
        for machine in (
            node(name=f"n{n:02}", labels={ZONE: "zone-a", RACK: f"rack-{1 + n // 6}"}),
            nrt(node=f"n{n:02}", free=(16, 16), metadata=WRITTEN),
        )
    ]
    return cluster_cache(TOPOLOGY, *nodes)


def test_many_nodes_are_cells_of_their_racks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_map, "MOST_TILES", 4)
    found = view(many())
    assert not found.of_nodes
    assert [(block.values, [tile.name for tile in block.tiles]) for block in found.blocks] == [
        (("zone-a",), ["rack-1", "rack-2"])
    ]
    assert [cell.name for cell in tiles(found)["rack-2"].cells] == ["n06", "n07", "n08", "n09"]
    assert tiles(found)["rack-1"].total == 6 * 32_000
    assert view(many(), "zone-a", "rack-2").of_nodes


def test_a_domain_with_more_nodes_than_a_tile_can_show_has_several_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_map, "MOST_TILES", 5)
    monkeypatch.setattr(node_map, "_CELLS", 2)
    found = tiles(view(many()))
    assert [(tile.name, tile.first, tile.nodes) for tile in found.values()] == [
        ("n00 … n01", 0, 2),
        ("n02 … n03", 2, 2),
        ("n04 … n05", 4, 2),
        ("n06 … n07", 0, 2),
        ("n08 … n09", 2, 2),
    ]
    second = view(many(), "zone-a", "rack-1", first=2)
    assert list(tiles(second)) == ["n02", "n03"]
    assert list(tiles(view(many(), "zone-a", "rack-1", first=999))) == []


def test_all_nodes_are_drawn_whatever_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node is in one cell or tile, at each size of the map and each level."""
    cache = cluster_cache(*cluster(), *(node(name=f"m{n}") for n in range(7)))
    for most in range(1, 14):
        monkeypatch.setattr(node_map, "MOST_TILES", most)
        for chunk in (1, 2, 64):
            monkeypatch.setattr(node_map, "_CELLS", chunk)
            found = view(cache)
            shown = [
                name
                for block in found.blocks
                for tile in block.tiles
                for name in ([tile.name] if found.of_nodes else [cell.name for cell in tile.cells])
            ]
            assert sorted(shown) == sorted(cache.state.nodes)
            assert sum(len(block.tiles) for block in found.blocks) <= max(most, 1) or not found.of_nodes


def test_a_cluster_without_topology_and_one_without_nodes_have_a_map() -> None:
    flat = cluster_cache(*(node(name=f"n{n:03}") for n in range(200)))
    assert [block.name for block in view(flat).blocks] == [
        "n000 … n063", "n064 … n127", "n128 … n191", "n192 … n199",
    ]  # fmt: skip
    assert view(cluster_cache()).blocks == ()
