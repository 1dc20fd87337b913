"""Whether the owner of a token may read /metrics: the API server is asked who it is, and what it may do.

Answers are kept for a while, so that each scrape costs the API server nothing. Kueue's metrics port, as all of
controller-runtime, decides likewise.
Source: controller-runtime pkg/metrics/filters (WithAuthenticationAndAuthorization). Its answers last a minute, and ten
seconds if the token is unknown.
"""

import asyncio
import hashlib
from collections.abc import Callable
from enum import IntEnum
from time import monotonic
from typing import Final

import structlog

from webhook.kube.api_errors import ClusterError, mapping_or_empty
from webhook.kube.client import Client
from webhook.kube.resource import Resource

log = structlog.get_logger(__name__)

PATH: Final = "/metrics"
_TOKENS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews")
_RIGHTS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews")
_ALLOWED_SECONDS: Final = 60.0
_REFUSED_SECONDS: Final = 10.0
# A Prometheus or two read the metrics; what others send must fill neither our memory nor the API server's time.
_MOST_KEPT: Final = 64
_AT_A_TIME: Final = 2
_LONGEST_TOKEN: Final = 16 * 1024


class Access(IntEnum):
    """The HTTP status for a client."""

    ALLOWED = 200
    UNKNOWN = 401
    FORBIDDEN = 403
    UNDECIDED = 503
    """The API server did not answer."""


class MetricsAccess:
    """Asks about tokens, a few at a time, and remembers the answers."""

    def __init__(self, client: Client, clock: Callable[[], float] = monotonic) -> None:
        self._client = client
        self._clock = clock
        self._slots = asyncio.Semaphore(_AT_A_TIME)
        self._answers: dict[bytes, tuple[float, Access]] = {}
        """SHA-256 of a token -> when the answer expires, and the answer."""

    async def of(self, token: str) -> Access:
        """What the owner of this token may do."""
        if not token or len(token) > _LONGEST_TOKEN:
            return Access.UNKNOWN
        key = hashlib.sha256(token.encode(errors="replace")).digest()
        async with self._slots:
            known = self._answers.get(key)
            if known is not None and known[0] > self._clock():
                return known[1]
            try:
                answer = await self._ask(token)
            except ClusterError as error:
                log.warning("metrics.access_undecided", error=str(error))
                return Access.UNDECIDED
            self._answers.pop(key, None)
            if len(self._answers) >= _MOST_KEPT:
                del self._answers[next(iter(self._answers))]
            lasts = _ALLOWED_SECONDS if answer is Access.ALLOWED else _REFUSED_SECONDS
            self._answers[key] = self._clock() + lasts, answer
            return answer

    async def _ask(self, token: str) -> Access:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = mapping_or_empty((await self._client.create(_TOKENS.path, review)).get("status"))
        if status.get("authenticated") is not True:
            return Access.UNKNOWN
        user = mapping_or_empty(status.get("user"))
        spec = {
            "user": user.get("username", ""),
            **{name: user[name] for name in ("uid", "groups", "extra") if name in user},
            "nonResourceAttributes": {"path": PATH, "verb": "get"},
        }
        asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = mapping_or_empty((await self._client.create(_RIGHTS.path, asked)).get("status"))
        return Access.ALLOWED if answer.get("allowed") is True else Access.FORBIDDEN
