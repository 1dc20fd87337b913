"""Secrets as a kubelet mounts them: files that change together, some time after the Secret."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.api import Api


class MountedSecret:
    """The files of one Secret in a folder of one replica.

    A kubelet notices a changed Secret within about a minute. Here the files change only when `update` is called, so a
    test can look at the time before.

    Source: kubernetes/kubernetes, pkg/volume/util/atomic_writer.go.
    """

    def __init__(self, api: Api, path: str, folder: Path) -> None:
        self._api = api
        self._path = path
        self.folder = folder

    def exists(self) -> bool:
        """Whether the Secret exists: a kubelet starts the pod only then."""
        try:
            self._api.get(self._path)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def update(self) -> None:
        """Write what the Secret holds now. A reader sees all files of one version: a link is renamed over another."""
        data = self._api.get(self._path)["data"]
        self.folder.mkdir(exist_ok=True)
        version = Path(tempfile.mkdtemp(prefix="..", dir=self.folder))
        for name, text in data.items():
            (version / name).write_bytes(base64.b64decode(text))
            link = self.folder / name
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}")
        new = self.folder / "..data_tmp"
        new.symlink_to(version.name)
        new.replace(self.folder / "..data")


def mounted_secrets(api: Api, namespace: str, pod_spec: Mapping[str, Any], folder: Path) -> dict[str, MountedSecret]:
    """The Secrets that a pod's only container mounts, by their path in it. folder: of the pod's volumes."""
    (container,) = pod_spec["containers"]
    sources = {volume["name"]: volume.get("secret") for volume in pod_spec.get("volumes", ())}
    return {
        mount["mountPath"]: MountedSecret(
            api, f"/api/v1/namespaces/{namespace}/secrets/{secret['secretName']}", folder / mount["name"]
        )
        for mount in container.get("volumeMounts", ())
        if (secret := sources[mount["name"]])
    }


def local_paths(environment: Mapping[str, str], secrets: Mapping[str, MountedSecret]) -> dict[str, str]:
    """The environment with the files of these Secrets where they are here."""
    moved = dict(environment)
    for path, secret in secrets.items():
        for name, value in environment.items():
            if value.startswith(f"{path}/"):
                moved[name] = str(secret.folder / value.removeprefix(f"{path}/"))
    return moved
