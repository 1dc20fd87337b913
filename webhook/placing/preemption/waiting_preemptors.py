"""The pods and gangs that fit nowhere now and may preempt, and whose turn it is.

1. The placement controller adds each unit that it found not to fit, and forgets those that no longer wait.
2. Every second turn is that of the highest in order. The others go round the namespaces, so that a tenant with many
   hopeless gangs of high priority delays their own gangs.
3. A preemptor that no eviction helps has its next turn after a change in the cluster, with a delay that doubles
   each time. Equal pods share this result: a thousand of them cost one search.

While a preemptor has a hold, it has no turn: it waits for its victims, unless some of them were refused.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Final

from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.preemption.holds import MOST_OF_NAMESPACE, Hold, Holds, HoldsInVain
from webhook.placing.preemption.takeover import UnreadNominations, held_before, held_by_evictions, nominated_places
from webhook.placing.preemption.unshown_room import UnshownRoom
from webhook.placing.retry_delays import RetryDelays
from webhook.placing.waiting_unit import Unit, WaitingUnit, members_of, name_of, priority_of
from webhook.state.cluster_cache import ClusterCache

# The end of a pod takes longer. A choice that no longer holds is rare.
_LATER_SECONDS: Final = 2.0
# A preemptor whose victims could not be evicted: a budget may allow it a minute later.
_REFUSED_SECONDS: Final = 60.0
# A preemptor whose place was freed and could not be used, and all that are equal to it. Pods have ended for nothing, so
# the delay grows far beyond that of a search: 1 min, 2, 4 ... 64.
_IN_VAIN_SECONDS: Final = 60.0
_MOST_DOUBLINGS: Final = 6


class WaitingPreemptors:
    """The preemptors of the leader. clock: seconds, monotonic; is_enabled: whether any pod may be ended."""

    def __init__(self, cache: ClusterCache, clock: Callable[[], float], *, is_enabled: bool = False) -> None:
        self.holds: Final = Holds()
        self.unshown: Final = UnshownRoom(cache)
        """The room of their victims that no exporter has shown."""
        self._cache = cache
        self._is_enabled = is_enabled
        self._waiting: dict[str, WaitingUnit] = {}
        self._kinds: dict[Hashable, int] = {}
        """A number for each kind: a pod's signature is large."""
        self._kind_of: dict[str, int] = {}
        self._tried: dict[int, int] = {}
        self._delays = RetryDelays(_ignore, clock)
        self._changes = 0
        self.in_vain: Final = HoldsInVain(partial(_written_at, cache))
        self._failures: dict[Hashable, int] = {}
        """How many holds in a row had no effect, by kind."""
        self._paused: frozenset[str] = frozenset()
        self._turns, self._numbers = count(), count()
        self._served: dict[str, int] = {}
        self._is_new_term = True
        self._unread = UnreadNominations()
        self._in_turn: dict[str, tuple[int, str]] = {}
        """Name -> priority and node of the pods that fit there, once other pods are bound."""
        self._nominated: dict[str, Mapping[str, str]] = {}
        """The nominations for which a place was held, by name: a hold that had no effect does not come back."""

    @property
    def has_taken_over(self) -> bool:
        """Whether what the last leader held is known."""
        return not self._is_new_term and not self._unread

    def changed(self) -> None:
        """Something in the cluster changed."""
        self._changes += 1

    def ended_term(self) -> None:
        """Forget everything: we no longer lead."""
        self.holds.clear()
        self.unshown.clear()
        self._waiting.clear()
        self._kind_of.clear()
        self._in_turn.clear()
        self._nominated.clear()
        self._unread.clear()
        self._is_new_term = True

    def collected(self, units: Iterable[Unit], now: float) -> None:
        """These units wait now: forget all others. In a new term, take over what the last leader held."""
        if not self._is_enabled:
            return
        units = tuple(units)
        self._take_over(units, now)
        self._hold_nominated(units, now)
        if not self._waiting and not self._in_turn and not self.holds:
            return
        names = {name_of(unit) for unit in units}
        for name in (self._waiting.keys() | self._in_turn.keys()) - names:
            self.forget(name)
        # After a hold without effect a kind is known for its delay, though none of it may wait for a moment.
        put_off = (kind for kind in self._failures if self._delays.is_put_off(_after_vain(kind)))
        kinds = {*self._kind_of.values(), *put_off}
        self._kinds = {kind: number for kind, number in self._kinds.items() if number in kinds}
        self._tried = {kind: at for kind, at in self._tried.items() if kind in kinds}
        self._delays.keep(kinds | names | {_after_vain(kind) for kind in kinds})
        self._failures = {kind: number for kind, number in self._failures.items() if kind in kinds}
        namespaces = {one.namespace for one in self._waiting.values()}
        self._served = {name: at for name, at in self._served.items() if name in namespaces}

    def expire(self, now: float) -> None:
        """Have the next cycle end the wait for owners of what the last leader nominated, if that takes too long."""
        if self._unread.is_over(now):
            self.holds.changed.emit()

    def _take_over(self, units: Iterable[Unit], now: float) -> None:
        """Hold what the last leader held, as far as it is ready."""
        if not self._is_new_term and not self._unread:
            return
        gated = self._cache.ours.gated()
        if self._is_new_term:
            self._unread.begin(gated, now)
        self._is_new_term = False
        by_namespace: dict[str, list[Unit]] = defaultdict(list)
        for unit in units:
            by_namespace[members_of(unit)[0].pod.namespace].append(unit)
        keys = {one.key for unit in units for one in members_of(unit)}
        for namespace in sorted(self._unread.ready(keys, gated, now)):
            for unit in by_namespace.get(namespace, ()):
                if (hold := held_before(unit, self._cache, now)) is not None and self._may_hold(hold):
                    self.hold(hold)
            self.holds.changed.emit()

    def _hold_nominated(self, units: Iterable[Unit], now: float) -> None:
        """Hold the places for which `defrag` evicts pods."""
        known, self._nominated = self._nominated, {}
        for unit in units:
            if not (places := nominated_places(unit)) or self._unread.covers(members_of(unit)[0].pod.namespace):
                continue
            name = name_of(unit)
            if self.holds.get(name) is not None or known.get(name) == places:
                self._nominated[name] = places
                continue
            hold = held_by_evictions(unit, self._cache, now)
            if (
                hold is not None
                and hold.priority > self.holds.must_exceed(members_of(unit)[0].pod.namespace)
                and self._may_hold(hold)
            ):
                self.hold(hold)
                self._nominated[name] = places

    def _may_hold(self, hold: Hold) -> bool:
        """Whether its nodes are not held against it: two would wait for each other until their time is over."""
        return hold.nodes.isdisjoint(self.holds.closed_to(hold.name, hold.priority))

    def hold(self, hold: Hold) -> list[Hold]:
        """Hold a place; returns the holds of lower priority that give way to it."""
        self.unshown.note(hold)
        return self.holds.add(hold)

    def unfit(self, preemptor: WaitingUnit) -> None:
        """It fits nowhere now."""
        if not self._is_enabled:
            return
        name = preemptor.name
        self._in_turn.pop(name, None)
        known = self._waiting.get(name)
        if known is not None and known.unit is preemptor.unit and known.reserved == preemptor.reserved:
            return
        if preemptor.why_not is not None:
            self.forget(name)
            return
        self._waiting[name] = preemptor
        kind = preemptor.kind
        if kind not in self._kinds:
            self._kinds[kind] = next(self._numbers)
        self._kind_of[name] = self._kinds[kind]

    def forget(self, name: str) -> None:
        """It no longer waits, or not for room."""
        self._waiting.pop(name, None)
        self._kind_of.pop(name, None)
        self._in_turn.pop(name, None)

    def fits_on(self, gated: GatedPod, node: str) -> None:
        """The pod gets its place there once other pods are bound."""
        if self._is_enabled:
            self._in_turn[name_of(gated)] = priority_of(gated), node

    def placed(self, unit: Unit, nodes: Iterable[str]) -> None:
        """It was placed there."""
        if len(self.holds):
            self.holds.taken(name_of(unit), priority_of(unit), nodes)

    def closed_to(self, unit: Unit) -> frozenset[str]:
        """The nodes that are held for others of the same or a higher priority, and those of other leaders."""
        others = self._cache.shards.closed()
        if not len(self.holds) and not self._unread:
            return others
        priority = priority_of(unit)
        unread = self._unread.closed_to((one.key for one in members_of(unit)), priority)
        return self.holds.closed_to(name_of(unit), priority) | unread | others

    def closed_for(self, preemptor: WaitingUnit) -> frozenset[str]:
        """The nodes that are not chosen for it.

        They are held for others, reserved for gangs, or a hold on them had no effect. Or a pod of higher priority takes
        its place there soon: it may need the room that others would leave. If pods end already, all nodes but theirs.
        """
        closed = self.closed_to(preemptor.unit) | preemptor.reserved | self.in_vain.closed
        closed |= {node for priority, node in self._in_turn.values() if priority > preemptor.priority}
        hold = self.holds.get(preemptor.name)
        if hold is not None and hold.is_partial:
            closed |= self._cache.state.nodes.keys() - hold.nodes
        return closed

    def next(self) -> WaitingUnit | None:
        """Whose turn it is; None if no search could help now."""
        due = [one for one in self._waiting.values() if self._is_due(one)]
        if len(self.holds) >= MOST_OF_NAMESPACE:
            limits = {namespace: self.holds.must_exceed(namespace) for namespace in {one.namespace for one in due}}
            due = [one for one in due if one.priority > limits[one.namespace] or self.holds.get(one.name) is not None]
        if not due:
            return None
        turn = next(self._turns)
        chosen = min(due, key=_order if turn % 2 == 0 else self._by_namespace)
        self._served[chosen.namespace] = turn
        return chosen

    def current(self, name: str) -> WaitingUnit | None:
        """The latest version of a preemptor; None if it no longer waits."""
        return self._waiting.get(name)

    def hopeless(self, preemptor: WaitingUnit) -> None:
        """Evicting pods does not help it now."""
        kind = self._kind_of.get(preemptor.name)
        if kind is not None:
            self._tried[kind] = self._changes
            self._delays.failed(kind)

    def later(self, preemptor: WaitingUnit) -> None:
        """Search again soon: pods that are being deleted are enough, or the choice no longer holds."""
        self._delays.put_off(preemptor.name, _LATER_SECONDS)

    def refused(self, name: str) -> None:
        """Its victims could not be evicted."""
        self._delays.put_off(name, _REFUSED_SECONDS)

    def ended_in_vain(self, hold: Hold, now: float) -> None:
        """Its victims did not end, or it could not use what they left. now: seconds of `time.monotonic`."""
        self.in_vain.failed(hold, now)
        kind = self._kind_of.get(hold.name)
        if kind is not None:
            failures = self._failures.get(kind, 0)
            self._failures[kind] = failures + 1
            self._delays.put_off(_after_vain(kind), _IN_VAIN_SECONDS * 2 ** min(failures, _MOST_DOUBLINGS))

    def abandoned(self, hold: Hold, now: float) -> None:
        """Its preemptor was deleted, or asks for something else now: the pods that ended for it did so for others."""
        bound = self._cache.bound_pods.by_key()
        if any((pod := bound.get(key)) is None or pod.uid != uid or pod.deleting for key, uid in hold.victims.items()):
            self.in_vain.abandoned(hold.namespace, now)

    def succeeded(self, hold: Hold) -> None:
        """It got its place."""
        self.in_vain.succeeded(hold.namespace)
        self._failures.pop(self._kind_of.get(hold.name), None)

    def paused(self, preemptor: WaitingUnit) -> None:
        """Pods would be evicted for it, but none are chosen, as too many holds had no effect."""
        self.hopeless(preemptor)
        self._paused |= {one.key for one in preemptor.members}

    def is_paused(self, key: str) -> bool:
        """Whether pods would end for the pod namespace/name if preemption were not paused."""
        if not self.in_vain.is_paused:
            self._paused = frozenset()
        return key in self._paused and self.in_vain.is_paused_for(key.partition("/")[0])

    def _is_due(self, one: WaitingUnit) -> bool:
        kind = self._kind_of[one.name]
        return (
            self._needs_victims(one)
            and not self._unread.covers(one.namespace)
            and self._tried.get(kind) != self._changes
            and not self._delays.is_put_off(kind)
            and not self._delays.is_put_off(_after_vain(kind))
            and not self._delays.is_put_off(one.name)
        )

    def _needs_victims(self, one: WaitingUnit) -> bool:
        hold = self.holds.get(one.name)
        return hold is None or hold.may_be_completed(self._cache.bound_pods.by_key())

    def _by_namespace(self, one: WaitingUnit) -> tuple[int, tuple[int, str, str]]:
        return self._served.get(one.namespace, -1), _order(one)


def _order(one: WaitingUnit) -> tuple[int, str, str]:
    return one.unit.order


def _after_vain(kind: Hashable) -> Hashable:
    """The key of the delay after holds without effect: a search that finds nothing must not shorten it."""
    return "without effect", kind


def _written_at(cache: ClusterCache, node: str) -> int | None:
    topology = cache.state.topologies.get(node)
    return None if topology is None else topology.written_at


def _ignore(_: float) -> None:
    """The controller looks again by itself."""
