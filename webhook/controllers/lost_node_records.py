"""Records on a gang's running members which nodes it lost, for a leader that has not seen the loss.

1. When a gang waits and has lost a node, the annotation `lost-nodes` of a few running members is set.
2. A leader that knows of no loss of a waiting gang reads these members once. It believes a record that has our seal
   (see `hint_key`) and is for exactly the members that run now: so it is void once a new member has its node.
3. When the gang has all its members again, the record is removed.

A gang whose members with the record are lost, too, is as one that lost no node.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import structlog

from webhook.cache.cluster_cache import ClusterCache
from webhook.codec import loads
from webhook.kube.api_errors import ClusterError
from webhook.kube.pod_writes import Outcome, PodWrites
from webhook.model.names import LOST_NODES

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
    """The records of the gangs, by group. Used by the leader alone."""

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
        outcome = await self._writes.annotate(key, LOST_NODES, value)
        if outcome not in {Outcome.WRITTEN, Outcome.GONE}:
            log.info("gang.loss_not_recorded", pod=key, error=self._writes.error)

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
        is_ours = self._cache.hint_key.has_sealed(record.get("seal"), *self._sealed(group, nodes))
        return frozenset(nodes) if is_ours else frozenset()

    def _seal(self, group: str, nodes: Sequence[str]) -> str:
        return self._cache.hint_key.seal(*self._sealed(group, nodes))

    def _sealed(self, group: str, nodes: Sequence[str]) -> tuple[str, ...]:
        members = "\n".join(sorted(self._cache.gangs.assigned(group)))
        return _KIND, group, json.dumps(nodes), sha256(members.encode()).hexdigest()
