"""A single node, for a pod whose node the scheduler has chosen: the same decision on arrays of length one.

The scheduler has already checked selectors, taints and readiness. What remains is the sums of resources and the NUMA
nodes, minus reservations for other pods.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from webhook.engine.arrays import NO_ZONE
from webhook.engine.snapshot.extra_rows import with_rows
from webhook.engine.snapshot.label_columns import LabelColumns
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_arrays import ChangeLog, NodeArrays
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.overlay import Overlay, OverlayCache
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.numa_allocation import NUMANodeAmounts
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.policy import NUMAPolicy


class _NodeSnapshot(Snapshot):
    """A snapshot of one node with reservations that are only a part of a ledger's."""

    __slots__ = ()

    def __init__(self, overlay: Overlay, residents: Sequence[ResidentPod] | None) -> None:
        super().__init__(overlay.node_arrays, residents=residents)
        self._source = overlay


class NodeAlone:
    """The column of one node. bound: its pods; None: they are not known."""

    def __init__(self, node_arrays: NodeArrays, n: int, bound: Iterable[ResidentPod] | None) -> None:
        self._all, self._n = node_arrays, n
        self._residents = None if bound is None else sorted(bound, key=lambda pod: (pod.bound_at or 0, pod.key))

    @cached_property
    def _node_arrays(self) -> NodeArrays:
        return _alone(self._all, self._n)

    @property
    def key(self) -> Hashable:
        """Equal for nodes on which a pod that was sent there finds the same, whatever their names and labels.

        Its pods are part of it where a kubelet's memory groups follow from them (see `kubelet.all_sets`).
        """
        node_arrays, n = self._all, self._n
        name = node_arrays.names[n]
        return (
            node_arrays.resources.names,
            tuple(getattr(node_arrays, array)[..., n].tobytes() for array in _ARRAYS),
            name in node_arrays.unknown_policies,
            repr([(resource, nodes[name]) for resource, nodes in node_arrays.rare.items() if name in nodes]),
            None if node_arrays.policy[n] == NUMAPolicy.SINGLE_NUMA_NODE else repr(self._demands),
        )

    @property
    def _demands(self) -> list[tuple[object, ...]] | None:
        """What its pods were given by the kubelet's managers depends on these, in this order."""
        if self._residents is None:
            return None
        return [
            (pod.qos, pod.pod_level, [(one.kind, dict(one.requests)) for one in pod.containers])
            for pod in self._residents
            if pod.containers
        ]

    def snapshot(self, sums: NodeSums, bound_since: Sequence[ResidentPod] = ()) -> Snapshot:
        """The node minus its reservations. bound_since: further pods, in the order of binding."""
        residents = None if self._residents is None else [*self._residents, *bound_since]
        if not sums:
            return Snapshot(self._node_arrays, residents=residents)
        overlay = OverlayCache({self._node_arrays.names[0]: sums}, ChangeLog()).over(self._node_arrays)
        return _NodeSnapshot(overlay, residents)


def node_alone(node_arrays: NodeArrays, node: str, bound: Iterable[ResidentPod] = ()) -> NodeAlone | None:
    """The single node with the pods bound to it; None if it is not known."""
    n = node_arrays.index.get(node)
    return None if n is None else NodeAlone(node_arrays, n, bound)


def node_for(
    node_arrays: NodeArrays, ledger: Ledger, node: str, pod: str, bound: Iterable[ResidentPod] = ()
) -> tuple[NodeAlone, NodeSums] | None:
    """The node alone, and what others hold there for a pod (namespace/name); None if the node is not known."""
    alone = node_alone(node_arrays, node, bound)
    own = ledger.get(pod)
    return None if alone is None else (alone, less(ledger.sums(node), node, () if own is None else (own,)))


def chosen_node(
    node_arrays: NodeArrays, ledger: Ledger, node: str, pod: str, bound: Iterable[ResidentPod] = ()
) -> Snapshot | None:
    """The snapshot of `node` alone, as free as it is for `pod` (namespace/name); None if the node is not known."""
    found = node_for(node_arrays, ledger, node, pod, bound)
    return None if found is None else found[0].snapshot(found[1])


def less(sums: NodeSums, node: str, reservations: Iterable[Reservation]) -> NodeSums:
    """The sums of a node without these reservations; those on other nodes are ignored."""
    rest = sums.copy()
    for reservation in reservations:
        if reservation.node == node:
            rest.add(reservation.numa, reservation.requests, reservation.policy, -1)
    return rest


def as_chosen(pod: Pod) -> Pod:
    """The pod without the fields that the scheduler has already checked."""
    return replace(pod, node_selector={}, required_terms=None)


def is_free(snapshot: Snapshot, numa_nodes: NUMANodeAmounts) -> bool:
    """Whether each NUMA node of the only node still has the amounts that the pod is to get."""
    node_arrays = snapshot.node_arrays
    position = {numa_id: z for z, numa_id in enumerate(node_arrays.zone_ids[:, 0].tolist()) if numa_id != NO_ZONE}
    rows = node_arrays.resources
    return all(
        numa_id in position and (row := rows.find(name)) >= 0 and snapshot.free(row)[position[numa_id], 0] >= amount
        for numa_id, amounts in numa_nodes
        for name, amount in amounts.items()
    )


_NO_ARRAYS: Final = {
    *(
        "generation",
        "names",
        "index",
        "resources",
        "taint_sets",
        "soft_taints",
        "labels",
        "unknown_policies",
        "devices_away",
        "rare",
        "changes",
        "served_by_slices",
        "from_slices",
        "unenforced",
    )
}
_ARRAYS: Final = tuple(
    field.name for field in fields(NodeArrays) if field.name not in _NO_ARRAYS | {"order", "taint_set"}
)


def _alone(node_arrays: NodeArrays, n: int) -> NodeArrays:
    arrays: dict[str, Any] = {name: getattr(node_arrays, name)[..., n : n + 1].copy() for name in _ARRAYS}
    name = node_arrays.names[n]
    rare = {resource: {name: nodes[name]} for resource, nodes in node_arrays.rare.items() if name in nodes}
    alone = replace(
        node_arrays,
        **arrays
        | {"ready": np.ones(1, dtype=np.bool_), "unschedulable": np.zeros(1, dtype=np.bool_)}
        | {"order": np.zeros(1, dtype=np.intp), "taint_set": np.zeros(1, dtype=np.int32)},
        names=(name,),
        index={name: 0},
        labels=LabelColumns(1, [node_arrays.labels.rows[n]]),
        soft_taints=LabelColumns(1, [node_arrays.soft_taints.rows[n]]),
        rare=rare,
        changes=ChangeLog(),
    )
    return with_rows(alone, rare)
