"""Keeps `caBundle` in our webhook configurations up to date, and changes nothing else in them.

Each named configuration is watched. If it is created later, or `helm upgrade` rewrites it without a bundle, the bundle
is written at once. All replicas may write: they share the CA, so they write the same value.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NoReturn

import structlog

from webhook.kube.api_errors import APIError, ClusterError, mapping_or_empty
from webhook.kube.client import Client
from webhook.kube.informer import Informer
from webhook.kube.pacing import Backoff
from webhook.kube.resource import Resource
from webhook.model.raw import Raw
from webhook.supervise import supervised

log = structlog.get_logger(__name__)

_GROUP: Final = "admissionregistration.k8s.io"
KINDS: Final = (
    Resource(_GROUP, "v1", "mutatingwebhookconfigurations"),
    Resource(_GROUP, "v1", "validatingwebhookconfigurations"),
)


def bundle_patch(configuration: Raw, bundle: str, services: Collection[tuple[str, str]]) -> list[Raw]:
    """JSON patch that sets `bundle` (base64 PEM) on our webhooks in `configuration`; empty if they have it.

    Our webhooks are those that call one of `services` (namespace, name) or a URL. Each operation has a test of the
    webhook's name: if the list is reordered at the same time, the API server rejects the patch instead of changing
    another webhook.
    """
    patch: list[Raw] = []
    webhooks = configuration.get("webhooks")
    for index, webhook in enumerate(webhooks if isinstance(webhooks, list) else ()):
        if _is_ours(webhook, services) and webhook["clientConfig"].get("caBundle") != bundle:
            patch += [
                {"op": "test", "path": f"/webhooks/{index}/name", "value": webhook["name"]},
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle},
            ]
    return patch


class _Kept:
    """The configurations of one kind, as last seen."""

    def __init__(self, resource: Resource, wake: asyncio.Event) -> None:
        self.resource = resource
        self.seen: dict[str, Raw] = {}
        self._wake = wake

    def upsert(self, key: str, raw: Raw) -> None:
        self.seen[key] = raw
        self._wake.set()

    def delete(self, key: str) -> None:
        self.seen.pop(key, None)


class CABundleKeeper:
    """Writes the bundle into the configurations called `names`, of both kinds."""

    def __init__(self, client: Client, names: Iterable[str], services: Collection[tuple[str, str]]) -> None:
        self._client = client
        self._services = services
        self._bundle = ""
        self._published = False
        self._wake = asyncio.Event()
        self._kept = [_Kept(resource, self._wake) for resource in KINDS]
        self._written: dict[str, tuple[str, str]] = {}
        self.informers = [
            Informer(client, kept.resource, kept, field_selector=f"metadata.name={name}")
            for kept in self._kept
            for name in names
        ]
        self._error = ""

    def publish(self, bundle: str) -> None:
        """Set the bundle (base64 PEM) to write."""
        self._bundle = bundle
        self._wake.set()

    @property
    def published(self) -> bool:
        """Whether every existing configuration has had the bundle. One that is created later gets it then.

        It stays true if a configuration loses the bundle for a moment. The API server can then call no replica, and
        making all replicas unready would only prolong that.
        """
        complete = bool(self._bundle) and all(informer.synced.is_set() for informer in self.informers)
        self._published = self._published or (complete and not any(self._due()))
        return self._published

    @property
    def error(self) -> str:
        """The error of the last read or write; empty if there is none."""
        return self._error or next((i.status.error for i in self.informers if i.status.error), "")

    @property
    def configurations(self) -> tuple[str, ...]:
        """The configurations found, as `kind/name`, for messages."""
        return tuple(f"{kept.resource.plural}/{name}" for kept in self._kept for name in kept.seen)

    async def run(self) -> NoReturn:
        """Watch and write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers:
                tasks.create_task(supervised(informer.run))
            await self._write_when_due()
        raise AssertionError  # pragma: no cover # neither of them returns

    async def _write_when_due(self) -> NoReturn:
        backoff = Backoff()
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                for path, version, patch in list(self._due()):
                    # The watch event of our own write may still be on its way; this version needs no second write.
                    if self._written.get(path) != (version, self._bundle):
                        self._written[path] = version, self._bundle
                        await self._write(path, patch)
            except ClusterError as error:
                # 422: a `test` failed, so the list has changed, and its watch event is on the way.
                self._error = str(error)
                self._written.clear()
                log.warning("ca_bundle.retry", error=str(error))
                await asyncio.sleep(backoff.next())
                self._wake.set()
            else:
                self._error = ""
                backoff.reset()

    async def _write(self, path: str, patch: list[Raw]) -> None:
        try:
            await self._client.patch(path, patch)
        except APIError as error:
            if error.status == 404:  # deleted in the meantime
                return
            raise
        log.info("ca_bundle.written", path=path, webhooks=len(patch) // 2)

    def _due(self) -> Iterator[tuple[str, str, list[Raw]]]:
        """Path, resource version and patch of every configuration that lacks the bundle."""
        if not self._bundle:
            return
        for kept in self._kept:
            for name, configuration in kept.seen.items():
                patch = bundle_patch(configuration, self._bundle, self._services)
                if patch:
                    yield f"{kept.resource.path}/{name}", str(configuration["metadata"].get("resourceVersion")), patch


def _is_ours(webhook: Any, services: Collection[tuple[str, str]]) -> bool:
    """Whether a webhook is ours: any URL is, but another Service is an addition by another program."""
    called = mapping_or_empty(webhook).get("clientConfig")
    if not isinstance(called, dict) or not isinstance(webhook.get("name"), str):
        return False
    target = called.get("service")
    if target is None:
        return True
    found = mapping_or_empty(target)
    return any((found.get("namespace"), found.get("name")) == service for service in services)
