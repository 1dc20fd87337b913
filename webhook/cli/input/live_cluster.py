"""A live cluster, listed once, with the owners of the judged objects: for commands without a snapshot.

1. Without --kubeconfig and --context, the cluster is that of kubectl: the current context of its kubeconfig, else the
   cluster that the command runs in.
2. Namespaces come first, because they determine which pods are managed. All other kinds are listed at the same time,
   each in pages. Pods that have succeeded are left out, as by the service.
3. The owners of the call's objects are read, and what else the command needs.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from webhook.app.informers import PODS
from webhook.app.rules_of_settings import rules_of, times_of
from webhook.app.settings import Settings
from webhook.cli.input.documents import InputError, Item
from webhook.cli.input.live_owners import read_owners
from webhook.cli.input.offline_cluster import Cluster, adds_devices
from webhook.kube.api_errors import APIError, ClusterError, ConnectionSettingsError
from webhook.kube.client import Client
from webhook.kube.discovery import (
    DEVICES,
    KAI_TOPOLOGIES,
    KUEUE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGIES,
    Wanted,
    locate,
)
from webhook.kube.native_pod_group_client import NATIVE_POD_GROUPS
from webhook.kube.pod_group_client import POD_GROUPS
from webhook.kube.resource import Resource, items_of, key_of
from webhook.model.errors import UserError

Also = Callable[[Cluster, Client], Awaitable[None]]
"""Adds to the cluster what a command needs beyond the rest."""
_Take = Callable[[Cluster, Mapping[str, Any]], tuple[str, ...]]

_FORBIDDEN: Final = 403
_NAMESPACES: Final = Resource("", "v1", "namespaces")
# Failed pods show which nodes rejected some.
_NOT_SUCCEEDED: Final = "status.phase!=Succeeded"
_ALWAYS: Final = (
    (Resource("", "v1", "nodes"), "", Cluster.add_node),
    (Resource("", "v1", PODS), _NOT_SUCCEEDED, Cluster.add_pod),
)
_WHEN_SERVED: Final = (
    (NODE_RESOURCE_TOPOLOGIES, Cluster.add_node_topology),
    (KAI_TOPOLOGIES, Cluster.add_topology),
    (KUEUE_TOPOLOGIES, Cluster.add_topology),
)

_GANGS: Final = "gangs count by their pods' annotations"
_CLAIMS: Final = "not all devices of resource claims are counted"


def read_live(settings: Settings, items: Sequence[Item] = (), also: Also | None = None) -> Cluster:
    """The current cluster, with the owners of the items, and what `also` adds to it.

    Unreadable objects are left out, with a warning. Raises InputError.
    """
    try:
        return asyncio.run(_listed(settings, items, also))
    except ConnectionSettingsError as error:
        raise InputError(f"{error} Or give a snapshot with --cluster.") from error
    except ClusterError as error:
        raise InputError(str(error)) from error


async def connect(settings: Settings) -> Client:
    """A client for the cluster of the settings, else for that of kubectl. Raises ClusterError."""
    return await Client.connect(settings.kubeconfig or _kubeconfig_of_kubectl(settings.context), settings.context)


def _kubeconfig_of_kubectl(context: str | None) -> Path | None:
    """The kubeconfig that kubectl uses. None: there is none, and this pod uses its service account."""
    paths = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if any(Path(path).is_file() for path in paths.split(os.pathsep) if path):
        return Path(paths)
    if context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    raise ConnectionSettingsError(f"There is no kubeconfig at {paths}. Name one with --kubeconfig.")


async def _listed(settings: Settings, items: Sequence[Item], also: Also | None) -> Cluster:
    cluster = Cluster(rules_of(settings), times_of(settings))
    async with await connect(settings) as client:
        lists = _Lists(cluster, client, settings.list_page_size)
        await lists.read(_NAMESPACES, "", Cluster.add_namespace)
        await _all(
            *(lists.read(resource, selector, take) for resource, selector, take in _ALWAYS),
            *(lists.read_if_served(wanted, take) for wanted, take in _WHEN_SERVED),
            lists.read_if_allowed(POD_GROUPS, Cluster.add_pod_group, _GANGS),
            lists.read_if_allowed(NATIVE_POD_GROUPS, Cluster.add_native_group, _GANGS, Cluster.serve_native_groups),
            *(
                lists.read_if_allowed(wanted, adds_devices(kind), _CLAIMS)
                for kind, wanted in (DEVICES.items() if settings.dynamic_resources else ())
            ),
        )
        await read_owners(cluster, client, items)
        if also is not None:
            await also(cluster, client)
    return cluster


async def _all(*calls: Any) -> None:
    """Run the calls at the same time; the first error ends all of them."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Lists:
    """Fills the cluster with lists, in pages."""

    def __init__(self, cluster: Cluster, client: Client, page_size: int) -> None:
        self._cluster = cluster
        self._client = client
        self._page_size = page_size

    async def read_if_served(
        self, wanted: Wanted, take: _Take, served: Callable[[Cluster], None] | None = None
    ) -> None:
        """List an optional kind. served: called if it is served and was listed."""
        if (found := await locate(self._client, wanted)) is not None:
            await self.read(found, "", take)
            if served is not None:
                served(self._cluster)

    async def read_if_allowed(
        self, wanted: Wanted, take: _Take, otherwise: str, served: Callable[[Cluster], None] | None = None
    ) -> None:
        """List an optional kind that few users may read. otherwise: what follows if they may not."""
        try:
            await self.read_if_served(wanted, take, served)
        except APIError as error:
            if error.status != _FORBIDDEN:
                raise
            self._cluster.warnings.append(f"{wanted.name}: not read, so {otherwise}: {error}")

    async def read(self, resource: Resource, selector: str, take: _Take) -> None:
        """List a kind."""
        async for raw in objects(self._client, resource.path, selector, self._page_size):
            try:
                problems = take(self._cluster, raw)
            except UserError as error:
                problems = tuple(f"left out: {fault}" for fault in error.faults)
            self._cluster.warnings += [f"{resource.name} {key_of(raw)}: {problem}" for problem in problems]


async def objects(client: Client, path: str, selector: str, page_size: int) -> AsyncIterator[Mapping[str, Any]]:
    """The objects of a list, page by page. selector: a field selector; empty: all. Raises ClusterError."""
    query: dict[str, str | int] = {"limit": page_size}
    if selector:
        query["fieldSelector"] = selector
    while True:
        page = await client.get(path, query)
        for raw in items_of(page, path):
            yield raw
        following = (page.get("metadata") or {}).get("continue")
        if not following:
            return
        query["continue"] = following
