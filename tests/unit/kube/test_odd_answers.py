"""Invalid answers of an API server. A fault in one object affects that object; other calls are retried."""

import json
from collections import deque
from math import inf, nan
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from tests.unit.kube.listwatch import HOLD, ListWatch, ServerError, event, informing, until
from webhook.kube.api_errors import LONGEST_RETRY_AFTER, APIError, MalformedAnswerError, UnreachableError
from webhook.kube.ca_bundle import bundle_patch
from webhook.kube.client import Client
from webhook.kube.credentials import Credentials
from webhook.kube.discovery import Wanted, locate
from webhook.kube.shared_secret import SharedSecret

ODD: list[Any] = [
    None,
    7,
    "x",
    [],
    {},
    {"metadata": None},
    {"metadata": []},
    {"metadata": {}},
    {"metadata": {"name": 1}},
]
NO_LISTS: list[Any] = [
    [],
    None,
    "x",
    {},
    {"items": {}, "metadata": {"resourceVersion": "1"}},
    {"items": [], "metadata": None},
    {"items": [], "metadata": {"resourceVersion": 5}},
    {"items": [], "metadata": {"continue": 5, "resourceVersion": "1"}},
]


async def test_what_is_no_object_in_a_list_is_left_out_and_the_others_are_there() -> None:
    good = {"metadata": {"name": "a"}}
    page = {"metadata": {"resourceVersion": "5"}, "items": [*ODD, good]}
    script = ListWatch(refusals=deque([ServerError("list", 200, page)]), watches=deque([[HOLD]]))
    async with informing(script) as (informer, copy):
        await until(informer.synced.is_set)
        assert copy.objects == {"a": good}


@pytest.mark.parametrize("answer", NO_LISTS, ids=json.dumps)
async def test_what_is_no_list_is_asked_for_again(answer: Any) -> None:
    script = ListWatch(refusals=deque([ServerError("list", 200, answer)]), watches=deque([[HOLD]]))
    script.put("a")
    async with informing(script) as (informer, copy):
        await until(informer.synced.is_set)
        assert list(copy.objects) == ["a"]


async def test_a_list_that_does_not_go_on_is_begun_again() -> None:
    again = {"metadata": {"continue": "1", "resourceVersion": "1"}, "items": []}
    script = ListWatch(refusals=deque([ServerError("page", 200, again)]), watches=deque([[HOLD]]))
    script.put("a")
    script.put("b")
    async with informing(script, page_size=1) as (informer, copy):
        await until(informer.synced.is_set)
        assert list(copy.objects) == ["a", "b"]
        assert len(script.lists) == 4


@pytest.mark.parametrize("odd", ODD, ids=json.dumps)
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "SOMETHING"])
async def test_an_event_about_no_object_is_passed_over(kind: str, odd: Any) -> None:
    script = ListWatch()
    script.put("a")
    after = event("ADDED", {"metadata": {"name": "b", "resourceVersion": "200"}})
    script.watches.append([event(kind, odd), after, HOLD])
    async with informing(script) as (_, copy):
        await until(lambda: "b" in copy.objects)
        assert set(copy.objects) == {"a", "b"}


@pytest.mark.parametrize("odd", ODD, ids=json.dumps)
async def test_an_error_event_about_no_object_ends_the_watch_and_no_more(odd: Any) -> None:
    script = ListWatch()
    after = event("ADDED", {"metadata": {"name": "b", "resourceVersion": "200"}})
    script.watches += [[event("ERROR", odd)], [after, HOLD]]
    async with informing(script) as (_, copy):
        await until(lambda: "b" in copy.objects)


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [
        ({"details": {"retryAfterSeconds": 5}}, 0.0, 5),
        ({"details": {"retryAfterSeconds": 2**40}}, 0.0, LONGEST_RETRY_AFTER),
        ({"details": {"retryAfterSeconds": -5}}, 0.0, 0),
        ({"details": {"retryAfterSeconds": "5"}}, 2.0, 2),
        ({"details": [], "code": "x", "message": {}, "reason": []}, inf, LONGEST_RETRY_AFTER),
        ({"details": {"causes": [None, 7, {"reason": "R"}]}, "code": None}, nan, 0),
        ({"details": {"causes": {"a": 1}}, "code": True}, -inf, 0),
    ],
    ids=str,
)
def test_an_error_says_what_can_be_read_of_it(status: dict[str, Any], header: float, seconds: float) -> None:
    error = APIError.from_status(status, 503, header)
    assert (error.status, error.retry_after) == (503, seconds)


def test_what_is_no_webhook_in_a_configuration_is_left_alone() -> None:
    ours = {"name": "a", "clientConfig": {"service": {"namespace": "n", "name": "s"}}}
    odd: list[Any] = [None, 7, {}, {"clientConfig": None}, {"name": "x", "clientConfig": []}, {"clientConfig": {}}]
    odd += [{"name": "x", "clientConfig": {"service": {"namespace": [], "name": {}}}}, {"name": 7, "clientConfig": {}}]
    odd += [{"name": "x", "clientConfig": {"service": []}}]
    patch = bundle_patch({"webhooks": [*odd, ours]}, "bundle", {("n", "s")})
    assert {operation["path"].split("/")[2] for operation in patch} == {str(len(odd))}
    nones: list[Any] = [None, {}, "x", 7]
    for none in nones:
        assert bundle_patch({"webhooks": none}, "bundle", {("n", "s")}) == []


async def answering(answer: Any) -> tuple[TestServer, Client]:
    async def handle(_: web.Request) -> web.Response:
        return web.json_response(answer)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    server = TestServer(application)
    await server.start_server()
    return server, Client(Credentials(Configuration(host=str(server.make_url("")).rstrip("/")), "test"))


@pytest.mark.parametrize(
    "answer", [None, [], "x", 7, {}, {"data": []}, {"data": "x"}, {"items": [None]}], ids=json.dumps
)
async def test_the_other_calls_fail_as_calls_do_or_find_nothing(answer: Any) -> None:
    server, client = await answering(answer)
    async with server, client:
        for call in (
            SharedSecret(client, "ns", "ca").read(),
            locate(client, Wanted("g", "things")),
        ):
            try:
                assert not await call
            except MalformedAnswerError:
                continue


async def test_failed_calls_are_counted_by_method_and_status() -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "reason": "NotFound"}, status=404)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    server = TestServer(application)
    await server.start_server()
    async with Client(Credentials(Configuration(host=str(server.make_url("")).rstrip("/")), "test")) as client:
        for _ in range(2):
            with pytest.raises(APIError):
                await client.get("/x")
        await server.close()
        with pytest.raises(UnreachableError):
            await client.delete("/x")
    assert client.errors == {("GET", "404"): 2, ("DELETE", "none"): 1}
