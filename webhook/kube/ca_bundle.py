"""Keeps `caBundle` in our webhook configurations what it must be, and touches nothing else in them.

Life cycle: each named configuration is watched, so that one which is created later, or which `helm upgrade` has written
anew without a bundle, is mended at once. Replicas may all write: they share the CA, so they write the same.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NoReturn

import structlog

from webhook.kube.api_errors import APIError, ClusterError, mapping_or_empty
from webhook.kube.backoff import Backoff
from webhook.kube.client import Client
from webhook.kube.informer import Informer
from webhook.kube.resource import Raw, Resource
from webhook.supervise import supervised

log = structlog.get_logger(__name__)

_GROUP: Final = "admissionregistration.k8s.io"
KINDS: Final = (
    Resource(_GROUP, "v1", "mutatingwebhookconfigurations"),
    Resource(_GROUP, "v1", "validatingwebhookconfigurations"),
)


def bundle_patch(configuration: Raw, bundle: str, services: Collection[tuple[str, str]]) -> list[Raw]:
    """JSON patch that gives `bundle` (base64 PEM) to our webhooks in `configuration`; empty when they have it.

    Ours are those called at one of `services` (namespace, name) or at a URL. Each operation comes with a test of the
    webhook's name: when somebody reorders the list at the same time, the API server refuses the patch instead of
    writing into another webhook.
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
        """Write `bundle` (base64 PEM) from now on."""
        self._bundle = bundle
        self._wake.set()

    @property
    def published(self) -> bool:
        """Whether every configuration there is has had the bundle; one that does not exist yet gets it when it does.

        It stays so should one lose it for a moment. The API server can call no replica then, and taking them all out
        of the Service as well would only make that moment longer.
        """
        complete = bool(self._bundle) and all(informer.synced.is_set() for informer in self.informers)
        self._published = self._published or (complete and not any(self._due()))
        return self._published

    @property
    def error(self) -> str:
        """What keeps us from reading or writing; empty when nothing does."""
        return self._error or next((i.status.error for i in self.informers if i.status.error), "")

    @property
    def configurations(self) -> tuple[str, ...]:
        """The configurations found, as `kind/name`, for people."""
        return tuple(f"{kept.resource.plural}/{name}" for kept in self._kept for name in kept.seen)

    async def run(self) -> NoReturn:
        """Watch and write for ever."""
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
                    # Its watch event may not have come yet: what was written to this very version needs no second try.
                    if self._written.get(path) != (version, self._bundle):
                        self._written[path] = version, self._bundle
                        await self._write(path, patch)
            except ClusterError as error:
                # 422: a `test` failed, so the list changed under us, and its watch event is on the way.
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
            if error.status == 404:  # deleted a moment ago
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
    """A webhook at another Service in our configuration would be somebody else's addition; a URL is ours."""
    called = mapping_or_empty(webhook).get("clientConfig")
    if not isinstance(called, dict) or not isinstance(webhook.get("name"), str):
        return False
    target = called.get("service")
    if target is None:
        return True
    found = mapping_or_empty(target)
    return any((found.get("namespace"), found.get("name")) == service for service in services)
