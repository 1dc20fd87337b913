"""Orders the units of a cycle if more wait than it has time for: by priority first, then a share for each namespace.

A unit is a gang, or a pod signature (equal pods have the same result). The time to find that a unit does not fit is
work without a result, and it is bounded:
1. Units are tried in the order of priority and age, until one part of the time is used. If few wait, that is all of
   them.
2. The others are tried in turns by namespace, until another part is used. The namespace, and within it the unit, that
   was tried longest ago comes first. So a tenant who creates thousands of different pods delays their own pods; another
   tenant's pod is tried in the next cycle, whatever a decision costs.
3. If units were left out, another cycle follows soon. The unit that was tried longest ago comes next, so each is tried
   eventually.

A unit that failed is not retried until a change could help it: its `basis` is the state in which it failed.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import Unit

# Two such parts and 20 ms to sort 3,000 units, with a rest of four times as long: there are four cycles a second. A pod
# that arrives during a cycle is tried in the next.
PART_SECONDS: Final = 0.015


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """The last failed attempt to assign a unit."""

    cycle: int
    """The number of the cycle."""
    basis: Hashable
    kind: frozenset[Hashable]
    """The kinds of reasons."""
    reserved_nodes: frozenset[str] = frozenset()
    """The nodes that are reserved for it."""


class FailedAttempts:
    """The last failed attempt of each unit, remembered from cycle to cycle."""

    def __init__(self) -> None:
        self._cycle = 0
        self._failed: dict[Hashable, FailedAttempt] = {}
        self._served: dict[str, int] = {}
        """Namespace -> the last cycle in which one of its units failed."""

    def begin(self, units: Iterable[Unit]) -> None:
        """Start a cycle with these units; all others are forgotten."""
        self._cycle += 1
        units = tuple(units)
        names, namespaces = set(map(result_name, units)), set(map(_namespace, units))
        self._failed = {name: failed for name, failed in self._failed.items() if name in names}
        self._served = {name: at for name, at in self._served.items() if name in namespaces}

    def record(
        self, unit: Unit, basis: Hashable, kind: frozenset[Hashable], reserved_nodes: Collection[str] = ()
    ) -> None:
        """Record that the unit did not fit in this cycle."""
        self._failed[result_name(unit)] = FailedAttempt(self._cycle, basis, kind, frozenset(reserved_nodes))
        self._served[_namespace(unit)] = self._cycle

    def of(self, unit: Unit) -> FailedAttempt | None:
        """The unit's last failed attempt; None if there was none."""
        return self._failed.get(result_name(unit))

    def by_namespace(self, units: Sequence[Unit]) -> list[Unit]:
        """These sorted units, in turns by namespace; within a namespace the unit tried longest ago comes first."""
        namespaces: dict[str, list[Unit]] = {}
        for unit in units:
            namespaces.setdefault(_namespace(unit), []).append(unit)
        for own in namespaces.values():
            own.sort(key=lambda unit: failed.cycle if (failed := self.of(unit)) else 0)  # stable
        waiting = sorted(namespaces, key=lambda name: self._served.get(name, 0))  # stable
        return [
            unit for turn in zip_longest(*map(namespaces.__getitem__, waiting)) for unit in turn if unit is not None
        ]


def result_name(unit: Unit) -> Hashable:
    """A key that is equal for units with the same result."""
    if isinstance(unit, GatedGang):
        return f"gang {unit.membership.group}"
    try:
        return unit.request_signature
    except Exception:  # noqa: BLE001 # handled and reported when the pod is decided on; equal to no other
        return f"pod {unit.pod.uid}"


def are_equal(unit: Unit, other: Unit | None) -> bool:
    """Whether both are single pods with the same result."""
    return isinstance(unit, GatedPod) and isinstance(other, GatedPod) and result_name(unit) == result_name(other)


def _namespace(unit: Unit) -> str:
    return unit.namespace if isinstance(unit, GatedGang) else unit.pod.namespace
