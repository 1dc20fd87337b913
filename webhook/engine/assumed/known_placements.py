"""What is known of the NUMA nodes of bound pods, and whether their hints say so: node agents obey hints.

    REPLAYED   the kubelet's choice was replayed at the binding, and nothing has happened that could have changed it
    DOUBTFUL   something may have: another pod ended, or came first, or the NRT left open what was free
    CONFIRMED  the NodeResourceTopology has counted the pod there
    CHOSEN     the NUMA nodes are ours to choose: a node agent obeys the hint

    granted ──> REPLAYED ──doubt──> DOUBTFUL
                    │                  │        located: what the NRT shows leaves one place only
                    └──> CONFIRMED <───┘

A pod has a hint unless it is DOUBTFUL. Whoever leads writes what is missing or wrong and takes away what is in doubt
(`changes`); others only follow what the pods show.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.model.hint import NUMANodeAmounts
from webhook.model.resident import ResidentPod


class Certainty(Enum):
    """How sure it is."""

    REPLAYED = "replayed"
    DOUBTFUL = "doubtful"
    CONFIRMED = "confirmed"
    CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class Known:
    """Of one pod."""

    uid: str
    numa: NumaAmounts
    """What it holds; the best guess where that is in doubt."""
    certainty: Certainty
    shown: NUMANodeAmounts | None
    """The hint in the pod, as last seen; None: it has none."""
    ours: bool
    """Whether we gave it: the pod's own hint is newer than what we know only if not."""
    bound: bool = False
    """Whether the pod was seen bound."""
    managed: bool = True
    """Whether it has hints: of the others it is known all the same, for those that come after them."""
    blank: bool = False
    """Whether its binding may have written over a hint with one that names no NUMA nodes."""

    @property
    def wanted(self) -> NUMANodeAmounts | None:
        """The hint that it should have."""
        return None if self.certainty is Certainty.DOUBTFUL else tuple(sorted(self.numa.items())) or None

    @property
    def differs(self) -> bool:
        """Whether it has another one."""
        return self.managed and self.bound and (self.blank or dict(self.shown or ()) != dict(self.wanted or ()))


@dataclass(frozen=True, slots=True)
class HintChange:
    """A bound pod whose hint is not what it should be."""

    pod: str
    """namespace/name."""
    uid: str
    node: str
    hint: NUMANodeAmounts | None
    """None: it is to have none."""


class KnownHints:
    """By pod (namespace/name)."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._open: set[str] = set()
        self._doubtful: set[str] = set()

    @property
    def has_changes(self) -> bool:
        """Whether some hints are not what they should be."""
        return bool(self._open)

    @property
    def doubtful(self) -> Sequence[str]:
        """The pods that are in doubt."""
        return tuple(self._doubtful)

    def assumed_by(self, assumed_pod: AssumedPod) -> None:
        """The pod is on its way to its kubelet."""
        certainty = Certainty.REPLAYED if assumed_pod.sure else Certainty.DOUBTFUL
        if assumed_pod.chosen:
            certainty = Certainty.CHOSEN
        self._put(assumed_pod.pod, Known(assumed_pod.uid, assumed_pod.numa, certainty, None, ours=True))

    def replayed(self, pod: ResidentPod, numa: NumaAmounts, *, sure: bool) -> None:
        """The pod, which is not ours to hint, was just bound, and this is what its kubelet gives it."""
        certainty = Certainty.REPLAYED if sure else Certainty.DOUBTFUL
        self._put(pod.key, Known(pod.uid, numa, certainty, None, ours=True, bound=True, managed=False))

    def withdrawn(self, pod: str) -> None:
        """Its binding will not come."""
        known = self._known.get(pod)
        if known is not None and not known.bound:
            self.forget(pod)

    def seen(self, pod: ResidentPod, *, assigned: bool) -> None:
        """The pod is bound and looks like this. assigned: it was seen placed, and its binding was not judged here."""
        known = self._known.get(pod.key)
        if known is not None and known.uid != pod.uid:
            known = None
        if known is None:
            if not pod.hint:
                self.forget(pod.key)
                return
            certainty = Certainty.DOUBTFUL if assigned else Certainty.REPLAYED
            known = Known(pod.uid, dict(pod.hint), certainty, pod.hint, ours=False)
        elif not known.ours and pod.hint != known.shown:
            known = replace(known, certainty=Certainty.REPLAYED if pod.hint else Certainty.DOUBTFUL)
            if pod.hint:
                known = replace(known, numa=dict(pod.hint))
        blank = known.blank or (known.ours and not known.bound and bool(known.numa) and known.wanted is None)
        self._put(pod.key, replace(known, shown=pod.hint, bound=True, blank=blank))

    def applied(self, pod: ResidentPod) -> ResidentPod:
        """The pod with what is known in place of its hint."""
        known = self._known.get(pod.key)
        if known is None or known.uid != pod.uid or not known.numa:
            return pod
        return replace(pod, hint=tuple(known.numa.items()), unhinted=False)

    def places(self, pod: ResidentPod) -> bool:
        """Whether something is known of where the pod is, by its hint or without one."""
        known = self._known.get(pod.key)
        return bool(pod.hint or (known is not None and known.uid == pod.uid and known.numa))

    def doubt(self, pod: str) -> None:
        """Its kubelet may have chosen otherwise."""
        known = self._known.get(pod)
        if known is not None and known.certainty is Certainty.REPLAYED:
            self._put(pod, replace(known, certainty=Certainty.DOUBTFUL))

    def locate(self, pod: str, numa: NumaAmounts | None, certainty: Certainty) -> None:
        """What its NRT says: the place is this; None: it may be one of several."""
        known = self._known.get(pod)
        if known is None or known.certainty is Certainty.CONFIRMED:
            return
        if numa is None:
            self._put(pod, replace(known, certainty=Certainty.DOUBTFUL))
        else:
            self._put(pod, replace(known, numa=numa, certainty=certainty))

    def forget(self, pod: str, uid: str | None = None) -> None:
        """The pod is gone. uid: that of the one; None: whichever has the name."""
        if uid is not None and (known := self._known.get(pod)) is not None and known.uid != uid:
            return
        self._known.pop(pod, None)
        self._open.discard(pod)
        self._doubtful.discard(pod)

    def get(self, pod: str) -> Known | None:
        """What is known of the pod."""
        return self._known.get(pod)

    def certainty(self, pod: str) -> Certainty | None:
        """How sure it is; None where nothing is known."""
        known = self._known.get(pod)
        return None if known is None else known.certainty

    def changes(self, pods: Mapping[str, ResidentPod]) -> Iterator[HintChange]:
        """The bound pods whose hints are not what they should be."""
        for key in tuple(self._open):
            known, pod = self._known[key], pods.get(key)
            if pod is not None and pod.uid == known.uid and pod.node:
                yield HintChange(key, known.uid, pod.node, known.wanted)

    def written(self, change: HintChange) -> None:
        """The pod has that hint now."""
        known = self._known.get(change.pod)
        if known is not None and known.uid == change.uid:
            self._put(change.pod, replace(known, shown=change.hint, ours=True, blank=False))

    def _put(self, pod: str, known: Known) -> None:
        self._known[pod] = known
        for pods, belongs in ((self._open, known.differs), (self._doubtful, known.certainty is Certainty.DOUBTFUL)):
            if belongs:
                pods.add(pod)
            else:
                pods.discard(pod)
