"""The gangs for which machines are asked again later, with waits that double. Times are seconds of one clock."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from webhook.controllers.autoscaling.provisioning_texts import put_off_text

# As cluster-autoscaler's own --provisioning-request-initial-backoff-time and --provisioning-request-max-backoff-time.
FIRST_WAIT_SECONDS: Final = 60.0
_LONGEST_WAIT_SECONDS: Final = 600.0
# The controllers of a gang create its pods over some seconds, and a tenant may change them at any time.
CHANGED_WAIT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Wait:
    until: float
    seconds: float
    why: str


class ProvisioningWaits:
    """By the digest of the gang."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}

    def begin(self, gang: str, why: str, now: float, first: float = FIRST_WAIT_SECONDS) -> str:
        """Put a gang off; returns what its placement says. first: the seconds of its first wait."""
        before = self._waits.get(gang)
        seconds = first if before is None else min(2 * before.seconds, _LONGEST_WAIT_SECONDS)
        self._waits[gang] = _Wait(now + seconds, seconds, why)
        return put_off_text(why)

    def text(self, gang: str, now: float) -> str:
        """What the placement of a gang says that is put off; empty if it is not."""
        wait = self._waits.get(gang)
        return put_off_text(wait.why) if wait is not None and now < wait.until else ""

    def keep(self, gangs: Container[str], now: float) -> None:
        """Forget all gangs but these, and those whose wait was over so recently: their pods may be recreated."""
        self._waits = {
            gang: wait for gang, wait in self._waits.items() if gang in gangs or now < wait.until + wait.seconds
        }
