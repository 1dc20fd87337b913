"""Creates and cancels ProvisioningRequests with their PodTemplates, and knows what is on its way.

Life cycle of what is made for a gang:
1. Prepared: the templates exist. cluster-autoscaler fails a request whose templates it has not seen.
2. On its way: the request is created, and our watch has not shown it yet.
3. Known to the cache.
4. Leaving: it is deleted, and our watch still shows it.

An object that another client made under one of our names is neither used nor deleted: its seal is missing.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

import structlog

from webhook.cache.cluster_cache import ClusterCache
from webhook.controllers.autoscaling.provisioning_objects import ProvisioningObjects
from webhook.internal_errors import Where, contained
from webhook.kube.provisioning_request_client import ProvisioningWrites, Refusal
from webhook.model.hint_key import SEAL
from webhook.model.provisioning_request import ProvisioningRequest, sealed_template_parts

log = structlog.get_logger(__name__)

# The watch shows a write long before this time.
_SHOWN_SECONDS: Final = 30.0
_TAKEN: Final = "another client has made an object of the name that it would have"


@dataclass(frozen=True, slots=True)
class _Made:
    """What was created for a gang, and when."""

    objects: ProvisioningObjects
    at: float


class ProvisioningWriter:
    """Writes while `is_leader()`."""

    def __init__(self, cache: ClusterCache, writes: ProvisioningWrites, is_leader: Callable[[], bool]) -> None:
        self._cache = cache
        self._writes = writes
        self._is_leader = is_leader
        self._prepared: dict[str, _Made] = {}
        self._on_its_way: dict[str, _Made] = {}
        self._leaving: dict[str, float] = {}

    def begin(self, known: Iterable[ProvisioningRequest], now: float) -> None:
        """Forget what the watch has shown, or should have by now. known: the requests in the cache."""
        names, uids = {request.key for request in known}, {request.uid for request in known}
        self._leaving = {uid: at for uid, at in self._leaving.items() if uid in uids and now - at < _SHOWN_SECONDS}
        self._on_its_way = {
            gang: made
            for gang, made in self._on_its_way.items()
            if f"{made.objects.namespace}/{made.objects.name}" not in names and now - made.at < _SHOWN_SECONDS
        }

    def is_leaving(self, request: ProvisioningRequest) -> bool:
        """Whether it is cancelled."""
        return request.uid in self._leaving

    def made_for(self, gang: str) -> ProvisioningObjects | None:
        """What is on its way for the gang with this digest."""
        made = self._on_its_way.get(gang)
        return None if made is None else made.objects

    def namespaces(self) -> list[str]:
        """The namespace of each request that is on its way or prepared."""
        return [made.objects.namespace for each in (self._on_its_way, self._prepared) for made in each.values()]

    def prepared(self) -> AbstractSet[str]:
        """The digests of the gangs that something is prepared for."""
        return self._prepared.keys()

    async def make(
        self, gang: str, pod_sets: str, objects: Callable[[], ProvisioningObjects], now: float
    ) -> ProvisioningObjects | Refusal:
        """Prepare, or create the request of what was prepared. Returns it, or why it cannot be made.

        gang, pod_sets: their digests. objects: makes what is to be created.
        """
        if not self._is_leader():
            return Refusal("another replica leads")
        prepared = self._prepared.pop(gang, None)
        if prepared is not None and prepared.objects.digest == pod_sets and now - prepared.at < _SHOWN_SECONDS:
            return await self._create(gang, prepared.objects, now)
        if prepared is not None:
            await self._delete_templates(prepared.objects.namespace, _names(prepared.objects))
        made = objects()
        for body in made.templates:
            refusal = await self._writes.create_template(body)
            if refusal is not None and refusal.status == 409 and await self._is_ours(made.namespace, _name(body)):
                refusal = None  # the last leader prepared the same
            if refusal is not None:
                return await self._refused(made, refusal)
        self._prepared[gang] = _Made(made, now)
        return made

    async def _create(self, gang: str, objects: ProvisioningObjects, now: float) -> ProvisioningObjects | Refusal:
        refusal = await self._writes.create(self._cache.provisioning_requests.version(), objects.request)
        if refusal is not None:
            return await self._refused(objects, refusal)
        self._on_its_way[gang] = _Made(objects, now)
        log.info("provisioning.requested", request=f"{objects.namespace}/{objects.name}", gang=gang)
        return objects

    async def _refused(self, objects: ProvisioningObjects, refusal: Refusal) -> Refusal:
        log.warning("provisioning.refused", request=f"{objects.namespace}/{objects.name}", error=refusal.error)
        if refusal.status:  # without an answer, the request may be there
            await self._delete_templates(objects.namespace, _names(objects))
        return Refusal(_TAKEN, refusal.status) if refusal.status == 409 else refusal

    async def cancel(self, request: ProvisioningRequest, why: str, now: float) -> None:
        """Delete a request and its templates. If it is still there later, the next call tries again."""
        if not self._is_leader() or self.is_leaving(request):
            return
        self._leaving[request.uid] = now
        version = self._cache.provisioning_requests.version()
        refusal = await self._writes.delete(version, request.namespace, request.name, request.uid)
        if refusal is not None:
            log.warning("provisioning.not_cancelled", request=request.key, error=refusal.error)
            return
        log.info("provisioning.cancelled", request=request.key, why=why)
        await self._delete_templates(request.namespace, request.templates)

    async def discard_all_but(self, gangs: AbstractSet[str]) -> None:
        """Delete the templates that were prepared for other gangs than these (their digests)."""
        for gang in self._prepared.keys() - gangs:
            objects = self._prepared.pop(gang).objects
            await self._delete_templates(objects.namespace, _names(objects))

    async def _delete_templates(self, namespace: str, names: Iterable[str]) -> None:
        """Those that are left end with the gang's pods, which own them."""
        for name in names:
            with contained(Where.OBJECT, kind="PodTemplate", object=f"{namespace}/{name}"):
                uid = await self._own_uid(namespace, name)
                if uid and (refusal := await self._writes.delete_template(namespace, name, uid)):
                    log.warning("provisioning.template_left", template=f"{namespace}/{name}", error=refusal.error)

    async def _is_ours(self, namespace: str, name: str) -> bool:
        return bool(await self._own_uid(namespace, name))

    async def _own_uid(self, namespace: str, name: str) -> str:
        """The uid of a PodTemplate that we made; empty if there is none, or another client made it."""
        raw = await self._writes.read_template(namespace, name)
        metadata = {} if raw is None else raw["metadata"]
        seal = (metadata.get("annotations") or {}).get(SEAL)
        is_ours = self._cache.hint_key.has_sealed(seal, *sealed_template_parts(namespace, name))
        return str(metadata.get("uid") or "") if is_ours else ""


def _names(objects: ProvisioningObjects) -> list[str]:
    return [_name(each) for each in objects.templates]


def _name(body: Mapping[str, Any]) -> str:
    return str(body["metadata"]["name"])
