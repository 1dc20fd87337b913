"""A port that serves, and stops in two steps: first no new connections, then no requests in flight."""

import ssl

from aiohttp import web

# The API server (Go's HTTP client) drops idle connections after 90 s. It must be the one to do so: a request sent into
# a connection that we are just closing would be lost.
_KEEPALIVE_SECONDS = 120.0
# The API server opens as many connections as it has creates in flight (HTTP/1.1): 1,000 at once are not to be refused.
_BACKLOG = 1024


class Listener:
    """One aiohttp application on one port."""

    def __init__(self, application: web.Application, finish_seconds: float) -> None:
        self._runner = web.AppRunner(
            application, access_log=None, keepalive_timeout=_KEEPALIVE_SECONDS, shutdown_timeout=finish_seconds
        )
        self.port = 0

    async def open(self, address: str, port: int, context: ssl.SSLContext | None = None) -> None:
        """Listen; port 0 takes a free one, which `port` then tells. Raises OSError when the port is taken."""
        await self._runner.setup()
        await web.TCPSite(self._runner, address, port, ssl_context=context, backlog=_BACKLOG).start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Accept nothing more, close idle connections, and wait for requests in flight up to `finish_seconds`."""
        await self._runner.cleanup()
