"""Clients of the API server with separate connections: urgent calls must not wait behind others."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Self

from webhook.app.settings import Settings
from webhook.kube.client import Client
from webhook.kube.pacing import RateLimiter

# Writes of assignments: a burst is the pods of a large gang, the rate at most what one API server writes in a second.
_RATE: Final = 500.0
_BURST: Final = 500


def placement_pace() -> RateLimiter:
    """A new rate limiter with the rate for writes of assignments."""
    return RateLimiter(_RATE, _BURST)


@dataclass(frozen=True, slots=True)
class Clients:
    """One client for each purpose."""

    general: Client
    leadership: Client
    """For the Lease: a renewal must not wait behind a thousand patches."""
    placement: Client
    owners: Client
    """For reads of owners: users name the owners of their pods, so these reads may hang."""

    @classmethod
    @asynccontextmanager
    async def connect(cls, settings: Settings) -> AsyncIterator[Self]:
        """Open all clients until the end of the context, without any call yet. Raises ConnectionSettingsError."""
        where = settings.kubeconfig, settings.context
        async with (
            await Client.connect(*where) as general,
            await Client.connect(*where) as leadership,
            await Client.connect(*where, placement_pace()) as placement,
            await Client.connect(*where, placement_pace()) as owners,
        ):
            yield cls(general, leadership, placement, owners)

    def errors(self) -> Mapping[tuple[str, str], int]:
        """Failed calls by method and status, of all clients together."""
        found: Counter[tuple[str, str]] = Counter()
        for client in {self.general, self.leadership, self.placement, self.owners}:
            found.update(client.errors)
        return found
