"""Many trials in one decision: a column for each (node, pods that end on it), judged like the nodes of a cluster.

A column has the node's own arrays, with what these pods hold given back (see `freed_amounts`).
"""

from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Nodes
from webhook.engine.decide import decide
from webhook.engine.freeing.freed_amounts import FreedAmounts
from webhook.engine.freeing.holdings import NodeHoldings
from webhook.engine.request import named_resources
from webhook.engine.snapshot.label_columns import LabelColumns
from webhook.engine.snapshot.node_arrays import ChangeLog, NodeArrays
from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.engine.snapshot.single_node import as_chosen
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.options import Options
from webhook.model.resources import PODS

# Columns judged at once: more would leave the processor's cache.
_AT_ONCE: Final = 8_192
_BY_RESOURCE: Final = frozenset(
    {"available", "capacity", "zone_allocatable", "listed", "allocatable", "requested", "node_free"}
)
_NOT_BY_NODE: Final = frozenset(
    {"generation", "names", "index", "order", "resources", "taint_set", "taint_sets", "soft_taints", "labels"}
    | {"unknown_policies", "devices_away", "rare", "changes", "served_by_slices", "unenforced"}
)
_FREED: Final = frozenset({"available", "node_free", "single_residents", "multi_residents"})
_ARRAYS: Final = tuple(field.name for field in fields(NodeArrays) if field.name not in _NOT_BY_NODE | _FREED)


class Trials(FreedAmounts):
    """Trials for one pod on the nodes of a snapshot."""

    def __init__(self, snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options) -> None:
        """The nodes' selectors, taints and readiness are not judged: the caller chooses the nodes."""
        covering = snapshot.covering(named_resources(pod))
        resources = covering.node_arrays.resources
        names = tuple(name for name in dict.fromkeys((*named_resources(pod), PODS)) if name in resources)
        super().__init__(covering, names)
        self._pod = replace(as_chosen(pod), preferred_terms=())
        self._intent = intent
        self._options = options

    def fits(self, nodes: Nodes, effects: Amounts, holdings: dict[int, NodeHoldings]) -> Bools:
        """Whether the pod fits in each trial: bool [trial]. nodes: int [trial]; effects: int64 [trial, amount]."""
        bases = {node: self.base(node, one) for node, one in holdings.items()}
        found = [
            self._judged(nodes[first : first + _AT_ONCE], effects[first : first + _AT_ONCE], bases)
            for first in range(0, len(nodes), _AT_ONCE)
        ]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.bool_)

    def _judged(self, nodes: Nodes, effects: Amounts, bases: dict[int, Amounts]) -> Bools:
        freed = self.after(nodes, effects, bases)
        arrays: dict[str, Any] = {name: self._taken(name, nodes) for name in _ARRAYS}
        arrays |= {name: getattr(freed, name) for name in _FREED}
        return decide(Snapshot(self._arrays(nodes, arrays)), self._pod, self._intent, self._options).fits

    def _arrays(self, nodes: Nodes, arrays: dict[str, Any]) -> NodeArrays:
        n = len(nodes)
        chosen: dict[str, Any] = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        chosen |= {"ready": np.ones(n, dtype=np.bool_), "unschedulable": np.zeros(n, dtype=np.bool_)}
        chosen |= {"order": np.arange(n), "taint_set": np.zeros(n, dtype=np.int32)}
        return replace(
            self._snapshot.node_arrays,
            **chosen,
            names=("",) * n,
            index={},
            resources=ResourceIndex(self.names),
            labels=LabelColumns(n, [{}] * n),
            soft_taints=LabelColumns(n, [{}] * n),
            taint_sets=((),),
            unknown_policies={},
            devices_away={},
            rare={},
            changes=ChangeLog(),
        )

    def _taken(self, name: str, nodes: Nodes) -> Any:
        array = getattr(self._snapshot.node_arrays, name)
        return array[self.rows][..., nodes] if name in _BY_RESOURCE else array[..., nodes]
