"""Writes to pods.

Our patches name the resource version that they are based on. So a pod that has changed since is never overwritten, and
a patch whose answer was lost can be sent again: it is applied at most once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.kube.api_errors import APIError
from webhook.kube.client import Client
from webhook.kube.write import Write, write
from webhook.model.raw import Raw


class PodWrites:
    """The writes to pods by one client, and the reads that go with them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def patch(self, key: str, operations: Sequence[dict[str, Any]]) -> Write:
        """Apply a JSON patch to the pod namespace/name."""
        return await write(self._client.write(_path(key), list(operations)))

    async def annotate(self, key: str, name: str, value: str | None) -> Write:
        """Set one annotation, or remove it (None), whatever else has changed."""
        return await write(self._client.write(_path(key), {"metadata": {"annotations": {name: value}}}))

    async def nominate(self, key: str, uid: str, node: str | None) -> Write:
        """Nominate a node that the scheduler tries first for this incarnation of a pod; None: none any more."""
        body = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}}
        return await write(self._client.write(f"{_path(key)}/status", body))

    async def clear_nomination(self, key: str, uid: str, version: str) -> Write:
        """Nominate no node any more for a pod that is still as it was last seen."""
        body = {"metadata": {"uid": uid, "resourceVersion": version}, "status": {"nominatedNodeName": None}}
        return await write(self._client.write(f"{_path(key)}/status", body))

    async def set_condition(self, key: str, uid: str, condition: Mapping[str, str], version: str = "") -> Write:
        """Set one condition in the status of this incarnation of a pod; the others stay.

        version: the resource version that the pod must still have; empty: any.
        """
        metadata = {"uid": uid, **({"resourceVersion": version} if version else {})}
        body: Raw = {"metadata": metadata, "status": {"conditions": [dict(condition)]}}
        return await write(self._client.merge(f"{_path(key)}/status", body))

    async def evict(self, key: str, uid: str, *, dry_run: bool = False) -> Write:
        """Request the eviction of this incarnation of a pod; disruption budgets may delay it (NOT_NOW).

        dry_run: only ask whether it would be evicted.
        """
        namespace, _, name = key.partition("/")
        eviction: Raw = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": _options(uid, dry_run=dry_run),
        }
        return await write(self._client.create(f"{_path(key)}/eviction", eviction))

    async def delete_pod(self, key: str, uid: str, *, dry_run: bool = False) -> Write:
        """Delete this incarnation of a pod with its graceful period, whatever disruption budgets say."""
        return await write(self._client.delete(_path(key), _options(uid, dry_run=dry_run)))

    async def read(self, key: str) -> Raw | None:
        """The current pod; None if it does not exist. Raises ClusterError."""
        try:
            return await self._client.get(_path(key))
        except APIError as error:
            if error.status == 404:
                return None
            raise

    async def delete_version(self, key: str, uid: str, resource_version: str) -> Write:
        """Delete a pod if it is still as it was last seen."""
        options: Raw = {"preconditions": {"uid": uid, "resourceVersion": resource_version}}
        return await write(self._client.delete(_path(key), options))


def _options(uid: str, *, dry_run: bool) -> Raw:
    """The DeleteOptions of one incarnation of a pod."""
    return {"preconditions": {"uid": uid}, **({"dryRun": ["All"]} if dry_run else {})}


def _path(key: str) -> str:
    namespace, _, name = key.partition("/")
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
