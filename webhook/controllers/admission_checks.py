"""Answers Kueue's AdmissionChecks "is there room for it, NUMA nodes and racks included?".

Kueue asks once a Workload has its quota. Every second the leader looks at the Workloads that wait for a check of ours,
by priority and age:
1. A Workload whose pods all fit now is `Ready`: Kueue starts it, and its pods are placed like any others. Until the
   first is there, the next Workload must fit beside it.
2. One that does not fit is told to `Retry`, with the reason: Kueue takes its quota back, and asks again after a pause
   that grows from try to try.
3. What cannot be judged is `Ready`, with the reason: pods that are not managed, and objects that cannot be read. So the
   check never keeps a Workload from starting that we would not place ourselves.

Nothing is reserved in the cluster: a pod that comes in between may take the room, and then the Workload's pods wait
behind the gate, as without the check.

Source: kueue v0.15.2 site/content/en/docs/concepts/admission_check.md, pkg/workload/admissionchecks.go.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import structlog

from webhook.controllers.sweep import Sweep
from webhook.engine.gang.workload_gang import with_gang
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.kubernetes.membership import controller_uid
from webhook.formats.kueue_admission import PendingWorkload
from webhook.formats.workload.record import Workload
from webhook.internal_errors import Where, contained
from webhook.kube.api_errors import ClusterError
from webhook.kube.kueue_client import AdmissionCheckWrites
from webhook.kube.owners import ReadOwner
from webhook.model.errors import UserError
from webhook.placing.gang.workload_judgement import judge_gangs
from webhook.state.cluster_cache import ClusterCache
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.management import Unmanaged, management_of
from webhook.state.rules import Rules

log = structlog.get_logger(__name__)

FIRST_PAUSE: Final = 5
"""Seconds until a Workload that does not fit is tried again. Twice as long after each try: 5, 10, 20, 40, 60."""
LONGEST_PAUSE: Final = 60
# Kueue and the Job controller take a second or two from `Ready` to the first pod. A Workload whose pods are created by
# an operator may take longer: after this its room is free for others.
_AWAITED_SECONDS: Final = 15.0
# Each promised Workload is placed again for every one that is tried after it: a few milliseconds each, and some 50 for
# 512 pods on 5,000 nodes.
_MOST_AWAITED: Final = 8
_MOST_AWAITED_PODS: Final = 512
# A refused or unanswered write is not repeated at once.
_REFUSED_SECONDS: Final = 10.0
# Kueue's limit is 32,768 characters; kubectl shows them all.
_LONGEST_MESSAGE: Final = 1024


class Answer(NamedTuple):
    """The answer to a check."""

    ready: bool
    message: str


def answered(
    workload: Workload,
    ahead: Iterable[Workload],
    cluster: ClusterSnapshot,
    trees: TopologyTrees,
    rules: Rules,
) -> Answer:
    """Whether there is room for all pods of a workload, beside those that were told so before. Raises UserError."""
    if unmanaged := _why_unmanaged(workload, cluster, rules):
        return Answer(ready=True, message=f"not checked: {unmanaged}")
    for other in ahead:
        placement = judge_gangs(other, cluster, trees, rules).placement
        if placement is not None and placement.assigned:
            cluster = replace(cluster, nodes=with_gang(placement.gangs[-1]))
    judgement = judge_gangs(workload, cluster, trees, rules)
    placement = judgement.placement
    return Answer(placement is not None and placement.assigned, judgement.message)


def _why_unmanaged(workload: Workload, cluster: ClusterSnapshot, rules: Rules) -> str:
    """Why no pod of the workload is managed; empty if one is."""
    why = "it has no pods"
    for gang in workload.gangs:
        for pod_set in gang.all_pod_sets():
            metadata = pod_set.template.get("metadata") or {}
            annotations = {**workload.annotations, **(metadata.get("annotations") or {})}
            raw = {**pod_set.template, "metadata": {**metadata, "annotations": annotations}}
            found = management_of(raw, cluster, rules, workload.namespace)
            if not isinstance(found, Unmanaged):
                return ""
            why = f"its pods are unmanaged: {found.why}"
    return why


@dataclass(frozen=True, slots=True)
class _Awaited:
    workload: Workload
    owner: str
    """The uid of the workload that creates its pods; empty if it is not known."""
    until: float


class _Tried(NamedTuple):
    pause: int
    not_before: float


class AdmissionChecks(Sweep):
    """Writes while `is_leader()`."""

    rest_per_work, longest_rest = 4.0, 5.0

    def __init__(
        self,
        cache: ClusterCache,
        writes: AdmissionCheckWrites,
        trees: TopologyTrees,
        rules: Rules,
        read_owner: ReadOwner,
        is_leader: Callable[[], bool],
    ) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._writes = writes
        self._trees = trees
        self._rules = rules
        self._read_owner = read_owner
        self._awaited: dict[str, _Awaited] = {}
        self._tried: dict[tuple[str, str], _Tried] = {}
        self._not_before: dict[str, float] = {}

    async def _sweep(self, now: float) -> None:
        kueue = self._cache.kueue
        checks, version = kueue.checks.by_key(), kueue.checks.version
        self._not_before = {name: at for name, at in self._not_before.items() if at > now}
        for check in tuple(checks.values()):
            if not check.is_active and check.name not in self._not_before:
                self._not_before[check.name] = now + _REFUSED_SECONDS
                await self._work.wait_for(self._writes.activate(check, version, _timestamp()))
        self._end_waits(now)
        self._tried = {key: tried for key, tried in self._tried.items() if tried.not_before + LONGEST_PAUSE > now}
        for one in sorted(kueue.workloads.by_key().values(), key=lambda one: (-one.priority, one.created, one.key)):
            if self._awaits_enough():
                break
            tried = self._tried.get((one.key, one.uid))
            if checks.keys().isdisjoint(one.pending) or (tried is not None and tried.not_before > now):
                continue
            with contained(Where.POD_GROUP, workload=one.key):
                await self._settle(one, checks.keys() & one.pending.keys(), now)
            await self._work.pause()

    def _forget(self) -> None:
        self._awaited.clear()
        self._tried.clear()

    def _awaits_enough(self) -> bool:
        pods = sum(gang.size for one in self._awaited.values() for gang in one.workload.gangs)
        return len(self._awaited) >= _MOST_AWAITED or pods >= _MOST_AWAITED_PODS

    def _end_waits(self, now: float) -> None:
        """A Workload is awaited until its first pod is there, which waits for room itself, or for some seconds."""
        if not self._awaited:
            return
        there = {controller_uid(raw["metadata"]) for raw in self._cache.gated_pods().values()}
        self._awaited = {key: one for key, one in self._awaited.items() if one.until > now and one.owner not in there}

    async def _settle(self, one: PendingWorkload, names: Collection[str], now: float) -> None:
        identity = one.key, one.uid
        try:
            annotations = await self._work.wait_for(self._annotations_above(one))
        except ClusterError as error:
            log.debug("admission_check.owner_unread", workload=one.key, error=str(error))
            return
        workload: Workload | None = None
        try:
            workload = one.as_workload(annotations, self._cache.kueue.flavors.by_key())
            ahead = [other.workload for key, other in self._awaited.items() if key != one.key]
            answer = answered(workload, ahead, self._cache.snapshot(), self._trees, self._rules)
        except UserError as error:
            answer = Answer(ready=True, message=f"not checked: {error}")
        before = self._tried.get(identity)
        pause = FIRST_PAUSE if before is None else min(2 * before.pause, LONGEST_PAUSE)
        fields: dict[str, Any] = {
            "state": "Ready" if answer.ready else "Retry",
            "message": answer.message[:_LONGEST_MESSAGE],
            "lastTransitionTime": _timestamp(),
        }
        if not answer.ready:
            fields["requeueAfterSeconds"] = pause
        # One at a time: each write changes the Workload, and the next sweep finds what is left.
        name = min(names)
        write = await self._work.wait_for(
            self._writes.answer(one, self._cache.kueue.workloads.version, one.pending[name], fields)
        )
        if not write.is_written:
            self._tried[identity] = _Tried(pause, now + (0 if write.is_settled else _REFUSED_SECONDS))
            return
        log.info("admission_check.answered", workload=one.key, check=name, **fields)
        if answer.ready and workload is not None:
            owner = one.owner.uid if one.owner is not None else ""
            self._awaited[one.key] = _Awaited(workload, owner, now + _AWAITED_SECONDS)
            self._tried.pop(identity, None)
        elif not answer.ready:
            self._tried[identity] = _Tried(pause, now + pause)

    async def _annotations_above(self, one: PendingWorkload) -> Mapping[str, str]:
        """The annotations of the workload that it stands for. Raises ClusterError."""
        if one.owner is None:
            return {}
        try:
            raw = await self._read_owner(one.namespace, one.owner)
        except UserError:
            return {}
        found: Mapping[str, str] = ((raw or {}).get("metadata") or {}).get("annotations") or {}
        return found


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
