"""Writes to ResourceClaims. Each names the version that it is based on: a claim that has changed stays as it is."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from webhook.formats.dra import FINALIZER, GROUP
from webhook.kube.api_errors import ClusterError, mapping_or_empty
from webhook.kube.client import Client
from webhook.kube.resource import Resource
from webhook.kube.write import Write, write
from webhook.model.raw import Raw


class ClaimWrites:
    """The writes to ResourceClaims by one client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def release(self, key: str, pod_uid: str) -> Write:
        """Take a pod from the claim namespace/name, with its allocation and finalizer if no other pod has it.

        WRITTEN also if the pod does not have it.
        """
        return await write(self._release(_path(key), pod_uid))

    async def _release(self, path: str, pod_uid: str) -> None:
        raw = await self._client.get(path)
        reserved = mapping_or_empty(raw.get("status")).get("reservedFor") or []
        others = [one for one in reserved if one.get("uid") != pod_uid]
        if len(others) == len(reserved):
            return
        left = {"reservedFor": others} if others else {"reservedFor": None, "allocation": None}
        raw = await self._client.patch(f"{path}/status", {"metadata": _version(raw), "status": left})
        finalizers = [one for one in raw["metadata"].get("finalizers") or () if one != FINALIZER]
        if not others:
            # If this fails, kube-controller-manager removes it once the claim is deleted.
            with suppress(ClusterError):
                await self._client.write(path, {"metadata": {**_version(raw), "finalizers": finalizers or None}})


def _version(raw: Mapping[str, Any]) -> Raw:
    """The fields of `metadata` that must be as they were."""
    return {field: raw["metadata"].get(field) for field in ("uid", "resourceVersion")}


def _path(key: str) -> str:
    namespace, _, name = key.partition("/")
    return f"{Resource(GROUP, 'v1', 'resourceclaims', namespace).path}/{name}"
