"""The pods and gangs that fit nowhere now and may preempt, and whose turn it is.

1. The placement controller adds each unit that it found not to fit, and forgets those that no longer wait.
2. Every second turn is that of the highest in order. The others go round the namespaces, so that a tenant with many
   hopeless gangs of high priority delays their own gangs.
3. A preemptor for which no end of pods helps has its next turn after a change in the cluster, with a delay that doubles
   each time. Equal pods share this result: a thousand of them cost one search.

While a preemptor has a hold, it has no turn: it waits for its victims.
"""

from collections.abc import Hashable, Iterable
from itertools import count
from typing import Final

from webhook.cache.cluster_cache import ClusterCache
from webhook.controllers.placement.gang_search import GatedGang
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.controllers.placement.retry_delays import RetryDelays
from webhook.controllers.preemption.holds import Holds
from webhook.controllers.preemption.preemptor import Preemptor, name_of, priority_of
from webhook.controllers.preemption.takeover import held_before

# Places that are freed at a time. Each closes its nodes to others, and costs a decision per cycle.
MOST_HOLDS: Final = 64
# The end of a pod takes longer. A choice that no longer holds is rare.
_LATER_SECONDS: Final = 2.0
# A preemptor whose place was freed and could not be used, or whose victims could not be evicted.
_IN_VAIN_SECONDS: Final = 60.0


class WaitingPreemptors:
    """The preemptors of the leader. is_enabled: whether any pod may be ended."""

    def __init__(self, cache: ClusterCache, *, is_enabled: bool = False) -> None:
        self.holds: Final = Holds()
        self._cache = cache
        self._is_enabled = is_enabled
        self._waiting: dict[str, Preemptor] = {}
        self._kinds: dict[Hashable, int] = {}
        """A number for each kind: a pod's signature is large."""
        self._kind_of: dict[str, int] = {}
        self._tried: dict[int, int] = {}
        self._delays = RetryDelays(_ignore)
        self._changes = 0
        self._turns, self._numbers = count(), count()
        self._served: dict[str, int] = {}
        self._is_new_term = True

    def changed(self) -> None:
        """Something in the cluster changed."""
        self._changes += 1

    def ended_term(self) -> None:
        """Forget everything: we no longer lead."""
        self.holds.clear()
        self._waiting.clear()
        self._kind_of.clear()
        self._is_new_term = True

    def collected(self, units: Iterable[GatedPod | GatedGang], now: float) -> None:
        """These units wait now: forget all others. In a new term, take over what the last leader held."""
        if not self._is_enabled:
            return
        units = tuple(units)
        if self._is_new_term:
            self._is_new_term = False
            for unit in units:
                if (hold := held_before(unit, self._cache, now)) is not None:
                    self.holds.add(hold)
        if not self._waiting and not self.holds:
            return
        names = {name_of(unit) for unit in units}
        for name in self._waiting.keys() - names:
            self.forget(name)
        kinds = set(self._kind_of.values())
        self._kinds = {kind: number for kind, number in self._kinds.items() if number in kinds}
        self._tried = {kind: at for kind, at in self._tried.items() if kind in kinds}
        self._delays.keep(kinds | names)
        namespaces = {one.namespace for one in self._waiting.values()}
        self._served = {name: at for name, at in self._served.items() if name in namespaces}

    def unfit(self, preemptor: Preemptor) -> None:
        """It fits nowhere now."""
        if not self._is_enabled:
            return
        name = preemptor.name
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

    def closed_to(self, unit: GatedPod | GatedGang) -> frozenset[str]:
        """The nodes that are held for others of the same or a higher priority."""
        return self.holds.closed_to(name_of(unit), priority_of(unit)) if len(self.holds) else frozenset()

    def closed_for(self, preemptor: Preemptor) -> frozenset[str]:
        """The nodes that it cannot use, whoever ends there: held for others, or reserved for gangs."""
        return self.closed_to(preemptor.unit) | preemptor.reserved

    def next(self) -> Preemptor | None:
        """Whose turn it is; None if no search could help now."""
        if len(self.holds) >= MOST_HOLDS:
            return None
        due = [one for one in self._waiting.values() if self._is_due(one)]
        if not due:
            return None
        turn = next(self._turns)
        chosen = min(due, key=_order if turn % 2 == 0 else self._by_namespace)
        self._served[chosen.namespace] = turn
        return chosen

    def current(self, name: str) -> Preemptor | None:
        """The latest version of a preemptor; None if it no longer waits."""
        return self._waiting.get(name)

    def hopeless(self, preemptor: Preemptor) -> None:
        """No end of pods helps it now."""
        kind = self._kind_of.get(preemptor.name)
        if kind is not None:
            self._tried[kind] = self._changes
            self._delays.failed(kind)

    def later(self, preemptor: Preemptor) -> None:
        """Search again soon: pods that are being deleted are enough, or the choice no longer holds."""
        self._delays.put_off(preemptor.name, _LATER_SECONDS)

    def in_vain(self, name: str) -> None:
        """Its victims could not be evicted, or it could not use what they left."""
        self._delays.put_off(name, _IN_VAIN_SECONDS)

    def _is_due(self, one: Preemptor) -> bool:
        kind = self._kind_of[one.name]
        return (
            self.holds.get(one.name) is None
            and self._tried.get(kind) != self._changes
            and not self._delays.is_put_off(kind)
            and not self._delays.is_put_off(one.name)
        )

    def _by_namespace(self, one: Preemptor) -> tuple[int, tuple[int, str, str]]:
        return self._served.get(one.namespace, -1), _order(one)


def _order(one: Preemptor) -> tuple[int, str, str]:
    return one.unit.order


def _ignore(_: float) -> None:
    """The controller looks again by itself."""
