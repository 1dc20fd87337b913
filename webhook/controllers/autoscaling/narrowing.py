"""Keeps pods that wait for a new node off nodes with enough free only in total, so that cluster-autoscaler adds one.

See `blind_nodes` for why. What is excluded stays excluded, so this comes late:
1. A pod or gang was asked for all the time that an autoscaler needs to add a node (`after`).
2. In this time, no node was added to any group: else cluster-autoscaler is at work, and some of the pods are placed.
3. The nodes are old enough to have published what they have, and no more than may be named in a pod.

Only a few pods are written in a second, by namespace in turn. The user's own required terms of a pod without a
controller are not changed (see `affinity_patch`): such a pod is left as it is.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Final

import numpy as np
import structlog

from webhook.engine.arrays import Bools
from webhook.engine.decide import Decision, decide
from webhook.formats.patches.affinity_patch import kept_by_a_merge
from webhook.internal_errors import Where, contained
from webhook.kube.events import EventRecorder, PodEvent
from webhook.kube.pacing import FairQueue
from webhook.kube.pod_writes import PodWrites
from webhook.placing.autoscaling.blind_nodes import blind_nodes, keeping_off
from webhook.placing.pod.controller_patches import narrow_patch
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

log = structlog.get_logger(__name__)

# Few pods remain when this is due, and nothing is urgent after minutes.
_PODS_PER_SWEEP: Final = 10
_MOST_NAMED: Final = 3


class Narrowing:
    """Writes while `is_leader()`. after: seconds; 0: never. settle: seconds after which a node is complete.

    clock: seconds since the epoch.
    """

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        events: EventRecorder,
        rules: Rules,
        after: float,
        settle: float,
        is_leader: Callable[[], bool],
    ) -> None:
        self._cache = cache
        self._writes = writes
        self._events = events
        self._rules = rules
        self._after = after
        self._settle = settle
        self._is_leader = is_leader
        self._since: dict[str, float] = {}

    async def sweep(self, asked: Iterable[WaitingUnit], newest: int, now: float) -> None:
        """Narrow a few of the pods that an autoscaler was asked for without effect.

        newest: when the newest node of a group was created, in seconds since the epoch. now: `time.monotonic`.
        """
        asked = tuple(asked)
        self._since = {unit.name: self._since.get(unit.name, now) for unit in asked}
        if not self._after or self._cache.current_time() - newest < self._after:
            return
        queue: FairQueue[str, GatedPod] = FairQueue()
        for unit in asked:
            if now - self._since[unit.name] >= self._after:
                for member in unit.members:
                    queue.put(unit.namespace, member.key, member)
        decisions: dict[Hashable, tuple[Decision, Bools]] = {}
        for _ in range(min(len(queue), _PODS_PER_SWEEP)):
            key, member = queue.pop()
            with contained(Where.POD, pod=key):
                await self._narrow(member, decisions)

    async def _narrow(self, gated: GatedPod, decisions: dict[Hashable, tuple[Decision, Bools]]) -> None:
        known = decisions.get(gated.request_signature)
        if known is None:
            known = decisions[gated.request_signature] = self._decided(gated)
        decision, nodes = known
        constraint = keeping_off(decision, nodes, gated.pod.required_terms, self._rules.max_affinity_values)
        raw = self._cache.ours.gated().get(gated.key)
        # Its status and annotations may have changed since it was read; what it requires may not.
        if constraint is None or raw is None or raw["spec"] != gated.raw["spec"]:
            return
        if kept_by_a_merge(raw, constraint) != constraint:
            return
        if not self._is_leader() or self._cache.assumed_node(gated.key) is not None:
            return
        if (await self._writes.patch(gated.key, narrow_patch(raw, constraint))).is_written:
            names = [decision.snapshot.node_arrays.names[n] for n in np.flatnonzero(nodes).tolist()]
            log.info("pod.narrowed", pod=gated.key, nodes=len(names))
            self._events.tell(PodEvent(gated.key, gated.pod.uid, "KeptOffNodes", _note(names), "Assign"))

    def _decided(self, gated: GatedPod) -> tuple[Decision, Bools]:
        """The decision of now, and the nodes to keep its pods off."""
        decision = decide(self._cache.snapshot().nodes, gated.pod, gated.intent, self._rules.engine)
        nodes = blind_nodes(decision)
        settled = self._cache.current_time() - self._settle
        for n in np.flatnonzero(nodes).tolist():
            node = self._cache.state.nodes.get(decision.snapshot.node_arrays.names[n])
            nodes[n] = node is not None and node.created < settled
        return decision, nodes


def _note(names: list[str]) -> str:
    """What the Event says."""
    more = len(names) - _MOST_NAMED
    named = ", ".join(sorted(names)[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return (
        f"it can no longer go to {named}: it fits there in total, but on no NUMA node, and cluster-autoscaler, which "
        "counts totals, added no node"
    )
