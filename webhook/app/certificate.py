"""The certificate of the HTTPS port: obtained, checked, served and renewed without a restart.

Where it comes from:
- Secret: a CA that all replicas share. Each replica issues its own short-lived leaf. The first replica creates the CA,
  any replica renews it, and an unusable Secret is repaired.
- Files: another tool renews certificate, key and caBundle.

Life cycle, every few seconds:
1. Ask the source for the certificate to serve now. If it did not change, stop here.
2. Check it as an API server would.
3. Publish the CA, if that is our task.
4. Serve the certificate from the next handshake on.
If a source fails, the current certificate stays. The HTTPS port opens only with the first certificate.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NoReturn, Protocol

import structlog

from certs import (
    Authority,
    CABundle,
    CertificateError,
    Leaf,
    ServerNames,
    Succession,
    check,
    pem,
    read_leaf,
    server_context,
)
from webhook.app.settings import Settings
from webhook.kube.api_errors import ClusterError
from webhook.kube.shared_secret import SharedSecret

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Shown:
    """A leaf, the names that it must be valid for, and the CAs to publish; None if another tool publishes them."""

    leaf: Leaf
    names: ServerNames
    trust: CABundle | None


class Source(Protocol):
    """A source of certificates. poll_seconds: the pause between two calls of `current`."""

    poll_seconds: float

    async def current(self, now: datetime) -> Shown:
        """The certificate to serve now; the same object as in the last call if nothing changed.

        Raises CertificateError or ClusterError.
        """


class SecretSource:
    """A CA in a Secret, shared and renewed by all replicas. Leaves exist only in this process."""

    # A new CA is picked up within this time, and a deleted or damaged Secret is repaired. The announcement of a new CA
    # lasts much longer. One read by name per poll costs the API server a hundredth of what the watches cost it.
    poll_seconds = 5.0

    def __init__(self, secret: SharedSecret, name: str, names: ServerNames) -> None:
        self._secret = secret
        self._name = name
        self._names = names
        self._known: Succession | None = None
        self._signer: Authority | None = None
        self._shown: Shown | None = None
        self._spoilt: tuple[Mapping[str, str], datetime] | None = None

    async def current(self, now: datetime) -> Shown:
        """A leaf of the current signer; a new one if the signer changed or two thirds of the leaf's life are over."""
        known = self._known = await self._succession(now)
        signer = known.signer(now)
        leaf = None if self._shown is None else self._shown.leaf
        if leaf is None or signer != self._signer or now >= leaf.window.renew_at:
            leaf = signer.issue(self._names, now)
            self._signer = signer
        if self._shown is None or leaf is not self._shown.leaf or known.bundle != self._shown.trust:
            self._shown = Shown(leaf, self._names, known.bundle)
        return self._shown

    async def _succession(self, now: datetime) -> Succession:
        """The Secret's CAs, after any step of the renewal that is due."""
        # If the Secret was deleted, write our CA back: a new CA would invalidate the leaves of the other replicas.
        proposal = self._known or Succession(Authority.create(self._name, now))
        data = await self._secret.read_or_fill(proposal.to_secret_data())
        try:
            found = Succession.from_secret_data(data)
            due = found.advanced(self._name, now)
            _check_signs(due, now)
        except CertificateError as error:
            return await self._heal(data, error, now)
        self._spoilt = None
        if due is found:
            return found
        found = Succession.from_secret_data(await self._secret.replace(data, due.to_secret_data()))
        successor = found.successor and found.successor.name
        log.info("ca.advanced", authority=found.authority.name, successor=successor)
        return found

    async def _heal(self, data: Mapping[str, str], error: CertificateError, now: datetime) -> Succession:
        """Replace an unusable Secret; returns the CAs that we or another replica wrote.

        1. A replica that knows the CA restores it, so no leaf and no caBundle changes.
        2. If only the successor is unusable, the CA stays.
        3. Otherwise a new CA is created, after other replicas had time for step 1.
        """
        healed = self._known or _alone(data, now)
        if healed is None:
            since = self._spoilt[1] if self._spoilt is not None and self._spoilt[0] == data else now
            self._spoilt = data, since
            if now - since < OTHERS_FIRST:
                msg = f"{error} A new CA is made unless another replica restores the old one within {OTHERS_FIRST}."
                raise CertificateError(msg) from error
            healed = Succession(Authority.create(self._name, now))
        healed = healed.advanced(self._name, now)
        wanted = healed.to_secret_data()
        written = await self._secret.replace(data, wanted)
        if written == data:
            msg = f"{error} It cannot be replaced either: delete the Secret {self._secret.key}."
            raise CertificateError(msg) from error
        found = Succession.from_secret_data(written)
        _check_signs(found, now)
        self._spoilt = None
        if written is wanted:  # ours, not that of a replica that was faster
            note = f"the CA in it was unusable and was replaced by {found.authority.name}: {error}"
            log.warning("ca.healed", secret=self._secret.key, authority=found.authority.name, error=str(error))
            await self._secret.tell("CAReplaced", note)
        return found


# Two polls: a running replica that knows the CA has restored it by then.
OTHERS_FIRST: Final = timedelta(seconds=2 * SecretSource.poll_seconds)


def _check_signs(succession: Succession, now: datetime) -> None:
    """Raise CertificateError unless the current signer is valid now."""
    signer = succession.signer(now)
    if not signer.window.contains(now):
        msg = f"The CA {signer.name!r} is valid {signer.window}, not at {now:%Y-%m-%dT%H:%M:%SZ}."
        raise CertificateError(msg)


def _alone(data: Mapping[str, str], now: datetime) -> Succession | None:
    """The Secret's CA without its successor; None if the CA is unusable."""
    try:
        found = Succession(Authority.from_secret_data(data))
        _check_signs(found, now)
    except CertificateError:
        return None
    return found


class FilesSource:
    """Certificate and key in files. Another tool renews them, together with caBundle."""

    # A kubelet updates the files of a changed Secret within about a minute. The files have a few kilobytes.
    poll_seconds = 10.0

    def __init__(self, certificate_file: Path, key_file: Path, names: ServerNames) -> None:
        self._files = certificate_file, key_file
        self._names = names
        self._shown: Shown | None = None

    async def current(self, now: datetime) -> Shown:
        """The leaf in the files; the same object as in the last call if the chain did not change."""
        del now
        leaf = await asyncio.to_thread(read_leaf, *self._files)
        if self._shown is None or leaf.chain != self._shown.leaf.chain:
            self._shown = Shown(leaf, self._names, None)
        return self._shown


def source_of(settings: Settings, secret: SharedSecret) -> Source:
    """The source that the settings select; raises CertificateError if an entry of `tls_names` is not a name."""
    service = f"{settings.name}.{settings.namespace}.svc"
    if (files := settings.tls_files) is not None:
        return FilesSource(*files, ServerNames.of(settings.tls_names or (service,)))
    names = ServerNames.of_service(settings.name, settings.namespace, settings.tls_names)
    return SecretSource(secret, settings.name, names)


class HandshakeContext:
    """The certificate of a listening socket. `replace` sets that of its later handshakes.

    A socket keeps the context that it was opened with, `listening`. At each handshake this context only looks up the
    current context. So open connections do not change, and the next handshake uses the new certificate.
    """

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
        self._open_context: HandshakeContext | None = None
        self._established = asyncio.Event()

    async def context(self) -> HandshakeContext:
        """Wait for the first certificate; returns the context for the listening socket."""
        await self._established.wait()
        assert self._context is not None  # noqa: S101 # set before the event
        return self._context

    async def open_context(self) -> HandshakeContext:
        """The same for a port that requests no client certificates."""
        await self._established.wait()
        assert self._open_context is not None  # noqa: S101 # set before the event
        return self._open_context

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
        context, open_context = server_context(shown.leaf, clients), server_context(shown.leaf, None)
        if shown.trust is not None:
            self._publish(shown.trust.ca_bundle)
        if self._context is None or self._open_context is None:
            self._context, self._open_context = HandshakeContext(context), HandshakeContext(open_context)
        else:
            self._context.replace(context)
            self._open_context.replace(open_context)
        if clients is not None and clients is not self._clients:
            log.info("client_ca.read", certificates=[pem.common_name(ca) for ca in clients.certificates])
        self._shown, self._clients, self.end = shown, clients, shown.leaf.window.end
        self._established.set()
        log.info("certificate.shown", ends=self.end.isoformat(), renew_at=shown.leaf.window.renew_at.isoformat())
