"""Keeps KAI-Scheduler's PodGroups up to date with the gangs, where the cluster serves that kind.

Level-triggered: about every second, the desired PodGroup of each gang is compared with the actual one.
1. The gangs that have pods: those with assigned members, and those that wait, for which the placement controller gives
   the reason.
2. Their owners, read as for placement (see `owner_chains`). A gang that its pods name themselves gets no PodGroup from
   us.
3. Differences are applied. The API server deletes a PodGroup together with its owner, by the owner reference.

While the kind is not served, nothing is read or written. When it appears, all gangs get their PodGroup.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from time import monotonic
from typing import Any, Final, NoReturn

import structlog

from webhook.controllers.owner_chains import OwnerChains
from webhook.controllers.sweep import Sweep
from webhook.formats.kai import is_said, pod_group
from webhook.formats.kubernetes.owner_chain import OwnerChain, owner_above, taken_from_owners
from webhook.formats.topology import Topology
from webhook.formats.workload.common_fields import min_member
from webhook.internal_errors import Where, contained
from webhook.kube.api_errors import ClusterError
from webhook.kube.owners import ReadOwner
from webhook.kube.pod_group_client import PodGroups
from webhook.model.errors import UserError
from webhook.model.names import KAI_BATCH_MIN_MEMBER, PLACEMENT, POD_GROUP_NAME
from webhook.model.raw import Raw
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.gang_text import placed_gang_text
from webhook.placing.pod.placement_text import annotated
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

# A write is visible long before this time; a rejected write is not repeated all the time.
_WRITTEN_SECONDS: Final = 2.0
_REFUSED_SECONDS: Final = 30.0
# Gangs to compare before reviews may run: a millisecond of work.
_TURN: Final = 50
_Basis = tuple[OwnerChain, str, Mapping[str, Topology]]
"""The input of a PodGroup: owners, status, topologies."""
_NO_PODS: Final = "no pods"


class PodGroupKeeper(Sweep):
    """Works while `is_leader()` and `is_served()`; `read_pod` reads the pod namespace/name, None if it is gone."""

    # With 10,000 gangs a comparison takes a tenth of a second. Then comparisons are less frequent, but still every few
    # seconds.
    rest_per_work, longest_rest = 20.0, 5.0

    def __init__(
        self,
        cache: ClusterCache,
        pod_groups: PodGroups,
        read_owner: ReadOwner,
        read_pod: Callable[[str], Awaitable[Raw | None]],
        is_leader: Callable[[], bool],
        is_served: Callable[[], bool],
    ) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._pod_groups = pod_groups
        self._owner_chains = OwnerChains(read_owner, _nothing)
        self._read_pod = read_pod
        self._is_served = is_served
        self._members: dict[str, Raw] = {}
        self._why: dict[str, tuple[frozenset[str], str]] = {}
        self._not_before: dict[str, float] = {}
        self._wanted: dict[str, tuple[_Basis, dict[str, Any] | None]] = {}
        self._said: dict[str, dict[str, Any]] = {}

    def saw(self, gang: GatedGang, why: str) -> None:
        """Record a gang that was examined; why: why its members wait, empty if they do not."""
        group = gang.membership.group
        self._members.setdefault(group, gang.members[0].raw)
        self._why[group] = frozenset(gated.key for gated in gang.members) if why else frozenset(), why

    def background(self) -> Iterator[Callable[[], Coroutine[Any, Any, NoReturn]]]:
        """Tasks to run as long as the process does; each ends by cancellation or an exception, and can be restarted."""
        yield self.run
        yield self._owner_chains.run

    async def _sweep(self, _now: float) -> None:
        if not self._is_served():
            return
        self._not_before = {key: at for key, at in self._not_before.items() if at > monotonic()}
        groups = await self._groups_by_member()
        owners = {}
        for group, raw in groups.items():
            with contained(Where.POD_GROUP, group=group), suppress(UserError):
                if owner := owner_above(raw):
                    owners[group] = owner
        namespaces = {group: groups[group]["metadata"]["namespace"] for group in owners}
        self._owner_chains.want((namespaces[group], owner) for group, owner in owners.items())
        topologies = self._cache.snapshot().topologies
        self._wanted = {group: entry for group, entry in self._wanted.items() if group in owners}
        there = set()
        for turn, (group, owner) in enumerate(owners.items(), 1):
            # Owners that are not read yet follow in a later comparison.
            if owner_chain := self._owner_chains.get(namespaces[group], owner):
                with contained(Where.POD_GROUP, group=group):
                    basis = owner_chain, self._status(group, topologies), topologies
                    known = self._wanted.get(group)
                    if known is None or known[0] != basis:
                        known = self._wanted[group] = basis, _wanted(groups[group], *basis)
                    if known[1] is not None:
                        there.add(await self._settle_one(known[1]))
            if turn % _TURN == 0:
                await self._work.pause()
        await self._settle_the_rest(there)

    async def _groups_by_member(self) -> dict[str, Raw]:
        """The gangs that have pods, each with a present or former member; any member yields the same PodGroup."""
        gated = self._cache.ours.gated().keys()
        assigned_members = self._cache.gangs.groups()
        self._why = {group: entry for group, entry in self._why.items() if entry[0] & gated}
        all_there = assigned_members.keys() | self._why.keys()
        there = {group for group in all_there if self._cache.ours.has_gang(group)}
        for group in all_there - there:
            # Another leader's now, which writes its PodGroup from here on.
            if (body := self._wanted.get(group, (None, None))[1]) is not None:
                self._said.pop(f"{body['metadata']['namespace']}/{body['metadata']['name']}", None)
        self._members = {group: raw for group, raw in self._members.items() if group in there}
        for group in there - self._members.keys():
            with contained(Where.POD_GROUP, group=group):
                raw = await self._member(tuple(assigned_members.get(group, ())))
                if raw is not None:
                    self._members[group] = raw
        return dict(self._members)

    async def _member(self, keys: Sequence[str]) -> Raw | None:
        """A member of a gang that was assigned before we led; None if there is none or it cannot be read."""
        for key in keys:
            try:
                if raw := await self._work.wait_for(self._read_pod(key)):
                    return raw
            except ClusterError:
                return None  # the next comparison retries
        return None

    async def _settle_one(self, body: dict[str, Any]) -> str:
        """Write a PodGroup unless it has this content; returns its namespace/name."""
        metadata = body["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        # Fields that we no longer set are only visible by comparison with our last write.
        if self._said.get(key) == body and is_said(body, self._pod_groups.known.get(key)):
            return key
        if self._is_leader() and self._not_before.get(key, 0.0) <= monotonic():
            write = await self._work.wait_for(self._pod_groups.apply(body))
            self._not_before[key] = monotonic() + (_WRITTEN_SECONDS if write.is_written else _REFUSED_SECONDS)
            if write.is_written:
                self._said[key] = body
                log.info("podgroup.written", podgroup=key, status=metadata["annotations"][PLACEMENT])
        return key

    async def _settle_the_rest(self, there: AbstractSet[str]) -> None:
        """Write the status "no pods" to PodGroups whose pods have all ended or are gone, as long as they exist."""
        self._said = {key: body for key, body in self._said.items() if key in there or key in self._pod_groups.known}
        for key in self._said.keys() - there:
            with contained(Where.POD_GROUP, podgroup=key):
                body = self._said[key]
                metadata = {**body["metadata"], "annotations": {PLACEMENT: _NO_PODS}}
                await self._settle_one({**body, "metadata": metadata})

    def _status(self, group: str, topologies: Mapping[str, Topology]) -> str:
        """The gang's status in words: why it waits, or its assignment."""
        _, why = self._why.get(group, (frozenset(), ""))
        if why:
            return why
        assigned_members = self._cache.gangs.groups().get(group, {})
        return placed_gang_text(assigned_members.values(), topologies)


def _wanted(
    raw: Raw, owner_chain: OwnerChain, status: str, topologies: Mapping[str, Topology]
) -> dict[str, Any] | None:
    """The desired PodGroup of a pod's gang; None if the gang is not the owners' own, or a pod is invalid."""
    metadata = raw["metadata"]
    labels, own = metadata.get("labels") or {}, metadata.get("annotations") or {}
    try:
        annotations = {**taken_from_owners(raw, owner_chain), **own}
        if annotations.get(POD_GROUP_NAME) != owner_chain.group_name(labels):
            return None
        minimum = owner_chain.minimum(labels, min_member(annotations, KAI_BATCH_MIN_MEMBER))
        member = {"metadata": {**metadata, "annotations": annotations}, "spec": raw.get("spec") or {}}
        return pod_group(owner_chain, member, minimum, topologies, annotated(status))
    except UserError:
        return None  # its pods wait, and the reason is reported there


def _nothing() -> None:
    """Do nothing: the next comparison sees the change."""
