"""The table of pods: who is in it, what a search finds, and its parts."""

import pytest

from tests.builders.clusters import cluster_cache
from tests.builders.nodes import node
from tests.builders.pods import bound, created, gated, plain
from webhook.views.pod_table import PART, PodState, pod_table

ALLOCATION = '{"node":"n1","numaNodeResources":[{"node":1,"resources":{"cpu":"8"}}]}'
TEXT = "waiting: SingleNUMANode: none of 1 node fits now"


@pytest.fixture
def cache():  # type: ignore[no-untyped-def]
    return cluster_cache(
        node(name="n1"),
        bound(name="b", node="n1", cpu=8, group="train", annotations={"topology-webhook.dev/numa": ALLOCATION}),
        gated(name="a", group="train", annotations={"topology-webhook.dev/placement": TEXT}),
        created(name="c"),
        plain(name="unmanaged"),
        bound(name="a", namespace="team", node="n1", cpu=1, numa=None),
    )


def test_every_pod_is_in_its_state(cache) -> None:  # type: ignore[no-untyped-def]
    table = pod_table(cache)
    assert [(row.key, row.state, row.node, row.gang) for row in table.rows] == [
        ("default/a", PodState.WAITING, "", "train"),
        ("default/b", PodState.BOUND, "n1", "train"),
        ("default/c", PodState.PENDING, "", ""),
        ("team/a", PodState.BOUND, "n1", ""),
    ]
    assert (table.found, table.total) == (4, 4)
    waiting, bound_pod = table.rows[:2]
    assert (waiting.text, waiting.requests, waiting.numa) == (TEXT, {}, ())
    assert (bound_pod.text, bound_pod.requests["cpu"], bound_pod.numa) == ("", 8000, ((1, {"cpu": 8000}),))


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("", 4),
        ("  ", 4),
        ("team/", ["team/a"]),
        ("N1 bound", ["default/b", "team/a"]),
        ("train waiting", ["default/a"]),
        ("nothing", []),
        ("x" * 10_000, []),
    ],
)
def test_each_word_of_a_search_must_be_found(cache, search: str, found: list[str] | int) -> None:  # type: ignore[no-untyped-def]
    table = pod_table(cache, search)
    keys = [row.key for row in table.rows]
    assert table.found == len(keys) == (found if isinstance(found, int) else len(found))
    assert isinstance(found, int) or keys == found


def test_a_table_comes_in_parts() -> None:
    cache = cluster_cache(node(name="n"), *(bound(name=f"p{n:03}", node="n", cpu=0) for n in range(PART + 5)))
    first, second = pod_table(cache), pod_table(cache, first=PART)
    assert (len(first.rows), len(second.rows), second.found) == (PART, 5, PART + 5)
    assert [first.rows[-1].name, second.rows[0].name] == [f"p{PART - 1:03}", f"p{PART:03}"]
    assert pod_table(cache, first=10**9).rows == ()
