"""Secrets and ConfigMaps as a kubelet mounts them: files that change together, some time after the object."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.api import Api


class MountedVolume:
    """The files of one Secret or ConfigMap in a folder of one replica. names: of files, by entry; None: all entries.

    A kubelet notices a changed object within about a minute. Here the files change only when `update` is called, so a
    test can look at the time before.

    Source: kubernetes/kubernetes, pkg/volume/util/atomic_writer.go.
    """

    def __init__(self, api: Api, path: str, folder: Path, names: Mapping[str, str] | None) -> None:
        self._api = api
        self._path = path
        self._names = names
        self.folder = folder

    def exists(self) -> bool:
        """Whether the object exists: a kubelet starts the pod only then."""
        try:
            self._api.get(self._path)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def update(self) -> None:
        """Write what the object holds now. A reader sees all files of one version: a link is renamed over another."""
        raw = self._api.get(self._path)
        self.folder.mkdir(exist_ok=True)
        version = Path(tempfile.mkdtemp(prefix="..", dir=self.folder))
        for entry, text in raw["data"].items():
            name = entry if self._names is None else self._names.get(entry)
            if name is None:
                continue
            (version / name).write_bytes(base64.b64decode(text) if raw["kind"] == "Secret" else text.encode())
            link = self.folder / name
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}")
        new = self.folder / "..data_tmp"
        new.symlink_to(version.name)
        new.replace(self.folder / "..data")


def mounted_volumes(api: Api, namespace: str, pod_spec: Mapping[str, Any], folder: Path) -> dict[str, MountedVolume]:
    """The Secrets and ConfigMaps that a pod's only container mounts, by their path in it. folder: of its volumes."""
    (container,) = pod_spec["containers"]
    found: dict[str, MountedVolume] = {}
    for volume in pod_spec.get("volumes", ()):
        if (source := volume.get("secret")) is not None:
            path = f"secrets/{source['secretName']}"
        elif (source := volume.get("configMap")) is not None:
            path = f"configmaps/{source['name']}"
        else:
            continue
        names = {item["key"]: item["path"] for item in source["items"]} if "items" in source else None
        mounted = MountedVolume(api, f"/api/v1/namespaces/{namespace}/{path}", folder / volume["name"], names)
        found |= {m["mountPath"]: mounted for m in container.get("volumeMounts", ()) if m["name"] == volume["name"]}
    return found


def with_local_paths(text: str, volumes: Mapping[str, MountedVolume]) -> str:
    """The text with the files of these volumes where they are here."""
    for path, volume in volumes.items():
        text = text.replace(f"{path}/", f"{volume.folder}/")
    return text
