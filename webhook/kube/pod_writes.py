"""Writing to pods: what became of a patch, as the cases that a writer must tell apart.

A patch of ours names the resource version it was made from. So a pod that changed since is refused, never overwritten,
and a patch whose answer was lost can be sent again: it is written at most once.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from webhook.kube.api_errors import APIError, ClusterError
from webhook.kube.client import Client
from webhook.kube.resource import Raw


class Outcome(Enum):
    """What became of a write."""

    WRITTEN = "written"
    STALE = "the pod is another one than the patch was made from"
    GONE = "there is no such pod"
    REFUSED = "the API server will not have it"
    NOT_NOW = "the API server did not take it; nothing was written"
    UNKNOWN = "no answer, or none that tells: it may be written, now or later"


_OUTCOMES: Final = {404: Outcome.GONE, 409: Outcome.STALE, 429: Outcome.NOT_NOW}


class PodWrites:
    """The writes to pods by one client, and the reads that go with them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.error = ""
        """What the last write that was not written met with."""

    async def patch(self, key: str, operations: Sequence[dict[str, Any]]) -> Outcome:
        """Apply a JSON patch to the pod namespace/name."""
        return await self._outcome(self._client.patch(_path(key), list(operations)))

    async def annotate(self, key: str, name: str, value: str) -> Outcome:
        """Set one annotation, whatever else has changed."""
        return await self._outcome(self._client.patch(_path(key), {"metadata": {"annotations": {name: value}}}))

    async def nominate(self, key: str, uid: str, node: str) -> Outcome:
        """Name a node that the scheduler is to try first for this incarnation of a pod."""
        body = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}}
        return await self._outcome(self._client.patch(f"{_path(key)}/status", body))

    async def evict(self, key: str, uid: str) -> Outcome:
        """Ask for the eviction of this incarnation of a pod, which disruption budgets may put off (NOT_NOW)."""
        namespace, _, name = key.partition("/")
        eviction: Raw = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        return await self._outcome(self._client.create(f"{_path(key)}/eviction", eviction))

    async def read(self, key: str) -> Raw | None:
        """The pod as it is; None when there is none. Raises ClusterError."""
        try:
            return await self._client.get(_path(key))
        except APIError as error:
            if error.status == 404:
                return None
            raise

    async def _outcome(self, call: Any) -> Outcome:
        try:
            await call
        except APIError as error:
            self.error = str(error)
            # 5xx: among them are timeouts of writes that etcd may still do.
            return _OUTCOMES.get(error.status, Outcome.REFUSED if error.status < 500 else Outcome.UNKNOWN)
        except ClusterError as error:
            self.error = str(error)
            return Outcome.UNKNOWN
        return Outcome.WRITTEN


def _path(key: str) -> str:
    namespace, _, name = key.partition("/")
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
