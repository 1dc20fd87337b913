"""What can go wrong in a call to the API server, as types that callers distinguish."""

from collections.abc import Mapping
from typing import Final, Self

from webhook.model.raw import Raw

# An API server asks for one second (priority and fairness), a proxy in front of it for several. If a server asks for
# more, we still retry earlier: pods wait for us.
LONGEST_RETRY_AFTER: Final = 60.0


def mapping_or_empty(value: object) -> Raw:
    """A field of an answer that should be an object; {} if it is not one."""
    return value if isinstance(value, Mapping) else {}


class ClusterError(Exception):
    """A call to the API server failed; the message says which call and how."""


class UnreachableError(ClusterError):
    """No complete answer came: refused, reset, timed out, or broken off."""


class SilenceError(UnreachableError):
    """An open stream sent nothing for too long."""


class MalformedAnswerError(ClusterError):
    """An answer came, but not in the format of this call."""


class ConnectionSettingsError(ClusterError):
    """We do not know how to reach the API server: no usable kubeconfig, context or service account."""


class APIError(ClusterError):
    """The API server answered with an error status.

    `status` is the HTTP status (or a watch ERROR event's code), `reason` the Status' reason (`Expired`, `Forbidden`),
    `causes` its causes' reasons, `retry_after` the seconds the server asks to wait.
    """

    def __init__(
        self, status: int, reason: str, message: str, causes: frozenset[str] = frozenset(), retry_after: float = 0.0
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after = retry_after

    @classmethod
    def from_status(cls, status: Raw, code: int = 0, retry_after: float = 0.0) -> Self:
        """Read a `v1 Status` object; `code` is the HTTP status if the object has none."""
        details = mapping_or_empty(status.get("details"))
        causes, seconds = details.get("causes"), details.get("retryAfterSeconds")
        says = status.get("code")
        asked = max(retry_after, float(seconds) if type(seconds) is int else 0.0)
        return cls(
            status=says if type(says) is int and says else code,
            reason=str(status.get("reason") or "Unknown"),
            message=str(status.get("message") or "no message"),
            causes=frozenset(
                str(mapping_or_empty(cause).get("reason")) for cause in (causes if isinstance(causes, list) else ())
            ),
            # NaN is never greater than the bound, so the wait is always limited.
            retry_after=min(max(0.0, asked), LONGEST_RETRY_AFTER),
        )

    @property
    def version_unusable(self) -> bool:
        """Whether a watch from this resource version can never succeed, so that a new list is needed.

        410: the history is compacted. 400: the version is not from this server. `ResourceVersionTooLarge`: the server's
        storage is behind the version we have seen, as after a restore from a backup.
        """
        return self.status in {400, 410} or "ResourceVersionTooLarge" in self.causes
