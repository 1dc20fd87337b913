"""Leaf certificates as files, as an operator or cert-manager writes them for a server."""

from pathlib import Path

from certs import Leaf, write_atomically


def write_leaf(leaf: Leaf, certificate_file: Path, key_file: Path) -> None:
    """Write the two files, the key first: a reader that waits for the certificate finds both."""
    write_atomically(key_file, leaf.key_pem)
    write_atomically(certificate_file, leaf.chain_pem)
