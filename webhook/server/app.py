"""The two applications: reviews for the API server, and health and metrics for everybody who may look."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from aiohttp import web

from webhook.server.callers import only_from
from webhook.server.health import Health
from webhook.server.metrics import Metrics
from webhook.server.reviews import MAX_BINDING_BYTES, MAX_BODY_BYTES, Reviewer, ReviewRoute
from webhook.server.served import within_deadlines

if TYPE_CHECKING:
    from aiohttp.typedefs import Middleware

BINDINGS: Final = "/mutate/bindings"


def review_app(
    reviewers: Mapping[str, Reviewer], health: Health, metrics: Metrics, client_names: Collection[str] = ()
) -> web.Application:
    """POST at each path of `reviewers` (`/mutate/pods`).

    client_names: the names of whom a client certificate has to be; empty: any that the TLS handshake lets through.
    """
    middlewares: list[Middleware] = [within_deadlines, *([only_from(client_names)] if client_names else [])]
    app = web.Application(middlewares=middlewares)
    for path, reviewer in reviewers.items():
        largest = MAX_BINDING_BYTES if path == BINDINGS else MAX_BODY_BYTES
        route = ReviewRoute(path.strip("/").replace("/", "-"), reviewer, health, metrics, largest)
        app.router.add_post(path, route.handle)
    return app


def observation_app(health: Health, metrics: Metrics) -> web.Application:
    """/healthz, /readyz and /metrics."""
    app = web.Application(middlewares=[within_deadlines])
    app.router.add_get("/healthz", health.healthz)
    app.router.add_get("/readyz", health.readyz)
    app.router.add_get("/metrics", metrics.serve)
    return app
