"""The certificates of the control plane's servers, and the tokens of its users.

One CA is for all servers, made by the project's own `certs`, and one for the API server as a client of webhooks. Users
have static tokens instead of client certificates: the API server reads them from a file at its start.
"""

from __future__ import annotations

import datetime
import secrets
from typing import TYPE_CHECKING, NamedTuple

from certs import Authority, ServerNames
from tests.client_certificates import client_leaf
from tests.leaf_files import write_leaf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LIFETIME = datetime.timedelta(days=30)  # longer than `up` is left running; every start creates new ones


class KeyPair(NamedTuple):
    """PEM files of a certificate and its private key."""

    certificate: Path
    key: Path


class Servers:
    """A CA and what it issues, as files in one folder, readable by their owner only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700)
        self._authority = Authority.create("test control plane", _now(), LIFETIME)
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(self._authority.certificate_pem)

    def issue(self, name: str, hosts: Sequence[str] = ("127.0.0.1",)) -> KeyPair:
        """A serving certificate for these DNS names and IP addresses. Its key can sign other data too."""
        pair = KeyPair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        write_leaf(self._authority.issue(ServerNames.of(hosts), _now(), LIFETIME), *pair)
        return pair


class WebhookClient:
    """The API server's identity for the webhooks that it calls: its own CA, as kubeadm's for aggregated APIs."""

    NAME = "front-proxy-client"

    def __init__(self, folder: Path) -> None:
        authority = Authority.create("test front proxy", _now(), LIFETIME)
        self.ca = folder / "front-proxy-ca.crt"
        self.ca.write_bytes(authority.certificate_pem)
        self.pair = KeyPair(folder / f"{self.NAME}.crt", folder / f"{self.NAME}.key")
        write_leaf(client_leaf(authority, self.NAME, lifetime=LIFETIME), *self.pair)


def write_tokens(file: Path, groups: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    """Create a token for each user, and write the file for --token-auth-file. Returns user -> token.

    groups: user -> groups.
    """
    tokens = {user: secrets.token_urlsafe() for user in groups}
    file.touch(mode=0o600)
    file.write_text("".join(f'{token},{user},{user},"{",".join(groups[user])}"\n' for user, token in tokens.items()))
    return tokens


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
