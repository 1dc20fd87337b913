"""Keeps the ledger up to date: reserves what assumed pods hold, and what NRTs do not report yet of bound pods.

Nearly all reservations are derived from objects, so every replica that reads the same objects gets the same ones:
- An assigned pod (its hint names a node, our gate is gone) that is not bound yet: everything that it requests, unless
  its hint says that nothing is reserved any more because the scheduler could not bind it
  (`controllers.unbindable_pods`).
- A bound pod: what its node's NRT does not show, by `unreported`.
- Pods that have ended: what the NRT still shows as taken by them is given back.
- A managed pod that was bound unhinted: what its replay says, until the NRT reports it.

Two facts stand in no object:
- An assumed pod was given resources by a binding or patch that the API server has not written yet. It stays until an
  object shows it, is forgotten when its pod goes away, and expires after its time.
- The alternatives of a pod (see `alternatives`). A replica that starts takes the hints as they are.

Life cycle:
1. An object is recorded and its node marked. Nothing is computed yet, so many changes of one node cost one computation.
2. `settle` computes the marked nodes, and those whose time has come.

An assumed pod takes precedence over what is derived for the same pod: it is newer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf

from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.engine.assumed.bound_hints import BoundHints
from webhook.engine.assumed.credible_hints import credible
from webhook.engine.assumed.ended_pods import EndedPods
from webhook.engine.assumed.free_bounds import Leeway
from webhook.engine.assumed.known_placements import Certainty
from webhook.engine.assumed.possible_placements import most_given_to
from webhook.engine.assumed.reported import reported_pods
from webhook.engine.assumed.unhinted import Replayed, Unhinted, UnhintedPods
from webhook.engine.assumed.unreported import (
    NOTHING,
    NOWHERE,
    ReportingTimes,
    Unreported,
    held,
    is_counted,
    not_reported,
    unreported,
)
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.model.nrt import NodeTopology, Publisher
from webhook.model.resident import ResidentPod

OnFault = Callable[[str, Exception], None]
"""Called with the name of a node and the exception that it caused. Other nodes are not affected."""


class AssumedPods:
    """The only writer of a ledger's reservations. It has to receive every change of every pod and NRT."""

    def __init__(self, ledger: Ledger, times: ReportingTimes | None = None) -> None:
        self._ledger = ledger
        self._times = times or ReportingTimes()
        self._pods: dict[str, ResidentPod] = {}
        self._on: dict[str, dict[str, ResidentPod]] = {}
        self._ended = EndedPods()
        self.hints = BoundHints(self._pods)
        """The NUMA nodes of bound pods as far as they are known, and the hints that the pods should have."""
        self._unhinted_pods = UnhintedPods()
        self._rest: dict[str, Unreported] = {}
        self._topologies: dict[str, NodeTopology] = {}
        self._reported: dict[str, frozenset[str]] = {}
        self._assumed_pods: dict[str, AssumedPod] = {}
        self._reserved: dict[str, set[str]] = {}
        self._marked: set[str] = set()
        self._until: dict[str, float] = {}
        self._earliest = inf
        self._now = -inf

    def put_pod(self, pod: ResidentPod, *, in_order: bool = True, now: float = inf) -> None:
        """Record the pod's current state, received at `now`. in_order: from a watch, not from a list."""
        self._put_pod(pod, now)
        if not in_order:
            self._unhinted_pods.listed()

    def _put_pod(self, pod: ResidentPod, now: float) -> None:
        known = self._pods.get(pod.key)
        if known == pod:
            return
        self._compare_assumed(pod)
        if known is not None and known.uid != pod.uid:
            self._note_end(known, now)
        if pod.terminal:
            self._note_end(pod, now)
            self.hints.forget(pod.key, pod.uid)
        node = "" if pod.terminal else pod.node or pod.assigned_node
        if known is not None and (not node or _place(known) != _place(pod)):
            self._remove(known, now)
        if node:
            is_binding = pod.node and pod.key not in self._pods
            self._pods[pod.key] = pod
            self._on.setdefault(node, {})[pod.key] = pod
            self._marked.add(node)
            if pod.node:
                self.hints.seen(pod, known, self._topologies.get(node))
            if is_binding:
                self._unhinted_pods.bound(pod.key)
                self._note_arrival(pod)
        if not pod.unhinted:
            self._unhinted_pods.forget(pod.key)

    def drop_pod(self, key: str, now: float = inf) -> None:
        """Remove a pod whose deletion was received at `now`."""
        self.forget(key)
        known = self._pods.get(key)
        if known is not None:
            self._note_end(known, now)
            self._remove(known, now)

    def put_topology(self, topology: NodeTopology) -> None:
        """Record a node's current NRT."""
        known = self._topologies.get(topology.node)
        if known is None or known.fingerprint != topology.fingerprint:
            self._reported.pop(topology.node, None)
        self._topologies[topology.node] = topology
        self._marked.add(topology.node)

    def drop_topology(self, node: str) -> None:
        """Remove the NRT of a node that has none any more."""
        if self._topologies.pop(node, None) is not None:
            self._reported.pop(node, None)
            self._marked.add(node)
            if node not in self._on:
                self._unhinted_pods.forget_node(node)

    def assume(self, assumed_pod: AssumedPod) -> None:
        """Reserve what the pod was given. It replaces an earlier assumption for the same pod."""
        self._drop_assumed(assumed_pod.pod)
        self.hints.assumed_by(assumed_pod)
        self._assumed_pods[assumed_pod.pod] = assumed_pod
        self._reserved.setdefault(assumed_pod.node, set()).add(assumed_pod.pod)
        self._ledger.put(self._of_assumed(assumed_pod))

    def assumed_by(self, key: str) -> AssumedPod | None:
        """What the pod was given and no object shows yet; None if there is nothing."""
        return self._assumed_pods.get(key)

    def bound_to(self, node: str) -> tuple[ResidentPod, ...]:
        """The pods bound to a node that have not ended, unordered."""
        return tuple(pod for pod in self._on.get(node, {}).values() if pod.node)

    def forget(self, key: str) -> None:
        """Release an assumed pod: its binding or patch will not be written any more, or the pod is gone."""
        if (assumed_pod := self._drop_assumed(key)) is not None:
            self.hints.withdrawn(key)
            self._release(key, assumed_pod.node)

    def binding_to(self, node: str) -> tuple[AssumedPod, ...]:
        """The assumed pods whose bindings to the node no object shows yet."""
        keys = self._reserved.get(node, ())
        return tuple(
            assumed_pod
            for key in keys
            if (assumed_pod := self._assumed_pods.get(key)) is not None and assumed_pod.is_binding
        )

    def assigned(self, node: str) -> tuple[Reservation, ...]:
        """The reservations of pods assigned to the node, written or not, that are not on their way to its kubelet."""
        keys = sorted(self._reserved.get(node, ()))
        return tuple(held for key in keys if self._is_assigned(key) and (held := self._ledger.get(key)) is not None)

    def tentative(self, node: str) -> tuple[Reservation, ...]:
        """The reservations of pods for which the scheduler may still pick another node."""
        keys = sorted(self._reserved.get(node, ()))
        assumed_by = (
            key for key in keys if (assumed_pod := self._assumed_pods.get(key)) is not None and assumed_pod.tentative
        )
        return tuple(held for key in assumed_by if (held := self._ledger.get(key)) is not None)

    def leeway(self, node: str, pod: str, now: float) -> Leeway:
        """How much more or less of the node may be free for a pod (namespace/name) than the NRT and the ledger say."""
        topology, rest = self._topologies.get(node), self._rest.get(node, NOTHING)
        if topology is None or topology.publisher is Publisher.TOTAL:
            return Leeway()
        doubtful = {other.key for other, seen in self._unhinted_pods.on(node) if seen.doubt is not None}
        kept: list[NumaAmounts] = []
        maybe_taken = list(self._unhinted(topology, pod, now))
        for key in sorted(self._reserved.get(node, ())):
            reservation = self._ledger.get(key)
            if key == pod or reservation is None or self._may_come_later(key):
                continue
            if key in doubtful or self.hints.certainty(key) is Certainty.DOUBTFUL:
                kept.append(reservation.numa)
                maybe_taken.append(self.hints.anywhere(key, reservation.numa, topology))
            elif key in rest.maybe_counted:
                kept.append(rest.maybe_counted[key])
        return Leeway(kept, [rest.maybe_free] if rest.maybe_free else (), [numa for numa in maybe_taken if numa])

    def _unhinted(self, topology: NodeTopology, but: str, now: float) -> Iterator[NumaAmounts]:
        """What unreported pods without a reservation may hold, on every NUMA node. but: the pod to leave out."""
        bound = self.bound_to(topology.node)
        holding = [pod for pod in bound if pod.exclusive_resources and pod.key != but and not pod.unhinted]
        unknown = [pod for pod in holding if not self.hints.places(pod)]
        if unknown:
            for pod in not_reported(topology, unknown, self._covered_by(topology), self._times, now)[0]:
                amounts = most_given_to(pod, topology)
                yield {zone.id: amounts for zone in topology.zones}

    def keep_for(self, pod: ResidentPod, numa: NumaAmounts, alternatives: frozenset[int], *, sure: bool) -> None:
        """Reserve for a pod of `hints.newcomers` what its kubelet gives it, until its node's NRT has reported it."""
        self.hints.replayed(pod, numa, alternatives, sure=sure)
        self._marked.add(pod.node)

    def is_counted(self, pod: ResidentPod) -> bool:
        """Whether the node's NRT has reported the pod, or may have, or never will."""
        topology = self._topologies.get(pod.node)
        covered = None if topology is None else self._covered_by(topology)
        return topology is None or covered is None or is_counted(pod, topology, covered)

    def uncertain(self, now: float) -> Iterator[ResidentPod]:
        """The bound pods without a hint because their NUMA nodes are uncertain; an NRT should show these by now."""
        return self.hints.uncertain(now - self._times.age)

    def to_replay(self) -> Sequence[str]:
        """The nodes, as of the last `settle`, on which the NUMA nodes of unhinted pods need a replay."""
        return self._unhinted_pods.to_replay()

    def unhinted(self, node: str) -> Unhinted:
        """The input of the replay for one node of `to_replay`."""
        return self._unhinted_on(node)

    def give_up(self, node: str) -> None:
        """Skip the replay of the node's pods until an object on the node changes."""
        self._unhinted_pods.keep(node, {})

    def keep(self, node: str, replayed: Mapping[str, Replayed]) -> None:
        """Reserve the result of the replay for the pods of the node."""
        self._unhinted_pods.keep(node, replayed)
        for reservation in self._of_unhinted(node):
            if reservation.pod not in self._assumed_pods:
                self._put(reservation)

    def replayed(self, now: float) -> Iterator[tuple[ResidentPod, Replayed]]:
        """The managed pods that are bound, unhinted and unreported, with the replay result of each.

        Only pods that their kubelet must have admitted some time before `now`. A kubelet writes the statuses of pods in
        parallel, so the end of one pod may arrive after the start of the pod that took its room.
        """
        for pod, replayed in chain.from_iterable(map(self._unhinted_pods.on, self._unhinted_pods.nodes())):
            if pod.unhinted and now >= (pod.bound_at or 0) + self._times.settle:
                yield pod, replayed

    @property
    def assumed_count(self) -> int:
        """The number of assumed pods without the tentative ones: those may never be bound."""
        return sum(not assumed_pod.tentative for assumed_pod in self._assumed_pods.values())

    def expired(self, now: float) -> tuple[AssumedPod, ...]:
        """The assumed pods that have expired at `now`, on the clock of `expires`. The caller has to check them."""
        return tuple(assumed_pod for assumed_pod in self._assumed_pods.values() if assumed_pod.expires <= now)

    def settle(self, now: float, on_fault: OnFault | None = None) -> bool:
        """Update the ledger. True if time alone may have changed something: no event of an object shows that.

        now: seconds since the epoch, within seconds of the API server's clock. on_fault: called for a node that cannot
        be settled; the node stays as it was until one of its objects changes. None: the exception is raised.
        """
        self._now = now
        is_time = now >= self._earliest
        if is_time:
            self._marked.update(node for node, until in self._until.items() if until <= now)
        if self._marked:
            for node in self._marked:
                try:
                    self._settle_node(node, now)
                except Exception as error:
                    if on_fault is None:
                        raise
                    on_fault(node, error)
            self._marked = set()
            self._earliest = min(self._until.values(), default=inf)
        return is_time

    def _compare_assumed(self, pod: ResidentPod) -> None:
        """Drop the assumed pod if the object shows it, or shows that it will never be bound that way."""
        assumed_pod = self._assumed_pods.get(pod.key)
        if assumed_pod is None:
            return
        shown = pod.reserved and pod.assigned_node == assumed_pod.node and dict(pod.hint or ()) == assumed_pod.numa
        if pod.node or shown or pod.terminal or pod.uid != assumed_pod.uid:
            self._drop_assumed(pod.key)

    def _drop_assumed(self, key: str) -> AssumedPod | None:
        """Remove the assumed pod. The ledger is updated when the nodes are settled."""
        assumed_pod = self._assumed_pods.pop(key, None)
        if assumed_pod is not None:
            self._marked.add(assumed_pod.node)
            if (pod := self._pods.get(key)) is not None:
                self._marked.add(pod.node or pod.assigned_node)
        return assumed_pod

    def _remove(self, pod: ResidentPod, now: float) -> None:
        """Remove a pod from its node."""
        del self._pods[pod.key]
        node = pod.node or pod.assigned_node
        on_node = self._on[node]
        del on_node[pod.key]
        if not on_node:
            del self._on[node]
        if pod.node:
            self.hints.forget(pod.key, pod.uid)
            self._unhinted_pods.left(pod, now)
        self._marked.add(node)

    def _note_end(self, pod: ResidentPod, now: float) -> None:
        """Record that the pod holds nothing any more. Pods on their way to its node may get the room that it left."""
        if not pod.node:
            return
        self._ended.note(self.hints.as_ended(pod))
        self._marked.add(pod.node)
        on_node, binding_to = self._unhinted_pods.in_order(self.bound_to(pod.node)), self.binding_to(pod.node)
        later = self._unhinted_pods.bound_after(pod.key, (other.key for other in on_node))
        topology = self._topologies.get(pod.node)
        news = self.hints.left_room(pod, on_node, later, binding_to, topology, now)
        for assumed_pod in binding_to:
            if assumed_pod.pod in news:
                self._ledger.put(self._of_assumed(assumed_pod))

    def _note_arrival(self, pod: ResidentPod) -> None:
        """Handle a newly bound pod. If its NUMA nodes are unknown, those of the pods after it become uncertain."""
        if pod.exclusive_resources and not self.hints.places(pod):
            for assumed_pod in self.binding_to(pod.node):
                if self.hints.came_before(assumed_pod, self._topologies.get(pod.node)):
                    self._ledger.put(self._of_assumed(assumed_pod))

    def _may_come_later(self, key: str) -> bool:
        """Whether the pod is not on its way to its kubelet yet, so that its reservation is not in use."""
        assumed_pod = self._assumed_pods.get(key)
        return self._is_assigned(key) or (assumed_pod is not None and assumed_pod.tentative)

    def _is_assigned(self, key: str) -> bool:
        if (assumed_pod := self._assumed_pods.get(key)) is not None:
            return not (assumed_pod.is_binding or assumed_pod.tentative)
        return key in self._pods and not self._pods[key].node

    def _of_assumed(self, assumed_pod: AssumedPod) -> Reservation:
        numa = self.hints.widened(assumed_pod.pod, assumed_pod.numa)
        return Reservation.of(assumed_pod.pod, assumed_pod.node, numa, assumed_pod.requests, policy=assumed_pod.policy)

    def _settle_node(self, node: str, now: float) -> None:
        self._until.pop(node, None)
        wanted = {wanted.pod: wanted for wanted in self._derived(node, now) if wanted.pod not in self._assumed_pods}
        for key in self._reserved.pop(node, set()) - wanted.keys():
            assumed_pod = self._assumed_pods.get(key)
            if assumed_pod is None or assumed_pod.node != node:
                self._release(key, node)
            else:
                self._reserved.setdefault(node, set()).add(key)
        for reservation in wanted.values():
            self._put(reservation)

    def _put(self, reservation: Reservation) -> None:
        self._reserved.setdefault(reservation.node, set()).add(reservation.pod)
        if self._ledger.get(reservation.pod) != reservation:
            self._ledger.put(reservation)

    def _derived(self, node: str, now: float) -> Iterator[Reservation]:
        """The node's reservations that are derived from objects."""
        pods = self._on.get(node, {})
        topology = self._topologies.get(node)
        bound = [credible(self.hints.applied(pod), topology) for pod in pods.values() if pod.node]
        rest = self._unreported_on(node, bound, now)
        for key, amounts in rest.amounts.items():
            is_over = self._is_over(node, self.hints.doubt_until(pods[key], self._times.age), now)
            numa = amounts if is_over else self.hints.widened(key, amounts)
            yield Reservation.of(key, node, numa, None, policy=pods[key].policy)
        yield from self._of_unhinted(node)
        for pod in pods.values():
            if pod.assigned_node and pod.reserved:
                yield Reservation.of(pod.key, node, held(pod), pod.requests, policy=pod.policy)

    def _unreported_on(self, node: str, bound: Sequence[ResidentPod], now: float) -> Unreported:
        """What the node's NRT does not report yet. Also writes to the ledger what ended pods no longer hold."""
        topology = self._topologies.get(node)
        ended = () if topology is None else self._ended.that_may_count(topology, self._times.settle)
        names = {pod.key for pod in bound}
        ended = [pod for pod in ended if pod.key not in names]
        rest, until = NOTHING, None
        waiting: Sequence[ResidentPod] = ()
        if ended or any(pod.hint or pod.unhinted for pod in bound):
            covered = self._reported_on(node, topology, bound, ended)
            certain = NOWHERE
            if topology is not None and covered is not None and covered <= names | {pod.key for pod in ended}:
                counted = [pod for pod in bound if is_counted(pod, topology, covered)]
                gone = [pod for pod in ended if pod.key in covered and pod.exclusive_resources]
                binding_to = self.binding_to(node)
                certain = self.hints.locate(
                    topology, [*counted, *gone], self._unhinted_pods.in_order(bound), binding_to
                )
                for assumed_pod in binding_to:
                    self._put(self._of_assumed(assumed_pod))
            rest = unreported(topology, bound, covered, self._times, now, ended, certain)
            if topology is not None and any(pod.unhinted for pod in bound):
                waiting, until = not_reported(topology, bound, covered, self._times, now)
        self._unhinted_pods.put(node, waiting, outage=self._unhinted_pods.had_outage(bound))
        if changes := [at for at in (rest.until, until) if at is not None]:
            self._until[node] = min(changes)
        self._rest[node] = rest
        self._ledger.give_back(node, rest.ended)
        return rest

    def _unhinted_on(self, node: str) -> Unhinted:
        admissions, asked = self._unhinted_pods.admissions(node)
        topology, bound = self._topologies[node], self.bound_to(node)
        keys = {pod.key for pod in admissions}
        residents = [pod for pod in bound if pod.key not in keys]
        if topology.publisher is not Publisher.TOTAL:
            covered = self._reported.get(node)
            doubt = self._unhinted_pods.doubt(topology, covered, {pod.key for pod in bound}, self._times.settle)
            return Unhinted(admissions, asked, residents, doubt)
        others = self._ledger.sums(node).copy()
        for shown in map(self._ledger.get, keys):
            if shown is not None and shown.node == node:
                others.add(shown.numa, shown.requests, shown.policy, -1)
        given = {pod.key: seen.numa for pod, seen in self._unhinted_pods.on(node) if seen.doubt is None}
        return Unhinted(admissions, asked, residents, None, others, given)

    def _of_unhinted(self, node: str) -> Iterator[Reservation]:
        for pod, replayed in self._unhinted_pods.on(node):
            if replayed.numa:
                yield Reservation.of(pod.key, node, replayed.numa, None, policy=pod.policy)

    def _is_over(self, node: str, until: float, now: float) -> bool:
        """Whether the time `until` has come. If not, the node is settled again at that time."""
        if until > now:
            self._until[node] = min(until, self._until.get(node, inf))
        return until <= now

    def _reported_on(
        self, node: str, topology: NodeTopology | None, bound: Sequence[ResidentPod], ended: Sequence[ResidentPod]
    ) -> frozenset[str] | None:
        """The pods that the NRT's fingerprint covers; None if unknown. Cached until the fingerprint changes."""
        if topology is None or topology.fingerprint is None or topology.publisher is Publisher.TOTAL:
            return None
        covered = self._reported.get(node)
        if covered is None:
            in_order = self._unhinted_pods.in_order(bound)
            covered = reported_pods(topology.fingerprint, topology.fingerprint_method, in_order, ended)
            if covered is not None:
                self._reported[node] = covered
        return covered

    def _covered_by(self, topology: NodeTopology) -> frozenset[str] | None:
        ended = self._ended.that_may_count(topology, self._times.settle)
        return self._reported_on(topology.node, topology, self.bound_to(topology.node), ended)

    def _release(self, key: str, node: str) -> None:
        reservation = self._ledger.get(key)
        if reservation is not None and reservation.node == node:
            self._ledger.release(key)


def _place(pod: ResidentPod) -> tuple[str, str, str]:
    return pod.uid, pod.node, pod.assigned_node
