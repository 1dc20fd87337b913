import stat
from pathlib import Path

import pytest

from certs import Authority, CertificateError, Leaf, ServerNames, read_leaf, write_atomically
from tests.leaf_files import write_leaf
from tests.unit.certs.conftest import NOW


def test_a_leaf_is_read_as_it_was_written_and_only_its_owner_can_read_it(tmp_path: Path, leaf: Leaf) -> None:
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    write_leaf(leaf, *files)
    again = read_leaf(*files)
    assert (again.chain, again.key_pem) == (leaf.chain, leaf.key_pem)
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]


def test_a_half_renewed_pair_is_refused(tmp_path: Path, authority: Authority, leaf: Leaf, names: ServerNames) -> None:
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    write_leaf(leaf, *files)
    write_atomically(files[1], authority.issue(names, NOW).key_pem)
    with pytest.raises(CertificateError, match="do not belong together"):
        read_leaf(*files)


def test_an_absent_or_broken_file_is_named(tmp_path: Path, leaf: Leaf) -> None:
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    with pytest.raises(CertificateError, match=r"tls\.crt: No such file"):
        read_leaf(*files)
    write_leaf(leaf, *files)
    files[1].write_bytes(b"-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n")
    with pytest.raises(CertificateError, match="private key in the server key"):
        read_leaf(*files)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "tls.key"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "text")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
