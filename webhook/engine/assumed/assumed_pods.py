"""Keeps the ledger in step with the cluster: what pods were promised, and what their nodes' NRTs do not count yet.

Nearly all of it is derived from objects, so that whoever reads the same objects comes to the same reservations:
- a pod that is placed (its hint names a node, our gate is gone) and not yet bound is promised all it asks for, unless
  its hint says that nothing is reserved for it any more, as the scheduler could not bind it
  (`controllers.unbindable_pods`);
- a bound pod is promised what `unreported` says its node's NRT does not show;
- what the NRT shows as taken by pods that have ended is given back;
- a pod of ours that was bound without a hint is promised what is replayed of it, until the NRT counts it.
What is on the wire stands in no object: an assumed pod, given with a binding or a patch that the API server has not
written
yet. It holds until an object shows it, is taken back when its pod goes away, and is expired after its time. Nor does an
object say where else a pod may be (see `alternatives`): a replica that starts takes the hints as they are.

Life cycle:
1. An object is noted and its node marked; nothing is worked out yet, so a burst of changes to one node costs one.
2. `settle` works out the marked nodes, and those for which it is time.

An assumed pod goes before what is derived for the same pod: it is newer.
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
"""Called with the name of the node in which a fault is contained, and the exception."""


class AssumedPods:
    """Told of every pod and NRT, it owns the reservations of a ledger."""

    def __init__(self, ledger: Ledger, times: ReportingTimes | None = None) -> None:
        self._ledger = ledger
        self._times = times or ReportingTimes()
        self._pods: dict[str, ResidentPod] = {}
        self._on: dict[str, dict[str, ResidentPod]] = {}
        self._ended = EndedPods()
        self.hints = BoundHints(self._pods)
        """What is known of the bound pods' NUMA nodes, and the hints that they should have."""
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
        """The pod exists and looks like this, as is heard at `now`. in_order: by a watch, not by a list."""
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
        """The pod is gone, as is heard at `now`."""
        self.forget(key)
        known = self._pods.get(key)
        if known is not None:
            self._note_end(known, now)
            self._remove(known, now)

    def put_topology(self, topology: NodeTopology) -> None:
        """The NRT of a node exists and looks like this."""
        known = self._topologies.get(topology.node)
        if known is None or known.fingerprint != topology.fingerprint:
            self._reported.pop(topology.node, None)
        self._topologies[topology.node] = topology
        self._marked.add(topology.node)

    def drop_topology(self, node: str) -> None:
        """The node has no NRT any more."""
        if self._topologies.pop(node, None) is not None:
            self._reported.pop(node, None)
            self._marked.add(node)
            if node not in self._on:
                self._unhinted_pods.forget_node(node)

    def assume(self, assumed_pod: AssumedPod) -> None:
        """Promise this to the pod, in place of whatever it was promised before."""
        self._drop_assumed(assumed_pod.pod)
        self.hints.assumed_by(assumed_pod)
        self._assumed_pods[assumed_pod.pod] = assumed_pod
        self._reserved.setdefault(assumed_pod.node, set()).add(assumed_pod.pod)
        self._ledger.put(self._of_assumed(assumed_pod))

    def assumed_by(self, key: str) -> AssumedPod | None:
        """What the pod was promised and does not show yet."""
        return self._assumed_pods.get(key)

    def bound_to(self, node: str) -> tuple[ResidentPod, ...]:
        """The pods bound to a node that have not ended, in no order."""
        return tuple(pod for pod in self._on.get(node, {}).values() if pod.node)

    def forget(self, key: str) -> None:
        """The grant's binding or patch will not come any more, or the pod is gone."""
        if (assumed_pod := self._drop_assumed(key)) is not None:
            self.hints.withdrawn(key)
            self._release(key, assumed_pod.node)

    def binding_to(self, node: str) -> tuple[AssumedPod, ...]:
        """What was given with bindings to the node that no object shows yet."""
        keys = self._reserved.get(node, ())
        return tuple(
            assumed_pod
            for key in keys
            if (assumed_pod := self._assumed_pods.get(key)) is not None and assumed_pod.is_binding
        )

    def assigned(self, node: str) -> tuple[Reservation, ...]:
        """What is promised to pods that are placed on the node, or about to be, and not on their way to its kubelet."""
        keys = sorted(self._reserved.get(node, ()))
        return tuple(held for key in keys if self._is_assigned(key) and (held := self._ledger.get(key)) is not None)

    def tentative(self, node: str) -> tuple[Reservation, ...]:
        """What pods would get on the node that the scheduler may as well bind elsewhere."""
        keys = sorted(self._reserved.get(node, ()))
        assumed_by = (
            key for key in keys if (assumed_pod := self._assumed_pods.get(key)) is not None and assumed_pod.tentative
        )
        return tuple(held for key in assumed_by if (held := self._ledger.get(key)) is not None)

    def leeway(self, node: str, pod: str, now: float) -> Leeway:
        """How much more, or less, of the node than is given and promised may be free to a pod (namespace/name)."""
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
        """What other pods may hold that the NRT has not counted and for which nothing is kept: anywhere."""
        bound = self.bound_to(topology.node)
        holding = [pod for pod in bound if pod.exclusive_resources and pod.key != but and not pod.unhinted]
        unknown = [pod for pod in holding if not self.hints.places(pod)]
        if unknown:
            for pod in not_reported(topology, unknown, self._covered_by(topology), self._times, now)[0]:
                amounts = most_given_to(pod, topology)
                yield {zone.id: amounts for zone in topology.zones}

    def keep_for(self, pod: ResidentPod, numa: NumaAmounts, alternatives: frozenset[int], *, sure: bool) -> None:
        """Keep for such a pod what its kubelet gives it, until its NRT has counted it."""
        self.hints.replayed(pod, numa, alternatives, sure=sure)
        self._marked.add(pod.node)

    def is_counted(self, pod: ResidentPod) -> bool:
        """Whether its node's NRT has counted the pod, or may have, or never will."""
        topology = self._topologies.get(pod.node)
        covered = None if topology is None else self._covered_by(topology)
        return topology is None or covered is None or is_counted(pod, topology, covered)

    def uncertain(self, now: float) -> Iterator[ResidentPod]:
        """The bound pods that have no hint since it is not certain, though their NRT should have shown it by now."""
        return self.hints.uncertain(now - self._times.age)

    def to_replay(self) -> Sequence[str]:
        """The nodes on which it is to be replayed, as of the last `settle`, where pods without a hint are."""
        return self._unhinted_pods.to_replay()

    def unhinted(self, node: str) -> Unhinted:
        """The pods of such a node, as they are to be replayed."""
        return self._unhinted_on(node)

    def give_up(self, node: str) -> None:
        """Replay nothing of the pods that are there until there is news of the node."""
        self._unhinted_pods.keep(node, {})

    def keep(self, node: str, replayed: Mapping[str, Replayed]) -> None:
        """Promise what was replayed of them to the pods of the node."""
        self._unhinted_pods.keep(node, replayed)
        for reservation in self._of_unhinted(node):
            if reservation.pod not in self._assumed_pods:
                self._put(reservation)

    def replayed(self, now: float) -> Iterator[tuple[ResidentPod, Replayed]]:
        """The pods of ours that are bound without a hint and not counted, with what was replayed of each.

        Only those that their kubelet must have admitted at `now`, and long enough ago: it writes pods' statuses side by
        side, so that one that left room for another may be heard of after that one.
        """
        for pod, replayed in chain.from_iterable(map(self._unhinted_pods.on, self._unhinted_pods.nodes())):
            if pod.unhinted and now >= (pod.bound_at or 0) + self._times.settle:
                yield pod, replayed

    @property
    def assumed_count(self) -> int:
        """How many grants no object shows yet, of those that are to be: a tentative one may come to nothing."""
        return sum(not assumed_pod.tentative for assumed_pod in self._assumed_pods.values())

    def expired(self, now: float) -> tuple[AssumedPod, ...]:
        """The grants whose time is up at `now`, on the clock of their `expires`: their pods are to be looked at."""
        return tuple(assumed_pod for assumed_pod in self._assumed_pods.values() if assumed_pod.expires <= now)

    def settle(self, now: float, on_fault: OnFault | None = None) -> bool:
        """Bring the ledger in step; whether there was something that time alone has changed, and nobody was told of.

        now: seconds since the epoch, within seconds of the API server's clock. on_fault: told of a node that cannot be
        settled, which is left as it was until there is news of it; without it the exception is the caller's.
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
        """Let the assumed pod go if the pod shows it, or shows that it will never come."""
        assumed_pod = self._assumed_pods.get(pod.key)
        if assumed_pod is None:
            return
        shown = pod.reserved and pod.assigned_node == assumed_pod.node and dict(pod.hint or ()) == assumed_pod.numa
        if pod.node or shown or pod.terminal or pod.uid != assumed_pod.uid:
            self._drop_assumed(pod.key)

    def _drop_assumed(self, key: str) -> AssumedPod | None:
        """The ledger follows when the nodes are settled."""
        assumed_pod = self._assumed_pods.pop(key, None)
        if assumed_pod is not None:
            self._marked.add(assumed_pod.node)
            if (pod := self._pods.get(key)) is not None:
                self._marked.add(pod.node or pod.assigned_node)
        return assumed_pod

    def _remove(self, pod: ResidentPod, now: float) -> None:
        """Take a pod off its node."""
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
        """The pod holds nothing any more. Those on their way to its node may find the room it left."""
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
        """The pod was bound. If nobody knows what it was given, it is not known what those after it were."""
        if pod.exclusive_resources and not self.hints.places(pod):
            for assumed_pod in self.binding_to(pod.node):
                if self.hints.came_before(assumed_pod, self._topologies.get(pod.node)):
                    self._ledger.put(self._of_assumed(assumed_pod))

    def _may_come_later(self, key: str) -> bool:
        """Whether what is promised to the pod is not given to it yet."""
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
        """The reservations on the node that follow from objects."""
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
        """What the node's NRT does not show, and in the ledger what it shows too much."""
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
        """Whether that time has come; if not, the node is looked at again then."""
        if until > now:
            self._until[node] = min(until, self._until.get(node, inf))
        return until <= now

    def _reported_on(
        self, node: str, topology: NodeTopology | None, bound: Sequence[ResidentPod], ended: Sequence[ResidentPod]
    ) -> frozenset[str] | None:
        """The pods that the NRT's fingerprint stands for. Once found out, that holds while the fingerprint does."""
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
