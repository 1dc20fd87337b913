"""The certificate of a listening socket, replaced without a restart.

A socket keeps the context that it was opened with. At each handshake this context only looks up the current context.
So open connections do not change, and the next handshake uses the new certificate.
"""

import ssl


class HandshakeContext:
    """`listening` is the context of the socket; `replace` sets the context of its later handshakes."""

    def __init__(self, current: ssl.SSLContext) -> None:
        self._current = current
        self.listening = current
        self.listening.sni_callback = self._choose

    def replace(self, context: ssl.SSLContext) -> None:
        """Use the certificate of `context` from the next handshake on."""
        self._current = context

    def _choose(self, connection: ssl.SSLObject, server_name: str | None, _: ssl.SSLContext) -> None:
        """OpenSSL calls it after each ClientHello, also for clients that send no server name (URLs with an IP)."""
        del server_name
        connection.context = self._current
