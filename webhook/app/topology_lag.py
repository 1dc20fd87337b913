"""A Topology and a workload that names it are often created together: the watch may be a moment behind.

So a workload that would be denied, and that names a topology that is not known, is judged again when it is known, or a
moment later. Only a few wait at a time: a tenant who creates many such workloads gets the answer at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

from webhook.admission.gang import annotations_in
from webhook.admission.handler import Answer
from webhook.model.admission_review import AdmissionRequest, Denied
from webhook.model.names import KAI_TOPOLOGY
from webhook.model.topology import Topology

# A watch is some 10 ms behind, on a busy machine 100.
_SECONDS: Final = 1.0
# The answer has a way to go, too.
_ANSWER_SECONDS: Final = 0.5
_MOST_WAITING: Final = 16


class TopologyLag:
    """The workloads that wait for a topology. `topologies` gives those that are known."""

    def __init__(self, topologies: Callable[[], Mapping[str, Topology]], seconds: float = _SECONDS) -> None:
        self._topologies = topologies
        self._seconds = seconds
        self._waiting = 0
        self._arrived = asyncio.Event()

    def arrived(self) -> None:
        """A topology is known that was not, or has changed."""
        self._arrived.set()
        self._arrived = asyncio.Event()

    def answer(
        self, request: AdmissionRequest, judge: Callable[[], Answer], deadline: float
    ) -> Answer | Awaitable[Answer]:
        """What `judge` says, now or when the topologies that the workload names are known."""
        answer = judge()
        if not isinstance(answer.response, Denied) or self._waiting >= _MOST_WAITING:
            return answer
        names = _named(request)
        return answer if names <= self._topologies().keys() else self._later(names, judge, deadline - _ANSWER_SECONDS)

    async def _later(self, names: frozenset[str], judge: Callable[[], Answer], deadline: float) -> Answer:
        self._waiting += 1
        try:
            until = min(asyncio.get_running_loop().time() + self._seconds, deadline)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    while not names <= self._topologies().keys():
                        await self._arrived.wait()
        finally:
            self._waiting -= 1
        return judge()


def _named(request: AdmissionRequest) -> frozenset[str]:
    found = (annotations for _, annotations in annotations_in(request.object) if isinstance(annotations, Mapping))
    named = (annotations.get(KAI_TOPOLOGY) for annotations in found)
    return frozenset(name.strip() for name in named if isinstance(name, str) and name)
