"""Optional resources: CRDs that are installed late, removed, or served in another version.

Life cycle of a `DiscoveredInformer`: it asks the API server which version is served (any authenticated user may).
- Absent: the copy is empty and counts as synced; it asks again after a few seconds.
- Present: an informer runs. It keeps asking, less often, to switch to a preferred version that appears.
When a CRD is removed, the informer's watch ends, and the copy is emptied.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, NoReturn

import structlog

from webhook.kube.api_errors import APIError, ClusterError, mapping_or_empty
from webhook.kube.client import Client
from webhook.kube.informer import Informer, Phase, ResourceGoneError
from webhook.kube.pacing import Backoff
from webhook.kube.resource import Resource
from webhook.model.raw import Raw

log = structlog.get_logger(__name__)

# Each check is one call of a few hundred bytes. This finds a new CRD within seconds of its installation.
DEFAULT_POLL_SECONDS: Final = 5.0
# While the resource is served, only a change of versions matters, and CRDs are upgraded once in months.
_SELDOM: Final = 6


@dataclass(frozen=True, slots=True)
class Wanted:
    """A resource by group and plural; `versions` by preference; empty for the one that the server prefers."""

    group: str
    plural: str
    versions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The CRD's name."""
        return f"{self.plural}.{self.group}"


NODE_RESOURCE_TOPOLOGIES: Final = Wanted("topology.node.k8s.io", "noderesourcetopologies", ("v1alpha2", "v1alpha1"))
KAI_TOPOLOGIES: Final = Wanted("kai.scheduler", "topologies", ("v1alpha1",))
KUEUE_TOPOLOGIES: Final = Wanted("kueue.x-k8s.io", "topologies")
GROVE_TOPOLOGIES: Final = Wanted("grove.io", "clustertopologybindings", ("v1alpha1",))
POD_GANGS: Final = Wanted("scheduler.grove.io", "podgangs", ("v1alpha1",))
KOORDINATOR_RESERVATIONS: Final = Wanted("scheduling.koordinator.sh", "reservations")
_DEVICES: Final = "resource.k8s.io"
DEVICES: Final = {
    "DeviceClass": Wanted(_DEVICES, "deviceclasses", ("v1",)),
    "DeviceTaintRule": Wanted(_DEVICES, "devicetaintrules", ("v1", "v1beta2", "v1alpha3")),
    "ResourceSlice": Wanted(_DEVICES, "resourceslices", ("v1",)),
    "ResourceClaimTemplate": Wanted(_DEVICES, "resourceclaimtemplates", ("v1",)),
    "ResourceClaim": Wanted(_DEVICES, "resourceclaims", ("v1",)),
}
"""Dynamic Resource Allocation: the resource of each kind."""


async def locate(client: Client, wanted: Wanted) -> Resource | None:
    """Where `wanted` is served, in the best version; None if it is not. Raises ClusterError if that is unknown."""
    group = await _get_or_none(client, f"/apis/{wanted.group}")
    if group is None:
        return None
    served = [str(entry.get("version")) for entry in _entries(group, "versions")]
    # The server lists its preferred version first, but this is not guaranteed.
    preferred = str(mapping_or_empty(group.get("preferredVersion")).get("version"))
    order = wanted.versions or dict.fromkeys([preferred, *served])
    for version in order:
        if version not in served:
            continue
        resources = await _get_or_none(client, f"/apis/{wanted.group}/{version}")
        if resources is not None and any(
            entry.get("name") == wanted.plural for entry in _entries(resources, "resources")
        ):
            return Resource(wanted.group, version, wanted.plural)
    return None


def _entries(answer: Raw, field: str) -> list[Raw]:
    """The objects in a list of the answer."""
    entries = answer.get(field)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


class DiscoveredInformer:
    """Runs `informer` while its resource is served; `informer` accepts any version of it."""

    def __init__(
        self, client: Client, wanted: Wanted, informer: Informer, poll_seconds: float = DEFAULT_POLL_SECONDS
    ) -> None:
        self.informer = informer
        self._client = client
        self._wanted = wanted
        self._poll_seconds = poll_seconds
        self._backoff = Backoff()
        self._current: Resource | None = None
        self._task: asyncio.Task[NoReturn] | None = None

    async def run(self) -> NoReturn:
        """Follow the resource until cancelled; ends as `Informer.run` does."""
        try:
            while True:
                try:
                    await self._turn_to(await locate(self._client, self._wanted))
                except ClusterError as error:
                    # A running informer continues: a failed discovery says nothing about the resource.
                    if self._task is None:
                        self.informer.status.phase = Phase.WAITING
                        self.informer.status.error = str(error)
                    log.warning("discovery.retry", resource=self._wanted.name, error=str(error))
                    await asyncio.sleep(self._backoff.next())
                else:
                    self._backoff.reset()
                    await self._pause()
        finally:
            await self._stop()

    async def _turn_to(self, found: Resource | None) -> None:
        if found is None:
            if self._current is not None or not self.informer.synced.is_set():
                log.info("discovery.absent", resource=self._wanted.name)
                await self._stop()
            self.informer.clear()
        elif found != self._current or self._task is None:
            log.info("discovery.found", resource=self._wanted.name, version=found.version)
            await self._stop()
            self.informer.point_at(found)
            self._task = asyncio.create_task(self.informer.run(), name=f"informer {self._wanted.name}")
        self._current = found

    async def _pause(self) -> None:
        """Wait until the next check; end at once if the informer ends, and raise its exception."""
        if self._task is None:
            await asyncio.sleep(self._poll_seconds)
            return
        done, _ = await asyncio.wait({self._task}, timeout=self._poll_seconds * _SELDOM)
        if done:
            task, self._task = self._task, None
            try:
                task.result()
            except ResourceGoneError:
                # The group's discovery may lag behind the removal: without a wait this would be a hot loop.
                await asyncio.sleep(self._backoff.next())

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            # Not `await task`: its CancelledError would look like our own.
            await asyncio.wait({task})
            if not task.cancelled() and not isinstance(task.exception(), ResourceGoneError):
                task.result()


async def _get_or_none(client: Client, path: str) -> Raw | None:
    try:
        return await client.get(path)
    except APIError as error:
        if error.status == 404:
            return None
        raise
