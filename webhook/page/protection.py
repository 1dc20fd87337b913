"""What every answer of the page's port has to pass, because a browser with other sites open is on the other side.

- The Host header must name this machine or an allowed host. Else another site could point its own name to our address
  and read the cluster through its visitor's browser (DNS rebinding).
- The browser is told to load nothing but our own files, to show the page in no frame, and to keep no copy.

The page has no cookies and no form that changes anything, so there is nothing to forge.
"""

from collections.abc import Collection
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from aiohttp import web

from webhook.model.wording import quoted
from webhook.server.listener import HTTPHandler

if TYPE_CHECKING:
    from aiohttp.typedefs import Middleware

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def only_for(hosts: Collection[str]) -> "Middleware":
    """A middleware that answers 421 to requests for other hosts, and adds the headers above to all answers.

    hosts: allowed names without port, besides `localhost` and loopback addresses.
    """
    allowed = {"localhost", *(host.lower() for host in hosts)}

    @web.middleware
    async def check(request: web.Request, handler: HTTPHandler) -> web.StreamResponse:
        host = host_of(request.headers.get("Host", ""))
        if host in allowed or _is_loopback(host):
            return await handler(request)
        text = f"Host {quoted(host)} is not allowed. Use localhost, or name it in --page-hosts.\n"
        return web.Response(status=421, text=text)

    return check


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers above; for `Application.on_response_prepare`, so that streams and errors have them, too."""
    del request
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def host_of(header: str) -> str:
    """The name or address of a Host header, in lower case, without its port: `[::1]:8080` -> `::1`."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.rpartition(":")[0].lower() if ":" in header else header.lower()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
