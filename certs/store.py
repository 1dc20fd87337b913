"""Certificates as files: written so that no reader ever sees half of one, and no other user sees a key."""

import os
import tempfile
from pathlib import Path

from certs.errors import CertificateError
from certs.leaf import Leaf


def read_leaf(certificate_file: Path, key_file: Path) -> Leaf:
    """The leaf in two PEM files.

    Raises CertificateError when a file is absent or broken, or when the two are not a pair: a renewal may have replaced
    one of them only, so a server keeps what it has and reads again.
    """
    return Leaf.from_pem(_read(certificate_file), _read(key_file))


def write_atomically(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace `path` by `content` in one step that survives a crash; nobody can ever read it beyond `mode`."""
    # mkstemp creates with 0600, so a stricter or equal mode holds from the first byte on.
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
