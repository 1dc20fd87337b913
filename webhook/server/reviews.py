"""POST of an AdmissionReview: decode, decide, encode; and tell apart whose fault it is when something is wrong.

- The user's object is wrong: a review that denies, with a reason and a message (HTTP 200).
- The call is wrong (no review, too large, too late), it is not ours to answer now, or a fault in us: an HTTP error. The
  API server then does what the webhook's failurePolicy says, which a denying review would take out of the operator's
  hands.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from time import perf_counter
from typing import Any, Final

import structlog
from aiohttp import web

from webhook.codec import dumps, loads
from webhook.model.errors import Malfunction
from webhook.model.review import AdmissionRequest, AdmissionResponse
from webhook.server.deadline import deadline_seconds
from webhook.server.health import Health
from webhook.server.metrics import Metrics

log = structlog.get_logger(__name__)

# The API server takes requests of up to 3 MiB, so an object is no larger; an UPDATE carries the old one, too, and 1 MiB
# is ample for the rest (user, groups, options).
MAX_BODY_BYTES: Final = (2 * 3 + 1) * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, and what the log and the metrics tell of it."""

    response: AdmissionResponse
    verdict: str
    """allow, deny or wait."""
    decided: bool = False
    """Whether there was something to decide; pods that are none of our affair are not worth a line each."""
    message: str = ""
    fit_count: int | None = None
    """Nodes that fit; None when none was looked at."""
    misrouted: bool = False
    """Whether another replica should have been asked: the connection leads to the wrong one."""
    excluded: Mapping[str, int] = field(default_factory=dict)
    """Excluded nodes by reason code."""


Reviewer = Callable[[AdmissionRequest, float], Answer | Awaitable[Answer]]
"""Decides at once, or after waiting for something, before the deadline, a time of the event loop's clock."""


class NotNowError(Exception):
    """Not ours to answer at this moment; another replica, or we a little later, can."""


class ReviewRoute:
    """One webhook: `name` in logs and metrics, `reviewer` the decision."""

    def __init__(self, name: str, reviewer: Reviewer, health: Health, metrics: Metrics) -> None:
        self._name = name
        self._reviewer = reviewer
        self._health = health
        self._metrics = metrics
        # Looked up once: by its labels it costs as much as the rest of a count.
        self._seconds = metrics.review_seconds.labels(name)
        self._counted = lru_cache(maxsize=64)(partial(metrics.reviews.labels, name))

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one review."""
        began = perf_counter()
        response = await self._answer(request, began)
        self._seconds.observe(perf_counter() - began)
        if self._health.draining or response.status == 503:
            response.force_close()  # the next review belongs to another replica
        return response

    async def _answer(self, request: web.Request, began: float) -> web.Response:
        if request.content_type != "application/json":
            return self._refuse(415, f"Content-Type is {request.content_type!r}, not application/json")
        deadline = asyncio.get_running_loop().time() + deadline_seconds(request.query.get("timeout"))
        try:
            async with asyncio.timeout_at(deadline):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return self._refuse(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
        except TimeoutError:
            return self._refuse(504, "the request's body did not come before its deadline")
        try:
            review = AdmissionRequest.from_object(loads(body))
        except (ValueError, Malfunction) as error:
            return self._refuse(400, f"not an AdmissionReview: {error}")
        return await self._decide(review, began, deadline)

    async def _decide(self, review: AdmissionRequest, began: float, deadline: float) -> web.Response:
        if not self._health.synced():
            return self._refuse(503, "the cluster has not been read completely yet", review)
        try:
            answer = self._reviewer(review, deadline)
            if not isinstance(answer, Answer):
                async with asyncio.timeout_at(deadline):
                    answer = await answer
            body = dumps(answer.response.to_object(review.uid))
        except NotNowError as error:
            return self._refuse(503, str(error), review)
        except TimeoutError:
            return self._refuse(504, "what the decision depends on did not come before its deadline", review)
        except Exception as error:  # whatever it is, this review has failed, and the next one is to be served
            log.exception("review.failed", **_identity(review), webhook=self._name)
            return self._refuse(500, f"{type(error).__name__} while deciding on review {review.uid}", review)
        self._tell(review, answer, perf_counter() - began)
        response = web.Response(body=body, content_type="application/json")
        if answer.misrouted:
            # The API server keeps a connection for as long as it is used, also one to a Pod that its Service does not
            # select any more. Only a new one goes to the right Pod.
            response.force_close()
        return response

    def _tell(self, review: AdmissionRequest, answer: Answer, seconds: float) -> None:
        self._counted(review.operation, answer.verdict).inc()
        for reason, nodes in answer.excluded.items():
            self._metrics.excluded.labels(reason).inc(nodes)
        report = log.info if answer.decided else log.debug
        report(
            "review",
            webhook=self._name,
            **_identity(review),
            operation=review.operation,
            dry_run=review.dry_run,
            verdict=answer.verdict,
            fit=answer.fit_count,
            excluded=answer.excluded,
            message=answer.message,
            milliseconds=round(seconds * 1000, 3),
        )

    def _refuse(self, status: int, message: str, review: AdmissionRequest | None = None) -> web.Response:
        operation = review.operation if review else ""
        self._counted(operation, "error").inc()
        log.warning("review.refused", webhook=self._name, status=status, message=message)
        return web.Response(status=status, text=message + "\n")


def _identity(review: AdmissionRequest) -> dict[str, Any]:
    """What names the object in a log line; at CREATE the name may still be the API server's to make."""
    metadata = review.object.get("metadata") or {}
    name = review.name or metadata.get("name") or f"{metadata.get('generateName', '')}*"
    return {"uid": review.uid, "object": f"{review.namespace}/{name}"}
