"""A live cluster, listed once, with the owners of the judged objects: for `review` without a snapshot."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from webhook.cli.documents import InputError, Item
from webhook.cli.live_owners import read_owners
from webhook.cli.offline_cluster import Cluster
from webhook.kube.api_errors import ClusterError
from webhook.kube.client import Client
from webhook.kube.discovery import KAI_TOPOLOGIES, KUEUE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGIES, locate
from webhook.kube.resource import Resource, key_of
from webhook.model.errors import UserError

_Take = Callable[[Cluster, Mapping[str, Any]], tuple[str, ...]]

_ALWAYS: Final = (
    (Resource("", "v1", "namespaces"), Cluster.add_namespace),
    (Resource("", "v1", "nodes"), Cluster.add_node),
    (Resource("", "v1", "pods"), Cluster.add_pod),
)
_WHEN_SERVED: Final = (
    (NODE_RESOURCE_TOPOLOGIES, Cluster.add_node_topology),
    (KAI_TOPOLOGIES, Cluster.add_topology),
    (KUEUE_TOPOLOGIES, Cluster.add_topology),
)


def read_live(kubeconfig: Path | None, context: str | None, page_size: int, items: Sequence[Item]) -> Cluster:
    """The current cluster, with the owners of the items.

    Unreadable objects are left out, with a warning. Raises InputError.
    """
    try:
        return asyncio.run(_listed(kubeconfig, context, page_size, items))
    except ClusterError as error:
        raise InputError(str(error)) from error


async def _listed(kubeconfig: Path | None, context: str | None, page_size: int, items: Sequence[Item]) -> Cluster:
    cluster = Cluster()
    async with await Client.connect(kubeconfig, context) as client:
        for resource, take in _ALWAYS:
            await _list_into(cluster, client, resource, take, page_size)
        for wanted, take in _WHEN_SERVED:
            if (found := await locate(client, wanted)) is not None:
                await _list_into(cluster, client, found, take, page_size)
        await read_owners(cluster, client, items)
    return cluster


async def _list_into(cluster: Cluster, client: Client, resource: Resource, take: _Take, page_size: int) -> None:
    async for raw in _objects(client, resource, page_size):
        try:
            problems = take(cluster, raw)
        except UserError as error:
            problems = tuple(f"left out: {fault}" for fault in error.faults)
        cluster.warnings += [f"{resource.name} {key_of(raw)}: {problem}" for problem in problems]


async def _objects(client: Client, resource: Resource, page_size: int) -> AsyncIterator[Mapping[str, Any]]:
    query: dict[str, str | int] = {"limit": page_size}
    while True:
        page = await client.get(resource.path, query)
        for raw in page["items"] or ():
            yield raw
        if not page["metadata"].get("continue"):
            return
        query["continue"] = page["metadata"]["continue"]
