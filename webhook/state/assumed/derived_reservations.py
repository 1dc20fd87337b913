"""The reservations of a node that follow from objects: every replica that reads the same objects derives the same.

- An assigned pod (its allocation names a node, our gate is gone) that is not bound yet: everything that it requests,
unless
  its allocation says that nothing is reserved any more because the scheduler could not bind it
  (`controllers.unbindable_pods`). If only its node is known, on every NUMA node (see `state.pod_info`).
- A bound pod: what its node's NRT does not show, by `unreported`.
- Pods that have ended: what the NRT still shows as taken by them is given back.
- A managed pod that was bound without an allocation: what its replay says, until the NRT reports it.
- A bound pod that a node agent saw elsewhere: the same there, until the NRT reports it (`observed_placement`).
- What Koordinator's Reservations hold for their owners: no NRT shows it.
- A pod that kube-scheduler nominated for the node, because it preempts others there or is about to bind it: what it
  requests, by the node's sums. The scheduler counts it so against pods up to its priority, and would not bind them.

Exporters write every minute, and mostly only the time differs. What is derived for a node depends on that time in two
ways (see `unreported`): pods that were bound shortly before or after it, and pods that have ended since. Everything
else is derived again only if something is left to find out: assumed pods, pods without an allocation, pods whose NUMA
nodes no NRT
has confirmed, and changes that are due to time alone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.state.assumed.free_bounds import Leeway
from webhook.state.assumed.known_placements import Certainty, credible
from webhook.state.assumed.node_state import NodeStates
from webhook.state.assumed.observed_placement import PodNUMANodes, numa_nodes_on, reserved_also
from webhook.state.assumed.placement_search import most_given_to
from webhook.state.assumed.unallocated import UnallocatedReplay
from webhook.state.assumed.unreported import (
    NOTHING,
    NOWHERE,
    Unreported,
    held,
    is_counted,
    is_long_after,
    not_reported,
    unreported,
)

# Below this size nothing is gained by removing stale entries.
_LEAST_ENTRIES: Final = 64


class DueTimes:
    """When time alone changes something of each node: the first of 5,000 such times without a look at all of them.

    A heap with stale entries: a time that was replaced or removed stays in the heap until it comes first, or until
    stale entries are the majority. Times are in seconds of any one clock.
    """

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

    def __init__(self, states: NodeStates, replay: UnallocatedReplay) -> None:
        self._states = states
        self._replay = replay
        self._due = DueTimes()

    def on(self, node: str, now: float) -> Iterator[Reservation]:
        """The node's reservations at `now`. Also writes to the ledger what ended pods no longer hold."""
        self._due.remove(node)
        states, state = self._states, self._states.on(node)
        allocations, age, topology = states.allocations, states.times.age, state.topology
        pods = state.pods.values()
        bound = [credible(allocations.applied(pod), topology) for pod in pods if pod.node]
        reserved: dict[str, NumaAmounts] = {}
        for key, amounts in self._update(node, topology, bound, now).amounts.items():
            is_over = self._is_over(node, allocations.alternatives_until(states.pods[key], age), now)
            reserved[key] = amounts if is_over else allocations.widened(key, amounts)
        reserved |= {one.pod: one.numa for one in self._replay.reservations(node)}
        also = self._also_observed(topology, bound, reserved, now)
        states.at(node).also_observed = frozenset(also)
        for key, numa in (reserved | also).items():
            yield Reservation.of(key, node, numa, None, policy=states.pods[key].policy)
        yield from state.held(node)
        for pod in state.nominated.values():
            yield Reservation.of(pod.key, node, {}, pod.requests)
        for pod in pods:
            if pod.assigned_node and pod.reserved:
                numa = _anywhere(pod, topology) if pod.allocation is None else held(pod)
                yield Reservation.of(pod.key, node, numa, pod.requests, policy=pod.policy)

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

    def changes_nothing(self, known: NodeTopology, rewritten: NodeTopology) -> bool:
        """Whether deriving the node's reservations again would give the same, except for changes due to time.

        known: the NRT that they were derived from. rewritten: the same, written at another time.
        """
        states, state = self._states, self._states.on(known.node)
        if state.assumed:
            return False
        ended = states.ended(known)
        if ended != states.ended(rewritten):
            return False
        covered = states.reported(known)
        if covered is not None and any(pod.key in covered for pod in ended):
            return False
        return all(self._is_settled(pod, known, rewritten) for pod in state.pods.values())

    def leeway(self, node: str, pod: str, now: float) -> Leeway:
        """How much more or less of the node may be free for the pod (namespace/name) than the NRT and the ledger say.

        See `free_bounds`.
        """
        states, state = self._states, self._states.on(node)
        topology, rest = state.topology, state.unreported
        if topology is None or topology.publisher is Publisher.TOTAL:
            return Leeway()
        uncertain = {other.key for other, seen in self._replay.on(node) if seen.why_unknown is not None}
        kept: list[NumaAmounts] = []
        maybe_taken = list(self._without_reservation(topology, pod, now))
        for reservation in states.reservations(node):
            key = reservation.pod
            if key == pod or states.is_assigned(key) or states.is_tentative(key):
                continue
            if key in uncertain or states.allocations.certainty(key) is Certainty.UNCERTAIN:
                kept.append(reservation.numa)
                maybe_taken.append(states.allocations.anywhere(key, reservation.numa, topology))
            elif key in state.also_observed:
                kept.append(reservation.numa)
            elif key in rest.maybe_counted:
                kept.append(rest.maybe_counted[key])
        return Leeway(kept, [rest.maybe_free] if rest.maybe_free else (), [numa for numa in maybe_taken if numa])

    def numa_nodes(self, node: str, now: float) -> Mapping[str, PodNUMANodes]:
        """The NUMA nodes of the pods bound to a node, by key, and how they are known."""
        states, state = self._states, self._states.on(node)
        topology, bound = state.topology, state.bound()
        observed = [pod for pod in bound if pod.observed is not None]
        unreported = {pod.key for pod in self._unreported(topology, observed, now)[0]} if observed else ()
        known = {pod.key: one for pod in bound if (one := states.allocations.known(pod.key)) is not None}
        replayed = {pod.key: seen.numa for pod, seen in self._replay.on(node) if seen.why_unknown is None}
        return numa_nodes_on(topology, bound, unreported, known, replayed)

    def _also_observed(
        self,
        topology: NodeTopology | None,
        bound: Iterable[ResidentPod],
        reserved: Mapping[str, NumaAmounts],
        now: float,
    ) -> dict[str, NumaAmounts]:
        """What is reserved for the unreported pods that node agents saw elsewhere, with what is reserved anyway.

        When time alone changes that, the node is settled again.
        """
        if topology is None or not (observed := [pod for pod in bound if pod.observed]):
            return {}
        unreported, until = self._unreported(topology, observed, now)
        if until is not None:
            self._due.put_earlier(topology.node, until)
        found: dict[str, NumaAmounts] = {}
        for pod in unreported:
            before = reserved.get(pod.key, {})
            if more := reserved_also(pod, topology, before):
                found[pod.key] = {**before, **more}
        return found

    def _unreported(
        self, topology: NodeTopology | None, pods: Sequence[ResidentPod], now: float
    ) -> tuple[Sequence[ResidentPod], float | None]:
        """Those of the bound pods that their NRT does not report at `now`, and when time alone changes that."""
        if topology is None:
            return pods, None
        states = self._states
        return not_reported(topology, pods, states.reported(topology), states.times, now, states.ended(topology))

    def _without_reservation(self, topology: NodeTopology, but: str, now: float) -> Iterator[NumaAmounts]:
        """What unreported pods without a reservation may hold, on every NUMA node. but: the pod to leave out."""
        states, bound = self._states, self._states.on(topology.node).bound()
        holding = [pod for pod in bound if pod.exclusive_resources and pod.key != but and not pod.unallocated]
        unknown = [pod for pod in holding if not states.allocations.is_located(pod)]
        if unknown:
            for pod in self._unreported(topology, unknown, now)[0]:
                amounts = most_given_to(pod, topology)
                yield {zone.id: amounts for zone in topology.zones}

    def _is_settled(self, pod: ResidentPod, known: NodeTopology, rewritten: NodeTopology) -> bool:
        if not pod.node or pod.unallocated:
            return False
        if not pod.exclusive_resources:
            return True
        states = self._states
        if known.fingerprint is not None and states.allocations.certainty(pod.key) is not Certainty.CONFIRMED:
            return False
        return all(is_long_after(one, pod, states.times.settle) for one in (known, rewritten))

    def _update(self, node: str, topology: NodeTopology | None, bound: Sequence[ResidentPod], now: float) -> Unreported:
        """Compute what the node's NRT does not report yet."""
        states = self._states
        ended = () if topology is None else states.ended(topology)
        rest, until = NOTHING, None
        waiting: Sequence[ResidentPod] = ()
        if ended or any(pod.allocation or pod.unallocated for pod in bound):
            covered = None if topology is None else states.reported(topology)
            certain = self._located(topology, bound, ended, covered, now)
            rest = unreported(topology, bound, covered, states.times, now, ended, certain)
            if topology is not None and any(pod.unallocated for pod in bound):
                waiting, until = not_reported(topology, bound, covered, states.times, now, ended)
        self._replay.put(node, waiting, outage=self._replay.had_outage(bound))
        if changes := [at for at in (rest.until, until) if at is not None]:
            self._due.put(node, min(changes))
        states.at(node).unreported = rest
        states.ledger.give_back(node, rest.ended)
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
        states = self._states
        if not covered.isdisjoint(states.ambiguous(topology, now)):
            return NOWHERE
        counted = [pod for pod in bound if is_counted(pod, topology, covered)]
        gone = [pod for pod in ended if pod.key in covered and pod.exclusive_resources]
        binding_to = states.on(topology.node).binding()
        certain = states.allocations.locate(topology, [*counted, *gone], states.order.in_order(bound), binding_to)
        for assumed_pod in binding_to:
            states.reserve_assumed(assumed_pod)
        return certain

    def _is_over(self, node: str, until: float, now: float) -> bool:
        """Whether the time `until` has come. If not, the node is settled again at that time."""
        if until > now:
            self._due.put_earlier(node, until)
        return until <= now


def _anywhere(pod: ResidentPod, topology: NodeTopology | None) -> NumaAmounts:
    amounts = {} if topology is None else most_given_to(pod, topology)
    return {zone.id: amounts for zone in topology.zones} if topology is not None and amounts else {}
