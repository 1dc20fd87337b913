"""The TLS context of a server, from a leaf in memory."""

import os
import ssl
from pathlib import Path
from tempfile import TemporaryDirectory

from certs.bundle import CABundle
from certs.errors import CertificateError
from certs.leaf import Leaf
from certs.store import write_atomically


def server_context(leaf: Leaf, clients: CABundle | None = None) -> ssl.SSLContext:
    """A new context that serves `leaf`, TLS 1.2 or newer; raises CertificateError if OpenSSL rejects the pair.

    clients: the CAs that must have issued a client's certificate (with the usage client authentication, if the
    certificate lists usages); None: clients need no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The API server speaks HTTP/2 with any server that offers it; aiohttp serves HTTP/1.1 only.
    context.set_alpn_protocols(["http/1.1"])
    try:
        _load(context, leaf.key_pem + leaf.chain_pem)
    except ssl.SSLError as error:
        msg = f"OpenSSL does not accept the server certificate: {error}"
        raise CertificateError(msg) from error
    if clients is not None:
        _require(context, clients)
    return context


def _require(context: ssl.SSLContext, clients: CABundle) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=clients.pem.decode())
    # A resumed session is not verified again, so it could outlive its CA. Without tickets TLS 1.3 resumes no session;
    # TLS 1.2 could, by session identifiers, which `ssl` cannot turn off. Go has used TLS 1.3 since 2019.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0


def _load(context: ssl.SSLContext, content: bytes) -> None:
    """Load key and chain. OpenSSL reads files only; on Linux the file is in memory, never on a disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("leaf")
        try:
            # One write is enough: Linux writes up to 2 GiB at once into memory.
            os.write(descriptor, content)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return
    with TemporaryDirectory() as folder:
        path = Path(folder, "leaf.pem")
        write_atomically(path, content)
        context.load_cert_chain(path)
