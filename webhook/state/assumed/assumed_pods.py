"""Keeps the ledger up to date: reserves what assumed pods hold, and what NRTs do not report yet of bound pods.

Nearly all reservations are derived from objects (see `derived_reservations`). Two facts stand in no object:
- An assumed pod was given resources by a binding or patch that the API server has not written yet. It stays until an
  object shows it, is forgotten when its pod goes away, and expires after its time.
- The alternatives of a pod (see `known_placements`). A replica that starts takes the allocations as they are.

Life cycle:
1. An object is recorded and its node marked. Nothing is computed yet, so many changes of one node cost one computation.
2. `settle` computes the marked nodes, and those whose time has come.

An assumed pod takes precedence over what is derived for the same pod: it is newer.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from math import inf

from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.koordinator.koordinator_reservation import KoordinatorReservation
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.assumed.bound_allocations import BoundAllocations
from webhook.state.assumed.derived_reservations import DerivedReservations
from webhook.state.assumed.free_bounds import Leeway
from webhook.state.assumed.node_state import NodeStates, node_of
from webhook.state.assumed.observed_placement import PodNUMANodes
from webhook.state.assumed.unallocated import UnallocatedReplay
from webhook.state.assumed.unreported import ReportingTimes, is_counted


class Predecessors:
    """Pods that were recreated under their name, and are assumed before a watch shows that: who is meant by an event.

    The API server has the new pod when its binding is reviewed. Until the watch has caught up, all that it shows of
    this name is about earlier pods, of which there may be several, and does not end what the new one was given.

    It has the assumed pods (namespace/name) that no event has shown yet.
    """

    def __init__(self) -> None:
        self._unshown: dict[str, str] = {}  # namespace/name -> uid

    def note(self, pod: str, uid: str, shown: str) -> None:
        """The pod with this uid is assumed. shown: the uid that was shown last for its name; empty if none is."""
        if shown != uid:
            self._unshown[pod] = uid

    def forget(self, pod: str) -> None:
        """It is no longer assumed."""
        self._unshown.pop(pod, None)

    def are_meant(self, pod: str) -> bool:
        """Whether a deletion under this name is about an earlier pod."""
        return pod in self._unshown

    def seen(self, pod: str, uid: str) -> bool:
        """Take an event of the pod with this uid; whether it is about an earlier one. The assumed one ends that."""
        if self._unshown.get(pod, uid) != uid:
            return True
        self.forget(pod)
        return False


OnFault = Callable[[str, Exception], None]
"""Called with the name of a node and the exception that it caused. Other nodes are not affected."""


class AssumedPods:
    """The only writer of a ledger's reservations. It has to receive every change of every pod and NRT."""

    def __init__(self, ledger: Ledger, times: ReportingTimes | None = None) -> None:
        self._states = NodeStates(ledger, times or ReportingTimes())
        self.replay = UnallocatedReplay(self._states)
        """The replay of pods that were bound without an allocation."""
        self._derived = DerivedReservations(self._states, self.replay)
        self._marked: set[str] = set()
        self._changed: set[str] = set()  # nodes, for `take_changed`
        self._next_due = inf
        self._predecessors = Predecessors()

    @property
    def allocations(self) -> BoundAllocations:
        """The NUMA nodes of bound pods as far as they are known, and the allocations that the pods should have."""
        return self._states.allocations

    def put_pod(self, pod: ResidentPod, *, in_order: bool = True, now: float = inf) -> None:
        """Record the pod's current state, received at `now`. in_order: from a watch, not from a list."""
        self._marked |= self._states.nominate(pod)
        if self._states.pods.get(pod.key) != pod:
            self._put_pod(pod, now)
        if not in_order:
            self._states.order.listed()

    def drop_pod(self, key: str, now: float = inf) -> None:
        """Remove a pod whose deletion was received at `now`."""
        self._marked |= self._states.drop_nomination(key)
        if not self._predecessors.are_meant(key):
            self.forget(key)
        known = self._states.pods.get(key)
        if known is not None:
            self._note_end(known, now)
            self._remove(known, now)

    def put_topology(self, topology: NodeTopology) -> bool:
        """Record a node's current NRT. False if that cannot change any reservation."""
        node, state = topology.node, self._states.at(topology.node)
        known = state.topology
        is_settled = (
            known is not None
            and node not in self._marked
            and not self._derived.is_due(node)
            and topology.is_rewritten(known)
            and self._derived.changes_nothing(known, topology)
        )
        state.report(topology)
        if known is None:
            self.allocations.published(topology, state.bound())
        if not is_settled:
            self._marked.add(node)
        return not is_settled

    def drop_topology(self, node: str) -> None:
        """Remove the NRT of a node that has none any more."""
        if self._states.drop_topology(node):
            self._marked.add(node)

    def hold(self, one: KoordinatorReservation) -> bool:
        """Record what a Reservation of Koordinator holds. False if that changes nothing."""
        changed = self._states.hold(one)
        self._marked |= changed
        return bool(changed)

    def release_held(self, name: str) -> bool:
        """Remove a Reservation of Koordinator by its name. False if it held nothing."""
        changed = self._states.release_held(name)
        self._marked |= changed
        return bool(changed)

    def assume(self, assumed_pod: AssumedPod, shown: str | None = None) -> None:
        """Reserve what the pod was given, in place of an earlier assumption.

        shown: the uid that was shown last for its name; empty if none is, None if it is this pod's.
        """
        known = self._states.assumed.get(assumed_pod.pod)
        if known is not None and not known.is_binding and replace(known, expires=assumed_pod.expires) == assumed_pod:
            # A patch that was queued or is sent again. The reservation stays as it is.
            self._states.put_assumed(assumed_pod)
            return
        self._drop_assumed(assumed_pod.pod)
        if shown is not None:
            self._predecessors.note(assumed_pod.pod, assumed_pod.uid, shown)
        self.allocations.assume(assumed_pod)
        self._states.put_assumed(assumed_pod)
        self._reserve(assumed_pod)

    def shown_uid(self, key: str) -> str:
        """The uid of the pod of this name that is bound or assigned; empty if none is."""
        known = self._states.pods.get(key)
        return "" if known is None else known.uid

    def shown_node(self, key: str) -> str:
        """The node that the pod of this name is bound or assigned to; empty if there is none."""
        known = self._states.pods.get(key)
        return "" if known is None else known.node or known.assigned_node

    def assumed_by(self, key: str) -> AssumedPod | None:
        """What the pod was given and no object shows yet; None if there is nothing."""
        return self._states.assumed.get(key)

    def bound_to(self, node: str) -> tuple[ResidentPod, ...]:
        """The pods bound to a node that have not ended, unordered."""
        return self._states.on(node).bound()

    def forget(self, key: str) -> None:
        """Release an assumed pod: its binding or patch will not be written any more, or the pod is gone."""
        if (assumed_pod := self._drop_assumed(key)) is not None:
            self.allocations.forget_assumed(key)
            self._states.release(key, assumed_pod.node)
            self._changed.add(assumed_pod.node)

    def requesting(self, node: str) -> Iterator[tuple[str, str, Mapping[str, int]]]:
        """The pods that count on a node, bound or reserved: namespace/name, uid and requests. Bound ones come first."""
        for pod in sorted(self.bound_to(node), key=lambda pod: pod.key):
            yield pod.key, pod.uid, pod.requests
        for one in self._states.reservations(node):
            if one.requests:
                assumed_pod = self._states.assumed.get(one.pod)
                yield one.pod, self.shown_uid(one.pod) if assumed_pod is None else assumed_pod.uid, one.requests

    def take_changed(self) -> Collection[str]:
        """The nodes on which pods may count otherwise than at the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def binding_to(self, node: str) -> tuple[AssumedPod, ...]:
        """The assumed pods whose bindings to the node no object shows yet."""
        return self._states.on(node).binding()

    def assigned(self, node: str) -> tuple[Reservation, ...]:
        """The reservations of pods assigned to the node, written or not, that are not on their way to its kubelet."""
        on_node = self._states.reservations(node)
        return tuple(reservation for reservation in on_node if self._states.is_assigned(reservation.pod))

    def tentative(self, node: str) -> tuple[Reservation, ...]:
        """The reservations of pods for which the scheduler may still pick another node."""
        on_node = self._states.reservations(node)
        return tuple(reservation for reservation in on_node if self._states.is_tentative(reservation.pod))

    def leeway(self, node: str, pod: str, now: float) -> Leeway:
        """How much more or less of the node may be free for a pod (namespace/name) than the NRT and the ledger say."""
        return self._derived.leeway(node, pod, now)

    def keep_for(self, pod: ResidentPod, numa: NumaAmounts, alternatives: frozenset[int], *, sure: bool) -> None:
        """Reserve for one of `allocations.newcomers` what its kubelet gives it, until the node's NRT reports it."""
        self.allocations.replayed(pod, numa, alternatives, sure=sure)
        self._marked.add(pod.node)

    def is_counted(self, pod: ResidentPod) -> bool:
        """Whether the node's NRT has reported the pod, or may have, or never will."""
        topology = self._states.on(pod.node).topology
        covered = None if topology is None else self._states.reported(topology)
        return topology is None or covered is None or is_counted(pod, topology, covered)

    def numa_nodes(self, node: str, now: float) -> Mapping[str, PodNUMANodes]:
        """The NUMA nodes of the pods bound to a node, by key, and how they are known."""
        return self._derived.numa_nodes(node, now)

    def uncertain(self, now: float) -> Iterator[ResidentPod]:
        """The bound pods without an allocation whose uncertain NUMA nodes an NRT should show by now."""
        return self.allocations.uncertain(now - self._states.times.age)

    def all_assumed(self) -> Collection[AssumedPod]:
        """The assumed pods, also the tentative ones."""
        return self._states.assumed.values()

    @property
    def assumed_count(self) -> int:
        """The number of assumed pods without the tentative ones: those may never be bound."""
        return sum(not assumed_pod.tentative for assumed_pod in self._states.assumed.values())

    def expired(self, now: float) -> tuple[AssumedPod, ...]:
        """The assumed pods that have expired at `now`, on the clock of `expires`. The caller has to check them."""
        return tuple(assumed_pod for assumed_pod in self._states.assumed.values() if assumed_pod.expires <= now)

    def settle(self, now: float, on_fault: OnFault | None = None) -> bool:
        """Update the ledger. True if time alone may have changed something: no event of an object shows that.

        now: seconds since the epoch, within seconds of the API server's clock. on_fault: called for a node that cannot
        be settled; the node stays as it was until one of its objects changes. None: the exception is raised.
        """
        is_time = now >= self._next_due
        if is_time:
            self._marked.update(self._derived.take_due(now))
        if self._marked:
            self.settle_some(len(self._marked), now, on_fault)
        return is_time

    def settle_some(self, most: int, now: float, on_fault: OnFault | None = None) -> bool:
        """Update the ledger for at most so many of the nodes with changed objects; whether it is up to date then."""
        for _ in range(min(most, len(self._marked))):
            node = self._marked.pop()
            try:
                self._settle_node(node, now)
            except Exception as error:
                if on_fault is None:
                    raise
                on_fault(node, error)
        self._next_due = self._derived.next_due
        if self._marked:
            return False
        self._marked = set()  # an emptied set keeps its size, and `pop` searches all of it
        return True

    def _put_pod(self, pod: ResidentPod, now: float) -> None:
        states = self._states
        known = states.pods.get(pod.key)
        if not (is_predecessor := self._predecessors.seen(pod.key, pod.uid)):
            self._compare_assumed(pod)
        if known is not None and known.uid != pod.uid:
            self._note_end(known, now)
        if pod.terminal:
            self._note_end(pod, now)
            self.allocations.forget(pod.key, pod.uid)
        node = "" if pod.terminal else node_of(pod)
        if known is not None and (not node or _assignment(known) != _assignment(pod)):
            self._remove(known, now)
        if node:
            is_binding = pod.node and states.pods.get(pod.key) is None
            states.put_pod(pod)
            self._marked.add(node)
            if pod.node and not is_predecessor:
                self.allocations.seen(pod, known, states.on(node).topology)
            if is_binding:
                states.order.bound(pod.key)
                self._note_arrival(pod)
        if not pod.unallocated:
            self.replay.forget(pod.key)

    def _compare_assumed(self, pod: ResidentPod) -> None:
        """Drop the assumed pod if the object shows it, or shows that it will never be bound that way."""
        assumed_pod = self._states.assumed.get(pod.key)
        if assumed_pod is None:
            return
        # A binding is shown by a bound pod only: an event from before it may arrive after the guard's answer.
        is_assigned = pod.reserved and pod.assigned_node == assumed_pod.node
        shown = is_assigned and not assumed_pod.is_binding and dict(pod.allocation or ()) == assumed_pod.numa
        if pod.node or shown or pod.terminal or pod.uid != assumed_pod.uid:
            self._drop_assumed(pod.key)

    def _drop_assumed(self, key: str) -> AssumedPod | None:
        """Remove the assumed pod. The ledger is updated when the nodes are settled."""
        assumed_pod = self._states.pop_assumed(key)
        if assumed_pod is not None:
            self._predecessors.forget(key)
            self._marked.add(assumed_pod.node)
            if (pod := self._states.pods.get(key)) is not None:
                self._marked.add(node_of(pod))
        return assumed_pod

    def _remove(self, pod: ResidentPod, now: float) -> None:
        """Remove a pod from its node."""
        self._states.remove_pod(pod)
        if pod.node:
            self.allocations.forget(pod.key, pod.uid)
            self.replay.left(pod, now)
        self._marked.add(node_of(pod))

    def _note_end(self, pod: ResidentPod, now: float) -> None:
        """Record that the pod holds nothing any more. Pods on their way to its node may get the room that it left."""
        if not pod.node:
            return
        state, order = self._states.at(pod.node), self._states.order
        state.note_end(self.allocations.as_ended(pod))
        self._marked.add(pod.node)
        on_node, binding_to = order.in_order(state.bound()), state.binding()
        later = order.bound_after(pod.key, (other.key for other in on_node))
        news = self.allocations.left_room(pod, on_node, later, binding_to, state.topology, now)
        for assumed_pod in binding_to:
            if assumed_pod.pod in news:
                self._reserve(assumed_pod)

    def _note_arrival(self, pod: ResidentPod) -> None:
        """Handle a newly bound pod. If its NUMA nodes are unknown, those of pods on their way become uncertain."""
        if pod.exclusive_resources and self.allocations.is_unknown(pod):
            for assumed_pod in self.binding_to(pod.node):
                if self.allocations.came_before(assumed_pod, self._states.on(pod.node).topology):
                    self._reserve(assumed_pod)

    def _reserve(self, assumed_pod: AssumedPod) -> None:
        self._states.reserve_assumed(assumed_pod)
        self._changed.add(assumed_pod.node)

    def _settle_node(self, node: str, now: float) -> None:
        states = self._states
        self._changed.add(node)
        derived = {one.pod: one for one in self._derived.on(node, now) if one.pod not in states.assumed}
        states.replace_reservations(node, derived, kept=states.on(node).assumed.keys())


def _assignment(pod: ResidentPod) -> tuple[str, str, str]:
    return pod.uid, pod.node, pod.assigned_node
