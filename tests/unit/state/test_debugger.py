"""Where the state differs from fresh lists, and what a dump of it shows."""

import json
from collections.abc import Mapping
from typing import Any

from tests.builders.clusters import cluster_cache, machine, put
from tests.builders.nodes import nrt
from tests.builders.pods import bound, gated
from webhook.model.names import NUMA_ALLOCATION
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.debugger import SHOWN, Comparison, Difference, How, Kind, confirmed, dump

KINDS = {"Namespace": Kind.NAMESPACES, "Node": Kind.NODES, "NodeResourceTopology": Kind.TOPOLOGIES, "Pod": Kind.PODS}
NODE, NRT = machine(name="n0", free=[8], labels={"rack": "r0"})
POD = bound(name="p", node="n0", cpu=2)
OBJECTS = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}, NODE, NRT, POD, gated(name="g"))


def compared(cache: ClusterCache, *fresh: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    """The differences from lists with these objects."""
    comparison = Comparison(cache)
    for raw in fresh:
        comparison.saw(KINDS[raw["kind"]], raw)
    return {(one.kind.value, one.key, one.how.value) for one in comparison.differences()}


def assumed(name: str, expires: float) -> AssumedPod:
    return AssumedPod(f"default/{name}", name, "n0", {0: {"cpu": 1000}}, {"cpu": 1000}, None, expires)


def test_a_state_that_has_seen_all_objects_agrees_with_fresh_lists() -> None:
    assert compared(cluster_cache(*OBJECTS), *OBJECTS) == set()


def test_what_was_never_seen_is_missing_and_what_is_gone_is_redundant() -> None:
    assert compared(cluster_cache(NODE, POD), NODE, NRT, gated(name="g")) == {
        ("noderesourcetopologies", "n0", "missing"),
        ("pods", "default/g", "missing"),
        ("pods", "default/p", "redundant"),
    }


def test_another_version_counts_if_decisions_see_the_difference() -> None:
    cache = cluster_cache(*OBJECTS)
    cordoned = {**NODE, "spec": {**NODE.get("spec", {}), "unschedulable": True}}
    fuller = nrt(node="n0", free=(4,), cpus=8)
    moved = bound(name="p", node="n1", cpu=2)
    again = gated(name="g", metadata={"uid": "another"})
    assert compared(cache, OBJECTS[0], cordoned, fuller, moved, again) == {
        ("nodes", "n0", "outdated"),
        ("noderesourcetopologies", "n0", "outdated"),
        ("pods", "default/p", "outdated"),
        ("pods", "default/g", "outdated"),
    }


def test_an_object_that_cannot_be_read_is_in_neither() -> None:
    faulty = bound(name="faulty", node="n0", metadata={"annotations": {NUMA_ALLOCATION: "{"}})
    unreadable = {**faulty, "spec": {**faulty["spec"], "containers": [{"resources": {"requests": {"cpu": "no"}}}]}}
    assert compared(cluster_cache(*OBJECTS, unreadable), *OBJECTS, unreadable) == set()


def test_a_difference_counts_if_two_comparisons_find_it() -> None:
    stays = Difference(Kind.PODS, "default/p", How.MISSING)
    passes = Difference(Kind.NODES, "n0", How.OUTDATED)
    assert confirmed(frozenset({stays, passes}), frozenset({stays})) == [stays]


def test_a_dump_counts_everything_and_names_the_assumed_pods() -> None:
    cache = cluster_cache(*OBJECTS)
    cache.assume(assumed("a", 5.0))
    shown = dump(cache)
    assert (shown["nodes"], shown["pods"], shown["bound"], shown["gated"], shown["assumed"]) == (1, 2, 1, 1, 1)
    assert shown["assumed_pods"] == [
        {"pod": "default/a", "node": "n0", "numa_nodes": [0], "by": "patch", "sure": True, "tentative": False}
    ]


def test_a_dump_has_a_bounded_size_and_nothing_that_objects_say() -> None:
    cache = cluster_cache(*OBJECTS)
    put(cache, gated(name="secret", metadata={"annotations": {"token": "s3cret"}}))
    for number in range(3 * SHOWN):
        cache.assume(assumed(f"p{number:03d}", float(number)))
    shown = dump(cache)
    assert shown["assumed"] == 3 * SHOWN
    assert [one["pod"] for one in shown["assumed_pods"]] == [f"default/p{number:03d}" for number in range(SHOWN)]
    assert "s3cret" not in json.dumps(shown)
    assert len(json.dumps(shown)) < 20_000
