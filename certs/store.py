"""Certificates in files, written so that no reader sees a partial file and no other user sees a key."""

import os
import tempfile
from pathlib import Path

from certs.errors import CertificateError
from certs.leaf import Leaf


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
