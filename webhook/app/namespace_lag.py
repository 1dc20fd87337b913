"""A namespace and its first pods are often created together: the watch may be a moment behind.

The API server knows the namespace at once, and what its label and annotations say holds for its first pod as for any
other. So the review of a pod whose namespace is not known waits a moment for it. Only a few wait at a time: callers may
name namespaces that do not exist.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from webhook.admission.handler import Answer
from webhook.model.admission_review import AdmissionRequest, Allowed, Patched

# A watch is some 10 ms behind, on a busy machine 100.
_SECONDS: Final = 1.0
# The answer has a way to go, too.
_ANSWER_SECONDS: Final = 0.5
MOST_WAITING: Final = 64


class NamespaceLag:
    """The pods that wait for their namespace. `knows`: whether the namespace of this name is known."""

    def __init__(self, knows: Callable[[str], bool], seconds: float = _SECONDS) -> None:
        self._knows = knows
        self._seconds = seconds
        self._waiting = 0
        self._arrived = asyncio.Event()

    def arrived(self) -> None:
        """A namespace is known that was not, or has changed."""
        self._arrived.set()
        self._arrived = asyncio.Event()

    def answer(
        self, request: AdmissionRequest, judge: Callable[[], Answer], deadline: float
    ) -> Answer | Awaitable[Answer]:
        """What `judge` says, now or when the pod's namespace is known."""
        if self._knows(request.namespace):
            return judge()
        if self._waiting >= MOST_WAITING:
            return _warned(judge(), request.namespace)
        return self._later(request.namespace, judge, deadline - _ANSWER_SECONDS)

    async def _later(self, name: str, judge: Callable[[], Answer], deadline: float) -> Answer:
        self._waiting += 1
        try:
            until = min(asyncio.get_running_loop().time() + self._seconds, deadline)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    while not self._knows(name):
                        await self._arrived.wait()
        finally:
            self._waiting -= 1
        answer = judge()
        return answer if self._knows(name) else _warned(answer, name)


def _warned(answer: Answer, name: str) -> Answer:
    """The answer, and that the namespace had no say in it."""
    response = answer.response
    if not isinstance(response, Allowed | Patched):
        return answer
    warning = (
        f"topology-webhook does not know namespace {name} yet: its label and annotations did not count for this pod, "
        "only the settings did."
    )
    return replace(answer, response=replace(response, warnings=(*response.warnings, warning)))
