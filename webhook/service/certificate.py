"""The certificate the HTTPS port shows: obtained, checked, shown, renewed, all without a restart.

Life cycle, every few seconds: ask the source for what should be shown now -> when it changed, check it as an API server
would -> publish the CA where that is ours to do -> show it from the next handshake on. A source that fails leaves the
certificate that is shown in place; before the first one there is no HTTPS port.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, Protocol

import structlog

from certs import Authority, CABundle, CertificateError, Leaf, ServerNames, Succession, check, read_leaf, server_context
from webhook.cluster.errors import ClusterError
from webhook.cluster.secret import SharedSecret
from webhook.server.tls import HandshakeContext
from webhook.settings import Settings

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Shown:
    """A leaf, the names it must answer to, and the CA that leads to it; None when that is somebody else's affair."""

    leaf: Leaf
    names: ServerNames
    trust: CABundle | None


class Source(Protocol):
    """Where certificates come from."""

    poll_seconds: float

    async def current(self, now: datetime) -> Shown:
        """What to show now; the very object of the last call when nothing changed.

        Raises CertificateError or ClusterError.
        """


class SecretSource:
    """A CA in a Secret, shared by all replicas, who replace it in time; leaves live in this process only."""

    # A new CA is taken up within this time, which its announcement outlasts by far, and a deleted Secret put back.
    poll_seconds = 30.0

    def __init__(self, secret: SharedSecret, name: str, names: ServerNames) -> None:
        self._secret = secret
        self._name = name
        self._names = names
        self._known: Succession | None = None
        self._signer: Authority | None = None
        self._shown: Shown | None = None

    async def current(self, now: datetime) -> Shown:
        """A leaf of the CA that signs now, a new one when that changed or two thirds of the leaf's life are over."""
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
        """The Secret's CAs, after the step that is due."""
        # Should the Secret have been deleted, ours goes back: a new CA would lock out the other replicas' leaves.
        proposal = self._known or Succession(Authority.create(self._name, now))
        data = await self._secret.read_or_fill(proposal.to_secret_data())
        found = Succession.from_secret_data(data)
        due = found.advanced(self._name, now)
        if due is found:
            return found
        found = Succession.from_secret_data(await self._secret.replace(data, due.to_secret_data()))
        successor = found.successor and found.successor.name
        log.info("ca.advanced", authority=found.authority.name, successor=successor)
        return found


class FilesSource:
    """Certificate and key in files that somebody else renews, together with caBundle."""

    # A kubelet writes a changed Secret into its files within a minute or so; the files are a few kilobytes.
    poll_seconds = 10.0

    def __init__(self, certificate_file: Path, key_file: Path, names: ServerNames) -> None:
        self._files = certificate_file, key_file
        self._names = names
        self._shown: Shown | None = None

    async def current(self, now: datetime) -> Shown:
        """The files' leaf."""
        del now
        leaf = await asyncio.to_thread(read_leaf, *self._files)
        if self._shown is None or leaf.chain != self._shown.leaf.chain:
            self._shown = Shown(leaf, self._names, None)
        return self._shown


def source_of(settings: Settings, secret: SharedSecret) -> Source:
    """The source the settings ask for; raises CertificateError when `tls_names` has what is no name."""
    service = f"{settings.service_name}.{settings.namespace}.svc"
    if settings.tls_cert_file is not None and settings.tls_key_file is not None and settings.tls_mode == "files":
        names = ServerNames.of(settings.tls_names or (service,))
        return FilesSource(settings.tls_cert_file, settings.tls_key_file, names)
    others = f"{settings.bind_service_name}.{settings.namespace}.svc", *settings.tls_names
    names = ServerNames.of_service(settings.service_name, settings.namespace, others)
    return SecretSource(secret, settings.service_name, names)


class ServingCertificate:
    """What the HTTPS port shows, kept valid. `publish` is given the caBundle (base64) before a leaf of it is shown."""

    def __init__(
        self,
        source: Source,
        publish: Callable[[str], None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.error = "no certificate yet"
        self.end: datetime | None = None
        self._source = source
        self._publish = publish
        self._clock = clock
        self._shown: Shown | None = None
        self._context: HandshakeContext | None = None
        self._established = asyncio.Event()

    async def context(self) -> HandshakeContext:
        """The context for the listening socket, once there is a first certificate."""
        await self._established.wait()
        assert self._context is not None  # noqa: S101 # set before the event
        return self._context

    @property
    def valid(self) -> bool:
        """Whether a certificate is shown that has not expired."""
        return self.end is not None and self._clock() < self.end

    async def run(self) -> NoReturn:
        """Keep the certificate valid for ever."""
        while True:
            try:
                self.refresh(await self._source.current(self._clock()))
            except (CertificateError, ClusterError) as error:
                # Every poll of a lasting fault would repeat it; its text is in /readyz all the while.
                if str(error) != self.error:
                    log.warning("certificate.retry", error=str(error))
                self.error = str(error)
                await asyncio.sleep(min(2.0, self._source.poll_seconds))
            else:
                self.error = ""
                await asyncio.sleep(self._source.poll_seconds)

    def refresh(self, shown: Shown) -> None:
        """Check and show `shown`; raises CertificateError, and then the old one stays."""
        if shown is self._shown:
            return
        check(shown.leaf, shown.names, self._clock(), shown.trust)
        context = server_context(shown.leaf)
        if shown.trust is not None:
            self._publish(shown.trust.ca_bundle)
        if self._context is None:
            self._context = HandshakeContext(context)
        else:
            self._context.replace(context)
        self._shown, self.end = shown, shown.leaf.window.end
        self._established.set()
        log.info("certificate.shown", ends=self.end.isoformat(), renew_at=shown.leaf.window.renew_at.isoformat())
