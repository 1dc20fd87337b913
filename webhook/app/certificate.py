"""The certificate of the HTTPS port: checked, served and renewed without a restart.

Life cycle, every few seconds:
1. Ask the source for the certificate to serve now (see `certificate_source`). If it did not change, stop here.
2. Check it as an API server would.
3. Publish the CA, if that is our task.
4. Serve the certificate from the next handshake on.
If a source fails, the current certificate stays. The HTTPS port opens only with the first certificate.

The certificate of a listening socket, replaced without a restart.

A socket keeps the context that it was opened with. At each handshake this context only looks up the current context.
So open connections do not change, and the next handshake uses the new certificate.
"""

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import structlog

from certs import CABundle, CertificateError, check, pem, server_context
from webhook.app.certificate_source import Shown, Source
from webhook.kube.api_errors import ClusterError


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


log = structlog.get_logger(__name__)


class ClientCAFile:
    """The CAs of the clients that may call, in a file that another tool renews (a mounted Secret or ConfigMap)."""

    # A kubelet updates the files of a changed object within about a minute.
    poll_seconds = 10.0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[bytes, CABundle] | None = None

    async def current(self) -> CABundle:
        """The file's certificates; the same object as in the last call if nothing changed. Raises CertificateError."""
        try:
            text = await asyncio.to_thread(self._path.read_bytes)
        except OSError as error:
            msg = f"The client CA file cannot be read: {error}"
            raise CertificateError(msg) from error
        if self._read is None or self._read[0] != text:
            self._read = text, CABundle.from_pem(text, f"the client CA file {self._path}")
        return self._read[1]


class ServingCertificate:
    """Keeps the certificate of the HTTPS port valid, and the CAs for client certificates current.

    publish: called with the caBundle (base64) before a leaf of it is served. Without `clients` the port requests no
    client certificates.
    """

    def __init__(
        self,
        source: Source,
        publish: Callable[[str], None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        clients: ClientCAFile | None = None,
    ) -> None:
        self.error = "no certificate yet"
        self.end: datetime | None = None
        self._source = source
        self._publish = publish
        self._clock = clock
        self._client_file = clients
        self._clients: CABundle | None = None
        self._wanted_clients: CABundle | None = None
        polls = [source.poll_seconds, *([clients.poll_seconds] if clients else [])]
        self._poll_seconds = min(polls)
        self._shown: Shown | None = None
        self._context: HandshakeContext | None = None
        self._established = asyncio.Event()

    async def context(self) -> HandshakeContext:
        """Wait for the first certificate; returns the context for the listening socket."""
        await self._established.wait()
        assert self._context is not None  # noqa: S101 # set before the event
        return self._context

    @property
    def valid(self) -> bool:
        """Whether a certificate is served and has not expired."""
        return self.end is not None and self._clock() < self.end

    async def run(self) -> NoReturn:
        """Keep the certificate valid until cancelled."""
        while True:
            try:
                fault = await self._read_clients()
                self.refresh(await self._source.current(self._clock()), self._wanted_clients)
            except (CertificateError, ClusterError) as error:
                fault = str(error)
            # Log a lasting fault once, not at every poll. /readyz shows its text meanwhile.
            if fault and fault != self.error:
                log.warning("certificate.retry", error=fault)
            self.error = fault
            await asyncio.sleep(min(2.0, self._poll_seconds) if fault else self._poll_seconds)

    async def _read_clients(self) -> str:
        """Read the client CA file again; returns why the previous CAs stay in use, empty if there is no fault.

        A returned fault does not stop the renewal of the leaf. Raises CertificateError if the file was never read
        successfully: the port must not open without requesting client certificates.
        """
        if self._client_file is None:
            return ""
        try:
            self._wanted_clients = await self._client_file.current()
        except CertificateError as error:
            if self._wanted_clients is None:
                raise
            return str(error)
        return ""

    def refresh(self, shown: Shown, clients: CABundle | None = None) -> None:
        """Check and serve `shown`, and request client certificates signed by `clients`.

        Raises CertificateError and then changes nothing.
        """
        if shown is self._shown and clients is self._clients:
            return
        check(shown.leaf, shown.names, self._clock(), shown.trust)
        context = server_context(shown.leaf, clients)
        if shown.trust is not None:
            self._publish(shown.trust.ca_bundle)
        if self._context is None:
            self._context = HandshakeContext(context)
        else:
            self._context.replace(context)
        if clients is not None and clients is not self._clients:
            log.info("client_ca.read", certificates=[pem.common_name(ca) for ca in clients.certificates])
        self._shown, self._clients, self.end = shown, clients, shown.leaf.window.end
        self._established.set()
        log.info("certificate.shown", ends=self.end.isoformat(), renew_at=shown.leaf.window.renew_at.isoformat())
