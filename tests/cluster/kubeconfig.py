"""Kubeconfig files: how kubectl, helm, the components and the webhook find the API server and say who they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.pki import KeyPair


def write_kubeconfig(path: Path, url: str, authority: Path, user: KeyPair | str, *, namespace: str = "default") -> Path:
    """Write a kubeconfig for a client certificate or, given as text, a bearer token.

    Everything is embedded or absolute, so that the file works from any folder. JSON is valid YAML.
    """
    credentials = (
        {"token": user}
        if isinstance(user, str)
        else {"client-certificate": str(user.certificate), "client-key": str(user.key)}
    )
    name = "test"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority": str(authority)}}],
        "users": [{"name": name, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
    }
    path.write_text(json.dumps(config, indent=2))
    path.chmod(0o600)
    return path
