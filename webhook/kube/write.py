"""What came of a write: the outcomes that a writer must distinguish, returned by every call that writes.

Each call has a result of its own, because many run at the same time.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from webhook.kube.api_errors import APIError, ClusterError


class Outcome(Enum):
    """The outcome of a write."""

    WRITTEN = "written"
    STALE = "the pod has changed since the patch was made"
    GONE = "the pod does not exist"
    REFUSED = "the API server rejected the write"
    NOT_NOW = "the API server postponed the write; nothing was written"
    UNKNOWN = "no clear answer: it may be written, now or later"


# Kubernetes' own reasons have up to 24 characters; a webhook that denies a request may give any.
LONGEST_REASON: Final = 64
_OUTCOMES: Final = {404: Outcome.GONE, 409: Outcome.STALE, 429: Outcome.NOT_NOW}


@dataclass(frozen=True, slots=True)
class Write:
    """The result of one write; all but the outcome say why it failed."""

    outcome: Outcome
    reason: str = ""
    """Status and reason, without the message: that may quote other tenants' objects."""
    error: str = ""
    """The whole error, for the log."""
    retry_after: float = 0.0
    """The seconds that the API server asked to wait."""
    status: int = 0
    """The HTTP status; 0 without an answer. 409 at a creation: an object of this name is there."""

    @property
    def is_written(self) -> bool:
        """Whether it was written."""
        return self.outcome is Outcome.WRITTEN

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to repeat: it was written, or the object has changed since or is gone."""
        return self.outcome in {Outcome.WRITTEN, Outcome.STALE, Outcome.GONE}


WRITTEN: Final = Write(Outcome.WRITTEN)


async def write(call: Awaitable[object]) -> Write:
    """The result of a call to the API server that writes. Other errors than `ClusterError` are raised."""
    try:
        await call
    except APIError as error:
        # 5xx includes timeouts of writes that etcd may still complete.
        outcome = _OUTCOMES.get(error.status, Outcome.REFUSED if error.status < 500 else Outcome.UNKNOWN)
        reason = f"{error.status} {error.reason[:LONGEST_REASON]}"
        return Write(outcome, reason, str(error), error.retry_after, error.status)
    except ClusterError as error:
        return Write(Outcome.UNKNOWN, "no answer", str(error))
    return WRITTEN
