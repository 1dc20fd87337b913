"""The certificate authority that all replicas share, and the leaf that it signs for each of them.

Life cycle: the first replica creates it in a Secret, it is published in the webhook configurations' caBundle, and it
is replaced before it expires (see `succession`).
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs import pem
from certs.leaf import Leaf
from certs.names import ServerNames
from certs.pem import CertificateError
from certs.window import Window

# Long enough that a cluster which was off for three months still has a valid CA.
AUTHORITY_LIFETIME: Final = timedelta(days=365)
# A leaf lives in the memory of one process, which renews it; one day limits the use of a stolen key.
LEAF_LIFETIME: Final = timedelta(days=1)

# The keys of the Secret, named as in kubernetes.io/tls Secrets and by cert-manager.
CERTIFICATE_ENTRY: Final = "ca.crt"
KEY_ENTRY: Final = "ca.key"

# The curves that an API server's TLS library supports (Go's crypto/x509).
_CURVES: Final = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)

# The order of P-256 (FIPS 186-4, D.1.2.3): a private key is a number from 1 to one less.
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
# 128 bits more than the order has, so that the remainder is as good as uniform (FIPS 186-4, B.4.1 asks for 64).
_DERIVED_BYTES: Final = 48

_CURE: Final = "empty the Secret to have a new CA made."


@dataclass(frozen=True, slots=True)
class Authority:
    """A self-signed CA certificate with its private key (ECDSA P-256)."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(compare=False)  # the certificate identifies it

    @classmethod
    def create(cls, name: str, now: datetime, lifetime: timedelta = AUTHORITY_LIFETIME) -> Self:
        """A new CA with the name `name`, valid for `lifetime` from shortly before `now` (clock skew)."""
        return cls._self_signed(name, ec.generate_private_key(ec.SECP256R1()), now, lifetime)

    @classmethod
    def derived(cls, name: str, secret: bytes, now: datetime, lifetime: timedelta = AUTHORITY_LIFETIME) -> Self:
        """The CA whose key follows from `secret`: each replica that has it can make the CA, and verify others' leaves.

        The certificates differ in their serial numbers and dates, but a leaf names its CA by name and key alone.
        """
        derive = HKDF(hashes.SHA256(), _DERIVED_BYTES, salt=None, info=f"CA of {name}".encode()).derive
        number = int.from_bytes(derive(secret)) % (_ORDER - 1) + 1
        return cls._self_signed(name, ec.derive_private_key(number, ec.SECP256R1()), now, lifetime)

    @classmethod
    def _self_signed(cls, name: str, key: ec.EllipticCurvePrivateKey, now: datetime, lifetime: timedelta) -> Self:
        key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        # The key's digest in the name distinguishes two generations where only names are shown.
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name[:48]} CA {key_id.digest.hex()[:8]}")])
        window = Window.starting(now, lifetime)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(window.begin)
            .not_valid_after(window.end)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(sign_certificates=True), critical=True)
            .add_extension(key_id, critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    def issue(
        self,
        names: ServerNames,
        now: datetime,
        lifetime: timedelta = LEAF_LIFETIME,
        usages: Iterable[x509.ObjectIdentifier] = (ExtendedKeyUsageOID.SERVER_AUTH,),
    ) -> Leaf:
        """A server certificate with a new key for `names`; it expires no later than its CA.

        Raises CertificateError if there are no names, or if the CA is not valid now.
        """
        if not names:
            msg = "A server certificate needs at least one DNS name or IP address."
            raise CertificateError(msg)
        if not self.window.contains(now):
            msg = (
                f"The CA {self.name!r} is valid {self.window}, not at {now:%Y-%m-%dT%H:%M:%SZ}: it cannot sign a leaf."
            )
            raise CertificateError(msg)
        window = Window.starting(now, lifetime).within(self.window)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(window.begin)
            .not_valid_after(window.end)
            # RFC 5280, 4.2.1.6: critical, because the subject is empty (no TLS client reads a common name any more).
            .add_extension(names.as_extension(), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(self._key_identifier, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return Leaf((certificate,), key)

    @property
    def _key_identifier(self) -> x509.AuthorityKeyIdentifier:
        """The identifier by which a leaf names its signing key: the CA's own subject key identifier if it has one."""
        try:
            own = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        except x509.ExtensionNotFound:
            return x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)

    @property
    def name(self) -> str:
        """The common name."""
        return pem.common_name(self.certificate)

    @property
    def window(self) -> Window:
        """The validity period of the CA."""
        return Window.of(self.certificate)

    @property
    def certificate_pem(self) -> bytes:
        """The CA certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The private key as unencrypted PKCS #8 PEM; anyone who has it can impersonate the webhook."""
        return pem.dump_key(self.key)

    def to_secret_data(self, prefix: str = "") -> dict[str, str]:
        """Entries of the `data` of a Secret: base64 of the PEM texts."""
        return {
            prefix + CERTIFICATE_ENTRY: base64.b64encode(self.certificate_pem).decode(),
            prefix + KEY_ENTRY: base64.b64encode(self.key_pem).decode(),
        }

    @classmethod
    def from_secret_data(cls, data: Mapping[str, str], prefix: str = "") -> Self:
        """Read the output of `to_secret_data`.

        Raises CertificateError if an entry is missing or broken, or if certificate and key do not match.
        """
        return cls.from_pem(_entry(data, prefix + CERTIFICATE_ENTRY), _entry(data, prefix + KEY_ENTRY))

    @classmethod
    def from_pem(cls, certificate_pem: bytes, key_pem: bytes) -> Self:
        """A CA from its certificate and key.

        Raises CertificateError unless they match and an API server accepts certificates that this CA signs.
        """
        try:
            return cls._from_pem(certificate_pem, key_pem)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            # The library parses a certificate's contents only on access.
            msg = f"The CA certificate cannot be read ({error}); {_CURE}"
            raise CertificateError(msg) from error

    @classmethod
    def _from_pem(cls, certificate_pem: bytes, key_pem: bytes) -> Self:
        certificate = pem.load_certificates(certificate_pem, "the CA certificate")[0]
        key = pem.load_key(key_pem, "the CA key")
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, _CURVES):
            msg = f"The CA key is not an elliptic-curve key on P-256, P-384 or P-521; {_CURE}"
            raise CertificateError(msg)
        if not pem.is_pair(certificate, key):
            msg = f"The CA certificate and the CA key do not belong together; {_CURE}"
            raise CertificateError(msg)
        if not pem.may_sign_any(certificate):
            msg = f"The certificate {pem.common_name(certificate)!r} is not a CA's that may sign any; {_CURE}"
            raise CertificateError(msg)
        try:
            certificate.verify_directly_issued_by(certificate)
        except (ValueError, InvalidSignature) as error:
            msg = f"The CA certificate {pem.common_name(certificate)!r} is not signed by its own key; {_CURE}"
            raise CertificateError(msg) from error
        return cls(certificate, key)


def _entry(data: Mapping[str, str], entry: str) -> bytes:
    if entry not in data:
        msg = f"The Secret has no entry {entry!r}; {_CURE}"
        raise CertificateError(msg)
    try:
        return base64.b64decode(data[entry], validate=True)
    except (ValueError, TypeError) as error:  # binascii.Error is a ValueError
        msg = f"The Secret's entry {entry!r} is not base64 ({error}); {_CURE}"
        raise CertificateError(msg) from error


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )
