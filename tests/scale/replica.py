"""The measured process: the service as `topology-webhook serve` runs it, and a probe that prints how far it is.

A line each 20 ms, and each 200 ms until it is ready, which takes longer and should not be measured with the probe: the
moment, the CPU time of the process, the resource versions up to which its informers have processed events, and its peak
memory.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from typing import TYPE_CHECKING, Final, NoReturn
from unittest.mock import patch

from webhook.app import main
from webhook.app.service import Service
from webhook.app.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.controllers.placement.controller import Background

_SECONDS: Final = 0.02
_SECONDS_UNTIL_READY: Final = 0.2
# macOS counts in bytes.
_PER_MIB: Final = 2**20 if sys.platform == "darwin" else 2**10


class ProbedService(Service):
    """The service with one more task."""

    def background(self) -> Iterator[Background]:
        yield from super().background()
        yield self._probe

    async def _probe(self) -> NoReturn:
        ready = False
        while True:
            ready = ready or (self._health.ready and self._leadership.is_leader())  # checking costs more than the rest
            versions = {watched.status.name.partition(".")[0]: watched.informer._version for watched in self._watched}
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _PER_MIB
            seen = {
                "at": time.monotonic(),
                "cpu": time.process_time(),
                "versions": versions,
                "peak_mib": peak,
                "ready": ready,
            }
            sys.stdout.write(json.dumps(seen) + "\n")
            sys.stdout.flush()
            await asyncio.sleep(_SECONDS if ready else _SECONDS_UNTIL_READY)


if __name__ == "__main__":
    with patch.object(main, "Service", ProbedService):
        sys.exit(main.run(Settings.load(json.loads(sys.argv[1]))))
