"""The certificate of a listening socket, replaced without a restart.

A socket keeps the context it was opened with. That context only looks up, at each handshake, which context to go on
with: connections that are open stay as they are, the next handshake shows the new certificate.
"""

import ssl


class HandshakeContext:
    """`listening` is for the socket; `replace` decides what its handshakes show from then on."""

    def __init__(self, current: ssl.SSLContext) -> None:
        self._current = current
        self.listening = current
        self.listening.sni_callback = self._choose

    def replace(self, context: ssl.SSLContext) -> None:
        """Show `context`'s certificate from the next handshake on."""
        self._current = context

    def _choose(self, connection: ssl.SSLObject, server_name: str | None, _: ssl.SSLContext) -> None:
        """Called by OpenSSL after each ClientHello, also of clients that send no server name (URLs with an IP)."""
        del server_name
        connection.context = self._current
