"""Where the certificate of the HTTPS port comes from: a CA in a Secret that all replicas share, or files.

- Secret: each replica issues its own short-lived leaf. The first replica creates the CA, any replica renews it, and an
  unusable Secret is repaired.
- Files: another tool renews certificate, key and caBundle.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

import structlog

from certs import Authority, CABundle, CertificateError, Leaf, ServerNames, Succession, read_leaf
from webhook.app.settings import Settings
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
    service = f"{settings.service_name}.{settings.namespace}.svc"
    if settings.tls_cert_file is not None and settings.tls_key_file is not None and settings.tls_mode == "Files":
        names = ServerNames.of(settings.tls_names or (service,))
        return FilesSource(settings.tls_cert_file, settings.tls_key_file, names)
    others = f"{settings.bind_service_name}.{settings.namespace}.svc", *settings.tls_names
    names = ServerNames.of_service(settings.service_name, settings.namespace, others)
    return SecretSource(secret, settings.service_name, names)
