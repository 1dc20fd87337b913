"""The replay of unhinted pods' admissions: which nodes need one, its input, and its results."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from webhook.engine.snapshot.ledger import Ledger
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import Publisher
from webhook.state.assumed.derived_reservations import DerivedReservations
from webhook.state.assumed.node_facts import NodeFacts
from webhook.state.assumed.node_reservations import NodeReservations
from webhook.state.assumed.unhinted import Replayed, Unhinted


class UnhintedReplay:
    """Nodes to replay are as of the last `AssumedPods.settle`."""

    def __init__(
        self, facts: NodeFacts, ledger: Ledger, reservations: NodeReservations, derived: DerivedReservations
    ) -> None:
        self._facts = facts
        self._ledger = ledger
        self._reservations = reservations
        self._derived = derived

    def nodes(self) -> Sequence[str]:
        """The nodes on which the NUMA nodes of unhinted pods need a replay."""
        return self._facts.unhinted.to_replay()

    def of(self, node: str) -> Unhinted:
        """The input of the replay for one of `nodes`. They all have an NRT."""
        unhinted, reports = self._facts.unhinted, self._facts.reports
        admissions, asked = unhinted.admissions(node)
        topology, bound = reports.topologies[node], self._facts.pods.bound_to(node)
        keys = {pod.key for pod in admissions}
        residents = [pod for pod in bound if pod.key not in keys]
        if topology.publisher is not Publisher.TOTAL:
            living = {pod.key for pod in bound} - {pod.key for pod in reports.ended(topology)}
            why_unknown = unhinted.why_unknown(topology, reports.reported(topology), living, self._facts.times.settle)
            return Unhinted(admissions, asked, residents, why_unknown)
        others = self._ledger.sums(node).copy()
        for shown in map(self._ledger.get, keys):
            if shown is not None and shown.node == node:
                others.add(shown.numa, shown.requests, shown.policy, -1)
        given = {pod.key: seen.numa for pod, seen in unhinted.on(node) if seen.why_unknown is None}
        return Unhinted(admissions, asked, residents, None, others, given)

    def give_up(self, node: str) -> None:
        """Skip the replay of the node's pods until an object on the node changes."""
        self._facts.unhinted.keep(node, {})

    def keep(self, node: str, replayed: Mapping[str, Replayed]) -> None:
        """Reserve the result of the replay for the pods of the node."""
        self._facts.unhinted.keep(node, replayed)
        for reservation in self._derived.of_unhinted(node):
            if reservation.pod not in self._facts.assumed:
                self._reservations.put(reservation)

    def results(self, now: float) -> Iterator[tuple[ResidentPod, Replayed]]:
        """The managed pods that are bound, unhinted and unreported, with the replay result of each.

        Only pods that their kubelet must have admitted some time before `now`. A kubelet writes the statuses of pods in
        parallel, so the end of one pod may arrive after the start of the pod that took its room.
        """
        unhinted = self._facts.unhinted
        for pod, replayed in chain.from_iterable(map(unhinted.on, unhinted.nodes())):
            if pod.unhinted and now >= (pod.bound_at or 0) + self._facts.times.settle:
                yield pod, replayed
