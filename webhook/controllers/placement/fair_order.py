"""Which units a round tries when more wait than it has time for: in order first, then a share for each namespace.

A unit is a single pod's question (equal pods have the same answer) or a gang. What it takes to find that one has no
place is a round's vain work, and that is bounded:
1. In the order of priority and age, until one part of the time is used. Where few wait, that is all of them.
2. The others by namespace in turn, until another part is used: the namespace and, within it, the unit that was tried
   longest ago comes first. So a tenant who creates thousands of shapes delays their own pods; another tenant's pod is
   tried in the next round, whatever a decision costs.
3. If units were left out, another round follows soon. As the one tried longest ago is next, each has its turn.

A unit that has failed is not tried again as long as nothing has changed that could be of use to it: its `basis` says
what it was judged by.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from webhook.controllers.placement.gated_gang import Gang
from webhook.controllers.placement.gated_pods import GatedPod

Unit = GatedPod | Gang

# Two such parts and 20 ms to put 3,000 units in order, with a rest of four times as long: a round comes four times a
# second, and who arrives in the middle of one is looked at in the next.
PART_SECONDS: Final = 0.015


@dataclass(frozen=True, slots=True)
class Failed:
    """A unit that had no place."""

    round: int
    basis: Hashable
    kind: frozenset[Hashable]
    """The kinds of reasons."""
    reserved_nodes: frozenset[str] = frozenset()
    """The nodes that are kept for it."""


class Turns:
    """What is remembered of units from round to round."""

    def __init__(self) -> None:
        self._round = 0
        self._failed: dict[str, Failed] = {}
        self._served: dict[str, int] = {}
        """Namespace -> the last round in which one of its units was tried in vain."""

    def begin(self, units: Iterable[Unit]) -> None:
        """A round begins with these units; the others are forgotten."""
        self._round += 1
        units = tuple(units)
        names, namespaces = set(map(name_of, units)), set(map(_namespace, units))
        self._failed = {name: failed for name, failed in self._failed.items() if name in names}
        self._served = {name: at for name, at in self._served.items() if name in namespaces}

    def failed(
        self, unit: Unit, basis: Hashable, kind: frozenset[Hashable], reserved_nodes: Collection[str] = ()
    ) -> None:
        """The unit was tried in vain."""
        self._failed[name_of(unit)] = Failed(self._round, basis, kind, frozenset(reserved_nodes))
        self._served[_namespace(unit)] = self._round

    def of(self, unit: Unit) -> Failed | None:
        """The last time that the unit was tried in vain."""
        return self._failed.get(name_of(unit))

    def shared(self, units: Sequence[Unit]) -> list[Unit]:
        """These units, which are in order, by namespace in turn; each namespace's longest untried first."""
        namespaces: dict[str, list[Unit]] = {}
        for unit in units:
            namespaces.setdefault(_namespace(unit), []).append(unit)
        for own in namespaces.values():
            own.sort(key=lambda unit: failed.round if (failed := self.of(unit)) else 0)  # stable
        waiting = sorted(namespaces, key=lambda name: self._served.get(name, 0))  # stable
        return [
            unit for turn in zip_longest(*map(namespaces.__getitem__, waiting)) for unit in turn if unit is not None
        ]


def name_of(unit: Unit) -> str:
    """Equal for units that have the same answer."""
    if isinstance(unit, Gang):
        return f"group {unit.membership.group}"
    try:
        return unit.request_signature
    except Exception:  # noqa: BLE001 # it is contained, and told, where the pod is decided on: that one is like no other
        return f"pod {unit.pod.uid}"


def _namespace(unit: Unit) -> str:
    return (unit.members[0] if isinstance(unit, Gang) else unit).pod.namespace
