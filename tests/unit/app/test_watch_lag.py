"""A request that waits asks whether its object is missing once at first, and then once for each arrival."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from webhook.admission.response import Allowed, Response
from webhook.app.webhooks import WatchLag
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.signal import Signal

REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
REQUEST = {"uid": "1", "kind": {"kind": "Pod"}, "operation": "CREATE", "namespace": "n", "object": {}, "userInfo": {}}


class Objects:
    """A kind of objects, of which the third one to arrive is the one that is waited for."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.asked = 0
        self.there = 0
        self.arrived = Signal[[]]()
        self.lag = WatchLag(self, self.arrived, self.is_missing, most=1, seconds=seconds)

    def handle(self, request: AdmissionRequest) -> Response:
        del request
        return Allowed((f"there: {self.there}",))

    def is_missing(self, request: AdmissionRequest, response: Response) -> bool:
        del request, response
        self.asked += 1
        return self.there < 3

    def arrive(self) -> None:
        self.there += 1
        self.arrived.emit()

    def request(self) -> asyncio.Future[Response]:
        deadline = asyncio.get_running_loop().time() + 60.0
        request = replace(AdmissionRequest.from_object({**REVIEW, "request": REQUEST}), deadline=deadline)
        answered = self.lag.handle(request)
        assert isinstance(answered, Awaitable)
        return asyncio.ensure_future(answered)


async def test_a_request_asks_once_for_each_object_that_arrives() -> None:
    objects = Objects()
    response = objects.request()
    for _ in range(3):
        await asyncio.sleep(0)
        objects.arrive()
    assert await response == Allowed(("there: 3",))
    assert objects.asked == 4


async def test_an_object_that_arrives_before_the_wait_begins_ends_it() -> None:
    objects = Objects()
    objects.there = 2
    response = objects.request()
    objects.arrive()
    assert await response == Allowed(("there: 3",))
    assert objects.asked == 2


@pytest.mark.parametrize("there", [0, 3])
async def test_after_the_longest_wait_it_asks_once_more(there: int) -> None:
    objects = Objects(seconds=0.0)
    response = objects.request()
    objects.there = there
    assert await response == Allowed((f"there: {there}",))
    assert objects.asked == 2
