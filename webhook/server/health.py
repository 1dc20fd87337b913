"""/healthz and /readyz.

Healthy means that the event loop answers: everything else is restarted within the process. Ready means that the cluster
cache is complete, that the API server accepts our connections, and that we are not draining.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from aiohttp import web

from webhook.codec import dumps


@dataclass(frozen=True, slots=True)
class Check:
    """One condition of readiness, with details for the operator."""

    name: str
    ready: bool
    detail: str = ""


class Health:
    """Readiness according to the checks; after `drain` it is never ready again.

    `synced` says whether the cluster cache is complete. Without it no review can be answered; a review that arrives
    while we drain still can.
    """

    def __init__(self, checks: Callable[[], Iterable[Check]], synced: Callable[[], bool]) -> None:
        self.synced = synced
        self._checks = checks
        self._draining = False

    def drain(self) -> None:
        """Report not ready from now on, so that no new connections are sent here."""
        self._draining = True

    @property
    def draining(self) -> bool:
        """Whether the process is about to end."""
        return self._draining

    @property
    def ready(self) -> bool:
        """Whether reviews should be sent here."""
        return all(check.ready for check in self.checks())

    def checks(self) -> list[Check]:
        """Every condition and its current state."""
        serving = Check("serving", not self._draining, "draining" if self._draining else "")
        return [serving, *self._checks()]

    async def healthz(self, _: web.Request) -> web.Response:
        """GET /healthz."""
        return web.Response(text="ok\n")

    async def readyz(self, request: web.Request) -> web.Response:
        """GET /readyz: 200 or 503; the missing conditions as text, or with `?verbose` every check as JSON."""
        checks = self.checks()
        ready = all(check.ready for check in checks)
        status = 200 if ready else 503
        if "verbose" in request.query:
            body = dumps({"ready": ready, "checks": [asdict(check) for check in checks]})
            return web.Response(body=body, status=status, content_type="application/json")
        missing = [f"{check.name}: {check.detail or 'not ready'}" for check in checks if not check.ready]
        return web.Response(text="\n".join(missing or ["ok"]) + "\n", status=status)
