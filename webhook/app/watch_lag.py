"""Waits for an object that was created together with the reviewed one: its watch may be a moment behind the review.

- A pod and its namespace: the namespace's label and annotations must also apply to the first pod.
- A workload and the Topology that it names: without the Topology it would be denied.
The review waits a moment for the missing object. Only a limited number of reviews wait at a time, because callers may
name objects that do not exist.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from webhook.admission.handler import Handler
from webhook.admission.response import Allowed, Denied, Patched, Response
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.model.names import KAI_TOPOLOGY
from webhook.placing.gang.workload_judgement import annotations_in
from webhook.signal import Signal
from webhook.state.cluster_cache import ClusterCache

# A watch is about 10 ms behind, on a busy machine 100 ms.
_SECONDS: Final = 1.0
# Time to deliver the answer.
_ANSWER_SECONDS: Final = 0.5
MOST_PODS: Final = 64
MOST_WORKLOADS: Final = 16

IsMissing = Callable[[AdmissionRequest, Response], bool]
"""Whether the response depends on an object that is not in the cache."""


class WatchLag:
    """A handler in front of another one: requests wait in it for one kind of object.

    handler: answers, with or without the object. arrived: emitted when an object arrives. most: maximum number of
    requests that wait at a time. warning: the warning of a response that was given without the object; None: no
    warning. seconds: the longest wait.
    """

    def __init__(
        self,
        handler: Handler,
        arrived: Signal[[]],
        is_missing: IsMissing,
        most: int,
        warning: Callable[[AdmissionRequest], str] | None = None,
        seconds: float = _SECONDS,
    ) -> None:
        self._handler = handler
        self._is_missing = is_missing
        self._most = most
        self._warning = warning
        self._seconds = seconds
        self._waiting = 0
        self._arrived = asyncio.Event()
        arrived.subscribe(self._wake)

    def handle(self, request: AdmissionRequest) -> Response | Awaitable[Response]:
        """Answer now, or when the missing object has arrived."""
        response = self._handler.handle(request)
        if isinstance(response, Awaitable) or not self._is_missing(request, response):
            return response
        if self._waiting >= self._most:
            return self._warned(request, response)
        return self._later(request, response, self._arrived)

    async def _later(self, request: AdmissionRequest, response: Response, arrived: asyncio.Event) -> Response:
        """The response when the object has arrived, or after the longest wait. arrived: set by the next arrival."""
        self._waiting += 1
        try:
            until = min(asyncio.get_running_loop().time() + self._seconds, request.deadline - _ANSWER_SECONDS)
            missing = not await self._arrives(request, response, arrived, until)
        finally:
            self._waiting -= 1
        answered = self._handler.handle(request)
        response = await answered if isinstance(answered, Awaitable) else answered
        return self._warned(request, response) if missing else response

    async def _arrives(
        self, request: AdmissionRequest, response: Response, arrived: asyncio.Event, until: float
    ) -> bool:
        """Whether the object arrives in time. A check walks through the request, so there is one per arrival."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while True:
                    await arrived.wait()
                    arrived = self._arrived
                    if not self._is_missing(request, response):
                        return True
        return not self._is_missing(request, response)

    def _warned(self, request: AdmissionRequest, response: Response) -> Response:
        if self._warning is None or not isinstance(response, Allowed | Patched):
            return response
        return replace(response, warnings=(*response.warnings, self._warning(request)))

    def _wake(self) -> None:
        self._arrived.set()
        self._arrived = asyncio.Event()


def namespace_lag(pods: Handler, cache: ClusterCache, seconds: float = _SECONDS) -> WatchLag:
    """The handler of pods, which wait for their namespace."""

    def is_missing(request: AdmissionRequest, _: Response) -> bool:
        return not cache.knows_namespace(request.namespace)

    def warning(request: AdmissionRequest) -> str:
        return (
            f"topology-webhook does not know namespace {request.namespace} yet: its label and annotations did not "
            "count for this pod, only the settings did."
        )

    return WatchLag(pods, cache.namespace_changed, is_missing, MOST_PODS, warning, seconds)


def topology_lag(workloads: Handler, cache: ClusterCache, seconds: float = _SECONDS) -> WatchLag:
    """The handler of workloads. One that would be denied waits for the topologies that it names."""

    def is_missing(request: AdmissionRequest, response: Response) -> bool:
        return isinstance(response, Denied) and not _named(request) <= cache.topologies_by_name().keys()

    return WatchLag(workloads, cache.topology_changed, is_missing, MOST_WORKLOADS, seconds=seconds)


def _named(request: AdmissionRequest) -> frozenset[str]:
    found = (annotations for _, annotations in annotations_in(request.object) if isinstance(annotations, Mapping))
    named = (annotations.get(KAI_TOPOLOGY) for annotations in found)
    return frozenset(name.strip() for name in named if isinstance(name, str) and name)
