"""The NUMA nodes of bound pods as far as they are known, and whether the pods' hints agree: node agents obey hints.

    REPLAYED   the kubelet's choice was replayed at the binding, and nothing has happened that could change it
    UNCERTAIN   something may have changed it: another pod ended or came first, or the NRT left open what was free
    CONFIRMED  the NodeResourceTopology reports the pod there
    CHOSEN     the service chooses the NUMA nodes, and koordlet obeys the hint

    assumed ──> REPLAYED ─────────> UNCERTAIN
                    │                  │        located: the NRT leaves only one possible placement
                    └──> CONFIRMED <───┘

A pod has a hint unless it is UNCERTAIN. The leader writes hints that are missing or wrong, and removes those that are
uncertain (`changes`). Followers only read what the pods show.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.model.hint import NUMANodeAmounts
from webhook.model.resident import ResidentPod
from webhook.records import record


class Certainty(Enum):
    """How certain the NUMA nodes of a pod are."""

    REPLAYED = "replayed"
    UNCERTAIN = "uncertain"
    CONFIRMED = "confirmed"
    CHOSEN = "chosen"


@record
class Known:
    """The NUMA nodes and the hint of one pod, as far as this replica knows them."""

    uid: str
    numa: NumaAmounts
    """What it holds; the best guess while that is uncertain."""
    certainty: Certainty
    shown: NUMANodeAmounts | None
    """The hint in the pod, as last seen; None if it has none."""
    ours: bool
    """Whether this replica decided it. If not, the hint in the pod is newer than what is known here."""
    bound: bool = False
    """Whether a watch or list has shown the pod bound."""
    managed: bool = True
    """Whether it gets hints. Unmanaged pods get none; their NUMA nodes matter to the pods that come after them."""
    outdated: bool = False
    """Whether its hint has to be replaced even if it names the right NUMA nodes: it is that of an assignment, or the
    binding may have replaced it by one that names none."""

    @property
    def wanted(self) -> NUMANodeAmounts | None:
        """The hint that the pod should have; None if it should have none."""
        return None if self.certainty is Certainty.UNCERTAIN else tuple(sorted(self.numa.items())) or None

    @property
    def differs(self) -> bool:
        """Whether its hint has to be written or removed."""
        return self.managed and self.bound and (self.outdated or dict(self.shown or ()) != dict(self.wanted or ()))


@dataclass(frozen=True, slots=True)
class HintChange:
    """A hint to write to a bound pod, or to remove from it."""

    pod: str
    """namespace/name."""
    uid: str
    node: str
    hint: NUMANodeAmounts | None
    """None: remove the hint."""


def _certainty(uncertain: bool) -> Certainty:
    return Certainty.UNCERTAIN if uncertain else Certainty.REPLAYED


class KnownHints:
    """What is known of each pod (namespace/name)."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._open: set[str] = set()
        self._uncertain: set[str] = set()

    @property
    def has_changes(self) -> bool:
        """Whether some hints have to be written or removed."""
        return bool(self._open)

    @property
    def uncertain(self) -> Sequence[str]:
        """The pods whose NUMA nodes are uncertain."""
        return tuple(self._uncertain)

    def assume(self, assumed_pod: AssumedPod) -> None:
        """Record the assumed NUMA nodes of a pod that is on its way to its kubelet."""
        certainty = Certainty.REPLAYED if assumed_pod.sure else Certainty.UNCERTAIN
        if assumed_pod.chosen and assumed_pod.sure:
            certainty = Certainty.CHOSEN
        self._put(assumed_pod.pod, Known(assumed_pod.uid, assumed_pod.numa, certainty, None, ours=True))

    def replayed(self, pod: ResidentPod, numa: NumaAmounts, *, sure: bool) -> None:
        """Record the replay result of an unmanaged pod that was just bound. It gets no hint."""
        certainty = Certainty.REPLAYED if sure else Certainty.UNCERTAIN
        self._put(pod.key, Known(pod.uid, numa, certainty, None, ours=True, bound=True, managed=False))

    def forget_assumed(self, pod: str) -> None:
        """Forget the pod, unless it is bound: its binding will not be written."""
        known = self._known.get(pod)
        if known is not None and not known.bound:
            self.forget(pod)

    def seen(self, pod: ResidentPod, *, unreviewed: bool) -> None:
        """Record a bound pod. unreviewed: its hint is that of its assignment, and its kubelet may choose another."""
        known = self._known.get(pod.key)
        if known is not None and known.uid != pod.uid:
            known = None
        if known is None:
            if not pod.hint:
                self.forget(pod.key)
                return
            known = Known(pod.uid, dict(pod.hint), _certainty(unreviewed), pod.hint, ours=False, bound=True)
            self._put(pod.key, replace(known, outdated=unreviewed))
            return
        if not known.ours and (pod.hint != known.shown or unreviewed != known.outdated):
            known = replace(known, certainty=_certainty(unreviewed or not pod.hint), outdated=False)
            if pod.hint:
                known = replace(known, numa=dict(pod.hint))
        blank = known.ours and not known.bound and bool(known.numa) and known.wanted is None
        outdated = known.outdated or blank or unreviewed
        self._put(pod.key, replace(known, shown=pod.hint, bound=True, outdated=outdated))

    def trust(self, pod: str) -> None:
        """Take the hint of an assignment for what the pod has: the service chooses the NUMA nodes there."""
        known = self._known.get(pod)
        if known is not None and not known.ours and known.outdated:
            self._put(pod, replace(known, certainty=Certainty.REPLAYED, outdated=False))

    def applied(self, pod: ResidentPod) -> ResidentPod:
        """The pod with the known NUMA nodes in place of its hint; the pod as it is if none are known."""
        known = self._known.get(pod.key)
        if known is None or known.uid != pod.uid or not known.numa:
            return pod
        hint = tuple(known.numa.items())
        return pod if pod.hint == hint and not pod.unhinted else replace(pod, hint=hint, unhinted=False)

    def is_located(self, pod: ResidentPod) -> bool:
        """Whether the pod has a hint, or its NUMA nodes are known without one."""
        known = self._known.get(pod.key)
        return bool(pod.hint or (known is not None and known.uid == pod.uid and known.numa))

    def make_uncertain(self, pod: str) -> None:
        """Make a replayed pod uncertain: its kubelet may have chosen other NUMA nodes."""
        known = self._known.get(pod)
        if known is not None and known.certainty is Certainty.REPLAYED:
            self._put(pod, replace(known, certainty=Certainty.UNCERTAIN))

    def locate(self, pod: str, numa: NumaAmounts | None, certainty: Certainty) -> None:
        """Record what the NRT says about a pod. numa: what it holds; None: several placements are possible."""
        known = self._known.get(pod)
        if known is None or known.certainty is Certainty.CONFIRMED:
            return
        if numa is None:
            self._put(pod, replace(known, certainty=Certainty.UNCERTAIN))
        else:
            self._put(pod, replace(known, numa=numa, certainty=certainty))

    def forget(self, pod: str, uid: str | None = None) -> None:
        """Remove the pod. uid: only if the known pod has this one; None: any."""
        if uid is not None and (known := self._known.get(pod)) is not None and known.uid != uid:
            return
        self._known.pop(pod, None)
        self._open.discard(pod)
        self._uncertain.discard(pod)

    def get(self, pod: str) -> Known | None:
        """What is known of the pod; None if nothing is."""
        return self._known.get(pod)

    def certainty(self, pod: str) -> Certainty | None:
        """How certain the pod's NUMA nodes are; None if nothing is known."""
        known = self._known.get(pod)
        return None if known is None else known.certainty

    def changes(self, pods: Mapping[str, ResidentPod]) -> Iterator[HintChange]:
        """The hints to write or remove. pods: the current ones, by key. Only bound pods have changes."""
        return filter(None, (self.change(key, pods) for key in tuple(self._open)))

    def change(self, key: str, pods: Mapping[str, ResidentPod]) -> HintChange | None:
        """The hint of one pod to write or remove; None if it is as it should be."""
        known, pod = self._known.get(key), pods.get(key)
        if key not in self._open or known is None or pod is None or pod.uid != known.uid or not pod.node:
            return None
        return HintChange(key, known.uid, pod.node, known.wanted)

    def written(self, change: HintChange) -> None:
        """Record that this change was written to the pod."""
        known = self._known.get(change.pod)
        if known is not None and known.uid == change.uid:
            self._put(change.pod, replace(known, shown=change.hint, ours=True, outdated=False))

    def _put(self, pod: str, known: Known) -> None:
        self._known[pod] = known
        for pods, belongs in ((self._open, known.differs), (self._uncertain, known.certainty is Certainty.UNCERTAIN)):
            if belongs:
                pods.add(pod)
            else:
                pods.discard(pod)
