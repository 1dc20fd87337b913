"""The shards of the nodes, and what of the cluster this replica works on.

A shard is a value of a node label. Its leader alone assigns pods to its nodes, so two replicas never give out the same
NUMA node. The smallest 32 values count: the nodes with others are of the default shard, as are those without the label.

A node that changes its shard is closed to all for `settle_seconds`: what its last leader assumed there is visible by
then. The last leader closes it when it sees the change. So is a node that is deleted and created again meanwhile.

Without the label, everything is of the default shard, and nothing is computed.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import blake2b
from time import monotonic

from webhook.formats.kubernetes.node import Node
from webhook.model.shards import DEFAULT_SHARD, MOST_SHARDS

_NONE: frozenset[str] = frozenset()


def shard_text(shard: str) -> str:
    """The shard, for people: the values of labels are short, and have no spaces."""
    return f"shard {shard}" if shard else "the default shard"


class NodeShards:
    """Which shard each node is of, and which ones this replica works on. Without `work_on`: all."""

    def __init__(self, label: str = "", settle_seconds: float = 0.0, clock: Callable[[], float] = monotonic) -> None:
        """label: the node label; empty: there is the default shard alone. clock: seconds, monotonic."""
        self.label = label
        self._settle_seconds = settle_seconds
        self._clock = clock
        self._values: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._known: frozenset[str] = _NONE
        self._moved: dict[str, float] = {}
        """Node -> when it may be assigned pods again."""
        self._gone: dict[str, tuple[str, float]] = {}
        """Deleted node -> its shard, and when that is forgotten."""
        self._open: frozenset[str] | None = None
        self._closed: frozenset[str] | None = None

    @property
    def known(self) -> frozenset[str]:
        """The shards beside the default one."""
        return self._known

    @property
    def surplus(self) -> int:
        """How many values are too many."""
        return len(self._counts) - (DEFAULT_SHARD in self._counts) - len(self._known)

    def nodes(self) -> Mapping[str, int]:
        """How many nodes each shard has; those without nodes are missing."""
        found = Counter[str]()
        for value, count in self._counts.items():
            found[self._effective(value)] += count
        return found

    def ranked(self, name: str) -> list[str]:
        """The shards with nodes in the order of a unit of this name: all replicas agree, and each order is as frequent.

        If a shard comes or goes, the order of the others stays (rendezvous hashing).
        """
        return sorted(self.nodes(), key=lambda shard: blake2b(f"{shard}\0{name}".encode(), digest_size=8).digest())

    def first(self, name: str) -> str:
        """The shard in which a unit of this name waits first."""
        return self.ranked(name)[0] if self._counts else DEFAULT_SHARD

    def outside(self, shard: str) -> frozenset[str]:
        """The nodes of all other shards."""
        return frozenset(name for name in self._values if self.of(name) != shard)

    def of(self, node: str) -> str:
        """The shard of a node; the default one if it is unknown."""
        return self._effective(self._values.get(node, DEFAULT_SHARD))

    def put(self, node: Node) -> bool:
        """Take a node; whether its shard has changed."""
        if not self.label:
            return False
        value, before = node.labels.get(self.label, DEFAULT_SHARD), self._values.get(node.name)
        if value == before:
            return False
        self._forget_gone()
        left = self._gone.pop(node.name, None)
        shard = self._effective(before) if before is not None else None if left is None else left[0]
        self._values[node.name] = value
        self._count({value: 1} if before is None else {value: 1, before: -1})
        if shard is not None and shard != self.of(node.name):
            self._moved[node.name] = self._clock() + self._settle_seconds
        self._closed = None
        return True

    def drop(self, name: str) -> None:
        """Forget a deleted node."""
        value = self._values.pop(name, None)
        if value is None:
            return
        self._gone[name] = self._effective(value), self._clock() + self._settle_seconds
        self._moved.pop(name, None)
        self._count({value: -1})
        self._closed = None

    def work_on(self, shards: frozenset[str]) -> bool:
        """Work on these shards alone, as their leader; whether they were others before."""
        if shards == self._open:
            return False
        self._open, self._closed = shards, None
        return True

    @property
    def worked_on(self) -> frozenset[str]:
        """The shards that this replica works on."""
        return self._open if self._open is not None else self._known | {DEFAULT_SHARD}

    def is_moving(self, node: str) -> bool:
        """Whether the node changed its shard a moment ago: what was assumed there may not be visible yet."""
        return self._moved.get(node, 0.0) > self._clock() if self._moved else False

    def closed(self) -> frozenset[str]:
        """The nodes to which this replica may assign no pods; the same object until they change."""
        if not self.label or self._open is None:
            return _NONE
        now = self._clock()
        if any(until <= now for until in self._moved.values()):
            self._moved = {name: until for name, until in self._moved.items() if until > now}
            self._closed = None
        if self._closed is None:
            self._closed = frozenset(
                name for name in self._values if name in self._moved or self.of(name) not in self._open
            )
        return self._closed

    @property
    def seconds_until_opened(self) -> float | None:
        """After how long the next node that has changed its shard may be assigned pods; None: there is none."""
        return max(0.001, min(self._moved.values()) - self._clock()) if self._moved else None

    def _effective(self, value: str) -> str:
        return value if value in self._known else DEFAULT_SHARD

    def _count(self, changes: Mapping[str, int]) -> None:
        values = self._counts.keys() - {DEFAULT_SHARD}
        self._counts.update(changes)
        for value in changes:
            if not self._counts[value]:
                del self._counts[value]
        if self._counts.keys() - {DEFAULT_SHARD} == values:
            return
        before, self._known = self._known, frozenset(sorted(self._counts.keys() - {DEFAULT_SHARD})[:MOST_SHARDS])
        until = self._clock() + self._settle_seconds
        for value in before ^ self._known:
            # Another value has taken its place among those that count, or it takes one.
            if value in self._counts and value not in changes:
                self._moved |= {name: until for name, one in self._values.items() if one == value}

    def _forget_gone(self) -> None:
        now = self._clock()
        self._gone = {name: entry for name, entry in self._gone.items() if entry[1] > now}
