"""The pods and gangs that fit nowhere now: they may preempt, and a cluster autoscaler may be asked for nodes for them.

The placement controller adds each unit that lacks room, and forgets those that no longer wait or wait for something
else: members, another binding, an owner. `ScaleUpMarks` reads them and leaves an answer for each pod, which the
placement text repeats.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from webhook.formats.patches.affinity_patch import NodeRef
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.preemption.waiting_preemptors import WaitingPreemptors
from webhook.placing.waiting_unit import Unit, WaitingUnit, name_of
from webhook.signal import Signal


@dataclass(frozen=True, slots=True)
class NewNodes:
    """The new nodes that could take the pods of one signature."""

    groups: tuple[tuple[str, str], ...] = ()
    """(node label, value) of the node groups; empty if no node exists that the pods could go to."""
    not_these: tuple[NodeRef, ...] = ()
    """The present nodes that have enough free for the pods only in total."""


@dataclass(frozen=True, slots=True)
class ScaleUp:
    """What an autoscaler is asked for a pod."""

    is_asked: bool
    """Whether the pod is marked, or to be marked."""
    text: str
    """One clause for people. It is also what tells one answer from another."""
    message: str = ""
    """The message of the mark."""
    nodes: Mapping[Hashable, NewNodes] = field(default_factory=dict)
    """Of a gang: by request signature of its members."""


class LackingRoom:
    """The units that lack room. asks: whether an autoscaler is asked at all."""

    def __init__(self, preemptors: WaitingPreemptors, *, asks: bool = False) -> None:
        self.preemptors = preemptors
        """Those that may preempt, and the places that are held for some of them."""
        self.changed = Signal[[]]()
        """Emitted when answers have changed, so that texts are written again."""
        self.is_known = False
        """Whether all units have been looked at since the term began."""
        self._asks = asks
        self._units: dict[str, WaitingUnit] = {}
        self._answers: Mapping[str, ScaleUp] = {}

    def unfit(self, unit: WaitingUnit) -> None:
        """It fits nowhere now."""
        self.preemptors.unfit(unit)
        if self._asks:
            self._units[unit.name] = unit

    def forget(self, name: str) -> None:
        """It no longer waits, or not for room."""
        self.preemptors.forget(name)
        self._units.pop(name, None)

    def collected(self, units: Iterable[Unit], now: float) -> None:
        """These units wait now: forget all others. now: seconds of `time.monotonic`."""
        units = tuple(units)
        self.preemptors.collected(units, now)
        self.is_known = True
        if self._units:
            names = set(map(name_of, units))
            self._units = {name: unit for name, unit in self._units.items() if name in names}

    def ended_term(self) -> None:
        """Forget all: we no longer lead."""
        self.preemptors.ended_term()
        self.is_known = False
        self._units.clear()
        self._answers = {}

    def units(self) -> Iterable[WaitingUnit]:
        """Those that lack room now."""
        return tuple(self._units.values())

    def answered(self, answers: Mapping[str, ScaleUp]) -> None:
        """Replace the answers, by namespace/name."""
        before, self._answers = self._answers, answers
        if before.keys() != answers.keys() or any(before[key].text != one.text for key, one in answers.items()):
            self.changed.emit()

    def kind(self, key: str, kind: frozenset[Hashable]) -> frozenset[Hashable]:
        """The kinds of reasons with what an autoscaler is asked for the pod namespace/name."""
        answer = self._answers.get(key)
        return kind if answer is None else kind | {answer.text}

    def told(self, key: str, why: NoAssignment) -> NoAssignment:
        """The reason why the pod namespace/name waits, with what an autoscaler is asked for it."""
        answer = self._answers.get(key)
        if answer is None:
            return why
        return replace(why, kind=why.kind | {answer.text}, text=f"{why.text}; {answer.text}", of_one=False)
