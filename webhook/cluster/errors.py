"""What can go wrong between us and the API server, as types that callers tell apart."""

from collections.abc import Mapping
from typing import Any, Self


class ClusterError(Exception):
    """A call to the API server failed; the message says which call and how."""


class UnreachableError(ClusterError):
    """No answer came: refused, reset, timed out, or an answer that broke off."""


class SilenceError(UnreachableError):
    """A stream was open and brought nothing for longer than it should."""


class ConnectionSettingsError(ClusterError):
    """How to reach the API server is not known: no usable kubeconfig, context or service account."""


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
    def from_status(cls, status: Mapping[str, Any], code: int = 0, retry_after: float = 0.0) -> Self:
        """From a `v1 Status` object; `code` is the HTTP status when the object does not carry one."""
        details = status.get("details") or {}
        return cls(
            status=int(status.get("code") or code),
            reason=str(status.get("reason") or "Unknown"),
            message=str(status.get("message") or "no message"),
            causes=frozenset(str(cause.get("reason")) for cause in details.get("causes") or ()),
            retry_after=max(retry_after, float(details.get("retryAfterSeconds") or 0)),
        )

    @property
    def version_unusable(self) -> bool:
        """Whether a watch from this resource version can never succeed, so that only a new list helps.

        410: the history is compacted. 400: not a version of this server's. `ResourceVersionTooLarge`: the server's
        storage is behind the version we have seen, as after a restore from a backup.
        """
        return self.status in {400, 410} or "ResourceVersionTooLarge" in self.causes
