"""/healthz and /readyz.

Alive means that the event loop answers: what else can break is started again in the process. Ready means that a review
would be answered by a complete view of the cluster over a connection the API server accepts, and that we are not
draining.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from aiohttp import web

from webhook.codec import dumps


@dataclass(frozen=True, slots=True)
class Check:
    """One condition of readiness, with what there is to say about it."""

    name: str
    ready: bool
    detail: str = ""


class Health:
    """Readiness as the checks say it; `drain` ends it for good.

    `synced` says whether the view of the cluster is complete: without it a review cannot be answered at all, whereas
    one that comes while we drain can.
    """

    def __init__(self, checks: Callable[[], Iterable[Check]], synced: Callable[[], bool]) -> None:
        self.synced = synced
        self._checks = checks
        self._draining = False

    def drain(self) -> None:
        """Not ready from now on, so that no new connections are sent here."""
        self._draining = True

    @property
    def draining(self) -> bool:
        """Whether the process is about to end."""
        return self._draining

    @property
    def ready(self) -> bool:
        """Whether reviews should come here."""
        return all(check.ready for check in self.checks())

    def checks(self) -> list[Check]:
        """Every condition, as of now."""
        serving = Check("serving", not self._draining, "draining" if self._draining else "")
        return [serving, *self._checks()]

    async def healthz(self, _: web.Request) -> web.Response:
        """GET /healthz."""
        return web.Response(text="ok\n")

    async def readyz(self, request: web.Request) -> web.Response:
        """GET /readyz: 200 or 503; what is missing as text, with `?verbose` every check as JSON."""
        checks = self.checks()
        ready = all(check.ready for check in checks)
        status = 200 if ready else 503
        if "verbose" in request.query:
            body = dumps({"ready": ready, "checks": [asdict(check) for check in checks]})
            return web.Response(body=body, status=status, content_type="application/json")
        missing = [f"{check.name}: {check.detail or 'not ready'}" for check in checks if not check.ready]
        return web.Response(text="\n".join(missing or ["ok"]) + "\n", status=status)
