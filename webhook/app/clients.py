"""The API server, over separate connections: what is urgent must not wait behind what is not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Self

from webhook.app.settings import Settings
from webhook.kube.client import Client
from webhook.kube.rate_limiter import RateLimiter

# Writes of placements: a burst is a large group's pods; on average no more than one API server writes in a second.
_RATE: Final = 500.0
_BURST: Final = 500


def placement_pace() -> RateLimiter:
    """How fast placements are written."""
    return RateLimiter(_RATE, _BURST)


@dataclass(frozen=True, slots=True)
class Clients:
    """One client for each purpose."""

    general: Client
    leadership: Client
    """A renewal must not wait for a thousand patches."""
    placement: Client
    owners: Client
    """Tenants name the owners of their pods: reads of these may hang."""

    @classmethod
    @asynccontextmanager
    async def connect(cls, settings: Settings) -> AsyncIterator[Self]:
        """All of them, until the end of the context; no call is made yet. Raises ConnectionSettingsError."""
        where = settings.kubeconfig, settings.context
        async with (
            await Client.connect(*where) as general,
            await Client.connect(*where) as leadership,
            await Client.connect(*where, placement_pace()) as placement,
            await Client.connect(*where, placement_pace()) as owners,
        ):
            yield cls(general, leadership, placement, owners)
