"""The two applications: reviews for the API server, and health and metrics for everybody who may look."""

from collections.abc import Mapping

from aiohttp import web

from webhook.server.health import Health
from webhook.server.metrics import Metrics
from webhook.server.reviews import MAX_BODY_BYTES, Reviewer, ReviewRoute


def review_app(reviewers: Mapping[str, Reviewer], health: Health, metrics: Metrics) -> web.Application:
    """POST at each path of `reviewers` (`/mutate/pods`)."""
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    for path, reviewer in reviewers.items():
        app.router.add_post(path, ReviewRoute(path.strip("/").replace("/", "-"), reviewer, health, metrics).handle)
    return app


def observation_app(health: Health, metrics: Metrics) -> web.Application:
    """/healthz, /readyz and /metrics."""
    app = web.Application()
    app.router.add_get("/healthz", health.healthz)
    app.router.add_get("/readyz", health.readyz)
    app.router.add_get("/metrics", metrics.serve)
    return app
