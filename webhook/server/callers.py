"""Who calls, by the client certificate that the TLS handshake has verified."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiohttp import web

from webhook.log_limit import LogLimit
from webhook.server.served import Handler

if TYPE_CHECKING:
    from aiohttp.typedefs import Middleware

log = structlog.get_logger(__name__)

_QUOTED: Final = 200
"""Characters of names that are repeated to a caller: the certificate may have thousands."""


def names_of(certificate: Mapping[str, Any]) -> Iterator[str]:
    """The common names and subject alternative names of a certificate as `ssl` gives it (`getpeercert()`)."""
    for attributes in certificate.get("subject", ()):
        yield from (value for key, value in attributes if key == "commonName")
    yield from (str(value) for _, value in certificate.get("subjectAltName", ()))


def only_from(names: Collection[str]) -> "Middleware":
    """A middleware that answers 403 to clients whose certificate carries none of these names."""
    lines = LogLimit(1 / 60, 1)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        certificate = request.transport and request.transport.get_extra_info("peercert")
        carried = frozenset(names_of(certificate or {}))
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
