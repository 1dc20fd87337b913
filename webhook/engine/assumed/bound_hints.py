"""Where pods are that are bound to nodes, or on their way there, and what puts that in doubt.

A kubelet gives a pod the first NUMA nodes with room at the moment it arrives. That is replayed at its binding, but
for what nobody knew then:
1. Another pod ended while this one was on its way, or turned out to have been rejected.
2. A pod without a hint came before it: what that was given is not known.
3. It was placed, and bound by the word of another replica, or of none.
The node's NodeResourceTopology ends the doubt, if it leaves one place only (see `reported_placement`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from webhook.engine.assumed.alternatives import Alternatives
from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.engine.assumed.displaced_pods import Arrived, displaced
from webhook.engine.assumed.known_placements import Certainty, HintChange, KnownHints
from webhook.engine.assumed.reported_placement import whereabouts
from webhook.engine.assumed.unreported import held
from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.model.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy
from webhook.model.resident import ResidentPod

# A pod that is gone without having said when it ended had ended so many seconds before that was heard, at most.
_HEARD_SECONDS: Final = 2.0
_SURE: Final = frozenset({Certainty.CONFIRMED, Certainty.CHOSEN})


class BoundHints:
    """By pod (namespace/name)."""

    def __init__(self, pods: Mapping[str, ResidentPod]) -> None:
        """pods: those that are bound, among others."""
        self._pods = pods
        self._newcomers: list[ResidentPod] = []
        self._known = KnownHints()
        self._alternatives = Alternatives()

    def assumed_by(self, assumed_pod: AssumedPod) -> None:
        """The pod was given something, in place of whatever it was given before."""
        self._alternatives.forget(assumed_pod.pod)
        self._known.withdrawn(assumed_pod.pod)
        if assumed_pod.is_binding:
            self._known.assumed_by(assumed_pod)
            self._alternatives.also(assumed_pod.pod, assumed_pod.alternatives)

    def replayed(self, pod: ResidentPod, numa: NumaAmounts, alternatives: frozenset[int], *, sure: bool) -> None:
        """The pod, which is not ours to hint, was just bound, and this is what its kubelet gives it."""
        self._known.replayed(pod, numa, sure=sure)
        self._alternatives.also(pod.key, alternatives)

    def withdrawn(self, pod: str) -> None:
        """What it was given it will not take."""
        self._alternatives.forget(pod)
        self._known.withdrawn(pod)

    def seen(self, pod: ResidentPod, before: ResidentPod | None, topology: NodeTopology | None) -> None:
        """The pod is bound, and looks like this. before: as it looked last."""
        assigned = before is not None and before.uid == pod.uid and bool(before.assigned_node)
        self._known.seen(pod, assigned=assigned and topology is not None and not _is_chosen(topology))
        first = before is None or before.uid != pod.uid or not before.node
        if first and pod.exclusive_resources and not (pod.unhinted or self.places(pod)):
            self._newcomers.append(pod)

    def applied(self, pod: ResidentPod) -> ResidentPod:
        """The pod with what is known in place of its hint."""
        return self._known.applied(pod)

    def places(self, pod: ResidentPod) -> bool:
        """Whether something is known of where the pod is."""
        return self._known.places(pod)

    def as_ended(self, pod: ResidentPod) -> ResidentPod:
        """The same of one that has ended: what was in doubt is not known."""
        doubtful = self._known.certainty(pod.key) is Certainty.DOUBTFUL
        return replace(pod, hint=None) if doubtful else self._known.applied(pod)

    def forget(self, pod: str, uid: str) -> None:
        """The pod with this uid is gone."""
        self._known.forget(pod, uid)
        if self._known.get(pod) is None:
            self._alternatives.forget(pod)

    def left_room(
        self,
        ended: ResidentPod,
        on_node: Sequence[ResidentPod],
        later: frozenset[str],
        assumed_pods: Iterable[AssumedPod],
        topology: NodeTopology | None,
        now: float,
    ) -> frozenset[str]:
        """A pod of a node has ended, as is heard at `now`; those that may therefore be elsewhere, which is news.

        on_node: the pods bound there, in the order of binding; later: the keys of those bound after the one that ended.
        assumed_pods: those on their way there.
        """
        if topology is None or _is_chosen(topology):
            return frozenset()
        others = [self.applied(pod) for pod in on_node if pod.key != ended.key]
        came = [
            self._arrived(pod.key, held(pod), _may_have_come_after(pod, ended, now, later=pod.key in later))
            for pod in others
            if pod.hint
        ]
        came += [
            self._arrived(assumed_pod.pod, assumed_pod.numa, may_find=True)
            for assumed_pod in assumed_pods
            if assumed_pod.numa
        ]
        found = displaced(came, self._room_of(ended, topology), topology)
        return frozenset(pod for pod, numa_ids in found.items() if self._may_be(pod, numa_ids))

    def came_before(self, assumed_pod: AssumedPod, topology: NodeTopology | None) -> bool:
        """A pod without a hint was bound, perhaps before the one on its way to that node; whether that is news."""
        if not assumed_pod.numa or _is_chosen(topology) or self.certainty(assumed_pod.pod) in _SURE:
            return False
        return topology is not None and self._may_be(assumed_pod.pod, _others(topology, assumed_pod.numa))

    def locate(
        self,
        topology: NodeTopology,
        counted: Sequence[ResidentPod],
        on_node: Sequence[ResidentPod],
        assumed_pods: Sequence[AssumedPod],
    ) -> Mapping[str, NumaAmounts]:
        """Take in an NRT that has counted these pods; where those are for which it is proof.

        on_node, assumed_pods: as of `left_room`.
        """
        found = whereabouts(topology, counted, self._known, self._alternatives)
        moved = False
        for pod in on_node:
            if pod.key in found.places:
                moved |= self._is_moved(pod.key, found.places[pod.key])
                certainty = Certainty.CONFIRMED if pod.key in found.certain else Certainty.REPLAYED
                self._known.locate(pod.key, found.places[pod.key], certainty)
                if found.places[pod.key] is not None:
                    self._alternatives.forget(pod.key)
            elif moved and pod.hint and self.certainty(pod.key) is Certainty.REPLAYED:
                # What was replayed for it took that one to be where it is not.
                self._may_be(pod.key, _others(topology, held(pod)))
        for assumed_pod in assumed_pods if moved else ():
            self._may_be(assumed_pod.pod, _others(topology, assumed_pod.numa))
        return found.certain

    def certainty(self, pod: str) -> Certainty | None:
        """How sure it is where a pod is; None where nothing is known."""
        return self._known.certainty(pod)

    def widened(self, pod: str, hint: NumaAmounts) -> NumaAmounts:
        """What must be kept for a pod wherever it is."""
        return self._alternatives.widened(pod, hint)

    def doubt_until(self, pod: ResidentPod, age: float) -> float:
        """When nothing more is kept for a doubt about a bound pod; inf where there is none."""
        return self._alternatives.until(pod, age)

    def anywhere(self, pod: str, kept: NumaAmounts, topology: NodeTopology) -> NumaAmounts:
        """What a pod in doubt may have taken where nothing is kept for it."""
        ids = self._alternatives.ids(pod) or frozenset(zone.id for zone in topology.zones)
        known = self._known.get(pod)
        total = added(known.numa.values()) if known is not None else {}
        beyond: dict[int, Mapping[str, int]] = {}
        for numa_id in ids:
            here = kept.get(numa_id, {})
            rest = {name: amount - here.get(name, 0) for name, amount in total.items() if amount > here.get(name, 0)}
            if rest:
                beyond[numa_id] = rest
        return beyond

    def newcomers(self) -> Sequence[ResidentPod]:
        """The pods bound since this was asked last that are not ours to hint, and hold NUMA nodes."""
        newcomers, self._newcomers = self._newcomers, []
        return newcomers

    def changes(self) -> Iterator[HintChange]:
        """The bound pods whose hints are not what they should be, as of the last settling."""
        return self._known.changes(self._pods)

    @property
    def has_changes(self) -> bool:
        """Whether there are any."""
        return self._known.has_changes

    def uncertain(self, bound_before: float) -> Iterator[ResidentPod]:
        """The pods bound before then that have no hint since it is not certain."""
        for key in self._known.doubtful:
            pod = self._pods.get(key)
            if pod is not None and pod.node and not pod.hint and (pod.bound_at or 0) <= bound_before:
                yield pod

    def written(self, change: HintChange) -> None:
        """The pod has that hint now."""
        self._known.written(change)

    def _room_of(self, ended: ResidentPod, topology: NodeTopology) -> frozenset[int]:
        """The NUMA ids on which the pod may have held something: its hint may not account for an end."""
        known = self._known.get(ended.key)
        if known is not None and (known.certainty in _SURE or (known.ours and known.certainty is Certainty.REPLAYED)):
            return frozenset(known.numa)
        return _others(topology, {}) if ended.exclusive_resources else frozenset()

    def _arrived(self, pod: str, hint: NumaAmounts, may_find: bool) -> Arrived:
        certainty = self.certainty(pod)
        return Arrived(pod, hint, certainty in _SURE, certainty is Certainty.DOUBTFUL, may_find)

    def _is_moved(self, pod: str, numa: NumaAmounts | None) -> bool:
        """Whether a pod is not where it was replayed for certain."""
        known = self._known.get(pod)
        return known is not None and known.certainty is Certainty.REPLAYED and known.numa != numa

    def _may_be(self, pod: str, numa_ids: Iterable[int]) -> bool:
        news = self._alternatives.also(pod, numa_ids)
        self._known.doubt(pod)
        return news


def _others(topology: NodeTopology, hint: NumaAmounts) -> frozenset[int]:
    return frozenset(zone.id for zone in topology.zones if zone.id not in hint)


def _may_have_come_after(pod: ResidentPod, ended: ResidentPod, now: float, *, later: bool) -> bool:
    """Whether a pod may have reached its kubelet when another one had ended. later: it was bound after that one."""
    if not pod.started:
        return True
    if ended.terminal and ended.ended_at is None:
        return later  # rejected, so it never held anything
    end = now - _HEARD_SECONDS if ended.ended_at is None else ended.ended_at
    return pod.started_at is not None and pod.started_at >= end


def _is_chosen(topology: NodeTopology | None) -> bool:
    """Whether nothing aligns a pod there but its hint."""
    return topology is not None and (topology.publisher is Publisher.TOTAL or topology.policy is NUMAPolicy.NONE)
