"""Pods of ours that were bound unguarded, and so without a hint: what is to be foreseen of them, and what was.

Life cycle of one: its node's NRT has not counted it -> it is foreseen, with all that was bound since the first of them
(`webhook.engine.foresee`), once: later less is known of who was there -> what it holds is kept; what several hold of
whom it is not known which has what, for those that are left -> the NRT counts it, it has a hint, or it is gone.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from webhook.engine.sums import NodeSums, NumaAmounts
from webhook.model.resident import ResidentPod


class Certainty(Enum):
    """What is known of a pod that was bound unguarded."""

    KNOWN = "its NUMA nodes are known"
    UNKNOWN = "its NUMA nodes cannot be told"
    NO_ROOM = "no NUMA node had room"


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Pods of which it is not known which has what."""

    kinds: Sequence[Sequence[str]]
    """Their keys; those of a kind may have changed places."""
    in_orders: Sequence[Mapping[str, NumaAmounts]]
    """What each holds, or may hold, if they came in this order."""
    likely: Mapping[str, NumaAmounts]
    """What each holds in one of the orders, if there is nothing to doubt otherwise."""

    def most(self, left: Collection[str]) -> NumaAmounts:
        """The most that those who are left of them hold of each NUMA node."""
        most: dict[int, dict[str, int]] = {}
        for stays in self.in_orders:
            sums = NodeSums()
            for alike in self.kinds:
                number = sum(key in left for key in alike)
                sums.add(_largest([stays[key] for key in alike], number), {}, None, 1)
            for numa_id, amounts in sums.numa.items():
                before = most.get(numa_id, {})
                most[numa_id] = before | {name: max(amount, before.get(name, 0)) for name, amount in amounts.items()}
        return most


def _largest(stays: Sequence[NumaAmounts], number: int) -> NumaAmounts:
    """The most that so many of them can make of each resource of each NUMA node."""
    cells = {(numa_id, name) for stay in stays for numa_id, amounts in stay.items() for name in amounts}
    largest: dict[int, dict[str, int]] = {}
    for numa_id, name in cells:
        amounts = sorted((stay.get(numa_id, {}).get(name, 0) for stay in stays), reverse=True)
        largest.setdefault(numa_id, {})[name] = sum(amounts[:number])
    return largest


class Foreseen(NamedTuple):
    """Of one pod."""

    certainty: Certainty
    place: NumaAmounts = MappingProxyType({})
    """What it holds, if that is known; nothing if it holds nothing of any NUMA node."""
    together: Together | None = None
    """With whom it holds what, if that is not known."""


@dataclass(frozen=True, slots=True)
class Unguarded:
    """Pods bound to one node that its NRT has not counted, the first of them without a hint."""

    arrivals: Sequence[Sequence[ResidentPod]]
    """In the order of binding; of those in one group the order is not known."""
    residents: Sequence[ResidentPod]
    """The pods bound before."""
    before: NodeSums
    """What the NRT does not show of these."""
    doubtful: frozenset[int] = frozenset()
    """NUMA ids that may have had more free than it seems."""
    in_time: bool = True
    """Whether the NRT is from before the first arrival; else it may show what became free since."""


class UnguardedPods:
    """By node, with what was foreseen of each."""

    def __init__(self) -> None:
        self._on: dict[str, Sequence[ResidentPod]] = {}
        self._foreseen: dict[str, Foreseen] = {}
        self._open: set[str] = set()
        self._seen: dict[str, int] = {}
        self._turn = 0
        self._in_order = True

    def bound(self, pod: str, *, in_order: bool) -> None:
        """The pod was seen bound, after all that were before. in_order: it was bound after them, too."""
        self._turn += in_order or self._in_order
        self._in_order = in_order
        self._seen[pod] = self._turn

    def put(self, node: str, not_counted: Sequence[ResidentPod]) -> None:
        """Take in the pods of a node that its NRT has not counted, with a hint or not."""
        self._on.pop(node, None)
        self._open.discard(node)
        if any(pod.unguarded for pod in not_counted):
            self._on[node] = not_counted
            if not all(map(self.is_foreseen, not_counted)):
                self._open.add(node)

    def forget(self, pod: str) -> None:
        """What was foreseen of the pod is of no use any more: it has a hint now, or is not bound there."""
        self._foreseen.pop(pod, None)

    def unbound(self, pod: str) -> None:
        """The pod is gone, or bound elsewhere."""
        self.forget(pod)
        self._seen.pop(pod, None)

    def to_foresee(self) -> Sequence[str]:
        """The nodes with pods that were not foreseen yet."""
        return tuple(self._open)

    def doubt(self, pod: str) -> None:
        """What was foreseen of the pod need not be so: room came free before it was admitted."""
        if (foreseen := self._foreseen.get(pod)) is not None:
            self._foreseen[pod] = foreseen._replace(certainty=Certainty.UNKNOWN)

    def arrivals(self, node: str) -> tuple[Sequence[Sequence[ResidentPod]], Collection[str]]:
        """The pods from the first one to be foreseen to the last, in groups; and the keys of all from the first one on.

        What is known of a pod's place stands in it as a hint.
        """
        turns = [self._turn_of(pod) for pod in self._on[node] if not self.is_foreseen(pod)]
        since = [pod for pod in self._on[node] if self._turn_of(pod) >= min(turns)]
        arrivals = [self.as_known(pod) for pod in since if self._turn_of(pod) <= max(turns)]
        arrivals.sort(key=lambda pod: (self._turn_of(pod), pod.key))
        return [tuple(group) for _, group in groupby(arrivals, self._turn_of)], {pod.key for pod in since}

    def _turn_of(self, pod: ResidentPod) -> tuple[int, int]:
        """Those of one turn may have been bound in any order: listed together, and stamped with the same second."""
        return self._seen.get(pod.key, 0), pod.bound_at or 0

    def keep(self, node: str, foreseen: Mapping[str, Foreseen]) -> None:
        """Take what was foreseen of the node's arrivals as they are now."""
        self._open.discard(node)
        for pod in self.on(node):
            if pod.key in foreseen:
                self._foreseen.setdefault(pod.key, foreseen[pod.key])

    def on(self, node: str) -> Sequence[ResidentPod]:
        """Those of the node."""
        return [pod for pod in self._on.get(node, ()) if pod.unguarded]

    def of(self, pod: str) -> Foreseen | None:
        """What was foreseen of a pod."""
        return self._foreseen.get(pod)

    def nodes(self) -> Collection[str]:
        """Where there are any."""
        return self._on.keys()

    def is_foreseen(self, pod: ResidentPod) -> bool:
        """Whether nothing is to be foreseen of it any more."""
        return not pod.unguarded or pod.key in self._foreseen

    def is_known(self, pod: ResidentPod) -> bool:
        """Whether its place is known, by its hint or by what was foreseen."""
        return self.as_known(pod).hint is not None

    def kept(self, node: str, no_more_doubted: Collection[str] = ()) -> Mapping[str, NumaAmounts]:
        """What is to be kept of the node for its pods, by their keys; of some for what is likely."""
        kept: dict[str, NumaAmounts] = {}
        together: dict[Together, list[str]] = {}
        for pod in self.on(node):
            if (foreseen := self._foreseen.get(pod.key)) is None:
                continue
            kept[pod.key] = foreseen.place
            if foreseen.together is not None and pod.key in no_more_doubted:
                kept[pod.key] = foreseen.together.likely.get(pod.key, {})
            elif foreseen.together is not None:
                together.setdefault(foreseen.together, []).append(pod.key)
        for among, left in together.items():
            kept[left[0]] = among.most(left)  # in the name of all
        return kept

    def as_known(self, pod: ResidentPod) -> ResidentPod:
        """The pod with its place for a hint, if that is known."""
        foreseen = self._foreseen.get(pod.key)
        if pod.hint is not None or foreseen is None or foreseen.certainty is not Certainty.KNOWN:
            return pod
        return replace(pod, hint=tuple(foreseen.place.items()))
