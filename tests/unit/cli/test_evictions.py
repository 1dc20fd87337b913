"""Evictions of a plan: a dry run of all comes first, and the first refusal ends it."""

import asyncio
from typing import Any

import pytest

from webhook.cli.evictions import evict
from webhook.kube.api_errors import APIError

UIDS = {"ns/a": "u-a", "ns/b": "u-b"}


class Server:
    """Records evictions. refuses: (name, dry run) -> status."""

    def __init__(self, refuses: dict[tuple[str, bool], int]) -> None:
        self.calls: list[tuple[str, str, bool]] = []
        self._refuses = refuses

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        options = body["deleteOptions"]
        name, dry_run = body["metadata"]["name"], options.get("dryRun") == ["All"]
        assert path == f"/api/v1/namespaces/ns/pods/{name}/eviction"
        self.calls.append((name, options["preconditions"]["uid"], dry_run))
        if status := self._refuses.get((name, dry_run)):
            raise APIError(status, "Refused", "no")
        return {}


def evicted(refuses: dict[tuple[str, bool], int]) -> tuple[Any, Server]:
    server = Server(refuses)
    return asyncio.run(evict(server, UIDS)), server  # type: ignore[arg-type] # what it needs of a client


def test_all_are_tried_before_any_is_evicted() -> None:
    done, server = evicted({})
    assert (done.evicted, done.refused) == (["ns/a", "ns/b"], "")
    assert server.calls == [("a", "u-a", True), ("b", "u-b", True), ("a", "u-a", False), ("b", "u-b", False)]


@pytest.mark.parametrize(("status", "text"), [(429, "postponed"), (403, "rejected"), (409, "changed"), (404, "exist")])
def test_nothing_is_evicted_if_a_dry_run_is_refused(status: int, text: str) -> None:
    done, server = evicted({("b", True): status})
    assert done.evicted == []
    assert done.refused.startswith("pod ns/b cannot be evicted: ")
    assert text in done.refused
    assert all(dry_run for _, _, dry_run in server.calls)


def test_it_ends_with_the_first_refusal_and_says_what_was_evicted() -> None:
    done, server = evicted({("a", False): 429})
    assert (done.evicted, server.calls[2:]) == ([], [("a", "u-a", False)])
    done, _ = evicted({("b", False): 429})
    assert done.evicted == ["ns/a"]
    assert "ns/b" in done.refused
