"""Creates and cancels ProvisioningRequests with their PodTemplates, and knows what is on its way.

Life cycle of what is made for a gang (`objects_of`):
1. Prepared: the templates exist. cluster-autoscaler fails a request whose templates it has not seen.
2. On its way: the request is created, and our watch has not shown it yet.
3. Known to the cache.
4. Leaving: it is deleted, and our watch still shows it.

Each gang has a task of its own for its writes, one at a time: a call that hangs delays no other gang of another
namespace, and the caller of a write never waits for it. All calls together are limited in their rate, so that
requests leave the API server's time to the rest of the leader.

An object that another client made under one of our names is neither used nor deleted: its seal is missing. A template
that has the seal, but that we did not make just now, is recreated: the seal is not for its content.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

import structlog

from webhook.formats.autoscaling import (
    GANG,
    GANG_DIGEST,
    GROUP,
    KIND,
    MANAGED_BY,
    POD_SETS_DIGEST,
    ProvisioningRequest,
    sealed_parts,
    sealed_template_parts,
)
from webhook.formats.koordinator.numa_allocation import SEAL, AllocationKey
from webhook.formats.patches.affinity_patch import EXPRESSIONS, Constraint, Term, constrain, none_of, within_bounds
from webhook.formats.patches.affinity_patch import required_terms as required_terms_of
from webhook.formats.patches.json_patch import Patch
from webhook.internal_errors import Where, contained
from webhook.kube.pacing import RateLimiter
from webhook.kube.provisioning_request_client import ProvisioningWrites
from webhook.kube.write import Write
from webhook.model.raw import Draft, Raw
from webhook.placing.autoscaling.lacking_room import NewNodes
from webhook.placing.autoscaling.provisioning_pod_sets import PodSets, digest_of
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.cluster_cache import ClusterCache

# 150 bytes each. The objects are made again for the members that remain if all of these end first.
_MOST_OWNERS: Final = 16
_PREFIX: Final = "topology-webhook-"


@dataclass(frozen=True, slots=True)
class ProvisioningObjects:
    """What is created for a gang."""

    namespace: str
    name: str
    """The name of the request."""
    digest: str
    """That of its pod sets."""
    templates: tuple[Draft, ...]
    request: Draft


def gang_digest(gang: GatedGang) -> str:
    """The gang's key as the value of a label: users write parts of the key, of any length."""
    return digest_of(gang.membership.group)


def objects_of(
    gang: GatedGang,
    pod_sets: PodSets,
    nodes: Mapping[Hashable, NewNodes],
    class_name: str,
    version: str,
    key: AllocationKey,
) -> ProvisioningObjects:
    """The objects by which cluster-autoscaler is asked for a gang: a PodTemplate for each pod set, and the request.

    1. A template requires new nodes of the node groups that can take its pods, and excludes present nodes that they fit
       by their totals alone. The pods themselves are not changed, so both can be taken back with the request.
    2. The name of a request has a digest of its content. Equal content has equal names, so a leader that takes over
       continues where the last one stopped.
    3. The owners are members of the gang. When these are gone, Kubernetes' garbage collector removes the objects, even
       if the service is gone, too.
    4. Each object has a seal (see `AllocationKey`), by which the leader knows what it made.

    nodes: by request signature. version: of the kind, as the API server serves it.
    """
    namespace, digest = gang.namespace, gang_digest(gang)
    templates = [constrained(each.template, nodes.get(each.signature, NewNodes())) for each in pod_sets.each]
    counts = [each.count for each in pod_sets.each]
    name = _PREFIX + digest_of([namespace, digest, class_name, templates, counts])
    names = [f"{name}-{number}" for number in range(len(templates))]
    metadata: Draft = {
        "namespace": namespace,
        "labels": {**MANAGED_BY, GANG_DIGEST: digest},
        "annotations": {GANG: gang.membership.name},
        "ownerReferences": _owners(gang.members),
    }
    sets = [{"podTemplateRef": {"name": each}, "count": count} for each, count in zip(names, counts, strict=True)]
    spec = {"provisioningClassName": class_name, "podSets": sets}
    seal = key.seal(*sealed_parts(namespace, name, digest, pod_sets.digest, spec))
    request = {
        "apiVersion": f"{GROUP}/{version}",
        "kind": KIND,
        "metadata": _named(metadata, name, {POD_SETS_DIGEST: pod_sets.digest, SEAL: seal}),
        "spec": spec,
    }
    made = tuple(
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": _named(metadata, each, {SEAL: key.seal(*sealed_template_parts(namespace, each))}),
            "template": template,
        }
        for each, template in zip(names, templates, strict=True)
    )
    return ProvisioningObjects(namespace, name, pod_sets.digest, made, request)


def constrained(template: Draft, nodes: NewNodes) -> Draft:
    """The template with a node affinity that allows these new nodes alone, ANDed with its own."""
    labels: dict[str, list[str]] = {}
    for label, value in nodes.groups:
        labels.setdefault(label, []).append(value)
    alternatives: tuple[Term, ...] = tuple(
        {EXPRESSIONS: [{"key": label, "operator": "In", "values": sorted(values)}]}
        for label, values in sorted(labels.items())
    )
    for term in none_of(nodes.not_these):
        # Every node may be named in a field of its own, so each kind of requirement is added to each alternative.
        alternatives = tuple(
            {kind: [*one.get(kind, ()), *term.get(kind, ())] for kind in (*one, *term)} for one in alternatives or ({},)
        )
    if not alternatives:
        return template
    patch = Patch(template)
    constrain(patch, within_bounds(Constraint(alternatives), required_terms_of(template)))
    constrained_template: Draft = patch.document
    return constrained_template


def _owners(members: Sequence[GatedPod]) -> list[Draft]:
    return [
        {"apiVersion": "v1", "kind": "Pod", "name": member.pod.name, "uid": member.pod.uid}
        for member in members[:_MOST_OWNERS]
    ]


def _named(metadata: Draft, name: str, annotations: Draft) -> Draft:
    return {**metadata, "name": name, "annotations": {**metadata["annotations"], **annotations}}


Answer = TypeVar("Answer")

log = structlog.get_logger(__name__)

# Less than half of what our client may send (see `RateLimiter`). A gang has 2 writes, or up to 33.
_RATE, _BURST = 20.0, 40
_OF_NAMESPACE_AT_A_TIME: Final = 2
# The watch shows a write long before this time.
_SHOWN_SECONDS: Final = 30.0
_TAKEN: Final = "another client has made an object of the name that it would have"


@dataclass(slots=True)
class _Made:
    """What was created for a gang."""

    objects: ProvisioningObjects
    at: float = inf
    """The first sweep that knew of it. Its writes may have taken longer than the time in which it is of use."""


class ProvisioningWriter:
    """Writes while `is_leader()`. pace: limits all calls."""

    def __init__(
        self,
        cache: ClusterCache,
        writes: ProvisioningWrites,
        is_leader: Callable[[], bool],
        pace: RateLimiter | None = None,
    ) -> None:
        self._cache = cache
        self._writes = writes
        self._is_leader = is_leader
        self._pace = pace or RateLimiter(_RATE, _BURST)
        self._prepared: dict[str, _Made] = {}
        self._on_its_way: dict[str, _Made] = {}
        self._leaving: dict[str, float] = {}
        self._making: dict[str, str] = {}
        """Gang -> its namespace, while its objects are written."""
        self._refusals: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By gang."""
        self._slots: dict[str, asyncio.Semaphore] = {}

    def begin(self, known: Iterable[ProvisioningRequest], now: float) -> None:
        """Forget what the watch has shown, or should have by now. known: the requests in the cache."""
        names, uids = {request.key for request in known}, {request.uid for request in known}
        for made in (*self._prepared.values(), *self._on_its_way.values()):
            made.at = min(made.at, now)
        self._leaving = {uid: at for uid, at in self._leaving.items() if uid in uids and now - at < _SHOWN_SECONDS}
        self._on_its_way = {
            gang: made
            for gang, made in self._on_its_way.items()
            if f"{made.objects.namespace}/{made.objects.name}" not in names and now - made.at < _SHOWN_SECONDS
        }

    async def settle(self) -> None:
        """Wait for all writes in flight."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    def stop(self) -> None:
        """Cancel the writes in flight."""
        for gang, task in list(self._tasks.items()):
            task.cancel()
            self._ended(gang)

    def is_leaving(self, request: ProvisioningRequest) -> bool:
        """Whether it is cancelled."""
        return request.uid in self._leaving

    def is_busy(self, gang: str) -> bool:
        """Whether something is written for the gang with this digest: nothing else can begin."""
        return gang in self._tasks

    def made_for(self, gang: str) -> ProvisioningObjects | None:
        """What is on its way for the gang with this digest."""
        made = self._on_its_way.get(gang)
        return None if made is None else made.objects

    def prepared_for(self, gang: str) -> ProvisioningObjects | None:
        """What is prepared for the gang with this digest."""
        made = self._prepared.get(gang)
        return None if made is None else made.objects

    def refusals(self) -> Mapping[str, str]:
        """Gang -> why its objects could not be made, since the last call."""
        found, self._refusals = self._refusals, {}
        return found

    def namespaces(self) -> list[str]:
        """The namespace of each request that is on its way, prepared, or being written."""
        made = {
            gang: one.objects.namespace for each in (self._on_its_way, self._prepared) for gang, one in each.items()
        }
        return list({**made, **self._making}.values())

    def make(self, gang: str, namespace: str, objects: Callable[[], ProvisioningObjects], now: float) -> None:
        """Begin to prepare, or to create the request of what was prepared.

        gang: its digest. objects: makes what is to be created.
        """
        if self._is_leader() and not self.is_busy(gang):
            self._making[gang] = namespace
            self._start(gang, lambda: self._make(gang, objects, now))

    def cancel(self, request: ProvisioningRequest, why: str, now: float) -> None:
        """Begin to delete a request and its templates. If it is still there later, the next call tries again."""
        if self._is_leader() and not self.is_leaving(request) and not self.is_busy(request.gang):
            self._leaving[request.uid] = now
            self._start(request.gang, lambda: self._cancel(request, why))

    def discard(self, gang: str) -> None:
        """Begin to delete what was prepared for a gang (its digest)."""
        if gang in self._prepared and not self.is_busy(gang):
            objects = self._prepared.pop(gang).objects
            self._start(gang, lambda: self._delete_templates(objects.namespace, _names(objects)))

    def discard_all_but(self, gangs: AbstractSet[str]) -> None:
        """Begin to delete what was prepared for other gangs than these (their digests)."""
        for gang in self._prepared.keys() - gangs:
            self.discard(gang)

    def _start(self, gang: str, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                with contained(Where.GANG, gang=gang):
                    await work()
            finally:
                if self._tasks.get(gang) is asyncio.current_task():
                    self._ended(gang)

        self._tasks[gang] = asyncio.create_task(run(), name="provisioning")

    def _ended(self, gang: str) -> None:
        del self._tasks[gang]
        self._making.pop(gang, None)
        if not self._tasks:
            self._slots.clear()

    async def _make(self, gang: str, objects: Callable[[], ProvisioningObjects], now: float) -> None:
        prepared = self._prepared.pop(gang, None)
        if prepared is not None and now - prepared.at < _SHOWN_SECONDS:
            await self._create(gang, prepared.objects)
            return
        if prepared is not None:
            await self._delete_templates(prepared.objects.namespace, _names(prepared.objects))
        made = objects()
        for body in made.templates:
            if not (write := await self._create_template(made.namespace, body)).is_written:
                await self._refused(gang, made, write)
                return
        self._prepared[gang] = _Made(made)

    async def _create_template(self, namespace: str, body: dict[str, Any]) -> Write:
        write = await self._call(namespace, lambda: self._writes.create_template(body))
        name = _name(body)
        if write.status != 409 or not (uid := await self._own_uid(namespace, name)):
            return write
        # The last leader prepared the same, or a client put another content under a seal that it copied.
        deletion = await self._call(namespace, lambda: self._writes.delete_template(namespace, name, uid))
        if not deletion.is_written:
            return deletion
        return await self._call(namespace, lambda: self._writes.create_template(body))

    async def _call(self, namespace: str, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer to one call, in its turn."""
        slots = self._slots.setdefault(namespace, asyncio.Semaphore(_OF_NAMESPACE_AT_A_TIME))
        async with slots:
            await self._pace.turn()
            return await call()

    async def _create(self, gang: str, objects: ProvisioningObjects) -> None:
        version = self._cache.provisioning_requests.version
        write = await self._call(objects.namespace, lambda: self._writes.create(version, objects.request))
        if not write.is_written:
            await self._refused(gang, objects, write)
            return
        self._on_its_way[gang] = _Made(objects)
        log.info("provisioning.requested", request=f"{objects.namespace}/{objects.name}", gang=gang)

    async def _refused(self, gang: str, objects: ProvisioningObjects, write: Write) -> None:
        log.warning("provisioning.refused", request=f"{objects.namespace}/{objects.name}", error=write.error)
        if write.status:  # without an answer, the request may be there
            await self._delete_templates(objects.namespace, _names(objects))
        self._refusals[gang] = _TAKEN if write.status == 409 else write.reason

    async def _cancel(self, request: ProvisioningRequest, why: str) -> None:
        version, namespace, name = self._cache.provisioning_requests.version, request.namespace, request.name
        write = await self._call(namespace, lambda: self._writes.delete(version, namespace, name, request.uid))
        if not write.is_written:
            log.warning("provisioning.not_cancelled", request=request.key, error=write.error)
            return
        log.info("provisioning.cancelled", request=request.key, why=why)
        await self._delete_templates(namespace, request.templates)

    async def _delete_templates(self, namespace: str, names: Iterable[str]) -> None:
        """Those that are left end with the gang's pods, which own them."""
        for name in names:
            with contained(Where.OBJECT, kind="PodTemplate", object=f"{namespace}/{name}"):
                if not (uid := await self._own_uid(namespace, name)):
                    continue
                delete = partial(self._writes.delete_template, namespace, name, uid)
                if not (write := await self._call(namespace, delete)).is_written:
                    log.warning("provisioning.template_left", template=f"{namespace}/{name}", error=write.error)

    async def _own_uid(self, namespace: str, name: str) -> str:
        """The uid of a PodTemplate that we made; empty if there is none, or another client made it."""
        raw = await self._call(namespace, lambda: self._writes.read_template(namespace, name))
        metadata = {} if raw is None else raw["metadata"]
        seal = (metadata.get("annotations") or {}).get(SEAL)
        is_ours = self._cache.allocation_key.has_sealed(seal, *sealed_template_parts(namespace, name))
        return str(metadata.get("uid") or "") if is_ours else ""


def _names(objects: ProvisioningObjects) -> list[str]:
    return [_name(each) for each in objects.templates]


def _name(body: Raw) -> str:
    return str(body["metadata"]["name"])
