"""How much a pod prefers each node: its preferred node affinity, and the soft taints (PreferNoSchedule) of nodes.

1. Affinity: the sum of the weights of the terms that match a node, scaled so that the highest sum among the fitting
   nodes is 100.
2. Soft taints: the number that the pod does not tolerate, scaled so that the highest number among the fitting nodes
   is 0, and none is 100.
3. Both are added with the weights of the default scheduler (affinity 2, taints 3). A part that is equal for all
   fitting nodes does not count; the result always has the same scale.

Source: kubernetes pkg/scheduler/framework/plugins (nodeaffinity, tainttoleration, helper/normalize_score.go) and
pkg/scheduler/apis/config/v1/default_plugins.go.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from webhook.engine.arrays import Counts, Nodes
from webhook.engine.filter.node_fit import labelled, matches
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.formats.kubernetes.node import PREFER_NO_SCHEDULE
from webhook.formats.kubernetes.pod import Pod, PreferredTerm
from webhook.model.raw import Raw

_AFFINITY: Final = 2
_TAINTS: Final = 3
PER_POINT: Final = _AFFINITY + _TAINTS
"""Internal steps for each of the points 0..100 that people read."""
MOST: Final = 100 * PER_POINT
"""The highest preference."""


@dataclass(frozen=True, slots=True, eq=False)
class Preference:
    """A pod's preference on all nodes of a snapshot, whether they fit or not."""

    weights: Counts | None
    """int32 [node]: the weights of the preferred terms that match; None = the pod has no such terms."""
    taints: Counts | None
    """int32 [node]: soft taints that the pod does not tolerate; None = there are none."""

    @classmethod
    def of(cls, node_arrays: NodeArrays, pod: Pod) -> "Preference | None":
        """The pod's preference; None if it has none and tolerates all soft taints of the cluster."""
        if not pod.preferred_terms and node_arrays.soft_taints.empty:
            return None
        weights, taints = _weights(node_arrays, pod.preferred_terms), _untolerated(node_arrays, pod.tolerations)
        return None if weights is None and taints is None else cls(weights, taints)

    def among(self, nodes: Nodes) -> Counts | None:
        """int32 [n], 0..MOST: how much each of n nodes (indexes) is preferred; None = all equally."""
        affinity = None if self.weights is None else _normalized(self.weights.take(nodes))
        taints = None if self.taints is None else _normalized(self.taints.take(nodes))
        if taints is not None:
            taints = 100 - taints
        if affinity is None or taints is None:
            only = taints if affinity is None else affinity
            return None if only is None else only * PER_POINT
        return _AFFINITY * affinity + _TAINTS * taints


def _weights(node_arrays: NodeArrays, terms: Iterable[PreferredTerm]) -> Counts | None:
    weights: Counts | None = None
    for weight, term in terms:
        matched = matches(node_arrays, term) * np.int32(weight)
        weights = matched if weights is None else np.add(weights, matched, out=weights)
    return weights


def _untolerated(node_arrays: NodeArrays, tolerations: Iterable[Raw]) -> Counts | None:
    """A node has at most one soft taint for each key, so each tolerated key subtracts one on its nodes."""
    if node_arrays.soft_taints.empty:
        return None
    tolerated: dict[str, set[str] | None] = {}
    for raw in tolerations:
        key, operator = raw.get("key") or "", raw.get("operator") or "Equal"
        if raw.get("effect") not in {None, "", PREFER_NO_SCHEDULE}:
            continue
        if operator == "Exists":
            if not key:
                return None
            tolerated[key] = None
        elif operator == "Equal" and key:  # without a key the API server allows only Exists
            values = tolerated.setdefault(key, set())
            if values is not None:
                values.add(raw.get("value") or "")
    taints = node_arrays.soft_taint_count.astype(np.int32)
    for key, values in tolerated.items():
        operator = "Exists" if values is None else "In"
        taints -= labelled(node_arrays.soft_taints, key, operator, tuple(values or ()))
    return taints


def _normalized(amounts: Counts) -> Counts | None:
    """0..100, in proportion to the highest of the amounts (int32 [n]); None if all are equal."""
    if not len(amounts):
        return None
    most = int(amounts.max())
    if int(amounts.min()) == most:
        return None
    return 100 * amounts // most
