"""Kubeconfig files: the API server's address and the credentials of kubectl, helm, the components and the webhook."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_kubeconfig(path: Path, url: str, authority: Path, token: str, *, namespace: str = "default") -> Path:
    """Write a kubeconfig for the user of a bearer token.

    Everything is embedded or absolute, so that the file works from any folder. JSON is valid YAML.
    """
    name = "test"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority": str(authority)}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
    }
    path.write_text(json.dumps(config, indent=2))
    path.chmod(0o600)
    return path
