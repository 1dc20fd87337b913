"""POST of an AdmissionReview: read, decode, decide, encode, all within its deadline.

The status code for each kind of error:
- The user's object is wrong: a review that denies, with a reason and a message (HTTP 200).
- The call is wrong (not a review, too large, too late), we cannot answer now, or we have a bug: an HTTP error. The API
  server then follows the webhook's failurePolicy, as the operator chose; a denial would override that choice.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from time import perf_counter
from typing import Any, Final

import aiohttp
import structlog
from aiohttp import web

from webhook.admission.handler import Handler, LeaderNeededError, NotNowError
from webhook.admission.response import Denied, Response
from webhook.codec import dumps, loads
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.internal_errors import LogLimit, Where, internal_error
from webhook.metrics import Metrics
from webhook.model.errors import Malfunction
from webhook.model.wording import counted
from webhook.server.health import Health
from webhook.server.listener import connection_of


class TooLargeError(Exception):
    """The body is larger than allowed."""


def arrived_body(request: web.Request, largest: int) -> bytes | None:
    """The body, if all of it has arrived with the head, as of most reviews; None otherwise. Raises TooLargeError."""
    if (request.content_length or 0) > largest:
        raise TooLargeError
    if not request.content.is_eof():
        return None
    body = request.content.read_nowait()
    if len(body) > largest:  # chunks have no length before they come
        raise TooLargeError
    return body


async def read_body(request: web.Request, largest: int) -> bytearray:
    """The whole body; raises TooLargeError as soon as it exceeds `largest` bytes.

    Not `request.read()`: for each request aiohttp would buffer twice the largest body before we see the first byte.
    """
    if (request.content_length or 0) > largest:
        raise TooLargeError
    body = bytearray()
    try:
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > largest:
                raise TooLargeError  # noqa: TRY301 # the body is freed as for any other error
    except BaseException:
        # The exception's traceback refers to this frame and back. Without this, only the garbage collector, which
        # rarely runs, would free the bytes received so far.
        body.clear()
        raise
    return body


# The API server's timeout if a webhook configuration sets none; it sends this value in the parameter, too.
DEFAULT_SECONDS: Final = 10.0

# The largest timeoutSeconds that a webhook configuration allows. A client with a larger one is not an API server.
MAX_SECONDS: Final = 30.0
# The API server writes "30s"; Go's longest duration below half a minute is "29.999999999s". The time to parse digits
# grows with the square of their number: 8,000 took a second.
_MAX_CHARACTERS: Final = 16

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")  # Go accepts both signs for micro
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@lru_cache(maxsize=16)  # all calls of a webhook configuration have the same value
def deadline_seconds(timeout: str | None) -> float:
    """Seconds in `timeout` ("10s", "500ms"), at most 30; the default if it is missing or invalid."""
    if not timeout or len(timeout) > _MAX_CHARACTERS or _PART.sub("", timeout):
        return DEFAULT_SECONDS
    return min(MAX_SECONDS, sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(timeout)))


log = structlog.get_logger(__name__)

# The API server accepts requests of up to 3 MiB, so an object is no larger. An UPDATE has the old object, too, and 1
# MiB is enough for the rest (user, groups, options).
MAX_BODY_BYTES: Final = (2 * 3 + 1) * 1024 * 1024
# A scheduler's Binding has about 500 bytes, and its review another 500. Only reviews of bindings wait for other writes,
# so many of them may be in memory at a time.
MAX_BINDING_BYTES: Final = 64 * 1024
# Log lines about decisions: more per second than an API server creates and binds pods. Log lines about wrong calls:
# few, because those of an API server are rare.
_DECISION_LINES: Final = 2000.0, 4000
_REFUSAL_LINES: Final = 1.0, 20


AskLeader = Callable[[str, Any, str, float], Awaitable[bytes | None]]
"""(path, review, node, deadline by the event loop's clock) -> the leader's answer; None if it gave none in time."""


class ReviewRoute:
    """One webhook: `name` for logs and metrics, `handler` for the decision.

    ask_leader: asks the leader if the handler cannot answer alone; None: it cannot be asked.
    """

    def __init__(
        self,
        name: str,
        handler: Handler,
        health: Health,
        metrics: Metrics,
        largest: int = MAX_BODY_BYTES,
        ask_leader: AskLeader | None = None,
    ) -> None:
        self._name = name
        self._handler = handler
        self._health = health
        self._metrics = metrics
        self._largest = largest
        self._ask_leader = ask_leader
        self._decision_lines, self._refusal_lines = LogLimit(*_DECISION_LINES), LogLimit(*_REFUSAL_LINES)
        # Cached: looking up a counter by its labels costs as much as counting.
        self._seconds = metrics.review_seconds.labels(name)
        self._counted = lru_cache(maxsize=64)(partial(metrics.reviews.labels, name))

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one review."""
        began = perf_counter()
        response = await self._answer(request, began)
        self._seconds.observe(perf_counter() - began)
        if self._health.draining or response.status == 503:
            response.force_close()  # another replica must get the next review
        return response

    async def _answer(self, request: web.Request, began: float) -> web.Response:
        if request.content_type != "application/json":
            return self._refuse(415, f"Content-Type is {request.content_type!r}, not application/json")
        deadline = asyncio.get_running_loop().time() + deadline_seconds(request.query.get("timeout"))
        try:
            body: bytes | bytearray | None = arrived_body(request, self._largest)
            if body is None:
                async with asyncio.timeout_at(deadline):
                    body = await read_body(request, self._largest)
        except TooLargeError:
            return self._refuse(413, f"the body is larger than {counted(self._largest, 'byte')}")
        except TimeoutError:
            return self._refuse(504, "the request's body did not come before its deadline", last=True)
        except aiohttp.ClientPayloadError as error:
            return self._refuse(400, f"the body is not valid HTTP: {error}", last=True)
        try:
            raw = loads(body)
            review = AdmissionRequest.from_object(raw, deadline)
        except (ValueError, Malfunction) as error:
            return self._refuse(400, f"not an AdmissionReview: {error}")
        del body  # not needed while the decision waits
        if (connection := connection_of(request)) is not None:
            connection.complete()
        return await self._decide(review, raw, request.path, began)

    async def _decide(self, review: AdmissionRequest, raw: Any, path: str, began: float) -> web.Response:
        if not self._health.synced():
            return self._refuse(503, "the cluster has not been read completely yet", review)
        try:
            decided = self._handler.handle(review)
            if isinstance(decided, Awaitable):
                async with asyncio.timeout_at(review.deadline):
                    decided = await decided
            body = dumps(decided.to_object(review.uid))
        except LeaderNeededError as error:
            ask = self._ask_leader
            if ask is not None and (answer := await ask(path, raw, error.node, review.deadline)) is not None:
                self._counted(review.operation, "forwarded").inc()
                return web.Response(body=answer, content_type="application/json")
            decided = error.otherwise
            body = dumps(decided.to_object(review.uid))
        except NotNowError as error:
            return self._refuse(503, str(error), review)
        except TimeoutError:
            return self._refuse(504, "what the decision depends on did not come before its deadline", review)
        except Exception as error:  # noqa: BLE001 # only this review fails; the next ones must be served
            internal_error(Where.REVIEW, error, **_identity(review), webhook=self._name)
            return self._refuse(500, f"{type(error).__name__} while deciding on review {review.uid}", review)
        self._report(review, decided, perf_counter() - began)
        response = web.Response(body=body, content_type="application/json")
        if decided.misrouted:
            # The API server keeps a connection as long as it is used, even to a Pod that its Service no longer selects.
            # Only a new connection reaches the right Pod.
            response.force_close()
        return response

    def _report(self, review: AdmissionRequest, decided: Response, seconds: float) -> None:
        self._counted(review.operation, decided.verdict).inc()
        if isinstance(decided, Denied):
            self._metrics.denials.labels(self._name, decided.reason).inc()
        if (observed := decided.observed) is not None:
            self._metrics.observed_reviews.labels(self._name, observed.verdict, observed.reason).inc()
        for reason, nodes in decided.excluded.items():
            self._metrics.excluded.labels(reason).inc(nodes)
        if decided.not_aligned:
            self._metrics.placement.pods_not_aligned.labels(decided.verdict).inc()
        if decided.unreserved is not None:
            self._metrics.unreserved.labels(decided.unreserved.code).inc()
        left_out: int | None = 0
        if decided.decided and (left_out := self._decision_lines.take()) is None:
            return
        report = log.info if decided.decided else log.debug
        report(
            "review",
            **({"left_out": left_out} if left_out else {}),
            **({"observed": observed.verdict, "reason": observed.reason} if observed else {}),
            webhook=self._name,
            **_identity(review),
            operation=review.operation,
            dry_run=review.dry_run,
            verdict=decided.verdict,
            fit=decided.fit_count,
            excluded=decided.excluded,
            message=decided.message,
            milliseconds=round(seconds * 1000, 3),
        )

    def _refuse(
        self, status: int, message: str, review: AdmissionRequest | None = None, *, last: bool = False
    ) -> web.Response:
        """The answer to a wrong call; last: nothing more can be read from this connection."""
        operation = review.operation if review else ""
        self._counted(operation, "error").inc()
        if (left_out := self._refusal_lines.take()) is not None:
            more = {"left_out": left_out} if left_out else {}
            log.warning("review.refused", webhook=self._name, status=status, message=message, **more)
        response = web.Response(status=status, text=message + "\n")
        if last:
            response.force_close()
        return response


def _identity(review: AdmissionRequest) -> dict[str, Any]:
    """The name of the object for a log line; at CREATE the API server may still have to generate it."""
    metadata = review.object.get("metadata") or {}
    name = review.name or metadata.get("name") or f"{metadata.get('generateName', '')}*"
    return {"uid": review.uid, "object": f"{review.namespace}/{name}"}
