"""The webhook's program, in which writes wait: those of a claim while `claim` is in a folder, those of a pod for `pod`.

Its first argument is the folder; the others are the program's. What waits adds the file `claim.waits` or `pod.waits`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webhook.cli.app import main
from webhook.kube.claim_writes import ClaimWrites
from webhook.kube.pod_writes import PodWrites

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_POLL_SECONDS = 0.02


def hold(folder: Path, what: str, owner: Any, name: str) -> None:
    """Make the method `name` of `owner` wait."""
    method: Callable[..., Awaitable[Any]] = getattr(owner, name)

    async def held(*arguments: Any, **named: Any) -> Any:
        while (folder / what).exists():  # a file of the test
            (folder / f"{what}.waits").touch()
            await asyncio.sleep(_POLL_SECONDS)
        return await method(*arguments, **named)

    setattr(owner, name, held)


if __name__ == "__main__":
    at = Path(sys.argv.pop(1))
    hold(at, "claim", ClaimWrites, "allocate")
    hold(at, "pod", PodWrites, "patch")
    main()
