"""The reservations of a node that follow from objects: every replica that reads the same objects derives the same.

- An assigned pod (its hint names a node, our gate is gone) that is not bound yet: everything that it requests, unless
  its hint says that nothing is reserved any more because the scheduler could not bind it
  (`controllers.unbindable_pods`). If only its node is known, on every NUMA node (see `cache.pod_info`).
- A bound pod: what its node's NRT does not show, by `unreported`.
- Pods that have ended: what the NRT still shows as taken by them is given back.
- A managed pod that was bound unhinted: what its replay says, until the NRT reports it.
- What Koordinator's Reservations hold for their owners: no NRT shows it.

When time alone changes something of a node: the first of 5,000 such times without a look at all of them.

A heap with stale entries: a time that was replaced or removed stays in the heap until it comes first, or until stale
entries are the majority.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology
from webhook.state.assumed.credible_hints import credible
from webhook.state.assumed.node_facts import NodeFacts
from webhook.state.assumed.node_reservations import NodeReservations
from webhook.state.assumed.placement_search import most_given_to
from webhook.state.assumed.unreported import (
    NOTHING,
    NOWHERE,
    Unreported,
    held,
    is_counted,
    not_reported,
    unreported,
)

# Below this size nothing is gained by removing stale entries.
_LEAST_ENTRIES: Final = 64


class DueTimes:
    """One time per node at most, in seconds of any one clock."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __contains__(self, node: str) -> bool:
        return node in self._at

    def put(self, node: str, at: float) -> None:
        """Set the node's time, replacing an earlier one."""
        self._at[node] = at
        heappush(self._heap, (at, node))
        if len(self._heap) > 2 * len(self._at) + _LEAST_ENTRIES:
            self._heap = [(time, name) for name, time in self._at.items()]
            heapify(self._heap)

    def put_earlier(self, node: str, at: float) -> None:
        """Set the node's time, unless it has an earlier one."""
        if node not in self._at or at < self._at[node]:
            self.put(node, at)

    def remove(self, node: str) -> None:
        """Remove the node's time, if it has one."""
        self._at.pop(node, None)

    @property
    def first(self) -> float:
        """The first of all times; inf: there is none."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else inf

    def take(self, now: float) -> list[str]:
        """Remove and return the nodes whose time has come by `now`, the first one first."""
        nodes = []
        while self._at and self.first <= now:
            node = self._heap[0][1]
            del self._at[node]
            nodes.append(node)
        return nodes


class DerivedReservations:
    """Derives the reservations of one node at a time, and remembers when time alone will change them."""

    def __init__(self, facts: NodeFacts, ledger: Ledger, reservations: NodeReservations) -> None:
        self._facts = facts
        self._ledger = ledger
        self._reservations = reservations
        self._unreported: dict[str, Unreported] = {}
        self._due = DueTimes()

    def on(self, node: str, now: float) -> Iterator[Reservation]:
        """The node's reservations at `now`. Also writes to the ledger what ended pods no longer hold."""
        self._due.remove(node)
        facts = self._facts
        pods = facts.pods.on(node)
        topology = facts.reports.topology(node)
        bound = [credible(facts.hints.applied(pod), topology) for pod in pods if pod.node]
        for key, amounts in self._update(node, topology, bound, now).amounts.items():
            pod = facts.pods.by_key[key]
            is_over = self._is_over(node, facts.hints.alternatives_until(pod, facts.times.age), now)
            numa = amounts if is_over else facts.hints.widened(key, amounts)
            yield Reservation.of(key, node, numa, None, policy=pod.policy)
        yield from self.of_unhinted(node)
        yield from facts.held.on(node, topology)
        for pod in pods:
            if pod.assigned_node and pod.reserved:
                numa = _anywhere(pod, topology) if pod.hint is None else held(pod)
                yield Reservation.of(pod.key, node, numa, pod.requests, policy=pod.policy)

    def of_unhinted(self, node: str) -> Iterator[Reservation]:
        """The reservations of the node's unreported pods by their replay."""
        for pod, replayed in self._facts.unhinted.on(node):
            if replayed.numa:
                yield Reservation.of(pod.key, node, replayed.numa, None, policy=pod.policy)

    def unreported(self, node: str) -> Unreported:
        """How the node's amounts differ from its NRT, as last derived."""
        return self._unreported.get(node, NOTHING)

    def take_due(self, now: float) -> Collection[str]:
        """The nodes whose reservations time alone has changed by `now`. The caller derives them anew."""
        return self._due.take(now)

    def is_due(self, node: str) -> bool:
        """Whether time alone will change the node's reservations."""
        return node in self._due

    @property
    def next_due(self) -> float:
        """When time alone changes the reservations of the first node; inf: never."""
        return self._due.first

    def _update(self, node: str, topology: NodeTopology | None, bound: Sequence[ResidentPod], now: float) -> Unreported:
        """Compute what the node's NRT does not report yet."""
        facts = self._facts
        ended = () if topology is None else facts.reports.ended(topology)
        rest, until = NOTHING, None
        waiting: Sequence[ResidentPod] = ()
        if ended or any(pod.hint or pod.unhinted for pod in bound):
            covered = None if topology is None else facts.reports.reported(topology)
            certain = self._located(topology, bound, ended, covered, now)
            rest = unreported(topology, bound, covered, facts.times, now, ended, certain)
            if topology is not None and any(pod.unhinted for pod in bound):
                waiting, until = not_reported(topology, bound, covered, facts.times, now, ended)
        facts.unhinted.put(node, waiting, outage=facts.unhinted.had_outage(bound))
        if changes := [at for at in (rest.until, until) if at is not None]:
            self._due.put(node, min(changes))
        self._unreported[node] = rest
        self._ledger.give_back(node, rest.ended)
        return rest

    def _located(
        self,
        topology: NodeTopology | None,
        bound: Sequence[ResidentPod],
        ended: Sequence[ResidentPod],
        covered: frozenset[str] | None,
        now: float,
    ) -> Mapping[str, NumaAmounts]:
        """The NUMA nodes of the pods for which the NRT is proof. Also widens the reservations of assumed pods."""
        if topology is None or covered is None or not covered <= {pod.key for pod in (*bound, *ended)}:
            return NOWHERE
        facts = self._facts
        if not covered.isdisjoint(facts.reports.ambiguous(topology, now)):
            return NOWHERE
        counted = [pod for pod in bound if is_counted(pod, topology, covered)]
        gone = [pod for pod in ended if pod.key in covered and pod.exclusive_resources]
        binding_to = facts.assumed.binding_to(topology.node)
        certain = facts.hints.locate(topology, [*counted, *gone], facts.order.in_order(bound), binding_to)
        for assumed_pod in binding_to:
            self._reservations.put(facts.reservation_of(assumed_pod))
        return certain

    def _is_over(self, node: str, until: float, now: float) -> bool:
        """Whether the time `until` has come. If not, the node is settled again at that time."""
        if until > now:
            self._due.put_earlier(node, until)
        return until <= now


def _anywhere(pod: ResidentPod, topology: NodeTopology | None) -> NumaAmounts:
    amounts = {} if topology is None else most_given_to(pod, topology)
    return {zone.id: amounts for zone in topology.zones} if topology is not None and amounts else {}
