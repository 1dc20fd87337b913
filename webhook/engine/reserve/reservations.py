"""Keeps the ledger in step with the cluster: what pods were promised, and what their nodes' NRTs do not count yet.

Nearly all of it is derived from objects, so that whoever reads the same objects comes to the same reservations:
- a pod that is placed (its hint names a node, our gate is gone) and not yet bound is promised all it asks for;
- a bound pod is promised what `uncounted` says its node's NRT does not show;
- what the NRT shows as taken by pods that have ended is given back;
- a pod of ours that was bound without a hint is promised what is foreseen of it, until the NRT counts it.
What is on the wire stands in no object: a grant, given with a binding or a patch that the API server has not written
yet. It holds until an object shows it, is taken back when its pod goes away, and is overdue after its time. Nor does an
object say where else a pod may be (see `elsewhere`): a replica that starts takes the hints as they are.

Life cycle:
1. An object is noted and its node marked; nothing is worked out yet, so a burst of changes to one node costs one.
2. `settle` works out the marked nodes, and those for which it is time.

A grant goes before what is derived for the same pod: it is newer.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import inf

from webhook.engine.reserve.coverage import covered_pods
from webhook.engine.reserve.elsewhere import Elsewhere, doubt_ends
from webhook.engine.reserve.ended import EndedPods
from webhook.engine.reserve.grant import Grant
from webhook.engine.reserve.ledger import Ledger, Reservation
from webhook.engine.reserve.uncounted import NOTHING, CountingTimes, Uncounted, held, is_older, not_counted, uncounted
from webhook.engine.reserve.unguarded import Foreseen, Unguarded, UnguardedPods
from webhook.engine.sums import NodeSums
from webhook.model.nrt import NodeTopology, Publisher
from webhook.model.resident import ResidentPod


class ReservationKeeper:
    """Told of every pod and NRT, it owns the reservations of a ledger."""

    def __init__(self, ledger: Ledger, times: CountingTimes | None = None) -> None:
        self._ledger = ledger
        self._times = times or CountingTimes()
        self._pods: dict[str, ResidentPod] = {}
        self._on: dict[str, dict[str, ResidentPod]] = {}
        self._ended = EndedPods()
        self._elsewhere = Elsewhere()
        self._unguarded = UnguardedPods()
        self._doubtful: dict[str, frozenset[int]] = {}
        self._topologies: dict[str, NodeTopology] = {}
        self._covered: dict[str, frozenset[str]] = {}
        self._grants: dict[str, Grant] = {}
        self._reserved: dict[str, set[str]] = {}
        self._marked: set[str] = set()
        self._until: dict[str, float] = {}
        self._earliest = inf
        self._now = -inf

    def put_pod(self, pod: ResidentPod, *, in_order: bool = True) -> None:
        """The pod exists and looks like this. in_order: this became so after all that was told before."""
        known = self._pods.get(pod.key)
        if known == pod:
            return
        self._compare_grant(pod)
        if known is not None and known.uid != pod.uid:
            self._note_end(known)
        if pod.terminal:
            self._note_end(pod)
        node = "" if pod.terminal else pod.node or pod.placed_on
        if known is not None and (not node or _place(known) != _place(pod)):
            self._remove(known)
        if node:
            if pod.node and pod.key not in self._pods:
                self._unguarded.bound(pod.key, in_order=in_order)
            self._pods[pod.key] = pod
            self._on.setdefault(node, {})[pod.key] = pod
            self._marked.add(node)
        if not pod.unguarded:
            self._unguarded.forget(pod.key)

    def drop_pod(self, key: str) -> None:
        """The pod is gone."""
        self.withdraw(key)
        known = self._pods.get(key)
        if known is not None:
            self._note_end(known)
            self._remove(known)

    def put_topology(self, topology: NodeTopology) -> None:
        """The NRT of a node exists and looks like this."""
        known = self._topologies.get(topology.node)
        if known is None or known.fingerprint != topology.fingerprint:
            self._covered.pop(topology.node, None)
        self._topologies[topology.node] = topology
        self._marked.add(topology.node)

    def drop_topology(self, node: str) -> None:
        """The node has no NRT any more."""
        if self._topologies.pop(node, None) is not None:
            self._covered.pop(node, None)
            self._marked.add(node)

    def grant(self, grant: Grant) -> None:
        """Promise this to the pod, in place of whatever it was promised before."""
        self._forget_grant(grant.pod)
        self._elsewhere.forget(grant.pod)
        self._grants[grant.pod] = grant
        self._reserved.setdefault(grant.node, set()).add(grant.pod)
        if grant.arrives:
            self._elsewhere.may_be(grant.pod, grant.numa, self._doubtful.get(grant.node, ()))
        self._ledger.put(self._of_grant(grant))

    def granted(self, key: str) -> Grant | None:
        """What the pod was promised and does not show yet."""
        return self._grants.get(key)

    def bound_to(self, node: str) -> tuple[ResidentPod, ...]:
        """The pods bound to a node that have not ended, in no order."""
        return tuple(pod for pod in self._on.get(node, {}).values() if pod.node)

    def withdraw(self, key: str) -> None:
        """The grant's binding or patch will not come any more, or the pod is gone."""
        if (grant := self._forget_grant(key)) is not None:
            self._elsewhere.forget(key)
            self._release(key, grant.node)

    def arriving(self, node: str) -> tuple[Grant, ...]:
        """What was given with bindings to the node that no object shows yet."""
        keys = self._reserved.get(node, ())
        return tuple(grant for key in keys if (grant := self._grants.get(key)) is not None and grant.arrives)

    def placed(self, node: str) -> tuple[Reservation, ...]:
        """What is promised to pods that are placed on the node, or about to be, and not on their way to its kubelet."""
        keys = sorted(self._reserved.get(node, ()))
        return tuple(held for key in keys if self._is_placed(key) and (held := self._ledger.get(key)) is not None)

    def to_foresee(self) -> Iterator[tuple[str, Unguarded]]:
        """The nodes on which it is to be foreseen, as of the last `settle`, where pods without a hint are."""
        return ((node, self._unguarded_on(node)) for node in self._unguarded.to_foresee())

    def keep(self, node: str, foreseen: Mapping[str, Foreseen]) -> None:
        """Promise what was foreseen of them to the pods of the node."""
        self._unguarded.keep(node, foreseen)
        for reservation in self._of_unguarded(node, self._now):
            self._put(reservation)

    def foreseen(self, now: float) -> Iterator[tuple[ResidentPod, Foreseen]]:
        """The pods of ours that are bound without a hint and not counted, with what was foreseen of each.

        Only those that their kubelet must have admitted at `now`: room that came free before would have been preferred.
        """
        for pod in chain.from_iterable(map(self._unguarded.on, self._unguarded.nodes())):
            admitted = pod.started or now >= (pod.bound_at or 0) + self._times.settle
            if admitted and (foreseen := self._unguarded.of(pod.key)) is not None:
                yield pod, foreseen

    def is_to_be_foreseen(self, node: str) -> bool:
        """Whether there is news of the node, and perhaps a pod bound there without a hint that is not foreseen yet."""
        return node in self._marked and not all(map(self._unguarded.is_foreseen, self._on.get(node, {}).values()))

    @property
    def open_grants(self) -> int:
        """How many grants no object shows yet."""
        return len(self._grants)

    def overdue(self, now: float) -> tuple[Grant, ...]:
        """The grants whose time is up at `now`, on the clock of their `expires`: their pods are to be looked at."""
        return tuple(grant for grant in self._grants.values() if grant.expires <= now)

    def settle(self, now: float) -> bool:
        """Bring the ledger in step; whether there was something that time alone has changed, and nobody was told of.

        now: seconds since the epoch, within seconds of the API server's clock.
        """
        self._now = now
        is_time = now >= self._earliest
        if is_time:
            self._marked.update(node for node, until in self._until.items() if until <= now)
        if self._marked:
            for node in self._marked:
                self._settle_node(node, now)
            self._marked = set()
            self._earliest = min(self._until.values(), default=inf)
        return is_time

    def _compare_grant(self, pod: ResidentPod) -> None:
        """Let the grant go if the pod shows it, or shows that it will never come."""
        grant = self._grants.get(pod.key)
        if grant is None:
            return
        shown = pod.placed_on == grant.node and dict(pod.hint or ()) == grant.numa
        if pod.node or shown or pod.terminal or pod.uid != grant.uid:
            self._forget_grant(pod.key)

    def _forget_grant(self, key: str) -> Grant | None:
        """The ledger follows when the nodes are settled."""
        grant = self._grants.pop(key, None)
        if grant is not None:
            self._marked.add(grant.node)
            if (pod := self._pods.get(key)) is not None:
                self._marked.add(pod.node or pod.placed_on)
        return grant

    def _remove(self, pod: ResidentPod) -> None:
        """Take a pod off its node."""
        del self._pods[pod.key]
        node = pod.node or pod.placed_on
        on_node = self._on[node]
        del on_node[pod.key]
        if not on_node:
            del self._on[node]
        if pod.node:
            self._elsewhere.forget(pod.key)
            self._unguarded.unbound(pod.key)
        self._marked.add(node)

    def _note_end(self, pod: ResidentPod) -> None:
        """The pod holds nothing any more. Those on their way to its node may find the room it left."""
        if not pod.node:
            return
        self._ended.note(self._unguarded.as_known(pod))
        self._marked.add(pod.node)
        kept = self._unguarded.kept(pod.node)
        left = held(pod) or kept.get(pod.key, {})
        for other in self._on.get(pod.node, {}).values():
            waits = other.node and not other.started and other.key != pod.key
            if waits and self._elsewhere.may_be(other.key, held(other) or kept.get(other.key, {}), left):
                self._unguarded.doubt(other.key)
        for grant in self.arriving(pod.node):
            if self._elsewhere.may_be(grant.pod, grant.numa, left):
                self._ledger.put(self._of_grant(grant))

    def _is_placed(self, key: str) -> bool:
        if (grant := self._grants.get(key)) is not None:
            return not grant.arrives
        return key in self._pods and not self._pods[key].node

    def _of_grant(self, grant: Grant) -> Reservation:
        numa = self._elsewhere.widened(grant.pod, grant.numa)
        return Reservation.of(grant.pod, grant.node, numa, grant.requests, policy=grant.policy)

    def _settle_node(self, node: str, now: float) -> None:
        self._until.pop(node, None)
        wanted = {wanted.pod: wanted for wanted in self._derived(node, now) if wanted.pod not in self._grants}
        for key in self._reserved.pop(node, set()) - wanted.keys():
            grant = self._grants.get(key)
            if grant is None or grant.node != node:
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
        bound = [pod for pod in pods.values() if pod.node]
        rest = self._uncounted_on(node, bound, now)
        for key, amounts in rest.amounts.items():
            if self._is_over(node, self._elsewhere.until(pods[key], self._times.age), now):
                self._elsewhere.forget(key)
            numa = self._elsewhere.widened(key, amounts)
            yield Reservation.of(key, node, numa, None, policy=pods[key].policy)
        yield from self._of_unguarded(node, now)
        for pod in pods.values():
            if pod.placed_on:
                yield Reservation.of(pod.key, node, held(pod), pod.requests, policy=pod.policy)

    def _uncounted_on(self, node: str, bound: Sequence[ResidentPod], now: float) -> Uncounted:
        """What the node's NRT does not show, and in the ledger what it shows too much."""
        topology = self._topologies.get(node)
        ended = () if topology is None else self._ended.that_may_count(topology, self._times.settle)
        names = {pod.key for pod in bound}
        ended = [pod for pod in ended if pod.key not in names]
        rest, until = NOTHING, None
        waiting: Sequence[ResidentPod] = ()
        if ended or any(pod.hint or pod.unguarded for pod in bound):
            covered = self._covered_on(node, topology, bound, ended)
            rest = uncounted(topology, bound, covered, self._times, now, ended)
            if topology is not None and any(pod.unguarded for pod in bound):
                waiting, until = not_counted(topology, bound, covered, self._times, now)
            for key in covered or ():
                self._elsewhere.forget(key)
        self._unguarded.put(node, waiting)
        if changes := [at for at in (rest.until, until) if at is not None]:
            self._until[node] = min(changes)
        self._doubtful[node] = rest.doubtful
        self._ledger.give_back(node, rest.ended)
        return rest

    def _unguarded_on(self, node: str) -> Unguarded:
        arrivals, since = self._unguarded.arrivals(node)
        residents = [pod for pod in self.bound_to(node) if pod.key not in since]
        before, doubtful = NodeSums(ended=self._ledger.sums(node).ended), self._doubtful[node]
        for pod in residents:
            if (shown := self._ledger.get(pod.key)) is not None:
                before.add(shown.numa, shown.requests, shown.policy, 1)
                if pod.key in self._elsewhere or not self._unguarded.is_known(pod):
                    doubtful |= shown.numa.keys()
        topology, in_time = self._topologies[node], True
        if topology.publisher is Publisher.SUBTRACTS and node not in self._covered:
            # Pods that it has counted may have ended before we knew of them.
            doubtful = frozenset(zone.id for zone in topology.zones)
            in_time = all(is_older(topology, pod) for pod in chain.from_iterable(arrivals))
        return Unguarded(arrivals, residents, before, doubtful, in_time)

    def _of_unguarded(self, node: str, now: float) -> Iterator[Reservation]:
        doubted = [pod for pod in self._unguarded.on(node) if not self._unguarded.is_known(pod)]
        over = {pod.key for pod in doubted if self._is_over(node, doubt_ends(pod, self._times.age), now)}
        for key in over:
            self._elsewhere.forget(key)
        for key, kept in self._unguarded.kept(node, over).items():
            if kept:
                numa = self._elsewhere.widened(key, kept)
                yield Reservation.of(key, node, numa, None, policy=self._pods[key].policy)

    def _is_over(self, node: str, until: float, now: float) -> bool:
        """Whether that time has come; if not, the node is looked at again then."""
        if until > now:
            self._until[node] = min(until, self._until.get(node, inf))
        return until <= now

    def _covered_on(
        self, node: str, topology: NodeTopology | None, bound: Sequence[ResidentPod], ended: Sequence[ResidentPod]
    ) -> frozenset[str] | None:
        """The pods that the NRT's fingerprint stands for. Once found out, that holds while the fingerprint does."""
        if topology is None or topology.fingerprint is None or topology.publisher is Publisher.TOTAL:
            return None
        covered = self._covered.get(node)
        if covered is None:
            covered = covered_pods(topology.fingerprint, topology.fingerprint_method, bound, ended)
            if covered is not None:
                self._covered[node] = covered
        return covered

    def _release(self, key: str, node: str) -> None:
        reservation = self._ledger.get(key)
        if reservation is not None and reservation.node == node:
            self._ledger.release(key)


def _place(pod: ResidentPod) -> tuple[str, str, str]:
    return pod.uid, pod.node, pod.placed_on
