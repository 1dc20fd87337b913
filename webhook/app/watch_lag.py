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

from webhook.admission.gang import annotations_in
from webhook.admission.handler import Answer
from webhook.cache.cluster_cache import ClusterCache
from webhook.model.admission_review import AdmissionRequest, Allowed, Denied, Patched
from webhook.model.names import KAI_TOPOLOGY
from webhook.signal import Signal

# A watch is about 10 ms behind, on a busy machine 100 ms.
_SECONDS: Final = 1.0
# Time to deliver the answer.
_ANSWER_SECONDS: Final = 0.5
MOST_PODS: Final = 64
MOST_WORKLOADS: Final = 16

IsMissing = Callable[[AdmissionRequest, Answer], bool]
"""Whether the answer depends on an object that is not in the cache."""


class WatchLag:
    """The reviews that wait for one kind of object.

    arrived: emitted when an object arrives. most: maximum number of reviews that wait at a time. warning: the warning
    of an answer that was given without the object; None: no warning. seconds: the longest wait.
    """

    def __init__(
        self,
        arrived: Signal[[]],
        is_missing: IsMissing,
        most: int,
        warning: Callable[[AdmissionRequest], str] | None = None,
        seconds: float = _SECONDS,
    ) -> None:
        self._is_missing = is_missing
        self._most = most
        self._warning = warning
        self._seconds = seconds
        self._waiting = 0
        self._arrived = asyncio.Event()
        arrived.subscribe(self._wake)

    def answer(
        self, request: AdmissionRequest, judge: Callable[[], Answer], deadline: float
    ) -> Answer | Awaitable[Answer]:
        """The result of `judge`, now or when the missing object has arrived. deadline: by the event loop's clock."""
        answer = judge()
        if not self._is_missing(request, answer):
            return answer
        if self._waiting >= self._most:
            return self._warned(request, answer)
        return self._later(request, answer, judge, deadline - _ANSWER_SECONDS)

    async def _later(
        self, request: AdmissionRequest, answer: Answer, judge: Callable[[], Answer], deadline: float
    ) -> Answer:
        self._waiting += 1
        try:
            until = min(asyncio.get_running_loop().time() + self._seconds, deadline)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    while self._is_missing(request, answer):
                        await self._arrived.wait()
        finally:
            self._waiting -= 1
        answer = judge()
        return self._warned(request, answer) if self._is_missing(request, answer) else answer

    def _warned(self, request: AdmissionRequest, answer: Answer) -> Answer:
        response = answer.response
        if self._warning is None or not isinstance(response, Allowed | Patched):
            return answer
        return replace(answer, response=replace(response, warnings=(*response.warnings, self._warning(request))))

    def _wake(self) -> None:
        self._arrived.set()
        self._arrived = asyncio.Event()


def namespace_lag(cache: ClusterCache, seconds: float = _SECONDS) -> WatchLag:
    """The wait of pods for their namespace."""

    def is_missing(request: AdmissionRequest, _: Answer) -> bool:
        return not cache.knows_namespace(request.namespace)

    def warning(request: AdmissionRequest) -> str:
        return (
            f"topology-webhook does not know namespace {request.namespace} yet: its label and annotations did not "
            "count for this pod, only the settings did."
        )

    return WatchLag(cache.namespace_changed, is_missing, MOST_PODS, warning, seconds)


def topology_lag(cache: ClusterCache, seconds: float = _SECONDS) -> WatchLag:
    """The wait of workloads that would be denied, for the topologies that they name."""

    def is_missing(request: AdmissionRequest, answer: Answer) -> bool:
        return isinstance(answer.response, Denied) and not _named(request) <= cache.topologies_by_name().keys()

    return WatchLag(cache.topology_changed, is_missing, MOST_WORKLOADS, seconds=seconds)


def _named(request: AdmissionRequest) -> frozenset[str]:
    found = (annotations for _, annotations in annotations_in(request.object) if isinstance(annotations, Mapping))
    named = (annotations.get(KAI_TOPOLOGY) for annotations in found)
    return frozenset(name.strip() for name in named if isinstance(name, str) and name)
