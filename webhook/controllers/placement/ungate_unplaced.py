"""Ungates pods without an assignment.

- A pod that no node could take even if it were empty, or that has waited long enough, is kept off the nodes that can
  never fit. A cluster autoscaler adds nodes for pods that the scheduler cannot schedule, and never sees gated pods.
  Future nodes stay open to the pod; the binding guard checks the one it gets.
- A pod without room whose group is gated while it is: kube-scheduler tries no pod of a PodGroup while one of them is
  gated. It is kept in the domain of its group, and off the nodes that can never fit. The binding guard holds it off
  the nodes that cannot take it yet.
- A pod that we do not manage would wait indefinitely. Its gate came with its manifest, or neither it nor its owners
  request anything.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from webhook.controllers.status_reporter import StatusReporter
from webhook.engine.decide import Decision, decide
from webhook.formats.patches.affinity_patch import Constraint, all_of, none_of
from webhook.formats.patches.json_patch import Operation
from webhook.formats.patches.reapply import kept_by_a_merge
from webhook.kube.pod_writes import PodWrites
from webhook.model.counted import counted
from webhook.model.names import DOMAIN, SCHEDULING_GROUP
from webhook.placing.gang.gang_text import spoken_path
from webhook.placing.gang.release import Release
from webhook.placing.pod.controller_patches import ungate_patch
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.node_names import NodeNames, keep_off_others
from webhook.placing.pod.not_aligned import not_aligned
from webhook.placing.pod.placement_text import nowhere, shortened, waiting, waiting_for_node
from webhook.placing.pod.schedulability import awaits_node, look_ahead
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

log = structlog.get_logger(__name__)


class UnplacedUngater:
    """Ungates pods; each call returns whether the pod is ungated."""

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        status_reporter: StatusReporter,
        rules: Rules,
        may_write: Callable[[], bool],
    ) -> None:
        self._cache = cache
        self._writes = writes
        self._status_reporter = status_reporter
        self._rules = rules
        self._may_write = may_write

    async def after_waiting(self, gated: GatedPod, seconds: float) -> bool:
        """Ungate a pod that has waited this long."""
        snapshot = self._cache.snapshot().nodes
        decision: Decision = decide(snapshot, gated.pod, gated.intent, self._rules.engine)
        unschedulable = look_ahead(snapshot.node_arrays, gated.pod, gated.intent, self._rules.engine)
        constraint = keep_off_others(snapshot.node_arrays, unschedulable, self._rules.max_affinity_values)
        note = f"ungated without an assignment after {seconds:g} s"
        alone = "" if kept_by_a_merge(gated.raw, constraint) == constraint else ", by its own node affinity alone"
        text = f"{note}{alone}; {nowhere(gated.pod, gated.intent, decision, unschedulable.message)}"
        patch = ungate_patch(gated.raw, constraint, text, gated.taken)
        return await self._ungate(gated.key, gated.raw, patch, note)

    async def until_a_node_is_added(self, gated: GatedPod) -> bool:
        """Ungate a pod that no node could take, unless one has been added meanwhile."""
        snapshot = self._cache.snapshot().nodes
        decision = decide(snapshot, gated.pod, gated.intent, self._rules.engine)
        if decision.fit_count or not awaits_node(decision):
            return False
        unschedulable = look_ahead(snapshot.node_arrays, gated.pod, gated.intent, self._rules.engine)
        constraint = keep_off_others(snapshot.node_arrays, unschedulable, self._rules.max_affinity_values)
        unaligned = not_aligned(snapshot, gated.pod, gated.intent, self._rules.engine)
        clause = unaligned.clause if unaligned else ""
        text = waiting_for_node(nowhere(gated.pod, gated.intent, decision, unschedulable.message, clause))
        patch = ungate_patch(gated.raw, constraint, text, gated.taken)
        note = f"left to the scheduler until a node is added: {unschedulable.message}"
        return await self._ungate(gated.key, gated.raw, patch, note)

    async def with_its_group(self, gated: GatedPod, release: Release, why: str) -> bool:
        """Ungate a member of a group that has begun."""
        arrays = self._cache.snapshot().nodes.node_arrays
        unschedulable = look_ahead(arrays, gated.pod, gated.intent, self._rules.engine)
        constraint = keep_off_others(arrays, unschedulable, self._rules.max_affinity_values)
        nodes, taken = NodeNames(arrays), sorted(release.kept_off & arrays.index.keys())
        constraint = all_of(constraint, *none_of([nodes.named(name) for name in taken]))
        where = f" within {spoken_path(tuple(release.domain.items()))}" if release.domain else ""
        note = f"left to the scheduler{where}, which tries no pod of a PodGroup while one of them is gated"
        others = f", and off {counted(len(taken), 'node')} of smaller pods of its gang" if taken else ""
        text = shortened(f"{note}{others}; {why.removeprefix(waiting(''))}")
        outputs = {DOMAIN: json.dumps(dict(release.domain))} if release.domain else {}
        patch = ungate_patch(gated.raw, constraint, text, {**gated.taken, **outputs}, domain=release.domain)
        return await self._ungate(gated.key, gated.raw, patch, note)

    async def unasked(self, key: str, raw: Mapping[str, Any], why: str) -> bool:
        """Ungate a pod that we do not manage; why: the reason to report."""
        note = f"ungated: {why}"
        return await self._ungate(key, raw, ungate_patch(raw, Constraint(), note, without=[SCHEDULING_GROUP]), note)

    async def _ungate(self, key: str, raw: Mapping[str, Any], patch: Sequence[Operation], note: str) -> bool:
        if not self._may_write() or not (await self._writes.patch(key, patch)).is_written:
            return False
        log.info("pod.ungated", pod=key, why=note)
        self._status_reporter.ungated(key, raw, note)
        return True
