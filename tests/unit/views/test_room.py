"""What is free in the cluster and its domains, and the largest blocks, for the metrics: the numbers of `racks`."""

import pytest

from tests.builders.clusters import cluster_cache
from tests.builders.nodes import node, nrt
from tests.builders.pods import bound
from tests.builders.topologies import topology
from tests.unit.views.racks import GPU, RACK, ZONE, cluster
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.state.cluster_cache import ClusterCache
from webhook.views.nodes import nodes_without_topology, silent_exporters
from webhook.views.room import rooms


def of(cache: ClusterCache, resource: str) -> list[tuple[object, ...]]:
    snapshot = cache.snapshot()
    found = rooms(snapshot.nodes, cache.topologies_by_name().values(), TopologyTrees())
    return [tuple(room)[1:] for room in found if room.resource == resource]


def test_room_is_told_of_the_cluster_of_the_best_domain_of_each_level_and_of_each_domain() -> None:
    cache = cluster_cache(*cluster())
    (name,) = cache.topologies_by_name()
    assert of(cache, "cpu") == [
        ("", "", "", 89.5, 16),
        (name, ZONE, "", 31, 16),
        (name, ZONE, "zone-a", 26.5, 16),
        (name, ZONE, "zone-b", 31, 16),
        (name, RACK, "", 31, 16),
        (name, RACK, "zone-a/rack-1", 26.5, 16),
        (name, RACK, "zone-a/rack-2", 0, 0),
        (name, RACK, "zone-b/rack-1", 31, 16),
    ]
    assert of(cache, GPU)[:2] == [("", "", "", 14, 2), (name, ZONE, "", 6, 2)]


def test_a_level_with_too_many_domains_is_told_by_its_best_one_alone() -> None:
    machines = [
        each
        for n in range(33)
        for each in (
            node(name=f"n{n:02}", cpus=16, labels={ZONE: "a", RACK: f"r{n:02}"}),
            nrt(node=f"n{n:02}", free=(8, 7), cpus=8),
        )
    ]
    cache = cluster_cache(topology(labels=(ZONE, RACK)), *machines)
    (name,) = cache.topologies_by_name()
    assert of(cache, "cpu") == [
        ("", "", "", 528, 8),
        (name, ZONE, "", 528, 8),
        (name, ZONE, "a", 528, 8),
        (name, RACK, "", 16, 8),
    ]


def test_the_series_of_one_metric_have_labels_of_their_own() -> None:
    # Racks of the same name in two zones, one without a zone, and topologies that differ in their levels.
    cache = cluster_cache(
        topology(labels=(ZONE, RACK)),
        topology(name="racks", labels=(RACK,)),
        *(node(name=f"n{n}", labels=labels) for n, labels in enumerate(({ZONE: "a", RACK: "r"}, {RACK: "r"}, {}))),
    )
    snapshot = cache.snapshot()
    found = list(rooms(snapshot.nodes, cache.topologies_by_name().values(), TopologyTrees()))
    places = [(room.resource, room.topology, room.level, room.domain) for room in found]
    assert len(places) == len(set(places))
    assert {room.domain for room in found if room.level == RACK} >= {"", "a/r", "r"}


def test_a_cluster_without_nodes_has_no_room() -> None:
    assert of(cluster_cache(), "cpu") == []


@pytest.mark.parametrize(
    ("written", "bound_at", "stale"),
    [("2021-01-01T00:00:00Z", "2021-01-01T00:00:01Z", 1), ("2021-01-01T00:00:01Z", "2021-01-01T00:00:00Z", 0)],
)
def test_nodes_without_topology_and_with_one_that_is_older_than_their_last_pod_are_counted(
    written: str, bound_at: str, stale: int
) -> None:
    fields = {"manager": "nfd", "operation": "Update", "time": written, "fieldsV1": {"f:zones": {}}}
    scheduled = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound_at}]}
    cache = cluster_cache(
        node(name="a"),
        node(name="b"),
        nrt(node="a", free=(8, 8), metadata={"managedFields": [fields]}),
        bound(name="p", node="a", cpu=4, status=scheduled),
    )
    assert (nodes_without_topology(cache), len(silent_exporters(cache))) == (1, stale)
