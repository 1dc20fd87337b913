"""The owners of pods and workloads in a live cluster, read as the leader reads them: upwards from each by GET.

1. The owners of the call's objects are read, and those of gated pods that may be in the same gang.
2. Each owner is read once. An owner that cannot be read causes a warning, unless it is deleted or forbidden.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from webhook.cli.input.documents import Item
from webhook.cli.input.offline_cluster import Cluster
from webhook.formats.kubernetes.membership import may_be_in_group
from webhook.formats.kubernetes.owner_chain import owner_above
from webhook.formats.kubernetes.pod import Owner
from webhook.kube.api_errors import ClusterError
from webhook.kube.client import Client
from webhook.kube.owners import read_chain, read_owner
from webhook.model.errors import UserError
from webhook.model.raw import Raw
from webhook.state.management import DEFAULT_NAMESPACE

Key = tuple[str, Owner]

# The same concurrency as in the leader.
_AT_A_TIME: Final = 16


async def read_owners(cluster: Cluster, client: Client, items: Iterable[Item]) -> None:
    """Add the owners to the cluster's objects."""
    reader = _Reader(client)
    wanted = dict.fromkeys([*_of_items(items := list(items)), *_of_gated(cluster, items)])
    limit = asyncio.Semaphore(_AT_A_TIME)
    await asyncio.gather(*(_chain(reader, limit, cluster, *key) for key in wanted))
    cluster.others += reader.found()


async def _chain(reader: "_Reader", limit: asyncio.Semaphore, cluster: Cluster, namespace: str, owner: Owner) -> None:
    async with limit:
        try:
            await read_chain(reader.read, namespace, owner)
        except UserError:
            pass  # the reference names no object: its pod is denied for it
        except ClusterError as error:
            cluster.warnings.append(f"{owner.kind} {namespace}/{owner.name}, an owner, cannot be read: {error}")


class _Reader:
    """Reads each object once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._read: dict[Key, asyncio.Task[Raw | None]] = {}

    async def read(self, namespace: str, owner: Owner) -> Raw | None:
        """The object of a reference; None if it cannot be read."""
        key = namespace, owner
        if key not in self._read:
            self._read[key] = asyncio.create_task(read_owner(self._client, namespace, owner))
        return await self._read[key]

    def found(self) -> list[Raw]:
        """All objects that were read, with the kinds by which they were referenced."""
        return [
            {**raw, "apiVersion": owner.api_version, "kind": owner.kind}
            for (_, owner), task in self._read.items()
            if task.exception() is None and (raw := task.result()) is not None
        ]


def _of_items(items: Iterable[Item]) -> Iterable[Key]:
    for item in items:
        if (owner := _owner(item.body)) is not None:
            yield item.namespace or DEFAULT_NAMESPACE, owner


def _of_gated(cluster: Cluster, items: Iterable[Item]) -> Iterable[Key]:
    """The gated pods in the namespaces of the call's pods: they may be in one gang."""
    namespaces = {item.namespace or DEFAULT_NAMESPACE for item in items if (item.group, item.kind) == ("", "Pod")}
    for raw in cluster.gated.values():
        metadata = raw["metadata"]
        takes = metadata["namespace"] in namespaces and may_be_in_group(metadata.get("annotations") or {})
        if takes and (owner := _owner(raw)) is not None:
            yield metadata["namespace"], owner


def _owner(raw: Raw) -> Owner | None:
    try:
        return owner_above(raw)
    except UserError:
        return None  # reported when the object itself is judged
