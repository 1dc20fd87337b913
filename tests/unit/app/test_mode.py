"""What each mode makes of a handler's answer."""

import asyncio
from dataclasses import replace

import pytest

from webhook.admission.handler import Handler, NotNowError
from webhook.admission.response import Allowed, Denied, Observed, Patched, Response
from webhook.app.webhooks import Observer, in_mode
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.internal_errors import Where, internal_error_counts

REFUSED = Denied("n0 is full", "InsufficientCapacity")
PATCH = ({"op": "remove", "path": "/a"},)
FAR = 3600.0


class Answers:
    """A handler with one answer, which it gives at once or never."""

    def __init__(self, answer: Response | Exception | None) -> None:
        self._answer = answer
        self.deadline = 0.0

    async def handle(self, request: AdmissionRequest) -> Response:
        self.deadline = request.deadline
        if self._answer is None:
            await asyncio.Event().wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        assert self._answer is not None
        return self._answer


def binding() -> AdmissionRequest:
    raw = {"uid": "1", "kind": {"kind": "Binding"}, "operation": "CREATE", "namespace": "a", "name": "p"}
    raw["object"] = {"metadata": {"name": "p", "uid": "u"}, "target": {"name": "n0"}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**raw, "userInfo": {}}}
    return replace(AdmissionRequest.from_object(review), deadline=asyncio.get_running_loop().time() + FAR)


async def observed(answer: Response | Exception | None) -> tuple[Response, list[Response]]:
    told: list[Response] = []
    response = await Observer(Answers(answer), lambda _, decided: told.append(decided)).handle(binding())
    return response, told


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (REFUSED, Observed("deny", "InsufficientCapacity")),
        (Patched(PATCH, verdict="wait"), Observed("wait")),
        (Patched(PATCH, ("w",)), Observed("change")),
        (Patched(()), Observed("allow")),
        (Allowed(("w",)), Observed("allow")),
    ],
)
async def test_observe_admits_unchanged_and_keeps_what_was_decided(answer: Response, expected: Observed) -> None:
    response, told = await observed(answer)
    assert response == Allowed()
    assert (response.verdict, response.observed, response.message) == ("allow", expected, answer.message)
    assert told == [answer]


@pytest.mark.parametrize("answer", [NotNowError("no leader"), ValueError("a bug"), None])
async def test_observe_admits_what_cannot_be_decided(answer: Exception | None) -> None:
    response, told = await observed(answer)
    assert (response, response.observed, told) == (Allowed(), Observed("none"), [])


@pytest.mark.parametrize("reason", ["NotLeader", "LeaderChanged", "BindingInProgress"])
async def test_a_refusal_until_more_is_known_is_no_verdict(reason: str) -> None:
    response, told = await observed(Denied("later", reason, misrouted=reason == "NotLeader"))
    assert (response, response.observed, told) == (Allowed(), Observed("none", reason), [])
    assert response.misrouted == (reason == "NotLeader")


async def test_observe_waits_for_no_other_binding_longer_than_a_second() -> None:
    handler = Answers(Allowed())
    await Observer(handler, lambda *_: None).handle(binding())
    assert handler.deadline < asyncio.get_running_loop().time() + 1.0


async def test_a_report_that_fails_is_contained() -> None:
    def fails(*_: object) -> None:
        raise ValueError

    before = internal_error_counts().get(Where.REVIEW, 0)
    response = await Observer(Answers(REFUSED), fails).handle(binding())
    assert response == Allowed()
    assert internal_error_counts()[Where.REVIEW] == before + 1


async def test_off_asks_no_handler_and_enforce_changes_none() -> None:
    handlers: dict[str, Handler] = {"/a": Answers(ValueError("not to be called"))}
    assert in_mode("Off", handlers, lambda *_: None)["/a"].handle(binding()) == Allowed()
    assert in_mode("Enforce", handlers, lambda *_: None) is handlers
