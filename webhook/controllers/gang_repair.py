"""Moves a gang that lost a node, as a whole, if its domain has no room for the lost members (`repair: Gang`).

A member whose node is gone is recreated by its controller, and held to the domain of the remaining members. If the
domain has room it is placed there. Else it waits, and usually the remaining members wait for it.

1. A gang was examined, waits, and has lost a node (see `cache.lost_members`, `LostNodeRecords`). It does not fit
   beside its running members, judged as by the leader's placement.
2. Its running members are read, and the whole gang is placed on the cluster without them. If no domain holds all of
   it, nothing is moved.
3. Each running member is evicted by a dry run. If one may not be evicted now (a PodDisruptionBudget), nothing is moved.
4. They are evicted. The API server gives each the condition `DisruptionTarget`. Their controller recreates all, and the
   gang is placed anew as soon as it is complete. Members that could not be evicted after all are retried.

Only members that a controller recreates are evicted: if one has none, the gang stays. Nothing is kept for the gang
meanwhile: if other pods take the place, it waits like any gang.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

import structlog

from webhook.codec import loads
from webhook.controllers.metric_recorder import ControllerMetrics
from webhook.controllers.sweep import Sweep
from webhook.formats.patches.managed_fields import ManagedFields, without_ours
from webhook.internal_errors import Where, contained
from webhook.kube.api_errors import ClusterError
from webhook.kube.events import EventRecorder, ObjectEvent, PodEvent
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import Outcome
from webhook.model.errors import UserError
from webhook.model.names import LOST_NODES, MANAGED_FIELDS
from webhook.model.raw import Raw
from webhook.model.wording import counted
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.planner import Planner
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

# The record outlasts the loss of all but one of them. More would be writes for nothing.
_MEMBERS: Final = 3
# Nodes that fail together, as messages need them. The move of a gang does not depend on all of them.
_MOST_NODES: Final = 16
# As many gangs as `LostMembers` has.
_MOST_GANGS: Final = 1024
_KIND: Final = "LostNodes"


@dataclass(slots=True)
class _Written:
    value: str
    keys: tuple[str, ...] = field(default=())


class LostNodeRecords:
    """Records on the running members of gangs which nodes these lost, for a leader that has not seen the loss.

    1. When a gang waits and has lost a node, the annotation `lost-nodes` of a few running members is set.
    2. A leader that knows of no loss of a waiting gang reads these members once. It believes a record that has our seal
       (see `AllocationKey`) and is for exactly the members that run now: so it is void once a new member has its node.
    3. When the gang has all its members again, the record is removed.

    A gang whose members with the record are lost, too, is as one that lost no node. Used by the leader alone.
    """

    def __init__(self, cache: ClusterCache, writes: PodWrites) -> None:
        self._cache = cache
        self._writes = writes
        self._written: OrderedDict[str, _Written] = OrderedDict()
        self._looked_at: OrderedDict[str, None] = OrderedDict()
        self._whole: set[str] = set()

    def clear(self) -> None:
        """Forget all: we no longer lead."""
        self._written.clear()
        self._looked_at.clear()
        self._whole.clear()

    def may_have(self, group: str) -> bool:
        """Whether a record that we have not read may be there."""
        return group not in self._looked_at and bool(self._cache.gangs.assigned(group))

    def is_whole(self, group: str) -> None:
        """The gang has all its members again."""
        if group in self._written:
            self._whole.add(group)

    async def restore(self, group: str) -> None:
        """Read what the last leader recorded of a gang, once."""
        self._looked_at[group] = None
        if len(self._looked_at) > _MOST_GANGS:
            self._looked_at.popitem(last=False)
        for key in self._first(group):
            try:
                raw = await self._writes.read(key)
            except ClusterError as error:
                log.info("gang.not_read", pod=key, error=str(error))
                del self._looked_at[group]
                return
            value = ((raw or {}).get("metadata", {}).get("annotations") or {}).get(LOST_NODES)
            if nodes := self._believed(group, value):
                self._written[group] = _Written(str(value), (key,))
                self._cache.lost_members.restore(group, nodes)
                log.info("gang.loss_restored", gang=group, nodes=sorted(nodes))
                return

    async def keep(self, group: str) -> None:
        """Record the lost nodes of a gang, unless that is done."""
        nodes = sorted(self._cache.lost_members.nodes(group))[:_MOST_NODES]
        value = json.dumps({"nodes": nodes, "seal": self._seal(group, nodes)}, sort_keys=True)
        known = self._written.get(group)
        if not nodes or (known is not None and known.value == value):
            return
        self._whole.discard(group)
        keys = self._first(group)
        for key in keys:
            await self._annotate(key, value)
        self._written[group] = _Written(value, tuple({*keys, *(known.keys if known else ())}))
        if len(self._written) > _MOST_GANGS:
            self._written.popitem(last=False)

    async def remove_old(self) -> None:
        """Remove the records of gangs that have all their members again."""
        for group in tuple(self._whole):
            self._whole.discard(group)
            if (written := self._written.pop(group, None)) is not None:
                for key in written.keys:
                    await self._annotate(key, None)

    async def _annotate(self, key: str, value: str | None) -> None:
        write = await self._writes.annotate(key, LOST_NODES, value)
        if write.outcome not in {Outcome.WRITTEN, Outcome.GONE}:
            log.info("gang.loss_not_recorded", pod=key, error=write.error)

    def _first(self, group: str) -> Sequence[str]:
        return sorted(self._cache.gangs.assigned(group))[:_MEMBERS]

    def _believed(self, group: str, value: object) -> frozenset[str]:
        """The nodes in a record; empty if it is not ours, or for other members."""
        try:
            record: Any = loads(value.encode()) if isinstance(value, str) else None
        except ValueError:
            return frozenset()
        if not isinstance(record, Mapping) or not isinstance(nodes := record.get("nodes"), list):
            return frozenset()
        if not all(isinstance(node, str) for node in nodes):
            return frozenset()
        is_ours = self._cache.allocation_key.has_sealed(record.get("seal"), *self._sealed(group, nodes))
        return frozenset(nodes) if is_ours else frozenset()

    def _seal(self, group: str, nodes: Sequence[str]) -> str:
        return self._cache.allocation_key.seal(*self._sealed(group, nodes))

    def _sealed(self, group: str, nodes: Sequence[str]) -> tuple[str, ...]:
        members = "\n".join(sorted(self._cache.gangs.assigned(group)))
        return _KIND, group, json.dumps(nodes), sha256(members.encode()).hexdigest()


# A try reads every running member, and decides twice on the gang.
_AGAIN_SECONDS: Final = 30.0
# A larger gang would take more than ten seconds to read and to evict, one member after the other.
_MOST_MEMBERS: Final = 512
# Gangs whose records are read in a sweep, with up to three reads each.
_MOST_RESTORED: Final = 16


@dataclass(frozen=True, slots=True)
class _Move:
    """A gang that moves."""

    gang: GatedGang
    evicted: Mapping[str, str]
    """Its running members: namespace/name -> uid."""
    text: str


class GangRepair(Sweep):
    """Moves gangs while `is_leader()`."""

    period = 2.0

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        events: EventRecorder,
        planner: Planner,
        is_leader: Callable[[], bool],
        metrics: ControllerMetrics,
    ) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._writes = writes
        self._events = events
        self._planner = planner
        self._metrics = metrics
        self._records = LostNodeRecords(cache, writes)
        self._waiting: dict[str, GatedGang] = {}
        self._not_before: dict[str, float] = {}
        self._moving: dict[str, dict[str, str]] = {}  # group -> members that are still to be evicted: key -> uid

    def saw(self, gang: GatedGang, why: str) -> None:
        """Take a gang that was examined; why: why its members wait, empty if they do not."""
        group = gang.membership.group
        if not why:
            self._waiting.pop(group, None)
            self._moving.pop(group, None)  # it is whole again: what a budget delayed is not needed any more
            self._cache.lost_members.forget(group)
            self._records.is_whole(group)
        elif self._cache.lost_members.nodes(group) or self._records.may_have(group):
            self._waiting[group] = gang

    async def _sweep(self, now: float) -> None:
        self._not_before = {group: at for group, at in self._not_before.items() if at > now}
        for group, left in list(self._moving.items()):
            with contained(Where.GANG, gang=group):
                await self._evict(group, left)
        with contained(Where.WRITE):
            await self._records.remove_old()
        restored = 0
        for group, gang in list(self._waiting.items()):
            if group in self._not_before or group in self._moving:
                continue
            if not self._cache.lost_members.nodes(group):
                if restored < _MOST_RESTORED:
                    restored += 1
                    with contained(Where.GANG, gang=group):
                        await self._records.restore(group)
                if not self._cache.lost_members.nodes(group):
                    self._drop(group)  # examined again, if it still waits
                    continue
            self._not_before[group] = now + _AGAIN_SECONDS
            with contained(Where.GANG, gang=group):
                if (move := await self._find(gang)) is not None:
                    await self._begin(group, move)
                else:
                    await self._records.keep(group)

    def _forget(self) -> None:
        self._waiting.clear()
        self._moving.clear()
        self._records.clear()

    async def _find(self, gang: GatedGang) -> _Move | None:
        """Steps 1 to 3: the move of the gang, if it must and can move."""
        group = gang.membership.group
        gated = self._cache.ours.gated()
        waiting = tuple(one for one in gang.members if gated.get(one.key) is one.raw)
        running = dict(self._cache.gangs.assigned(group))
        if not running or len(waiting) < len(gang.members):
            self._drop(group)  # examined again before it is due again, if it still waits
            return None
        if len(running) + len(waiting) > _MOST_MEMBERS or not self._planner.lacks_room_in_its_domain(gang):
            return None
        raws = await self._read(running)
        restored = None if raws is None else _restored(gang.members[0], raws)
        if raws is None or restored is None or not all(one.pod.controller for one in restored):
            return None
        text = self._where_to(gang, raws, restored)
        if text is None or not self._is_same(gang, running):
            return None
        uids = {key: str(raw["metadata"]["uid"]) for key, raw in raws.items()}
        for key, uid in uids.items():
            tried = await self._writes.evict(key, uid, dry_run=True)
            if tried.outcome not in {Outcome.WRITTEN, Outcome.GONE}:
                log.info("gang.not_moved", gang=group, pod=key, error=tried.error)
                self._tell(gang, "GangNotMoved", f"{text}; it stays, because {key} may not be evicted now", "Warning")
                return None
        return _Move(gang, uids, text) if self._is_same(gang, running) and self._is_leader() else None

    async def _read(self, running: Mapping[str, object]) -> dict[str, Raw] | None:
        """The running members as they are; None if one of them has just gone."""
        raws: dict[str, Raw] = {}
        for key in sorted(running):
            try:
                raw = await self._writes.read(key)
            except ClusterError as error:
                log.info("gang.not_read", pod=key, error=str(error))
                return None
            if raw is None or "deletionTimestamp" in raw["metadata"]:
                return None
            raws[key] = raw
        return raws

    def _where_to(self, gang: GatedGang, raws: Mapping[str, Raw], restored: Iterable[GatedPod]) -> str | None:
        """Step 2: why and where to the whole gang moves; None if no domain holds it."""
        whole = replace(gang, members=tuple(sorted((*gang.members, *restored), key=lambda one: one.order)))
        placement = self._planner.place_whole(
            whole, {key: raw["spec"].get("nodeName") or "" for key, raw in raws.items()}
        )
        if placement is None:
            return None
        path = placement.tree.path(placement.domain) if placement.domain is not None else ()
        where = f"{path[-1][0].rpartition('/')[2]} {path[-1][1]}" if path else "the cluster"
        lost = ", ".join(sorted(self._cache.lost_members.nodes(gang.membership.group))[:3])
        pods = counted(len(whole.members), "pod")
        return f"lost {lost}, and its domain has no room for the lost pods; {where} holds all {pods}"

    def _is_same(self, gang: GatedGang, running: Mapping[str, object]) -> bool:
        """Whether the gang is still as it was when the search began."""
        gated = self._cache.ours.gated()
        return all(gated.get(one.key) is one.raw for one in gang.members) and running == dict(
            self._cache.gangs.assigned(gang.membership.group)
        )

    async def _begin(self, group: str, move: _Move) -> None:
        """Step 4."""
        log.info("gang.moved", gang=group, pods=len(move.evicted), why=move.text)
        self._metrics.gang_moved()
        self._tell(move.gang, "GangMoved", f"moves as a whole: {move.text}")
        for key, uid in move.evicted.items():
            self._events.tell(PodEvent(key, uid, "EvictedForRescheduling", f"its gang {move.text}", "Evict", "Warning"))
        self._drop(group)
        self._moving[group] = dict(move.evicted)
        await self._evict(group, self._moving[group])

    async def _evict(self, group: str, left: dict[str, str]) -> None:
        """Evict those that are left; a budget may delay some of them until a later sweep."""
        for key, uid in list(left.items()):
            if not self._is_leader() or self._moving.get(group) is not left:
                return
            eviction = await self._writes.evict(key, uid)
            if eviction.is_settled:
                del left[key]
            else:
                log.warning("gang.eviction_failed", pod=key, error=eviction.error)
        if not left:
            self._moving.pop(group, None)

    def _drop(self, group: str) -> None:
        self._waiting.pop(group, None)

    def _tell(self, gang: GatedGang, reason: str, text: str, kind: Any = "Normal") -> None:
        """An Event on the owner of the gang; without one, on its waiting members."""
        member = next((one for one in gang.members if one.reports_on_owner and one.owner_chain is not None), None)
        if member is None or member.owner_chain is None:
            for one in gang.members:
                self._events.tell(PodEvent(one.key, one.pod.uid, reason, text, "Evict", kind))
            return
        top, namespace = member.owner_chain.top, member.pod.namespace
        self._events.tell(
            ObjectEvent(
                f"{namespace}/{top.name}",
                top.uid,
                reason,
                text,
                "Evict",
                kind,
                api_version=top.api_version,
                kind=top.kind,
            )
        )


def _restored(first: GatedPod, raws: Mapping[str, Raw]) -> tuple[GatedPod, ...] | None:
    """The running members as if they waited, with the owners of a member that does; None if one cannot be read."""
    kueue = first.reads_kueue
    try:
        return tuple(
            GatedPod.from_object(_without_node(raw), first.owner_chain, first.basis, reads_kueue=kueue)
            for raw in raws.values()
        )
    except UserError:
        return None


def _without_node(raw: Raw) -> Raw:
    """The pod as its user wrote it, without the node that it was placed on."""
    annotations = raw["metadata"].get("annotations") or {}
    users = without_ours(raw, ManagedFields.parse(annotations.get(MANAGED_FIELDS)))
    return {**users, "spec": {name: value for name, value in users["spec"].items() if name != "nodeName"}}
