"""The applications: reviews for the API server, health and metrics, and metrics for clients with a token."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiohttp import web

from webhook.admission.handler import Handler
from webhook.internal_errors import LogLimit
from webhook.metrics import Metrics
from webhook.server.health import Health
from webhook.server.listener import HTTPHandler, connection_of, within_deadlines
from webhook.server.review_handler import MAX_BINDING_BYTES, MAX_BODY_BYTES, AskLeader, ReviewRoute

if TYPE_CHECKING:
    from aiohttp.typedefs import Middleware


log = structlog.get_logger(__name__)

BINDINGS: Final = "/mutate/bindings"


def review_app(
    handlers: Mapping[str, Handler],
    health: Health,
    metrics: Metrics,
    client_names: Collection[str] = (),
    ask_leader: AskLeader | None = None,
) -> web.Application:
    """POST at each path of `handlers` (`/mutate/pods`).

    client_names: the allowed names in client certificates; empty: any certificate that passes the TLS handshake.
    ask_leader: asks the leader what only it can answer. None: what other replicas ask, which is not passed on again.
    """
    middlewares: list[Middleware] = [within_deadlines, *([only_from(client_names)] if client_names else [])]
    app = web.Application(middlewares=middlewares)
    for path, handler in handlers.items():
        largest = MAX_BINDING_BYTES if path == BINDINGS else MAX_BODY_BYTES
        route = ReviewRoute(path.strip("/").replace("/", "-"), handler, health, metrics, largest, ask_leader)
        app.router.add_post(path, route.handle)
    return app


def observation_app(health: Health, metrics: Metrics | None) -> web.Application:
    """/healthz and /readyz, and /metrics unless another port has it."""
    app = web.Application(middlewares=[within_deadlines])
    app.router.add_get("/healthz", health.healthz)
    app.router.add_get("/readyz", health.readyz)
    if metrics is not None:
        app.router.add_get("/metrics", metrics.serve)
    return app


def metrics_app(metrics: Metrics, access: Callable[[str], Awaitable[int]]) -> web.Application:
    """/metrics for clients with a bearer token. access: the HTTP status for a token, 200 if it may read them."""

    async def serve(request: web.Request) -> web.Response:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        status = await access(token.strip() if scheme.lower() == "bearer" else "")
        return await metrics.serve(request) if status == HTTPStatus.OK else web.Response(status=status)

    app = web.Application(middlewares=[within_deadlines])
    app.router.add_get("/metrics", serve)
    return app


_QUOTED: Final = 200
"""Characters of names that an error quotes: the certificate may have thousands."""


def names_of(certificate: Mapping[str, Any]) -> Iterator[str]:
    """The common names and subject alternative names of a certificate in the format of `getpeercert()`."""
    for attributes in certificate.get("subject", ()):
        yield from (value for key, value in attributes if key == "commonName")
    yield from (str(value) for _, value in certificate.get("subjectAltName", ()))


def _carried(request: web.Request) -> frozenset[str]:
    """The names in the client's certificate. A connection has the one of its handshake as long as it lasts."""
    connection = connection_of(request)
    if connection is not None and connection.client_names is not None:
        return connection.client_names
    certificate = request.transport and request.transport.get_extra_info("peercert")
    names = frozenset(names_of(certificate or {}))
    if connection is not None:
        connection.client_names = names
    return names


def only_from(names: Collection[str]) -> "Middleware":
    """A middleware that answers 403 to clients whose certificate has none of these names."""
    lines = LogLimit(1 / 60, 1)

    @web.middleware
    async def check(request: web.Request, handler: HTTPHandler) -> web.StreamResponse:
        carried = _carried(request)
        if not carried.isdisjoint(names):
            return await handler(request)
        shown = ", ".join(sorted(carried))[:_QUOTED] or "none"
        if (left_out := lines.take()) is not None:
            log.warning("caller.refused", names=shown, address=request.remote, left_out=left_out)
        message = f"none of the client certificate's names ({shown}) is in --client-names\n"
        response = web.Response(status=403, text=message)
        response.force_close()
        return response

    return check
