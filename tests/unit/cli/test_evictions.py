"""Evictions of a plan: a dry run of all comes first, and the first refusal ends it."""

import asyncio
from typing import Any

import pytest

from webhook.cli.evictions import MovesOfOne, PodOnNode, evict
from webhook.kube.api_errors import APIError

MOVES = [
    MovesOfOne({"ns/a": "u-a", "ns/b": "u-b"}, [PodOnNode("ns/w", "u-w", "n0")]),
    MovesOfOne({"ns/c": "u-c"}, [PodOnNode("ns/x", "u-x", "n1")]),
]
READY = [("dry-run", "a", "u-a"), ("dry-run", "b", "u-b"), ("dry-run", "c", "u-c")]


class Server:
    """Records calls. refuses: (what, name) -> status."""

    def __init__(self, refuses: dict[tuple[str, str], int]) -> None:
        self.calls: list[tuple[str, ...]] = []
        self._refuses = refuses

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        options, name = body["deleteOptions"], body["metadata"]["name"]
        assert path == f"/api/v1/namespaces/ns/pods/{name}/eviction"
        return self._call(
            "dry-run" if options.get("dryRun") == ["All"] else "evict", name, options["preconditions"]["uid"]
        )

    async def write(self, path: str, body: dict[str, Any]) -> None:
        name = path.split("/")[-2]
        assert path == f"/api/v1/namespaces/ns/pods/{name}/status"
        node = body["status"]["nominatedNodeName"]
        self._call(f"nominate {node}", name, body["metadata"]["uid"])

    def _call(self, what: str, name: str, uid: str) -> dict[str, Any]:
        self.calls.append((what, name, uid))
        if status := self._refuses.get((what, name)):
            raise APIError(status, "Refused", "no")
        return {}


def evicted(refuses: dict[tuple[str, str], int]) -> tuple[Any, list[tuple[str, ...]]]:
    server = Server(refuses)
    return asyncio.run(evict(server, MOVES)), server.calls  # type: ignore[arg-type] # what it needs of a client


def test_all_are_tried_and_the_places_nominated_before_any_is_evicted() -> None:
    done, calls = evicted({})
    assert (done.evicted, done.refused) == (["ns/a", "ns/b", "ns/c"], "")
    assert calls == [
        *READY,
        ("nominate n0", "w", "u-w"),
        ("evict", "a", "u-a"),
        ("evict", "b", "u-b"),
        ("nominate n1", "x", "u-x"),
        ("evict", "c", "u-c"),
    ]


@pytest.mark.parametrize(("status", "text"), [(429, "postponed"), (403, "rejected"), (409, "changed"), (404, "exist")])
def test_nothing_is_evicted_if_a_dry_run_is_refused(status: int, text: str) -> None:
    done, calls = evicted({("dry-run", "b"): status})
    assert done.evicted == []
    assert done.refused.startswith("pod ns/b cannot be evicted: ")
    assert text in done.refused
    assert calls == READY[:2]


def test_nothing_is_evicted_without_a_nomination() -> None:
    done, calls = evicted({("nominate n0", "w"): 403})
    assert (done.evicted, done.refused.startswith("pod ns/w cannot be nominated on n0: ")) == ([], True)
    assert calls[3:] == [("nominate n0", "w", "u-w"), ("nominate None", "w", "u-w")]


def test_it_ends_with_the_first_refusal_says_what_was_evicted_and_holds_nothing() -> None:
    done, calls = evicted({("evict", "b"): 429})
    assert done.evicted == ["ns/a"]
    assert "ns/b" in done.refused
    assert calls[3:] == [
        ("nominate n0", "w", "u-w"),
        ("evict", "a", "u-a"),
        ("evict", "b", "u-b"),
        ("nominate None", "w", "u-w"),
    ]
