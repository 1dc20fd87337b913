"""Places that are being freed for preemptors, held until they have them.

Life cycle of a hold:
1. Chosen: the victims are known, and the preemptor's nodes are held. Evictions begin.
2. Ending: the victims are being deleted. Each has until the end of its graceful period, and a margin. If a client
   deletes one with a longer period than victims may have, the hold does not wait for that.
   If the API server refused to end some of them, the place is still held, and others are searched for on its nodes.
3. Freed: all victims are gone. The exporters show that later, so the hold lasts for as long as that may take.
4. It ends: a member of the preemptor is placed or gone, its time is over, or a preemptor of higher priority needs one
   of its nodes, or needs a place when there are too many.
5. If the preemptor did not get its place, pods were evicted without effect: that has consequences (`HoldsInVain`).

While a node is held, no unit of lower or equal priority is placed there: the node as a whole is closed to it.
A preemptor of higher priority does not see the hold, unless it has one of its own: it would take the place of another,
and what was freed for it would be freed without effect.

Pure: times are given, in seconds of one clock for ages, and in seconds since the epoch for pods' deletions.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from webhook.formats.kubernetes.bound_pod import BoundPod
from webhook.model.wording import counted
from webhook.placing.preemption.preemption_candidates import LONGEST_GRACE_SECONDS, STUCK_SECONDS
from webhook.signal import Signal

# Evictions are answered within seconds, and the watch shows them at once. Calls time out after 10 s.
EVICTION_SECONDS: Final = 30.0
# No victim needs longer: longer graceful periods are not chosen.
_LONGEST_ENDING_SECONDS: Final = LONGEST_GRACE_SECONDS + STUCK_SECONDS
# Places that are freed at a time. Each closes its nodes to others, and costs a decision per cycle.
MOST_HOLDS: Final = 64
# One tenant gets half of them, so that it cannot keep others of its priority from preempting.
MOST_OF_NAMESPACE: Final = 32
_NONE: Final[frozenset[str]] = frozenset()
# One node may fail at any time, and a second one with it. Three holds without a success in between are a common fault.
MOST_IN_VAIN: Final = 3
# A node whose NodeResourceTopology does not change, or that has none, is tried again. Its victims are evicted
# for nothing once an hour at most.
_LONGEST_SECONDS: Final = 3600.0
# After abandoned places: 1 min, 2, 4 ... 64, as for a kind of preemptors whose holds had no effect.
_ABANDONED_SECONDS: Final = 60.0
_MOST_DOUBLINGS: Final = 6


class Phase(StrEnum):
    """The phase of a hold."""

    CHOSEN = "Chosen"
    ENDING = "Ending"
    FREED = "Freed"


class RoomBeside(NamedTuple):
    """Where a single pod will have room beside the members of another preemptor."""

    name: str
    """The pod's, as a preemptor."""
    node: str


@dataclass(slots=True)
class Hold:
    """The place of one preemptor."""

    name: str
    """The preemptor's."""
    priority: int
    nodes: frozenset[str]
    members: Mapping[str, str]
    """namespace/name -> uid of its waiting pods."""
    victims: Mapping[str, str]
    """namespace/name -> uid of the pods that are preempted for it."""
    places: Mapping[str, str] = field(default_factory=dict)
    """namespace/name -> node of its members, where they are nominated."""
    phase: Phase = Phase.CHOSEN
    earlier: Mapping[str, str] = field(default_factory=dict)
    """The same of those that already end: an earlier choice for this place was refused in part, or they end, or have
    ended, for another preemptor."""
    is_partial: bool = False
    """Whether the API server refused to end some of the victims, so that others must be searched for on these nodes."""
    taken_over: bool = False
    """Whether the last leader chose it: it may not have evicted all victims."""
    since: float = 0.0
    """When the phase began."""
    moves: bool = False
    """Whether the victims were evicted by `defrag`, so that they may have the same priority."""
    is_taken: bool = False
    """Whether a preemptor of higher priority was placed on its nodes since."""
    beside: dict[str, RoomBeside] = field(default_factory=dict)
    """The single pods, by namespace/name, that will have room beside its members."""
    asks: Hashable = None
    """What the preemptor asked for then; None if another leader chose the place."""

    @property
    def text(self) -> str:
        """What the preemptor waits for."""
        where = _nodes(self.nodes)
        if self.phase is Phase.FREED:
            return f"the room on {where} is reserved for it until the node's NUMA nodes are reported as free"
        pods = counted(len({**self.earlier, **self.victims}), "pod" if self.moves else "lower-priority pod")
        return f"{pods} on {where} must terminate first"

    @property
    def namespace(self) -> str:
        """The preemptor's."""
        return next(iter(self.members), "").partition("/")[0]

    def update(self, now: float, bound: Mapping[str, BoundPod]) -> None:
        """Enter the next phase if that is due. bound: the bound pods by namespace/name."""
        if self.phase is Phase.ENDING and not self._left(bound):
            self.enter(Phase.FREED, now)

    def keep_only(self, victims: Mapping[str, str], now: float) -> None:
        """Only these end; the others are still to be searched for."""
        self.victims, self.earlier, self.is_partial = victims, {}, True
        self.enter(Phase.ENDING, now)

    def may_be_completed(self, bound: Mapping[str, BoundPod]) -> bool:
        """Whether others can be searched for now: not when some are gone whose room may not be reported yet."""
        return self.is_partial and self.phase is Phase.ENDING and len(self._left(bound)) == len(self.victims)

    def enter(self, phase: Phase, now: float) -> None:
        """Enter a phase."""
        self.phase, self.since = phase, now

    def has_expired(self, now: float, wall_clock: float, settle: float, bound: Mapping[str, BoundPod]) -> bool:
        """Whether its time is over. settle: seconds after which every exporter shows the freed room."""
        match self.phase:
            case Phase.CHOSEN:
                return False  # its task ends it
            case Phase.FREED:
                return now - self.since > settle
            case _:
                left = self._left(bound)
                undeleted = any(not pod.deleting for pod in left)
                hanging = any(pod.gone_by is not None and wall_clock > pod.gone_by + STUCK_SECONDS for pod in left)
                age = now - self.since
                return hanging or (undeleted and age > EVICTION_SECONDS) or age > _LONGEST_ENDING_SECONDS

    def _left(self, bound: Mapping[str, BoundPod]) -> list[BoundPod]:
        victims = {**self.earlier, **self.victims}
        return [pod for key, uid in victims.items() if (pod := bound.get(key)) is not None and pod.uid == uid]


class Holds:
    """The holds of the leader."""

    def __init__(self) -> None:
        self.changed = Signal[[]]()
        """Emitted after each change of what is held."""
        self._by_name: dict[str, Hold] = {}
        self._by_member: dict[str, Hold] = {}
        self._closed: dict[tuple[str, int], frozenset[str]] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Hold]:
        return iter(tuple(self._by_name.values()))

    def get(self, name: str) -> Hold | None:
        """The hold of a preemptor."""
        return self._by_name.get(name)

    def of_member(self, key: str) -> Hold | None:
        """The hold of the preemptor of which the pod namespace/name is a member."""
        return self._by_member.get(key)

    def beside(self, key: str) -> RoomBeside | None:
        """Where the pod namespace/name will have room when the victims of another preemptor are gone."""
        return next((room for hold in self._by_name.values() if (room := hold.beside.get(key)) is not None), None)

    def closed_to(self, name: str, priority: int) -> frozenset[str]:
        """The nodes that are held for others of the same or a higher priority; of any, if it has a place of its own."""
        if not self._by_name:
            return _NONE
        has_own = name in self._by_name
        key = name if has_own else "", priority
        if key not in self._closed:
            others = (
                hold for hold in self._by_name.values() if hold.name != name and (has_own or hold.priority >= priority)
            )
            self._closed[key] = frozenset().union(*(hold.nodes for hold in others))
        return self._closed[key]

    def must_exceed(self, namespace: str) -> float:
        """The priority above which one more may be added for this namespace; -inf while there are few."""
        lowest = _in_the_way(list(self), namespace)
        return -inf if lowest is None else lowest.priority

    def add(self, hold: Hold) -> list[Hold]:
        """Hold a place; returns the holds of lower priority that give way to it.

        They need the same nodes, or there are too many.
        """
        ended = [
            other
            for other in self
            if other.name == hold.name or (other.priority < hold.priority and not other.nodes.isdisjoint(hold.nodes))
        ]
        for other in ended:
            self._drop(other)
        if (lowest := _in_the_way(list(self), hold.namespace)) is not None and lowest.priority < hold.priority:
            self._drop(lowest)
            ended.append(lowest)
        self._by_name[hold.name] = hold
        self._by_member |= dict.fromkeys(hold.members, hold)
        self._changed()
        return [other for other in ended if other.name != hold.name]

    def end(self, hold: Hold) -> None:
        """Release the place."""
        if self._by_name.get(hold.name) is hold:
            self._drop(hold)
            self._changed()

    def taken(self, name: str, priority: int, nodes: Iterable[str]) -> None:
        """Note that a unit was placed on these nodes: a place of lower priority there may be gone."""
        placed = set(nodes)
        for hold in self._by_name.values():
            if hold.name != name and hold.priority < priority and not hold.nodes.isdisjoint(placed):
                hold.is_taken = True

    def clear(self) -> None:
        """Release all places: another replica leads."""
        self._by_name.clear()
        self._by_member.clear()
        self._closed.clear()

    def _drop(self, hold: Hold) -> None:
        del self._by_name[hold.name]
        for key in hold.members:
            if self._by_member.get(key) is hold:
                del self._by_member[key]

    def _changed(self) -> None:
        self._closed.clear()
        self.changed.emit()


def _in_the_way(holds: Sequence[Hold], namespace: str) -> Hold | None:
    """The hold that would have to end for one more of this namespace: that of the lowest priority, the latest first."""
    own = [hold for hold in holds if hold.namespace == namespace]
    among = own if len(own) >= MOST_OF_NAMESPACE else holds if len(holds) >= MOST_HOLDS else ()
    return min(among, key=lambda hold: (hold.priority, -hold.since), default=None)


def _nodes(names: frozenset[str]) -> str:
    if len(names) == 1:
        return f"node {next(iter(names))}"
    return f"{counted(len(names), 'node')} ({', '.join(sorted(names)[:3])}{', ...' if len(names) > 3 else ''})"


PAUSED: Final = (
    "lower-priority pods would be preempted for it, but preemption is paused: "
    f"nodes were freed without effect {MOST_IN_VAIN} times in a row"
)
"""What a preemptor waits for meanwhile."""


@dataclass(frozen=True, slots=True)
class _Node:
    victims: Mapping[str, str]
    """namespace/name -> uid of the hold's victims."""
    written_at: int | None
    """When its NodeResourceTopology was written that was known when the hold ended; None if there was none."""
    until: float


@dataclass(frozen=True, slots=True)
class _Abandoned:
    number: int
    until: float
    """No pods are chosen for the namespace before."""


class HoldsInVain:
    """Holds without effect, and what follows: pods were evicted for a preemptor that did not get their place.

    1. The nodes of such a hold are chosen for no preemptor until its victims are gone and the node has a newer
       NodeResourceTopology: a kubelet that hangs ends no pod, and an exporter that hangs shows no room.
    2. After some in a row, no pods are chosen at all: evicting more would not help. If all were of one namespace, that
       goes for this namespace alone: its tenant may be the cause. It is over when a preemptor gets its place, or one of
       these nodes can be chosen again. In the latter case one more without effect is enough to stop again.
    3. A preemptor that is deleted after evictions began for it leaves them to others. After some in a row of one
       namespace, no pods are chosen for that namespace for a minute, and for twice as long after each further one,
       until a preemptor of it gets its place. Otherwise a tenant could evict pod after pod by creating and deleting
       one.

    written_at: the age of a node's NodeResourceTopology, by its name.
    """

    def __init__(self, written_at: Callable[[str], int | None]) -> None:
        self.closed: frozenset[str] = frozenset()
        """The nodes that are not chosen."""
        self._written_at = written_at
        self._nodes: dict[str, _Node] = {}
        self._in_a_row: list[str] = []
        """The namespaces of the last holds without a success in between."""
        self._abandoned: dict[str, _Abandoned] = {}
        """By namespace, since its last success."""
        self._waiting: frozenset[str] = frozenset()
        """The namespaces for which no pods are chosen because of abandoned places."""

    @property
    def is_paused(self) -> bool:
        """Whether no pods are chosen for some namespace."""
        return bool(self._waiting) or any(map(self.is_paused_for, set(self._in_a_row)))

    def is_paused_for(self, namespace: str) -> bool:
        """Whether no pods are chosen for preemptors of this namespace."""
        of_several = len(set(self._in_a_row)) > 1 and len(self._in_a_row) >= MOST_IN_VAIN
        return of_several or namespace in self._waiting or self._in_a_row.count(namespace) >= MOST_IN_VAIN

    def failed(self, hold: Hold, now: float) -> None:
        """The hold had no effect."""
        self._in_a_row = [*self._in_a_row, hold.namespace][-MOST_HOLDS:]
        for node in hold.nodes:
            self._nodes[node] = _Node({**hold.earlier, **hold.victims}, self._written_at(node), now + _LONGEST_SECONDS)
        self.closed = frozenset(self._nodes)

    def abandoned(self, namespace: str, now: float) -> None:
        """A preemptor of the namespace was deleted after evictions had begun for it."""
        known = self._abandoned.get(namespace)
        number = 1 if known is None else known.number + 1
        doublings = min(number - MOST_IN_VAIN, _MOST_DOUBLINGS)
        until = now + _ABANDONED_SECONDS * 2**doublings if doublings >= 0 else now
        self._abandoned[namespace] = _Abandoned(number, until)
        self._wait(now)

    def succeeded(self, namespace: str) -> None:
        """A preemptor of the namespace got its place."""
        self._in_a_row.clear()
        self._abandoned.pop(namespace, None)
        self._waiting -= {namespace}

    def update(self, now: float, bound: Mapping[str, BoundPod]) -> None:
        """Open the nodes that can be chosen again. bound: the bound pods by namespace/name."""
        self._abandoned = {name: one for name, one in self._abandoned.items() if now <= one.until + _LONGEST_SECONDS}
        self._wait(now)
        opened = [name for name, node in self._nodes.items() if now > node.until or self._reports(name, node, bound)]
        for name in opened:
            del self._nodes[name]
        if opened:
            self.closed = frozenset(self._nodes)
            self._in_a_row = self._in_a_row[-(MOST_IN_VAIN - 1) :]

    def _wait(self, now: float) -> None:
        self._waiting = frozenset(name for name, one in self._abandoned.items() if now < one.until)

    def _reports(self, name: str, node: _Node, bound: Mapping[str, BoundPod]) -> bool:
        written_at = self._written_at(name)
        if written_at is None or (node.written_at is not None and written_at <= node.written_at):
            return False
        return not any(key in bound and bound[key].uid == uid for key, uid in node.victims.items())
