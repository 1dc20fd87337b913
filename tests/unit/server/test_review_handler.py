"""The review route over a real socket: answers, kinds of error, log and metrics."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from structlog.testing import capture_logs

from tests.handlers import HandlerOf
from tests.unit.metrics.sample import SAMPLE
from tests.unit.model.reviews import ANY, FIELDS, with_field
from tests.unit.server.reviews import REVIEW
from webhook.admission.handler import NotNowError
from webhook.admission.response import Allowed, Denied, Patched, Response
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.metrics import Metrics
from webhook.server.health import Health
from webhook.server.review_handler import MAX_BODY_BYTES
from webhook.server.routes import review_app


class Setup:
    def __init__(self, client: TestClient[Any, Any], health: Health, metrics: Metrics) -> None:
        self.client = client
        self.health = health
        self.metrics = metrics

    async def post(self, body: object = REVIEW, **more: Any) -> tuple[int, str]:
        async with self.client.post("/mutate/pods", json=body, **more) as answer:
            return answer.status, await answer.text()

    def counted(self, verdict: str, operation: str = "CREATE") -> float:
        labels = {"webhook": "mutate-pods", "operation": operation, "verdict": verdict}
        return self.metrics.registry.get_sample_value("topology_webhook_reviews_total", labels) or 0.0


@asynccontextmanager
async def serving(
    answer: Callable[[AdmissionRequest], Response | Awaitable[Response]] = lambda _: Allowed(), synced: bool = True
) -> AsyncIterator[Setup]:
    health = Health(lambda: (), lambda: synced)
    metrics = Metrics(lambda: SAMPLE)
    app = review_app({"/mutate/pods": HandlerOf(answer)}, health, metrics)
    async with TestClient(TestServer(app, host="127.0.0.1")) as client:
        yield Setup(client, health, metrics)


async def test_a_patch_is_answered_with_the_requests_uid() -> None:
    patch = [{"op": "add", "path": "/metadata/labels", "value": {}}]
    async with serving(lambda *_: Patched(patch, decided=True, fit_count=3)) as setup:
        status, text = await setup.post()
        response = json.loads(text)["response"]
        assert (status, response["uid"], response["allowed"], response["patchType"]) == (200, "u1", True, "JSONPatch")
        assert setup.counted("allow") == 1.0


async def test_a_wrong_object_is_denied_by_a_review_not_by_an_http_error() -> None:
    async with serving(lambda *_: Denied("no such policy")) as setup:
        status, text = await setup.post()
        response = json.loads(text)["response"]
        assert (status, response["allowed"], response["status"]["code"]) == (200, False, 403)
        assert setup.counted("deny") == 1.0


async def test_a_denial_is_counted_with_its_reason() -> None:
    async with serving(lambda *_: Denied("no such policy", "InvalidAnnotation")) as setup:
        await setup.post()
        labels = {"webhook": "mutate-pods", "reason": "InvalidAnnotation"}
        assert setup.metrics.registry.get_sample_value("topology_webhook_denials_total", labels) == 1.0


async def test_a_decision_is_one_log_line_with_object_verdict_fit_and_time() -> None:
    answer = Allowed(decided=True, message="2 of 3", fit_count=2, excluded={"NotReady": 1})
    async with serving(lambda *_: answer) as setup:
        with capture_logs() as lines:
            await setup.post()
        (line,) = lines
        assert line.pop("milliseconds") > 0
        assert line == {
            "event": "review",
            "log_level": "info",
            "webhook": "mutate-pods",
            "uid": "u1",
            "object": "ns/web-*",
            "operation": "CREATE",
            "dry_run": False,
            "verdict": "allow",
            "fit": 2,
            "excluded": {"NotReady": 1},
            "message": "2 of 3",
        }
        reasons = setup.metrics.registry.get_sample_value(
            "topology_webhook_excluded_nodes_total", {"reason": "NotReady"}
        )
        assert reasons == 1.0


async def test_a_pod_that_is_none_of_our_affair_is_logged_for_debugging_only() -> None:
    async with serving() as setup:
        with capture_logs() as lines:
            await setup.post()
        assert [line["log_level"] for line in lines] == ["debug"]


async def test_an_exception_is_a_500_so_that_the_failure_policy_decides_and_is_logged_with_the_uid() -> None:
    async with serving(lambda *_: Allowed(message=str(1 // 0))) as setup:
        with capture_logs() as lines:
            status, text = await setup.post()
        assert status == 500
        assert text == "ZeroDivisionError while deciding on review u1\n"
        assert any(line["event"] == "internal_error" and line["uid"] == "u1" and line["exc_info"] for line in lines)
        assert setup.counted("error") == 1.0
        assert (await setup.post())[0] == 500  # the server goes on


async def test_before_the_cluster_is_read_nothing_is_decided() -> None:
    async with serving(synced=False) as setup:
        assert (await setup.post())[0] == 503


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "u"}}',
        b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}',
        b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "u", "x": NaN}}',
        b"[" * 100_000,
        b"\xff",
    ],
    ids=["empty", "torn", "no object", "old version", "no request", "NaN", "deep", "no UTF-8"],
)
async def test_what_is_no_review_is_the_callers_fault(body: bytes) -> None:
    async with serving() as setup:
        headers = {"Content-Type": "application/json"}
        async with setup.client.post("/mutate/pods", data=body, headers=headers) as answer:
            assert answer.status == 400
            assert "not an AdmissionReview" in await answer.text()
        assert setup.counted("error", operation="") == 1.0


async def test_every_wrong_type_in_the_envelope_is_a_counted_400() -> None:
    wrong = [
        with_field(path, value) for path, types in FIELDS.items() for name, value in ANY.items() if name not in types
    ]
    async with serving() as setup:
        with capture_logs():
            assert {(await setup.post(body))[0] for body in wrong} == {400}
        assert setup.counted("error", operation="") == len(wrong)


async def test_another_content_type_is_refused() -> None:
    async with serving() as setup, setup.client.post("/mutate/pods", data=b"x") as answer:
        assert answer.status == 415


async def test_the_largest_objects_that_an_api_server_takes_pass_and_larger_ones_do_not() -> None:
    three_mib = "x" * (3 * 1024 * 1024 - 1024)
    request = {**REVIEW["request"], "object": {"spec": {"x": three_mib}}, "oldObject": {"a": three_mib}}
    headers = {"Content-Type": "application/json"}
    largest = json.dumps(REVIEW | {"request": request}).encode()
    padded, beyond = largest.ljust(MAX_BODY_BYTES), largest.ljust(MAX_BODY_BYTES + 1)
    async with serving() as setup:
        for body, status in ((largest, 200), (padded, 200), (beyond, 413)):
            async with setup.client.post("/mutate/pods", data=BytesIO(body), headers=headers) as answer:
                assert answer.status == status


async def test_a_body_that_does_not_come_before_the_deadline_is_given_up() -> None:
    async with serving() as setup:
        reader, writer = await asyncio.open_connection(setup.client.host, setup.client.port)
        head = "POST /mutate/pods?timeout=50ms HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 504")
        writer.close()
        await writer.wait_closed()


async def test_while_draining_reviews_are_answered_and_their_connections_closed() -> None:
    async with serving() as setup:
        async with setup.client.post("/mutate/pods", json=REVIEW) as answer:
            assert answer.status == 200
            assert "Connection" not in answer.headers
        setup.health.drain()
        async with setup.client.post("/mutate/pods", json=REVIEW) as answer:
            assert answer.status == 200
            assert answer.headers["Connection"] == "close"


async def test_a_misrouted_review_is_answered_and_its_connection_closed() -> None:
    async with (
        serving(lambda *_: Denied("another replica leads", misrouted=True)) as setup,
        setup.client.post("/mutate/pods", json=REVIEW) as answer,
    ):
        assert (answer.status, answer.headers["Connection"]) == (200, "close")


async def test_a_decision_that_has_to_look_something_up_is_waited_for_until_the_deadline() -> None:
    async def decide(*_: object) -> Response:
        await asyncio.sleep(0.01)
        return Allowed()

    async with serving(decide) as setup:
        assert (await setup.post())[0] == 200
        status, text = await setup.post(params={"timeout": "1ms"})
        assert (status, text) == (504, "what the decision depends on did not come before its deadline\n")
        assert setup.counted("error") == 1


async def test_what_is_not_ours_to_answer_now_is_left_to_the_failure_policy() -> None:
    async def decline(*_: object) -> Response:
        raise NotNowError("this replica is not the leader")

    async with serving(decline) as setup:
        assert await setup.post() == (503, "this replica is not the leader\n")
        assert setup.counted("error") == 1
