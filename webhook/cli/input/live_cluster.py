"""A live cluster, listed once, with the owners of the judged objects: for commands without a snapshot.

1. Without --kubeconfig and --context, the cluster is that of kubectl: the current context of its kubeconfig, else the
   cluster that the command runs in.
2. Namespaces come first, because they determine which pods are managed. All other kinds are listed at the same time,
   each in pages. Pods that have succeeded are left out, as by the service.
3. The owners of the call's objects are read, and those of gated pods that may be in the same gang, and what else the
   command needs.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from webhook.app.informers import PODS
from webhook.app.settings import Settings, rules_of, times_of
from webhook.cli.input.documents import InputError, Item
from webhook.cli.input.offline_cluster import Cluster, adds_devices
from webhook.formats.kubernetes.membership import may_be_in_group
from webhook.formats.kubernetes.owner_chain import owner_above
from webhook.formats.kubernetes.pod import Owner
from webhook.kube.api_errors import APIError, ClusterError, ConnectionSettingsError, UnreachableError
from webhook.kube.client import Client
from webhook.kube.discovery import (
    DEVICES,
    GROVE_TOPOLOGIES,
    KAI_TOPOLOGIES,
    KUEUE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGIES,
    POD_GANGS,
    Wanted,
    locate,
)
from webhook.kube.informer import PAGE_SIZE
from webhook.kube.owners import read_chain, read_owner
from webhook.kube.pacing import RateLimiter
from webhook.kube.pod_group_client import NATIVE_POD_GROUPS, POD_GROUPS
from webhook.kube.resource import Resource, items_of, key_of
from webhook.model.errors import UserError
from webhook.model.raw import Raw
from webhook.state.management import DEFAULT_NAMESPACE

Key = tuple[str, Owner]

# The same concurrency as in the leader.
_AT_A_TIME: Final = 16


async def read_owners(cluster: Cluster, client: Client, items: Iterable[Item]) -> None:
    """Add the owners of the items to the cluster's objects, read as the leader reads them: upwards from each by GET.

    Each owner is read once. An owner that cannot be read causes a warning, unless it is deleted or forbidden.
    """
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
_OF_GROVE: Final = ((POD_GANGS, Cluster.add_pod_gang), (GROVE_TOPOLOGIES, Cluster.add_topology))

_GANGS: Final = "gangs count by their pods' annotations"
_CLAIMS: Final = "not all devices of resource claims are counted"


def read_live(settings: Settings, items: Sequence[Item] = (), also: Also | None = None) -> Cluster:
    """The current cluster, with the owners of the items, and what `also` adds to it.

    Unreadable objects are left out, with a warning. Raises InputError.
    """
    try:
        return asyncio.run(_listed(settings, items, also))
    except (ConnectionSettingsError, UnreachableError) as error:
        raise InputError(f"{error} Or give a snapshot with --cluster.") from error
    except ClusterError as error:
        raise InputError(str(error)) from error


@asynccontextmanager
async def connected(settings: Settings, pace: RateLimiter | None = None) -> AsyncIterator[Client]:
    """A client for the cluster of the settings, else for that of kubectl. Raises ClusterError, also from within."""
    kubeconfig = settings.kubeconfig or _kubeconfig_of_kubectl(settings.context)
    async with await Client.connect(kubeconfig, settings.context, pace) as client:
        try:
            yield client
        except UnreachableError as error:
            msg = (
                f"The cluster {client.host} ({client.source}) does not answer: {error}. Is it running, and reachable "
                "from here (VPN, proxy)? Name another one with --context."
            )
            raise UnreachableError(msg) from error


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
    async with connected(settings) as client:
        lists = _Lists(cluster, client)
        await lists.read(_NAMESPACES, "", Cluster.add_namespace)
        await _all(
            *(lists.read(resource, selector, take) for resource, selector, take in _ALWAYS),
            *(lists.read_if_served(wanted, take) for wanted, take in _WHEN_SERVED),
            lists.read_if_allowed(POD_GROUPS, Cluster.add_pod_group, _GANGS),
            lists.read_if_allowed(NATIVE_POD_GROUPS, Cluster.add_native_group, _GANGS, Cluster.serve_native_groups),
            *(
                lists.read_if_allowed(wanted, take, _GANGS)
                for wanted, take in (_OF_GROVE if settings.grove_pod_gangs else ())
            ),
            *(
                lists.read_if_allowed(wanted, adds_devices(kind), _CLAIMS)
                for kind, wanted in (DEVICES.items() if settings.dynamic_resources else ())
            ),
        )
        cluster.settle()
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

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self._cluster = cluster
        self._client = client

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
        async for raw in objects(self._client, resource.path, selector):
            try:
                problems = take(self._cluster, raw)
            except UserError as error:
                problems = tuple(f"left out: {fault}" for fault in error.faults)
            self._cluster.warnings += [f"{resource.name} {key_of(raw)}: {problem}" for problem in problems]


async def objects(client: Client, path: str, selector: str) -> AsyncIterator[Mapping[str, Any]]:
    """The objects of a list, page by page. selector: a field selector; empty: all. Raises ClusterError."""
    query: dict[str, str | int] = {"limit": PAGE_SIZE}
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
