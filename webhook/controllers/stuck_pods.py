"""Finds ungated pods that are pinned to nodes which no longer fit while others do; emits an Event, or evicts them.

Without its gate, a pod's affinity can no longer be changed. So if its node dies, is cordoned or is filled by an
unexpected pod between assignment and binding, only a new pod can go to another node.

At intervals the leader checks each pod that has had neither gate nor node for a while:
1. Do its nodes fit? An assigned pod has one node. Its own reservation there does not count against it.
2. If not: would any node fit without the fields that we wrote into the pod?
3. Then it is stuck, and an Event says so. If eviction is enabled, and a controller recreates the pod, it is evicted.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import structlog

from webhook.controllers.metric_recorder import ControllerMetrics
from webhook.controllers.sweep import Sweep
from webhook.engine.decide import decide
from webhook.engine.reason import REASONS, Reason
from webhook.engine.snapshot.single_node import as_chosen
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent, parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.patches.managed_fields import ManagedFields, without_ours
from webhook.internal_errors import Where, contained
from webhook.kube.events import EventRecorder, PodEvent
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import Outcome
from webhook.model.errors import UserError
from webhook.model.names import MANAGED_FIELDS
from webhook.model.raw import Raw
from webhook.placing.pod.binding_pod import assigned_node
from webhook.state.avoided_nodes import avoiding
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_not_mutated

log = structlog.get_logger(__name__)

# Two decisions per pod, a millisecond each: a sweep takes at most a tenth of a second. The next sweep checks the other
# pods.
_PER_SWEEP: Final = 50

# Reasons that exclude a node whatever is free there.
_WHATEVER_IS_FREE: Final = frozenset(
    {
        Reason.NOT_READY,
        Reason.UNSCHEDULABLE,
        Reason.NODE_SELECTOR_MISMATCH,
        Reason.NODE_AFFINITY_MISMATCH,
        Reason.UNTOLERATED_TAINT,
    }
)


@dataclass(frozen=True, slots=True)
class Limits:
    """When a pod counts as stuck, and what follows."""

    after: float
    """Seconds without gate and node before a pod is checked."""
    evict: bool
    """Whether stuck pods that a controller recreates are evicted."""


class StuckPods(Sweep):
    """Checks ungated pods; works while `is_leader()`."""

    period = 5.0
    leader_only = False

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        events: EventRecorder,
        rules: Rules,
        limits: Limits,
        is_leader: Callable[[], bool],
        metrics: ControllerMetrics,
    ) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._writes = writes
        self._events = events
        self._rules = rules
        self._limits = limits
        self._metrics = metrics
        self._since: dict[tuple[str, str], float] = {}
        self._stuck: set[tuple[str, str]] = set()

    @property
    def count(self) -> int:
        """Pods that were stuck at their last check."""
        return len(self._stuck)

    async def _sweep(self, now: float) -> None:
        pods = {(key, raw["metadata"].get("uid", "")): raw for key, raw in self._cache.ours.ungated().items()}
        self._since = {one: self._since.get(one, now) for one in pods}
        self._stuck &= pods.keys() if self._is_leader() else set()
        due = [one for one, since in self._since.items() if now - since >= self._limits.after]
        for key, uid in due[:_PER_SWEEP]:
            if not self._is_leader():
                return
            del self._since[key, uid]
            self._since[key, uid] = now  # to the end of the queue
            self._stuck.discard((key, uid))
            with contained(Where.POD, pod=key):
                if why := why_stuck(key, pods[key, uid], self._cache, self._rules):
                    self._stuck.add((key, uid))
                    await self._look_after(key, pods[key, uid], why)
            await asyncio.sleep(0)  # let reviews run

    async def _look_after(self, key: str, raw: Raw, why: str) -> None:
        uid = raw["metadata"].get("uid", "")
        if not (self._limits.evict and Pod.from_object(raw).controller):
            self._events.tell(
                PodEvent(key, uid, "Stuck", f"{why}; delete it to get a new placement", "Assign", "Warning")
            )
            return
        eviction = await self._writes.evict(key, uid)
        if eviction.is_written:
            log.info("pod.evicted", pod=key, why=why)
            self._metrics.evicted()
            self._events.tell(PodEvent(key, uid, "EvictedForRescheduling", why, "Evict", "Warning"))
        elif eviction.outcome is not Outcome.GONE:
            log.warning("pod.eviction_failed", pod=key, error=eviction.error)


def why_stuck(key: str, raw: Raw, cache: ClusterCache, rules: Rules) -> str | None:
    """Why the pod's nodes do not fit although others do; None if it is not stuck."""
    if why_not_mutated(raw, rules) or "deletionTimestamp" in raw["metadata"]:
        return None
    annotations: Mapping[str, str] = raw["metadata"].get("annotations") or {}
    try:
        pod = avoiding(Pod.from_object(raw), raw, cache.avoided.by_key())
        users = without_ours(raw, ManagedFields.parse(annotations.get(MANAGED_FIELDS)))
        free_pod = replace(Pod.from_object(users), avoided=pod.avoided, learned=pod.learned)
        intent = parse_numa_intent(annotations)[0]
    except UserError:
        return None
    snapshot = cache.snapshot().nodes
    if assigned := assigned_node(raw):
        why = _off_its_node(assigned.node, pod, intent, cache, rules)
    else:
        why = _off_its_nodes(snapshot, pod, intent, rules)
    if why is None:
        return None
    free = decide(snapshot, free_pod, intent, rules.engine)
    return f"{why}, though {free.best(1)[0].node} can" if free.fit_count else None


def _off_its_nodes(snapshot: Snapshot, pod: Pod, intent: NUMAIntent, rules: Rules) -> str | None:
    fits = decide(snapshot, pod, intent, rules.engine).fit_count
    return None if fits else "the nodes it is limited to can no longer take it"


def _off_its_node(node: str, pod: Pod, intent: NUMAIntent, cache: ClusterCache, rules: Rules) -> str | None:
    snapshot, alone = cache.snapshot().nodes, cache.chosen_node(node, pod.key)
    index = snapshot.node_arrays.index.get(node)
    if index is None or alone is None:
        return f"node {node}, on which it was placed, is gone"
    decision = decide(snapshot, pod, intent, rules.engine)
    reason = REASONS[decision.reason[index]]
    if reason not in _WHATEVER_IS_FREE:
        decision, index = decide(alone, as_chosen(pod), intent, rules.engine), 0
    if decision.fits[index]:
        return None
    return f"node {node}, on which it was placed, can no longer take it: {decision.explain(index)[1]}"
