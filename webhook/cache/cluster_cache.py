"""The cluster as decisions see it: informers' raw objects become model records, records become the engine's arrays.

Each kind of object has a `Feed`, which an informer fills. An object that cannot be read is left out and counted, with
a log line when its fault changes: one odd object must not stop a cluster.
"""

from collections.abc import Callable, Iterator, Mapping
from time import time
from typing import Any, Final

from webhook.cache.cluster_snapshot import World
from webhook.cache.delegated_pods import has_given_up
from webhook.cache.feed import Feed
from webhook.cache.hint_certainty import foresight, given_on, of_resident
from webhook.cache.kubelet_admission import Arrival, PlacedPod
from webhook.cache.management import as_managed
from webhook.cache.missed_creations import MissedPods
from webhook.cache.missing_hint import LateHint
from webhook.cache.node_policies import NodePolicies
from webhook.cache.pod_info import SeenPod
from webhook.cache.unmanaged import is_annotated
from webhook.engine.assumed.assumed_pod import Grant
from webhook.engine.assumed.assumed_pods import ReservationKeeper
from webhook.engine.assumed.known_placements import HintChange
from webhook.engine.assumed.unreported import CountingTimes
from webhook.engine.kubelet.allocation_replay import foresee
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_arrays import Snapshot
from webhook.engine.snapshot.single_node import chosen_node, less, node_alone
from webhook.engine.snapshot.snapshot import View
from webhook.internal_errors import Where, contained, internal_error
from webhook.model.gates import waits_for_us_alone
from webhook.model.hint import NUMANodeAmounts
from webhook.model.hint_key import HintKey
from webhook.model.membership import Seated
from webhook.model.namespace import Namespace
from webhook.model.node import Node
from webhook.model.nrt import NodeTopology
from webhook.model.resident import ResidentPod
from webhook.model.rules import Rules
from webhook.model.topology import Topology, TopologySource

Raw = dict[str, Any]

# Of an unmanaged pod with more of them nothing is predicted: that could take a second, and any user can create one.
_MOST_CONTAINERS: Final = 4


class ClusterWorld:
    """Everything known of the cluster, current as of the last event."""

    def __init__(
        self, times: CountingTimes | None = None, clock: Callable[[], float] = time, rules: Rules | None = None
    ) -> None:
        self.generation = 0
        """That of the latest view; it grows with the changes that views took in."""
        times = times or CountingTimes()
        self._state = ClusterState(_node_failed)
        self._ledger = Ledger()
        self._keeper = ReservationKeeper(self._ledger, times)
        self._clock = clock  # wall clock: the API server's stamps on pods and NRTs are compared with it
        self._waiting: dict[str, Raw] = {}
        self._gated: dict[str, Raw] = {}
        self._groups: dict[str, dict[str, Seated]] = {}
        self._unasked: dict[str, dict[str, Seated]] = {}
        self._seats_of: dict[str, tuple[dict[str, dict[str, Seated]], str]] = {}
        self.on_change: Callable[[], None] = _nothing
        """Called after every change, those that time alone makes among them; it must be quick."""
        self.on_topology: Callable[[], None] = _nothing
        """Called when a topology has come or changed."""
        self.on_namespace: Callable[[], None] = _nothing
        """Called when a namespace has come or changed."""
        self.on_hint_change: Callable[[], None] = _nothing
        """Called when hints of bound pods may have come to be other than they should be; it must be quick."""
        self.in_order: Callable[[], bool] = _always
        """Whether pods are told of in the order in which things happened to them: by a watch, not by a list."""
        self._topologies: dict[TopologySource, dict[str, Topology]] = {source: {} for source in TopologySource}
        self.policies = NodePolicies(self._state.nodes.get, self._state.topologies.get)
        """What is odd about the policies that nodes publish."""
        self._rules = rules or Rules()
        self._namespaces: dict[str, Namespace] = {}
        self._missed = MissedPods(self._rules, self._namespaces, 2 * (times.age + times.settle))
        self.namespaces = Feed("Namespace", Namespace.from_object, self._put_namespace, self._drop_namespace)
        self.nodes = Feed("Node", Node.from_object, self._put_node, self._drop_node)
        self.node_topologies = Feed(
            "NodeResourceTopology", NodeTopology.from_object, self._put_node_topology, self._drop_node_topology
        )
        self.hint_key = HintKey.create()
        """Signs our hints; the service puts the one that all replicas share here before pods are read."""
        self.pods = Feed("Pod", self._read_pod, self._put_pod, self._drop_pod)
        self.topologies = {source: self._topology_feed(source) for source in TopologySource}

    def sign(self, uid: str, hint: str) -> str:
        """What proves to every replica that we gave the pod with this uid this hint."""
        return self.hint_key.sign(uid, hint)

    def view(self) -> World:
        """The cluster for one decision; it stays as it is while the cluster goes on changing."""
        snapshot = self._settle()
        self.generation = snapshot.generation
        return World(View(snapshot, self._ledger), self.topologies_by_name(), self._namespaces)

    def topologies_by_name(self) -> Mapping[str, Topology]:
        """The same name in both groups is two objects; KAI's, whose annotations are read, wins."""
        return {**self._topologies[TopologySource.KUEUE], **self._topologies[TopologySource.KAI]}

    def knows_namespace(self, name: str) -> bool:
        """Whether it was seen."""
        return name in self._namespaces

    def as_managed(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The pod with the marks that it misses; as it is where it misses none."""
        unread = not (raw.get("spec") or {}).get("containers")
        return raw if unread or is_annotated(raw) else as_managed(raw, self.view(), self._rules)

    def chosen_node(self, node: str, pod: str) -> View | None:
        """The node alone, as free as it is to the pod namespace/name; None when it is not known."""
        return chosen_node(self._settle(), self._ledger, node, pod, self._keeper.bound_to(node))

    def arrival(self, node: str, pod: str) -> Arrival | None:
        """The node as the pod namespace/name will find it when it is bound to it; None when it is not known."""
        residents = [resident for resident in self._keeper.bound_to(node) if resident.key != pod]
        alone = node_alone(self._settle(), node, residents)
        if alone is None:
            return None
        placed = [promised for promised in self._keeper.placed(node) if promised.pod != pod]
        own = self._ledger.get(pod)
        # The pod that is bound first has it: a tentative reservation blocks no other pod.
        others = [promised for promised in self._keeper.tentative(node) if promised.pod != pod]
        given = less(self._ledger.sums(node), node, [*placed, *others, *(() if own is None else (own,))])
        waiting = [(promised, self._waiting.get(promised.pod)) for promised in placed]
        return Arrival(
            alone,
            given,
            tuple(PlacedPod(promised, raw) for promised, raw in waiting if raw is not None),
            own,
            self._keeper.leeway(node, pod, self._clock()),
        )

    def late_hints(self) -> Iterator[LateHint]:
        """The pods that were bound without a hint and are not counted by an NRT, and what each is to have for one.

        And those that have none since it is not certain, for so long that the NRT should have shown it.
        """
        self._settle()
        for pod in self._keeper.uncertain(self._clock()):
            yield LateHint.not_certain(pod)
        for pod, foreseen in self._keeper.foreseen(self._clock()):
            if foreseen.place or foreseen.doubt is not None:
                late = None
                with contained(Where.POD, pod=pod.key):
                    late = LateHint.of(pod, foreseen, self.arrival(pod.node, pod.key))
                if late is not None:
                    yield late

    def hint_changes(self) -> tuple[HintChange, ...]:
        """The bound pods whose hints are not what they should be."""
        self._settle()
        return tuple(self._keeper.hints.changes())

    def hint_written(self, change: HintChange) -> None:
        """The pod has that hint now."""
        self._keeper.hints.written(change)

    def placed(self, node: str) -> tuple[Reservation, ...]:
        """What is promised to pods that are placed on the node and not on their way to its kubelet yet."""
        return self._keeper.placed(node)

    def is_approached(self, node: str, pod: str, expiring_after: float) -> bool:
        """Whether another pod was given NUMA nodes there with a binding that no object shows yet.

        Of grants that expire later than that only, on the clock of their `expires`.
        """
        arriving = self._keeper.arriving(node)
        return any(grant.numa and grant.pod != pod and grant.expires > expiring_after for grant in arriving)

    def waiting_pod(self, key: str, uid: str) -> Mapping[str, Any] | None:
        """A pod that is not bound yet; None when it, or this incarnation of it, was not seen.

        Of one that is not managed, and has no gate of ours, no more than its metadata's name and uid.
        """
        pod = self._waiting.get(key)
        if pod is None or uid not in {"", pod["metadata"].get("uid")}:
            return None
        return self.as_managed(pod)

    def promised(self, pod: str, uid: str, node: str) -> NUMANodeAmounts | None:
        """What the pod was granted on the node in an answer or patch that it does not show yet."""
        grant = self._keeper.granted(pod)
        return tuple(grant.numa.items()) if grant and (grant.uid, grant.node) == (uid, node) else None

    def granted(self, pod: str) -> Grant | None:
        """What was given to the pod and no object shows yet."""
        return self._keeper.granted(pod)

    def grant(self, grant: Grant) -> None:
        """Keep what was given to a pod."""
        self._keeper.grant(grant)

    def gated_pods(self) -> Mapping[str, Raw]:
        """The pods that only our gate holds back; not to be changed."""
        return self._gated

    def ungated_pods(self) -> Mapping[str, Raw]:
        """The pods without any gate and without a node that ask for something here, by namespace/name."""
        return {
            key: raw
            for key, raw in self._waiting.items()
            if is_annotated(raw) and not raw["spec"].get("schedulingGates")
        }

    def seated(self, group: str) -> Mapping[str, Seated]:
        """The members of a group that have a place, by namespace/name; not to be changed."""
        return self._groups.get(group, {})

    def unasked(self, group: str) -> Mapping[str, Seated]:
        """Pods of a controller that were bound before they could take their group from it; not to be changed."""
        return self._unasked.get(group, {})

    def groups(self) -> Mapping[str, Mapping[str, Seated]]:
        """The members that have a place, by group and by namespace/name; not to be changed."""
        return self._groups

    def promised_node(self, pod: str) -> str | None:
        """The node that the pod was given and does not show yet; None when it was given none."""
        grant = self._keeper.granted(pod)
        return None if grant is None else grant.node

    @property
    def open_grants(self) -> int:
        """How many grants no object shows yet."""
        return self._keeper.open_grants

    def overdue_grants(self, now: float) -> tuple[Grant, ...]:
        """The grants that no object has come to show by the time they had, on the clock of `time.monotonic`."""
        return self._keeper.overdue(now)

    def holds(self, grant: Grant) -> bool:
        """Whether this grant is kept, and no object shows it yet."""
        return self._keeper.granted(grant.pod) is grant

    def withdraw(self, grant: Grant) -> None:
        """What was given will not be taken."""
        if self.holds(grant):
            self._keeper.withdraw(grant.pod)

    def _settle(self) -> Snapshot:
        """The state as it is now, with the ledger in step: all that is promised, and where unguarded pods are."""
        if self._keeper.settle(self._clock(), _node_failed):
            self.on_change()
        snapshot = self._state.snapshot()
        if self._keeper.hints.has_changes:
            self.on_hint_change()
        for node in self._keeper.to_foresee():
            try:
                unguarded = self._keeper.unguarded(node)
                if (alone := node_alone(snapshot, node, unguarded.residents)) is not None:
                    self._keeper.keep(node, foresee(alone, unguarded))
            except Exception as error:  # noqa: BLE001 # what is on one node must not cost every view
                _node_failed(node, error)
                self._keeper.give_up(node)
        return snapshot

    def _put_node(self, node: Node) -> None:
        self._state.upsert_node(node)
        self.policies.changed(node.name)
        self.on_change()

    def _drop_node(self, name: str) -> None:
        self._state.delete_node(name)
        self.policies.changed(name)
        self.on_change()

    def _put_namespace(self, namespace: Namespace) -> None:
        self._namespaces[namespace.name] = namespace
        self.on_namespace()

    def _drop_namespace(self, name: str) -> None:
        self._namespaces.pop(name, None)

    def _read_pod(self, raw: Mapping[str, Any]) -> SeenPod:
        return SeenPod.from_object(raw, self._rules, self.hint_key, self._is_missed)

    def _is_missed(self, raw: Mapping[str, Any], pod: ResidentPod) -> bool:
        return self._missed.is_missed(raw, pod, self._clock())

    def _put_pod(self, pod: SeenPod) -> None:
        key = pod.record.key
        self._state.upsert_pod(pod.record)
        self._keeper.put_pod(pod.record, in_order=self.in_order(), now=self._clock())
        for newcomer in self._keeper.hints.newcomers():
            if self.in_order():
                with contained(Where.POD, pod=newcomer.key):
                    self._foresee(newcomer)
        if self._keeper.hints.has_changes:
            self.on_hint_change()
        if pod.waiting is None:
            self._waiting.pop(key, None)
        else:
            self._waiting[key] = pod.waiting
        if pod.waiting is not None and waits_for_us_alone(pod.waiting):
            self._gated[key] = pod.waiting
        else:
            self._gated.pop(key, None)
        self._note_seat(pod)
        self._note_failure(pod)
        self.on_change()

    def _foresee(self, newcomer: ResidentPod) -> None:
        """Work out what a kubelet gives a pod that was just bound and is none of ours: it is in the others' way."""
        if len(newcomer.containers) > _MOST_CONTAINERS:
            return
        arrival = self.arrival(newcomer.node, newcomer.key)
        if arrival is None or self._keeper.is_counted(newcomer):
            return
        request_on = of_resident(newcomer)
        given = given_on(arrival.kubelet_view(), request_on)
        if given:
            foreseen = foresight(arrival, request_on, given)
            self._keeper.keep_for(newcomer, dict(given), foreseen.alternatives, sure=foreseen.sure)

    def _drop_pod(self, key: str) -> None:
        self._state.delete_pod(key)
        self._keeper.drop_pod(key, self._clock())
        self._missed.forget(key)
        if self._keeper.hints.has_changes:
            self.on_hint_change()
        self._waiting.pop(key, None)
        self._gated.pop(key, None)
        self._forget_seat(key)
        self.on_change()

    def _note_failure(self, pod: SeenPod) -> None:
        """Give back what was tentative where the scheduler says that it cannot bind the pod; it will try again."""
        grant = self._keeper.granted(pod.record.key)
        if grant is not None and grant.tentative and pod.waiting is not None and has_given_up(pod.waiting):
            self._keeper.withdraw(grant.pod)

    def _note_seat(self, pod: SeenPod) -> None:
        """Keep which members of a group have a place."""
        key = pod.record.key
        self._forget_seat(key)
        if pod.seat is not None:
            seats = self._unasked if pod.unasked else self._groups
            seats.setdefault(pod.group, {})[key] = pod.seat
            self._seats_of[key] = seats, pod.group

    def _forget_seat(self, key: str) -> None:
        if (found := self._seats_of.pop(key, None)) is not None:
            seats, group = found
            del seats[group][key]
            if not seats[group]:
                del seats[group]

    def _put_node_topology(self, topology: NodeTopology) -> None:
        self._state.upsert_topology(topology)
        self._keeper.put_topology(topology)
        self.policies.changed(topology.node)
        self.on_change()

    def _drop_node_topology(self, name: str) -> None:
        self._state.delete_topology(name)
        self._keeper.drop_topology(name)
        self.policies.changed(name)
        self.on_change()

    def _topology_feed(self, source: TopologySource) -> Feed[Topology]:
        kept = self._topologies[source]
        return Feed(
            f"Topology of {source}",
            Topology.from_object,
            lambda topology: self._keep_topology(kept, topology),
            lambda name: self._discard_topology(kept, name),
        )

    def _keep_topology(self, kept: dict[str, Topology], topology: Topology) -> None:
        kept[topology.name] = topology
        self.on_topology()
        self.on_change()

    def _discard_topology(self, kept: dict[str, Topology], name: str) -> None:
        kept.pop(name, None)
        self.on_change()


def _node_failed(node: str, error: Exception) -> None:
    internal_error(Where.NODE, error, node=node)


def _nothing() -> None:
    """Nobody wants to know."""


def _always() -> bool:
    return True
