"""Many trials in one decision: a column for each (node, pods that end on it), judged like the nodes of a cluster.

A column has the node's own arrays, with what these pods hold given back:
    NUMA node: min(published + theirs + ended, allocatable) - (reserved - theirs), at least 0
    node:      free + their requests
"""

from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from webhook.engine.arrays import NO_ZONE, UNLISTED, Amounts, Bools, Nodes
from webhook.engine.decide import decide
from webhook.engine.freeing.holdings import HeldPod, NodeHoldings
from webhook.engine.request import named_resources
from webhook.engine.snapshot.change_log import ChangeLog
from webhook.engine.snapshot.label_columns import LabelColumns
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.engine.snapshot.single_node import as_chosen
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.intent import NUMAIntent
from webhook.model.options import Options
from webhook.model.pod import Pod
from webhook.model.resources import PODS

# Columns judged at once: more would leave the processor's cache.
_AT_ONCE: Final = 8_192
_BY_RESOURCE: Final = frozenset(
    {"available", "capacity", "zone_allocatable", "listed", "allocatable", "requested", "node_free"}
)
_NOT_BY_NODE: Final = frozenset(
    {"generation", "names", "index", "order", "resources", "taint_set", "taint_sets", "soft_taints", "labels"}
    | {"unknown_policies", "rare", "changes"}
)
_ARRAYS: Final = tuple(field.name for field in fields(NodeArrays) if field.name not in _NOT_BY_NODE)

Effect = NDArray[np.int64]
"""int64 [amount]: what one pod gives back, as `Trials.effect` lays it out."""


class Trials:
    """Trials for one pod on the nodes of a snapshot."""

    def __init__(self, snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options) -> None:
        """The nodes' selectors, taints and readiness are not judged: the caller chooses the nodes."""
        self._snapshot = snapshot.covering(named_resources(pod))
        self._pod = replace(as_chosen(pod), preferred_terms=())
        self._intent = intent
        self._options = options
        arrays = self._snapshot.node_arrays
        self.names = tuple(name for name in dict.fromkeys((*named_resources(pod), PODS)) if name in arrays.resources)
        self._rows = [arrays.resources.find(name) for name in self.names]
        self._columns = {name: column for column, name in enumerate(self.names)}
        self._z, self._k = arrays.z, len(self.names)
        self._effects: dict[tuple[Any, ...], Effect] = {}

    def node_free(self, node: int) -> list[int]:
        """Free on a node (an index) as a whole, by resource of `names`."""
        return [int(self._snapshot.node_free(row)[node]) for row in self._rows]

    def effect(self, node: int, pod: HeldPod) -> Effect:
        """What the pod gives back on the node, by resource.

        Then, by resource and NUMA node, what is published and what is reserved of it. Last, its counts for exclusivity
        by NUMA node.
        """
        position = self._position(node)
        key = (
            *position.items(),
            *(pod.requests.get(name, 0) for name in self.names),
            repr((pod.numa, pod.reserved, pod.single, pod.multi)),
        )
        if key not in self._effects:
            self._effects[key] = self._effect(position, pod)
        return self._effects[key]

    def _effect(self, position: dict[int, int], pod: HeldPod) -> Effect:
        counts = np.zeros((2, self._z), dtype=np.int64)
        for kind, numa_ids in enumerate((pod.single, pod.multi)):
            for numa_id in numa_ids:
                if numa_id in position:
                    counts[kind, position[numa_id]] += 1
        whole = np.array([pod.requests.get(name, 0) for name in self.names], dtype=np.int64)
        parts = (whole, self._cells(position, pod.numa), self._cells(position, pod.reserved), counts)
        return np.concatenate([part.ravel() for part in parts])

    def fits(self, nodes: Nodes, effects: Amounts, holdings: dict[int, NodeHoldings]) -> Bools:
        """Whether the pod fits in each trial: bool [trial]. nodes: int [trial]; effects: int64 [trial, amount]."""
        bases = {node: self._base(node, one) for node, one in holdings.items()}
        found = [
            self._judged(nodes[first : first + _AT_ONCE], effects[first : first + _AT_ONCE], bases)
            for first in range(0, len(nodes), _AT_ONCE)
        ]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.bool_)

    def _judged(self, nodes: Nodes, effects: Amounts, bases: dict[int, Amounts]) -> Bools:
        k, z, snapshot = self._k, self._z, self._snapshot
        cells = k * z
        whole = effects[:, :k].T
        numa = effects[:, k : k + cells].reshape(-1, k, z).transpose(1, 2, 0)
        reserved = effects[:, k + cells : k + 2 * cells].reshape(-1, k, z).transpose(1, 2, 0)
        counts = effects[:, k + 2 * cells :].reshape(-1, 2, z).transpose(1, 2, 0)
        # [reserved, ended, debt] x resource x NUMA node x trial
        base = np.stack([bases[node] for node in nodes.tolist()], axis=-1)
        arrays = {name: self._taken(name, nodes) for name in _ARRAYS}
        published, allocatable = arrays["available"], arrays["zone_allocatable"]
        unpaid = published - base[2]
        free = np.minimum(unpaid + numa + base[1], np.maximum(allocatable, published)) - np.maximum(
            base[0] - reserved, 0
        )
        arrays["available"] = np.where(published == UNLISTED, UNLISTED, np.maximum(free, 0))
        arrays["node_free"] = np.stack([snapshot.node_free(row)[nodes] for row in self._rows]) + whole
        for kind, name in enumerate(("single_residents", "multi_residents")):
            now = getattr(snapshot, name)[:, nodes]
            arrays[name] = np.maximum(now - counts[kind], 0).astype(now.dtype)
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
            rare={},
            changes=ChangeLog(),
        )

    def _taken(self, name: str, nodes: Nodes) -> Any:
        array = getattr(self._snapshot.node_arrays, name)
        return array[self._rows][..., nodes] if name in _BY_RESOURCE else array[..., nodes]

    def _base(self, node: int, holdings: NodeHoldings) -> Amounts:
        position = self._position(node)
        return np.stack([self._cells(position, each) for each in (holdings.reserved, holdings.ended, holdings.debt)])

    def _cells(self, position: dict[int, int], numa: NumaAmounts) -> Amounts:
        cells = np.zeros((self._k, self._z), dtype=np.int64)
        for numa_id, amounts in numa.items():
            if numa_id in position:
                for name, amount in amounts.items():
                    if name in self._columns:
                        cells[self._columns[name], position[numa_id]] = amount
        return cells

    def _position(self, node: int) -> dict[int, int]:
        """NUMA id -> position on a node."""
        ids = self._snapshot.node_arrays.zone_ids[:, node].tolist()
        return {numa_id: z for z, numa_id in enumerate(ids) if numa_id != NO_ZONE}
