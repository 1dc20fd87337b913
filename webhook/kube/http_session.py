"""HTTP requests to the API server, with TLS settings, proxy and token of the Kubernetes client's configuration.

Requests do not go through the Kubernetes client itself. It looks for typed models in headers, queries and bodies, which
takes a fifth of the CPU time of a write, and keeps cookies, which no API server needs.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode
from urllib.request import getproxies

import aiohttp
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from webhook.codec import dumps
from webhook.kube.keepalive_socket import keepalive_socket
from webhook.version import DISTRIBUTION, VERSION

# A dozen watches stay open. The remaining connections are for calls; HTTP/1.1 makes one at a time per connection.
_CONNECTIONS: Final = 32
# An event of a watch can be larger than aiohttp's default buffer of 64 KiB.
_READ_BYTES: Final = 2 * 1024 * 1024
_TOKEN: Final = "BearerToken"  # noqa: S105 # the name in the Kubernetes client's configuration


class HTTPSession:
    """The connections of one client. They are opened when they are needed."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._tls = RESTClientObject(configuration).ssl_context
        self._session: aiohttp.ClientSession | None = None
        self._options = _options(configuration)

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None,
        body: Any,
        *,
        content_type: str,
        accept: str,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send a request; the answer's body is unread. body: encoded as JSON; None: no body."""
        headers = {
            "Accept": accept,
            "Content-Type": content_type,
            "User-Agent": f"{DISTRIBUTION}/{VERSION}",
            **await self._authorization(),
        }
        url = f"{self._configuration.host}{path}"
        if query:
            url = f"{url}?{urlencode(query, quote_via=quote)}"
        text = None if body is None else encoded(body)
        return await self._opened().request(method, url, headers=headers, data=text, timeout=limits, **self._options)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        """The session. It can only be made while the event loop runs."""
        if self._session is None:
            connector = aiohttp.TCPConnector(
                ssl=self._tls,
                limit=_CONNECTIONS,
                socket_factory=keepalive_socket,
                # An aborted call's connection stays in these until its peer closes it, which a hanging peer never does.
                enable_cleanup_closed=sys.version_info < (3, 12, 7),
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_READ_BYTES,
                # aiohttp would look for proxies in the environment and read ~/.netrc at each call, a tenth of a call's
                # cost. Usually there are none.
                trust_env=bool(getproxies()),
            )
        return self._session

    async def _authorization(self) -> dict[str, str]:
        """The header with the token; empty with another kind of credentials."""
        keys = self._configuration.api_key
        if _TOKEN not in keys and "authorization" not in keys:
            return {}
        token = await self._configuration.get_api_key_with_prefix(_TOKEN, alias="authorization")
        return {"Authorization": token} if token else {}


def encoded(body: Any) -> bytes:
    """The body as JSON. The fast encoder knows no enums as keys and no halves of characters, the other one does."""
    try:
        return dumps(body)
    except (TypeError, ValueError):
        return json.dumps(body).encode()


def _options(configuration: Configuration) -> dict[str, Any]:
    """What the configuration says about the way to the API server."""
    found = {
        "server_hostname": configuration.tls_server_name,
        "proxy": configuration.proxy,
        "proxy_headers": configuration.proxy_headers,
    }
    return {name: value for name, value in found.items() if value}
