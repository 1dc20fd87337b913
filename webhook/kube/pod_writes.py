"""Writes to pods, with the outcomes that a writer must distinguish.

Our patches name the resource version that they are based on. So a pod that has changed since is never overwritten, and
a patch whose answer was lost can be sent again: it is applied at most once.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from webhook.kube.api_errors import APIError, ClusterError
from webhook.kube.client import Client
from webhook.kube.resource import Raw


class Outcome(Enum):
    """The outcome of a write."""

    WRITTEN = "written"
    STALE = "the pod has changed since the patch was made"
    GONE = "the pod does not exist"
    REFUSED = "the API server rejected the write"
    NOT_NOW = "the API server postponed the write; nothing was written"
    UNKNOWN = "no clear answer: it may be written, now or later"


# Kubernetes' own reasons have up to 24 characters; a webhook that denies a request may give any.
_LONGEST_REASON: Final = 64
_OUTCOMES: Final = {404: Outcome.GONE, 409: Outcome.STALE, 429: Outcome.NOT_NOW}


class PodWrites:
    """The writes to pods by one client, and the reads that go with them."""

    reason: str = ""
    """Status and reason of the last write that failed, without the message: that may quote other tenants' objects."""
    retry_after: float = 0.0
    """The seconds that the API server asked to wait when it postponed a write last."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.error = ""
        """The error of the last write that failed."""

    async def patch(self, key: str, operations: Sequence[dict[str, Any]]) -> Outcome:
        """Apply a JSON patch to the pod namespace/name."""
        return await self._outcome(self._client.write(_path(key), list(operations)))

    async def annotate(self, key: str, name: str, value: str | None) -> Outcome:
        """Set one annotation, or remove it (None), whatever else has changed."""
        return await self._outcome(self._client.write(_path(key), {"metadata": {"annotations": {name: value}}}))

    async def nominate(self, key: str, uid: str, node: str | None) -> Outcome:
        """Nominate a node that the scheduler tries first for this incarnation of a pod; None: none any more."""
        body = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}}
        return await self._outcome(self._client.write(f"{_path(key)}/status", body))

    async def clear_nomination(self, key: str, uid: str, version: str) -> Outcome:
        """Nominate no node any more for a pod that is still as it was last seen."""
        body = {"metadata": {"uid": uid, "resourceVersion": version}, "status": {"nominatedNodeName": None}}
        return await self._outcome(self._client.write(f"{_path(key)}/status", body))

    async def set_condition(self, key: str, uid: str, condition: Mapping[str, str], version: str = "") -> Outcome:
        """Set one condition in the status of this incarnation of a pod; the others stay.

        version: the resource version that the pod must still have; empty: any.
        """
        metadata = {"uid": uid, **({"resourceVersion": version} if version else {})}
        body: Raw = {"metadata": metadata, "status": {"conditions": [dict(condition)]}}
        return await self._outcome(self._client.merge(f"{_path(key)}/status", body))

    async def evict(self, key: str, uid: str, *, dry_run: bool = False) -> Outcome:
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
        return await self._outcome(self._client.create(f"{_path(key)}/eviction", eviction))

    async def delete_pod(self, key: str, uid: str, *, dry_run: bool = False) -> Outcome:
        """Delete this incarnation of a pod with its graceful period, whatever disruption budgets say."""
        return await self._outcome(self._client.delete(_path(key), _options(uid, dry_run=dry_run)))

    async def read(self, key: str) -> Raw | None:
        """The current pod; None if it does not exist. Raises ClusterError."""
        try:
            return await self._client.get(_path(key))
        except APIError as error:
            if error.status == 404:
                return None
            raise

    async def delete_version(self, key: str, uid: str, resource_version: str) -> Outcome:
        """Delete a pod if it is still as it was last seen."""
        options: Raw = {"preconditions": {"uid": uid, "resourceVersion": resource_version}}
        return await self._outcome(self._client.delete(_path(key), options))

    async def _outcome(self, call: Any) -> Outcome:
        try:
            await call
        except APIError as error:
            self.error = str(error)
            self.reason = f"{error.status} {error.reason[:_LONGEST_REASON]}"
            self.retry_after = error.retry_after
            # 5xx includes timeouts of writes that etcd may still complete.
            return _OUTCOMES.get(error.status, Outcome.REFUSED if error.status < 500 else Outcome.UNKNOWN)
        except ClusterError as error:
            self.error, self.reason = str(error), "no answer"
            return Outcome.UNKNOWN
        return Outcome.WRITTEN


def _options(uid: str, *, dry_run: bool) -> Raw:
    """The DeleteOptions of one incarnation of a pod."""
    return {"preconditions": {"uid": uid}, **({"dryRun": ["All"]} if dry_run else {})}


def _path(key: str) -> str:
    namespace, _, name = key.partition("/")
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
