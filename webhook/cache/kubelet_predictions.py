"""Predicts what kubelets give to pods: to a pod that may be bound next, and to pods that were bound without a hint.

All methods take the `node_arrays` of the latest update, so that ledger and arrays show the same moment.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from webhook.cache.hint_certainty import given_on, hint_certainty, of_resident
from webhook.cache.kubelet_admission import AssignedPod, KubeletAdmission
from webhook.cache.missing_hint import HintBackfill
from webhook.engine.assumed.assumed_pods import AssumedPods
from webhook.engine.kubelet.allocation_replay import replay
from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.single_node import less, node_alone
from webhook.internal_errors import Where, contained, internal_error
from webhook.model.resident import ResidentPod

# An unmanaged pod with more containers gets no prediction: it could take a second, and any user can create such a pod.
_MOST_CONTAINERS: Final = 4


class KubeletPredictions:
    """Predicts from bound, assigned and assumed pods. waiting: the pods that are not bound, by namespace/name."""

    def __init__(self, assumed_pods: AssumedPods, ledger: Ledger, waiting: Mapping[str, Mapping[str, Any]]) -> None:
        self._assumed_pods = assumed_pods
        self._ledger = ledger
        self._waiting = waiting

    def admission(self, node_arrays: NodeArrays, node: str, pod: str, now: float) -> KubeletAdmission | None:
        """The node as the pod namespace/name will find it when bound to it; None if the node is unknown."""
        residents = [resident for resident in self._assumed_pods.bound_to(node) if resident.key != pod]
        alone = node_alone(node_arrays, node, residents)
        if alone is None:
            return None
        assigned = [reservation for reservation in self._assumed_pods.assigned(node) if reservation.pod != pod]
        own = self._ledger.get(pod)
        # A tentative reservation blocks no other pod: the pod that is bound first gets the resources.
        others = [reservation for reservation in self._assumed_pods.tentative(node) if reservation.pod != pod]
        given = less(self._ledger.sums(node), node, [*assigned, *others, *(() if own is None else (own,))])
        waiting = [(reservation, self._waiting.get(reservation.pod)) for reservation in assigned]
        return KubeletAdmission(
            alone,
            given,
            tuple(AssignedPod(reservation, raw) for reservation, raw in waiting if raw is not None),
            own,
            self._assumed_pods.leeway(node, pod, now),
        )

    def replay_newcomer(self, node_arrays: NodeArrays, newcomer: ResidentPod, now: float) -> None:
        """Reserve what a kubelet gives to an unmanaged pod that was just bound, because other pods cannot use it."""
        if len(newcomer.containers) > _MOST_CONTAINERS:
            return
        kubelet_admission = self.admission(node_arrays, newcomer.node, newcomer.key, now)
        if kubelet_admission is None or self._assumed_pods.is_counted(newcomer):
            return
        request_on = of_resident(newcomer)
        given = given_on(kubelet_admission.kubelet_snapshot(), request_on)
        if given:
            replayed = hint_certainty(kubelet_admission, request_on, given)
            self._assumed_pods.keep_for(newcomer, dict(given), replayed.alternatives, sure=replayed.sure)

    def replay_unhinted(self, node_arrays: NodeArrays) -> None:
        """Replay the admissions of pods without a hint on the nodes that have changed."""
        for node in self._assumed_pods.replay.nodes():
            try:
                unhinted = self._assumed_pods.replay.of(node)
                if (alone := node_alone(node_arrays, node, unhinted.residents)) is not None:
                    self._assumed_pods.replay.keep(node, replay(alone, unhinted))
            except Exception as error:  # noqa: BLE001 # a fault on one node must not break every snapshot
                internal_error(Where.NODE, error, node=node)
                self._assumed_pods.replay.give_up(node)

    def hint_backfills(self, node_arrays: NodeArrays, now: float) -> Iterator[HintBackfill]:
        """The hint for each unreported pod that was bound without one, or the reason why it has none.

        Includes pods whose hint has been uncertain for so long that the NRT should have shown its NUMA nodes.
        """
        for pod in self._assumed_pods.uncertain(now):
            yield HintBackfill.not_certain(pod)
        for pod, replayed in self._assumed_pods.replay.results(now):
            if replayed.numa or replayed.why_unknown is not None:
                backfill = None
                with contained(Where.POD, pod=pod.key):
                    backfill = HintBackfill.of(pod, replayed, self.admission(node_arrays, pod.node, pod.key, now))
                if backfill is not None:
                    yield backfill
