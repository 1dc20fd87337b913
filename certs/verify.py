"""Whether an API server would accept a leaf. Checked before the leaf is served.

Every fault is found, not only the first. Order: pair, path to a trusted CA, dates of all on that path, usage, names.
Source: what Go's crypto/x509 checks for a TLS server (`Certificate.Verify` with the server-auth usage).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs import pem
from certs.bundle import CABundle
from certs.leaf import Leaf
from certs.names import ServerNames
from certs.pem import CertificateError
from certs.window import Window


class FaultKind(StrEnum):
    """The checks of an API server."""

    NOT_A_PAIR = "NotAPair"
    UNTRUSTED = "Untrusted"
    NOT_YET_VALID = "NotYetValid"
    EXPIRED = "Expired"
    NOT_A_SERVER = "NotAServer"
    NAME_MISSING = "NameMissing"


@dataclass(frozen=True, slots=True)
class Fault:
    """One reason to reject a leaf, with a message."""

    kind: FaultKind
    message: str


def check(leaf: Leaf, names: ServerNames, now: datetime, trust: CABundle | None) -> None:
    """Raise CertificateError with all faults; see `faults`."""
    found = tuple(faults(leaf, names, now, trust))
    if found:
        raise CertificateError(" ".join(fault.message for fault in found))


def faults(leaf: Leaf, names: ServerNames, now: datetime, trust: CABundle | None) -> Iterator[Fault]:
    """Every reason not to serve `leaf` to a client that dials one of `names` at `now` and trusts `trust`.

    `trust` is None if another program manages the CA (cert-manager injects it); then the path ends with the chain.
    """
    if not pem.is_pair(leaf.certificate, leaf.key):
        yield Fault(FaultKind.NOT_A_PAIR, "The server certificate and the server key do not belong together.")
    path = leaf.chain
    if trust is not None:
        anchor = _anchor(leaf, trust)
        if anchor is None:
            yield Fault(FaultKind.UNTRUSTED, _untrusted(trust))
        elif anchor not in path:
            path = (*path, anchor)
    yield from (fault for certificate in path for fault in _dates(certificate, now))
    if not _may_serve(leaf.certificate):
        yield Fault(
            FaultKind.NOT_A_SERVER, "The server certificate's extended key usage does not allow server authentication."
        )
    missing = names.missing_from(leaf.certificate)
    if missing:
        carried = ServerNames.in_certificate(leaf.certificate)
        listed = ", ".join((*carried.dns, *map(str, carried.ips))) or "none"
        yield Fault(
            FaultKind.NAME_MISSING, f"The server certificate is not for {', '.join(missing)}; it carries: {listed}."
        )


def _anchor(leaf: Leaf, trust: CABundle) -> x509.Certificate | None:
    """The trusted CA at the end of the chain; None if there is none."""
    for position, certificate in enumerate(leaf.chain):
        if certificate in trust.certificates:
            return certificate
        for ca in trust.certificates:
            if _issued(certificate, ca):
                return ca
        if position + 1 < len(leaf.chain) and not _issued(certificate, leaf.chain[position + 1]):
            return None
    return None


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    if not pem.may_sign(issuer):
        return False
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _untrusted(trust: CABundle) -> str:
    listed = ", ".join(repr(pem.common_name(ca)) for ca in trust.certificates) or "no CA at all"
    return f"The server certificate was not issued by a CA of the bundle, which holds {listed}."


def _dates(certificate: x509.Certificate, now: datetime) -> Iterator[Fault]:
    window = Window.of(certificate)
    if now < window.begin:
        yield Fault(FaultKind.NOT_YET_VALID, f"The certificate {_called(certificate)} is valid {window}: not yet.")
    elif now > window.end:
        yield Fault(FaultKind.EXPIRED, f"The certificate {_called(certificate)} was valid {window}: it has expired.")


def _called(certificate: x509.Certificate) -> str:
    return repr(pem.common_name(certificate) or "/".join(ServerNames.in_certificate(certificate).dns[:1]))


def _may_serve(certificate: x509.Certificate) -> bool:
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True  # RFC 5280, 4.2.1.12: no extension, no restriction
    return ExtendedKeyUsageOID.SERVER_AUTH in usage or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage
