"""Certificates of TLS clients, such as the one that an API server shows to webhooks."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs import Authority, Leaf


def client_leaf(
    ca: Authority, common_name: str, dns: str | None = None, lifetime: timedelta = timedelta(days=1)
) -> Leaf:
    """A client certificate with a new key."""
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(ca.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(min(now + lifetime, ca.window.end))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    )
    if dns is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(dns)]), critical=False)
    return Leaf((builder.sign(ca.key, hashes.SHA256()),), key)


def client_context(trusted: Authority, shown: Leaf | None = None) -> ssl.SSLContext:
    """The TLS context of a client that trusts the servers of one CA and shows a certificate."""
    context = ssl.create_default_context(cadata=trusted.certificate_pem.decode())
    if shown is not None:
        with TemporaryDirectory() as folder:
            path = Path(folder, "client.pem")
            path.write_bytes(shown.key_pem + shown.chain_pem)
            context.load_cert_chain(path)
    return context
