"""The key that signs our allocations: read from the Secret that all replicas share, and restored there.

Life cycle:
1. Read the Secret until it has a key. The first replica fills it, and invalid content is replaced. No pod is read
   before that.
2. Read it again every half minute. A deleted Secret gets our key again. If the Secret has another key, we use that one
   for the pods that are read from then on.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

import structlog

from webhook.formats.koordinator.numa_allocation import AllocationKey
from webhook.kube.api_errors import ClusterError
from webhook.kube.pacing import Backoff
from webhook.kube.shared_secret import SharedSecret

log = structlog.get_logger(__name__)

# Of the order of the CA's Secret. Until then, replicas with different keys trust fewer allocations: nothing is given
# twice.
_POLL_SECONDS: Final = 30.0


class SharedAllocationKey:
    """Keeps the key current. use: called with the first key and with every later one."""

    def __init__(self, secret: SharedSecret, use: Callable[[AllocationKey], None]) -> None:
        self.error = "not read yet"
        self.known = asyncio.Event()
        self._secret = secret
        self._use = use
        self._key: AllocationKey | None = None

    async def run(self) -> NoReturn:
        """Keep the key and the Secret in sync until cancelled."""
        backoff = Backoff()
        while True:
            try:
                await self.refresh()
            except ClusterError as error:
                if str(error) != self.error:
                    log.warning("hint_key.retry", error=str(error))
                self.error = str(error)
                await asyncio.sleep(backoff.next())
            else:
                self.error, backoff = "", Backoff()
                await asyncio.sleep(_POLL_SECONDS)

    async def refresh(self) -> None:
        """Sync the key and the Secret once. Raises ClusterError."""
        proposal = self._key or AllocationKey.create()
        data = await self._secret.read_or_fill(proposal.to_secret_data())
        key = AllocationKey.from_secret_data(data)
        if key is None:
            log.warning("hint_key.replaced", secret=self._secret.key, why="it held no valid key")
            key = (
                AllocationKey.from_secret_data(await self._secret.replace(data, proposal.to_secret_data())) or proposal
            )
        if key != self._key:
            log.info("hint_key.taken_over" if self._key else "hint_key.known", secret=self._secret.key)
            self._key = key
            self._use(key)
        self.known.set()
