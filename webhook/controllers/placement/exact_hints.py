"""The exact amounts of a gang's members on their nodes, each with the members before it subtracted.

Members of one template come to many equal nodes. So a decision is made once for members with the same signature and the
same NUMA nodes, on nodes that are free alike (see `NodeAlone.key`): a gang of 512 on nodes of 12 needs 12 decisions.
A pod with a node selector or required terms may fit on one of two such nodes only, so there the node counts, too.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from webhook.admission.pod.not_aligned import NotAligned, not_aligned_on
from webhook.cache.cluster_cache import ClusterCache
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.engine.decide import decide
from webhook.engine.gang.result import PodAssignment
from webhook.engine.koordinator import ours_to_place
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.hint import NUMAHint
from webhook.model.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Hashable

Exact = tuple[NUMAHint, NotAligned | None]
"""The hint, and what the kubelet does not align of the pod."""


class ExactHints:
    """The hints of the members of one gang, while they are assumed one by one."""

    def __init__(self, cache: ClusterCache, rules: Rules) -> None:
        self._cache = cache
        self._rules = rules
        self._found: dict[Hashable, Exact | None] = {}

    def of(self, gated: GatedPod, pod: PodAssignment) -> Exact | None:
        """The hint of a member; None if its node does not take it beside the others."""
        at = self._cache.node_for(pod.node, gated.key)
        if at is None:
            return None
        alone, sums = at
        one_of_its_nodes = gated.pod.node_selector or gated.pod.required_terms is not None
        numa_nodes = tuple(pod.numa_nodes)
        key = alone.key, sums.key, gated.signature, numa_nodes, pod.node if one_of_its_nodes else ""
        if key not in self._found:
            self._found[key] = self._decided(gated, pod, alone.snapshot(sums))
        found = self._found[key]
        return None if found is None else (replace(found[0], node=pod.node), found[1])

    def _decided(self, gated: GatedPod, pod: PodAssignment, snapshot: Snapshot) -> Exact | None:
        """Where we choose the NUMA nodes, only those of the assignment are used: others may be another member's."""
        if pod.numa_nodes and ours_to_place(snapshot.node_arrays)[0]:
            snapshot = snapshot.without(~np.isin(snapshot.node_arrays.zone_ids, pod.numa_nodes))
        decision = decide(snapshot, gated.pod, gated.intent, self._rules.engine)
        if not decision.fits[0]:
            return None
        return NUMAHint(pod.node, decision.allocation(0), reviewed=False), not_aligned_on(decision, 0, gated.intent)
