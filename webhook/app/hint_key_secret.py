"""The key that signs our hints: got from the Secret that all replicas share, and kept there.

Life cycle: asked for until the Secret gives a key (the first replica fills it; what cannot be a key is replaced) ->
no pod is read before -> asked again every half minute: a Secret that was deleted gets the key back; another key than
ours is taken over, for the pods that are read from then on.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

import structlog

from webhook.kube.api_errors import ClusterError
from webhook.kube.backoff import Backoff
from webhook.kube.shared_secret import SharedSecret
from webhook.model.hint_key import HintKey

log = structlog.get_logger(__name__)

# Of the order of the CA's Secret. Replicas that differ meanwhile only believe less: nothing is given away twice.
_POLL_SECONDS: Final = 30.0


class SharedHintKey:
    """Keeps the key; `use` is given the first one and every other."""

    def __init__(self, secret: SharedSecret, use: Callable[[HintKey], None]) -> None:
        self.error = "not read yet"
        self.known = asyncio.Event()
        self._secret = secret
        self._use = use
        self._key: HintKey | None = None

    async def run(self) -> NoReturn:
        """Keep it, until cancelled."""
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
        """Bring the key and the Secret in step once. Raises ClusterError."""
        proposal = self._key or HintKey.create()
        data = await self._secret.read_or_fill(proposal.to_secret_data())
        key = HintKey.from_secret_data(data)
        if key is None:
            log.warning("hint_key.replaced", secret=self._secret.key, why="it held no valid key")
            key = HintKey.from_secret_data(await self._secret.replace(data, proposal.to_secret_data())) or proposal
        if key != self._key:
            log.info("hint_key.taken_over" if self._key else "hint_key.known", secret=self._secret.key)
            self._key = key
            self._use(key)
        self.known.set()
