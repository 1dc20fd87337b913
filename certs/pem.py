"""Reading and writing PEM, with errors that name the text that was read and tell an operator what to do."""

from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtensionOID, NameOID


class CertificateError(Exception):
    """A certificate, key or bundle cannot be used; the message says which, why and what to do."""


# The key types that TLS 1.2 and 1.3 servers use and cert-manager can issue.
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
_PRIVATE_KEYS: Final = (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey, ed25519.Ed25519PrivateKey)


# The extensions of a CA that are allowed to be critical.
_KNOWN: Final = {ExtensionOID.BASIC_CONSTRAINTS, ExtensionOID.KEY_USAGE}


def load_certificates(text: bytes, what: str) -> tuple[x509.Certificate, ...]:
    """All certificates in `text`, at least one; the CertificateError calls the text `what`."""
    try:
        return tuple(x509.load_pem_x509_certificates(text))
    except ValueError as error:
        msg = f"There is no readable PEM certificate in {what}: {error}"
        raise CertificateError(msg) from error


def load_key(text: bytes, what: str) -> PrivateKey:
    """The unencrypted private key in `text`; the CertificateError calls the text `what`."""
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        msg = f"There is no readable, unencrypted PEM private key in {what}: {error}"
        raise CertificateError(msg) from error
    if not isinstance(key, _PRIVATE_KEYS):
        msg = f"The private key in {what} is of a kind TLS servers do not use; give an ECDSA, RSA or Ed25519 key."
        raise CertificateError(msg)
    return key


def dump_key(key: PrivateKey) -> bytes:
    """`key` as unencrypted PKCS #8 PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def is_pair(certificate: x509.Certificate, key: PrivateKey) -> bool:
    """Whether `key` is the private half of the key in `certificate`."""
    return certificate.public_key() == key.public_key()


def may_sign(certificate: x509.Certificate) -> bool:
    """Whether `certificate` belongs to a CA (RFC 5280, 4.2.1.9)."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def may_sign_any(certificate: x509.Certificate) -> bool:
    """Whether `certificate` belongs to a CA without limits on the certificates that it may sign.

    Source: RFC 5280, 4.2.1.3 (key usage), 4.2.1.10 (name constraints), 4.2.1.12 (extended key usage, which Go's
    crypto/x509 checks for CAs as well), 4.2 (unknown critical extensions).
    """
    extensions = {extension.oid: extension for extension in certificate.extensions}
    usage = extensions.get(ExtensionOID.KEY_USAGE)
    return (
        may_sign(certificate)
        and (usage is None or usage.value.key_cert_sign)
        and not extensions.keys() & {ExtensionOID.NAME_CONSTRAINTS, ExtensionOID.EXTENDED_KEY_USAGE}
        and not any(extension.critical for oid, extension in extensions.items() if oid not in _KNOWN)
    )


def common_name(certificate: x509.Certificate) -> str:
    """The subject's common name, or the whole subject if it has none."""
    for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        return str(attribute.value)
    return certificate.subject.rfc4514_string()
