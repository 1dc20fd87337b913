"""Writes the condition of Kubernetes' own PodGroups: where their pods are placed, or what they wait for.

The condition is the scheduler's own (`PodGroupScheduled`), with its reasons. While our gate holds the pods, the
scheduler does not try the group and says nothing of it. Every second the leader compares:
1. No member has a node, and members wait: False, `Unschedulable`, with what they wait for.
2. As many members are bound as start together: True, `Scheduled`, with the domain and what later members wait for.
   It stays True from then on, as the scheduler keeps it.
3. In between, the scheduler binds them: nothing is written.

The scheduler writes it as well, after each of its own attempts. We write when our own text has changed, and in place of
an empty message, never because the scheduler wrote another.

Source: kubernetes v1.36.3 pkg/scheduler/schedule_one_podgroup.go (updatePodGroupCondition).
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

import structlog

from webhook.controllers.sweep import Sweep
from webhook.formats.kubernetes.membership import native_group
from webhook.formats.kubernetes.native_pod_group import CONDITION_TYPES, NativePodGroup
from webhook.internal_errors import Where, contained
from webhook.kube.pod_group_client import NativePodGroupWrites
from webhook.model.raw import Raw
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.gang_text import placed_gang_text
from webhook.placing.pod.placement_text import waiting
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

# As for KAI-Scheduler's PodGroups (`pod_groups`): a write is visible long before, and a rejected one is not repeated at
# once.
_WRITTEN_SECONDS: Final = 2.0
_REFUSED_SECONDS: Final = 30.0
# Groups to compare before reviews may run: a millisecond of work.
_TURN: Final = 50
# A condition's message has at most this many characters. Source: metav1.Condition.
_LONGEST_MESSAGE: Final = 32_768

Said = tuple[str, str, str]
"""Status, reason, message."""


class NativeGroupConditions(Sweep):
    """Writes while `is_leader()` and the kind is served."""

    rest_per_work, longest_rest = 20.0, 5.0

    def __init__(self, cache: ClusterCache, writes: NativePodGroupWrites, is_leader: Callable[[], bool]) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._writes = writes
        self._why: dict[str, tuple[frozenset[str], str]] = {}
        self._said: dict[tuple[str, str], Said] = {}
        self._not_before: dict[str, float] = {}

    def saw(self, gang: GatedGang, why: str) -> None:
        """Record a gang that was examined; why: why its members wait, empty if they do not."""
        if gang.membership.of_object:
            self._why[gang.membership.group] = frozenset(gated.key for gated in gang.members), why

    async def _sweep(self, _now: float) -> None:
        groups = self._cache.native_groups.served()
        if not groups:
            self._forget()
            return
        gated = self._cache.ours.gated().keys()
        self._why = {group: entry for group, entry in self._why.items() if entry[0] & gated}
        self._not_before = {key: at for key, at in self._not_before.items() if at > monotonic()}
        known = {(group.key, group.uid) for group in groups.values()}
        self._said = {key: said for key, said in self._said.items() if key in known}
        ungated = self._cache.ungated_pods()
        for turn, group in enumerate(tuple(groups.values()), 1):
            with contained(Where.POD_GROUP, podgroup=group.key):
                await self._settle(group, ungated)
            if turn % _TURN == 0:
                await self._work.pause()

    def _forget(self) -> None:
        self._said.clear()

    async def _settle(self, group: NativePodGroup, ungated: Mapping[str, object]) -> None:
        said = self._wanted(group, ungated)
        identity = group.key, group.uid
        if not self._cache.ours.has_gang(native_group(group.namespace, group.name)):
            return
        if said is None or group.key in self._not_before:
            return
        version = self._cache.native_groups.version
        type_ = CONDITION_TYPES.get(version, "")
        before = next((one for one in group.conditions if one.get("type") == type_), {})
        if self._said.get(identity) == said and before.get("message") != "":
            return
        if (before.get("status"), before.get("reason"), before.get("message")) == said:
            self._said[identity] = said
        elif type_ and not (before.get("status") == "True" and said[0] == "False"):
            write = await self._work.wait_for(
                self._writes.set_condition(group.key, version, _condition(type_, said, before, group))
            )
            self._not_before[group.key] = monotonic() + (_WRITTEN_SECONDS if write.is_written else _REFUSED_SECONDS)
            if write.is_written:
                self._said[identity] = said
                log.info("native_podgroup.written", podgroup=group.key, status=said[0], message=said[2])

    def _wanted(self, group: NativePodGroup, ungated: Mapping[str, object]) -> Said | None:
        """What the condition says; None if there is nothing to say."""
        key = native_group(group.namespace, group.name)
        assigned = self._cache.gangs.assigned(key)
        why = self._why.get(key, (frozenset(), ""))[1].removeprefix(waiting(""))
        ignored = "".join(f"; {sentence.removesuffix('.')}" for sentence in group.ignored)
        if not assigned:
            return ("False", "Unschedulable", f"{why}{ignored}"[:_LONGEST_MESSAGE]) if why else None
        if sum(member not in ungated for member in assigned) < (group.minimum or 1):
            return None
        text = placed_gang_text(assigned.values(), self._cache.snapshot().topologies)
        others = f"; others wait: {why}" if why else ""
        return "True", "Scheduled", f"{text}{others}{ignored}"[:_LONGEST_MESSAGE]


def _condition(type_: str, said: Said, before: Raw, group: NativePodGroup) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    since = before.get("lastTransitionTime") if before.get("status") == said[0] else None
    status, reason, message = said
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since or now,
        "observedGeneration": group.generation,
    }
