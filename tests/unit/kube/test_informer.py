"""The informer in every state of the list/watch protocol, and which events of a watch are not decoded whole."""

import asyncio
import gc
import json
from typing import Any

import pytest

from tests.unit.kube.listwatch import (
    BREAK,
    HOLD,
    NODES,
    Copy,
    ListWatch,
    ServerError,
    bookmark,
    event,
    informing,
    serving,
    status,
    until,
)
from webhook.kube.api_errors import APIError
from webhook.kube.informer import Informer, Phase, ResourceGoneError
from webhook.kube.large_field import LargeField
from webhook.kube.pacing import Backoff
from webhook.model.raw import Raw


async def test_a_list_is_read_page_by_page_and_then_watched_from_its_version() -> None:
    script = ListWatch()
    for number in range(7):
        script.put(f"n{number}")
    async with informing(script, page_size=3) as (informer, copy):
        await until(lambda: script.watch_versions)
        assert informer.synced.is_set()
        assert sorted(copy.objects) == [f"n{number}" for number in range(7)]
        assert [query.get("continue") for query in script.lists] == [None, "3", "6"]
        assert script.watch_versions == [str(script.version)]


async def test_events_change_the_copy_and_a_watch_goes_on_where_the_last_one_ended() -> None:
    script = ListWatch()
    script.put("n0")
    second = {"metadata": {"name": "n1", "resourceVersion": "200"}}
    changed = {"metadata": {"name": "n0", "resourceVersion": "201", "labels": {"a": "b"}}}
    script.watches.append([event("ADDED", second), event("MODIFIED", changed), event("DELETED", second)])
    async with informing(script) as (_, copy):
        await until(lambda: len(script.watch_versions) == 2)
        assert copy.log == ["+n0", "+n1", "+n0", "-n1"]
        assert copy.objects["n0"]["metadata"]["labels"] == {"a": "b"}
        assert script.watch_versions[1] == "200"
        assert len(script.lists) == 1


async def test_a_bookmark_moves_the_version_without_touching_the_copy() -> None:
    script = ListWatch()
    script.put("n0")
    script.watches.append([bookmark(900)])
    async with informing(script) as (_, copy):
        await until(lambda: len(script.watch_versions) == 2)
        assert copy.log == ["+n0"]
        assert script.watch_versions[1] == "900"


async def test_an_event_torn_into_chunks_is_put_together() -> None:
    script = ListWatch()
    line = event("ADDED", {"metadata": {"name": "torn-ü", "resourceVersion": "200"}})
    cut = line.index("ü".encode()) + 1  # in the middle of a character
    script.watches.append([line[:5], line[5:cut], line[cut:] + bookmark(201), HOLD])
    async with informing(script) as (_, copy):
        await until(lambda: "torn-ü" in copy.objects)


async def test_half_an_event_at_the_end_of_a_broken_watch_is_dropped_and_asked_for_again() -> None:
    script = ListWatch()
    script.put("n0")
    line = event("ADDED", {"metadata": {"name": "n1", "resourceVersion": "200"}})
    script.watches.append([bookmark(150), line[:20], BREAK])
    script.watches.append([line, HOLD])
    async with informing(script) as (_, copy):
        await until(lambda: "n1" in copy.objects)
        assert script.watch_versions[1] == "150"
        assert len(script.lists) == 1


async def test_a_watch_that_is_open_again_counts_though_nothing_comes_but_it_may_still_owe_events() -> None:
    script = ListWatch()
    script.put("n0")
    script.refusals.append(ServerError("watch", 429, status(429, "TooManyRequests")))
    script.watches.append([HOLD])
    async with informing(script) as (informer, _):
        await informer.synced.wait()
        assert informer.status.caught_up
        await until(lambda: len(script.watch_versions) == 2 and informer.status.phase is Phase.WATCHING)
        assert informer.status.error == ""
        assert not informer.status.caught_up


TOO_LARGE = status(504, "Timeout", "Too large resource version", ["ResourceVersionTooLarge"])


@pytest.mark.parametrize(
    "watch",
    [[event("ERROR", status(410, "Gone"))], [event("ERROR", TOO_LARGE)], [bookmark(150), HOLD]],
    ids=["410 in its middle", "a storage older than the version seen", "it falls silent"],
)
async def test_a_watch_that_cannot_go_on_leads_to_a_new_list(
    watch: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    if HOLD in watch:
        monkeypatch.setattr("webhook.kube.informer._SILENCE_SECONDS", 0.1)
    script = ListWatch()
    script.put("n0")
    script.watches.append(watch)
    async with informing(script) as (informer, copy):
        await until(lambda: informer.status.lists == 2)
        assert sorted(copy.objects) == ["n0"]


async def test_a_watch_refused_with_410_leads_to_a_new_list_that_finds_deletions() -> None:
    script = ListWatch()
    script.put("stays")
    script.put("goes")
    script.watches.append([bookmark(150), BREAK])
    async with informing(script) as (informer, copy):
        await informer.synced.wait()
        assert "managedFields" not in copy.objects["goes"]["metadata"]
        del script.objects["goes"]
        script.put("comes")
        script.refusals.append(ServerError("watch", 410, status(410, "Expired")))
        await until(lambda: "comes" in copy.objects)
        await until(lambda: informer.status.lists == 2)
        assert sorted(copy.objects) == ["comes", "stays"]
        assert copy.log[-1] == "-goes"  # after everything else: the copy never holds too little


async def test_another_error_in_the_middle_of_a_watch_resumes_it_without_a_list() -> None:
    script = ListWatch()
    script.watches.append([bookmark(150), event("ERROR", status(500, "InternalError"))])
    script.watches.append([bookmark(151), HOLD])
    async with informing(script) as (informer, _):
        await until(lambda: len(script.watch_versions) == 2)
        assert script.watch_versions[1] == "150"
        assert informer.status.lists == 1


async def test_a_continue_token_that_expires_starts_the_list_again() -> None:
    script = ListWatch()
    for number in range(4):
        script.put(f"n{number}")
    script.refusals.append(ServerError("page", 410, status(410, "Expired")))
    async with informing(script, page_size=3) as (informer, copy):
        await informer.synced.wait()
        assert [query.get("continue") for query in script.lists] == [None, "3", None, "3"]
        assert sorted(copy.objects) == ["n0", "n1", "n2", "n3"]


async def test_what_an_interrupted_list_brought_is_deleted_when_the_next_one_has_it_no_more() -> None:
    script = ListWatch()

    class Deleting(Copy):
        def upsert(self, key: str, raw: Raw) -> None:
            super().upsert(key, raw)
            script.objects.pop("n0", None)

    for number in range(4):
        script.put(f"n{number}")
    script.refusals.append(ServerError("page", 503, status(503, "ServiceUnavailable")))
    async with informing(script, page_size=3, copy=Deleting()) as (informer, copy):
        await informer.synced.wait()
        assert copy.log[0] == "+n0"
        assert sorted(copy.objects) == ["n1", "n2", "n3"]


async def test_429_is_not_retried_before_the_time_the_server_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    script = ListWatch()
    script.refusals.append(ServerError("list", 429, status(429, "TooManyRequests"), headers={"Retry-After": "7"}))
    monkeypatch.setattr("webhook.kube.informer.asyncio.sleep", note)
    async with informing(script) as (informer, _):
        await informer.synced.wait()
    assert any(7.0 <= wait <= 7.001 for wait in waits)


async def test_a_refused_list_is_told_and_retried() -> None:
    script = ListWatch()
    forbidden = status(403, "Forbidden", "nodes is forbidden: User cannot list")
    script.refusals.extend(ServerError("list", 403, forbidden) for _ in range(3))
    async with informing(script) as (informer, _):
        await until(lambda: informer.status.error)
        assert "nodes is forbidden" in informer.status.error
        await informer.synced.wait()
        assert informer.status.error == ""


async def test_a_proxys_error_page_is_told_in_its_own_words() -> None:
    script = ListWatch()
    script.refusals.append(ServerError("list", 502, {"html": "upstream is down"}))
    async with serving(script) as client:
        with pytest.raises(APIError, match=r"502 Bad Gateway: .*upstream is down"):
            await client.get(NODES.path, {"limit": 1})


async def test_an_api_server_that_is_down_is_told_and_waited_for(unused_tcp_port: int) -> None:
    script = ListWatch()
    async with serving(script) as client:
        informer = Informer(client, NODES, Copy(), backoff=Backoff(base=0.001, cap=0.01))
        client._credentials.configuration.host, address = f"http://127.0.0.1:{unused_tcp_port}", client.host
        task = asyncio.create_task(informer.run())
        await until(lambda: informer.status.phase is Phase.WAITING)
        assert "Cannot connect" in informer.status.error
        client._credentials.configuration.host = address
        await informer.synced.wait()
        task.cancel()
        await asyncio.wait({task})


async def test_garbage_in_a_watch_is_not_taken_for_an_event() -> None:
    script = ListWatch()
    script.watches.append([b"<html>gateway timeout</html>\n"])
    script.watches.append([json.dumps({"type": "ADDED"}).encode() + b"\n"])
    script.watches.append([event("ADDED", {"metadata": {"name": "n1", "resourceVersion": "200"}}), HOLD])
    async with informing(script) as (informer, copy):
        await until(lambda: "n1" in copy.objects)
        assert informer.status.lists == 1


async def test_a_collection_that_is_not_served_ends_the_informer() -> None:
    script = ListWatch()
    script.refusals.append(ServerError("list", 404, status(404, "NotFound")))
    async with serving(script) as client:
        informer = Informer(client, NODES, Copy(), backoff=Backoff(base=0.001))
        with pytest.raises(ResourceGoneError):
            await informer.run()


async def test_a_handlers_exception_is_the_informers_end() -> None:
    class Broken(Copy):
        def upsert(self, key: str, raw: Raw) -> None:
            raise ZeroDivisionError(key)

    script = ListWatch()
    script.put("n0")
    async with serving(script) as client:
        with pytest.raises(ZeroDivisionError):
            await Informer(client, NODES, Broken()).run()


async def test_clearing_deletes_everything_and_counts_as_synced() -> None:
    script = ListWatch()
    script.put("n0")
    async with serving(script) as client:
        copy = Copy()
        informer = Informer(client, NODES, copy)
        informer.clear()
        assert informer.synced.is_set()
        assert informer.status.phase is Phase.ABSENT
        task = asyncio.create_task(informer.run())
        await until(lambda: copy.objects)
        task.cancel()
        await asyncio.wait({task})
        informer.clear()
        assert copy.log == ["+n0", "-n0"]


async def test_the_collector_rests_during_a_list_and_runs_afterwards() -> None:
    class CollectorSeen(Copy):
        def upsert(self, key: str, raw: Raw) -> None:
            super().upsert(key, raw)
            self.log.append(f"collector {gc.isenabled()}")

    script = ListWatch()
    script.put("a")
    script.watches.append([event("ADDED", {"metadata": {"name": "b", "resourceVersion": "200"}}), HOLD])
    async with informing(script, copy=CollectorSeen()) as (_, copy):
        await until(lambda: "b" in copy.objects)
        assert copy.log == ["+a", "collector False", "+b", "collector True"]


ZONES = [{"name": "node-0", "resources": [{"name": "cpu", "available": "4"}]}]


class FakeStore(Copy):
    """What reaches the handler: `+` for a whole object, `~` for one without its zones."""

    def __init__(self, *, knows: bool = True) -> None:
        super().__init__()
        self.knows = knows

    def upsert(self, key: str, raw: Raw) -> None:
        self.log.append(f"+{key} {json.dumps(raw.get('zones'))}")

    def upsert_rest(self, key: str, raw: Raw) -> bool:
        assert "zones" not in raw
        if self.knows:
            self.log.append(f"~{key} {raw['metadata']['resourceVersion']}")
        return self.knows


def nrt(version: int, zones: Any = ZONES, *, name: str = "n0", **fields: Any) -> dict[str, Any]:
    """An NRT with its fields in the order in which the API server writes them."""
    metadata = {"name": name, "resourceVersion": str(version), **fields}
    return {"apiVersion": "topology.node.k8s.io/v1alpha2", "metadata": metadata, "zones": zones}


def line(kind: str, raw: Raw) -> bytes:
    return text_of({"type": kind, "object": raw})


def text_of(raw: Raw) -> bytes:
    return json.dumps(raw, separators=(",", ":")).encode()


def known(*, knows: bool = True) -> LargeField:
    """Of which the zones of n0 are known. knows: whether the handler can complete an object."""
    field = LargeField("zones", FakeStore(knows=knows).upsert_rest)
    field.decoded("n0", line("MODIFIED", nrt(1)))
    return field


def test_an_event_with_the_same_field_is_taken_without_it() -> None:
    rest = {"apiVersion": "topology.node.k8s.io/v1alpha2", "metadata": {"name": "n0", "resourceVersion": "2"}}
    assert known().take(line("MODIFIED", nrt(2))) == rest
    # The same text within a string is not the field.
    taken = known().take(line("MODIFIED", nrt(2, annotations={"a": ',"zones":[]'})))
    assert taken is not None
    assert taken["metadata"]["annotations"] == {"a": ',"zones":[]'}
    listed = LargeField("zones", FakeStore().upsert_rest)
    listed.listed("n0", text_of(nrt(1)))
    assert listed.take(line("MODIFIED", nrt(2))) == rest
    assert listed.take(line("MODIFIED", nrt(2, []))) is None


@pytest.mark.parametrize(
    "text",
    [
        line("MODIFIED", nrt(2, [])),
        line("MODIFIED", nrt(2, name="n1")),
        line("MODIFIED", {"metadata": {"name": "n0", "resourceVersion": "2"}}),
        line("MODIFIED", {"zones": ZONES, "metadata": {"name": "n0"}}),
        line("ADDED", nrt(2)),
        line("DELETED", nrt(2)),
        # A field of that name, but not of the object itself.
        line("MODIFIED", nrt(2, annotations={"a": 1, "zones": ZONES})),
        line("MODIFIED", nrt(2, [{"a": 1, "zones": ZONES}])),
        line("MODIFIED", nrt(2))[:-1],
        line("MODIFIED", nrt(2))[:-1] + b"]",
    ],
)
def test_any_other_event_is_decoded_whole(text: bytes) -> None:
    assert known().take(text) is None


def test_an_object_that_the_handler_or_the_last_list_does_not_know_is_decoded_whole() -> None:
    assert known(knows=False).take(line("MODIFIED", nrt(2))) is None
    field = known()
    field.listed("n0", None)
    assert field.take(line("MODIFIED", nrt(2))) is None


async def test_an_informer_decodes_only_what_has_changed() -> None:
    script = ListWatch()
    script.objects["n0"] = nrt(100)
    changed = nrt(203, [])
    script.watches.extend(
        [
            [_event(nrt(201)), _event(nrt(202)), _event(changed), _event(nrt(204, [])), event("DELETED", changed)],
            [_event(nrt(301)), BREAK],
            [_event(nrt(302)), HOLD],
        ]
    )
    store = FakeStore()
    async with informing(script, copy=store, large_field=LargeField("zones", store.upsert_rest)):
        await until(lambda: store.log[-1:] == ["~n0 302"])
    whole = json.dumps(ZONES)
    assert store.log == [f"+n0 {whole}", "~n0 201", "~n0 202", "+n0 []", "~n0 204", "-n0", f"+n0 {whole}", "~n0 302"]
    # Each watch continues from the last event, decoded whole or not.
    assert script.watch_versions == ["100", "203", "301"]


def _event(raw: dict[str, Any]) -> bytes:
    return line("MODIFIED", raw) + b"\n"
