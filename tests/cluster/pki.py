"""The control plane's own certificates: one CA, serving certificates, client certificates.

Kubernetes reads a client certificate's common name as the user and its organizations as the groups.
"""

from __future__ import annotations

import datetime
import ipaddress
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LIFETIME = datetime.timedelta(days=30)  # longer than anyone leaves `up` running; every start makes new ones
CLOCK_SKEW = datetime.timedelta(minutes=5)


class KeyPair(NamedTuple):
    """PEM files of a certificate and its private key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose files lie in one folder, readable by their owner only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("topology-webhook test control plane", ())
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = self._write("ca.crt", self._certificate.public_bytes(serialization.Encoding.PEM))

    def client(self, user: str, *groups: str) -> KeyPair:
        """A client certificate for a user of these groups."""
        return self._issue(user.replace(":", "-"), _name(user, groups), (), ExtendedKeyUsageOID.CLIENT_AUTH)

    def server(self, name: str, hosts: Sequence[str]) -> KeyPair:
        """A serving certificate for these DNS names and IP addresses."""
        return self._issue(name, _name(name, ()), hosts, ExtendedKeyUsageOID.SERVER_AUTH)

    def signing_key(self, name: str) -> KeyPair:
        """A bare key pair: public key and private key, as the API server wants for service-account tokens."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return KeyPair(self._write(f"{name}.pub", public), self._write(f"{name}.key", _key_pem(key)))

    def _issue(self, file: str, name: x509.Name, hosts: Sequence[str], usage: x509.ObjectIdentifier) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(name, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(
            self._write(f"{file}.crt", certificate.public_bytes(serialization.Encoding.PEM)),
            self._write(f"{file}.key", _key_pem(key)),
        )

    def _write(self, file: str, content: bytes) -> Path:
        path = self._folder / file
        path.write_bytes(content)
        path.chmod(0o600)
        return path


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
        + [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
