"""One node by itself, for a pod whose node the scheduler has chosen: the same decision, on arrays one node long.

What the scheduler has judged is taken as given (selectors, taints, readiness); left are the sums of resources and the
NUMA nodes, less what other pods were promised there.
"""

from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from webhook.engine.changes import ChangeLog
from webhook.engine.labels import LabelColumns
from webhook.engine.ledger import Ledger
from webhook.engine.overlay import Overlay, OverlayCache
from webhook.engine.snapshot import Snapshot
from webhook.engine.sums import NodeSums
from webhook.engine.view import View
from webhook.model.pod import Pod


class _NodeView(View):
    """A view of one node with reservations that are no ledger's as a whole."""

    __slots__ = ()

    def __init__(self, overlay: Overlay) -> None:
        super().__init__(overlay.snapshot)
        self._source = overlay


def chosen_node(snapshot: Snapshot, ledger: Ledger, node: str, pod: str) -> View | None:
    """The view of `node` alone, as free as it is to `pod` (namespace/name); None when the node is not known."""
    n = snapshot.index.get(node)
    if n is None:
        return None
    alone = _alone(snapshot, n)
    sums = _promised_to_others(ledger, node, pod)
    return _NodeView(OverlayCache({node: sums}, ChangeLog()).over(alone)) if sums else View(alone)


def as_chosen(pod: Pod) -> Pod:
    """The pod without what the scheduler has judged."""
    return replace(pod, node_selector={}, required_terms=None)


_ARRAYS: Final = tuple(
    field.name
    for field in fields(Snapshot)
    if field.name
    not in {"generation", "names", "index", "order", "resources", "taint_sets", "taint_set", "labels", "changes"}
)


def _alone(snapshot: Snapshot, n: int) -> Snapshot:
    arrays: dict[str, Any] = {name: getattr(snapshot, name)[..., n : n + 1].copy() for name in _ARRAYS}
    name = snapshot.names[n]
    labels = LabelColumns(1)
    labels.write(0, snapshot.labels.rows[n])
    return replace(
        snapshot,
        **arrays
        | {"ready": np.ones(1, dtype=np.bool_), "unschedulable": np.zeros(1, dtype=np.bool_)}
        | {"order": np.zeros(1, dtype=np.intp), "taint_set": np.zeros(1, dtype=np.int32)},
        names=(name,),
        index={name: 0},
        labels=labels,
        changes=ChangeLog(),
    )


def _promised_to_others(ledger: Ledger, node: str, pod: str) -> NodeSums:
    sums, own = ledger.sums(node), ledger.get(pod)
    if own is None or own.node != node:
        return sums
    others = NodeSums(
        {zone: dict(amounts) for zone, amounts in sums.numa.items()},
        dict(sums.requests),
        dict(sums.single),
        dict(sums.multi),
    )
    others.add(own.numa, own.requests, own.policy, -1)
    return others
