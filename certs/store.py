"""Certificates in files, written so that no reader sees a partial file and no other user sees a key.

A leaf in memory becomes the TLS context of a server (`server_context`) or of a client (`client_context`).
"""

import os
import ssl
import tempfile
from pathlib import Path
from tempfile import TemporaryDirectory

from certs.bundle import CABundle
from certs.leaf import Leaf
from certs.pem import CertificateError


def read_leaf(certificate_file: Path, key_file: Path) -> Leaf:
    """The leaf in two PEM files.

    Raises CertificateError if a file is missing or broken, or if the two are not a pair. A renewal may have replaced
    only one of them, so a server keeps its current leaf and reads again later.
    """
    return Leaf.from_pem(_read(certificate_file), _read(key_file))


def write_atomically(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace `path` by `content` in one crash-safe step; the file never has wider permissions than `mode`."""
    # mkstemp creates the file with 0600, so an equal or stricter mode holds from the first byte on.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"Cannot read {path}: {error.strerror}."
        raise CertificateError(msg) from error


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


def client_context(leaf: Leaf, servers: CABundle) -> ssl.SSLContext:
    """A new context of a client that shows `leaf`, TLS 1.3, and trusts servers of these CAs by their names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    _load(context, leaf.key_pem + leaf.chain_pem)
    context.load_verify_locations(cadata=servers.pem.decode())
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
