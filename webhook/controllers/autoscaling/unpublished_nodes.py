"""Nodes of node groups that a pod would fit in sum, if only their NUMA nodes were known.

Autoscalers count by sums: each takes the pod for one that runs there. A new node publishes its NUMA nodes some time
after its creation. One that has not after a while has no exporter, or one that fails: then an operator must look, as
no node is added for the pod while that one is there.
"""

from collections.abc import Iterable, Sequence

from webhook.controllers.autoscaling.node_groups import NodeGroup
from webhook.engine.arrays import Bools, Bytes
from webhook.engine.reason import Reason


class UnpublishedNodes:
    """Names such nodes. after: seconds after a node's creation in which it publishes its NUMA nodes."""

    def __init__(self, after: float) -> None:
        self._after = after
        self.late: set[str] = set()
        """Those without an exporter, or with one that fails: the caller reports them, and empties the set."""

    def clauses(
        self, names: Sequence[str], groups: Iterable[NodeGroup], when_empty: Bytes, fits: Bools, now: float
    ) -> list[str]:
        """One for the new nodes, one for those that should have published.

        names: of all nodes. when_empty: uint8 [node], why a node could not take the pod if it were empty. fits: bool
        [node], whether the pod fits there in sum now. now: seconds since the epoch.
        """
        new: list[str] = []
        late: list[str] = []
        candidates = (when_empty == Reason.NO_TOPOLOGY) & fits
        for group in groups:
            for n, created in zip(group.nodes.tolist(), group.created, strict=True):
                if candidates[n]:
                    (late if created < now - self._after else new).append(names[n])
        self.late.update(late)
        found = []
        if new:
            found.append(f"{_named(new)} new: its exporter has not published its NUMA nodes yet")
        if late:
            since = f"more than {self._after:g} s after its creation"
            found.append(f"{_named(late)} without NUMA nodes {since}: look at its exporter")
        return found


def _named(names: list[str]) -> str:
    """`node a is`, `node a and 2 more are`."""
    first = f"node {min(names)}"
    return f"{first} is" if len(names) == 1 else f"{first} and {len(names) - 1} more are"
