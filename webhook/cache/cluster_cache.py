"""The cluster as decisions see it: informers' raw objects become model records, records become the engine's arrays.

Each kind of object has a `Feed`, which an informer fills. An object that cannot be read is left out and counted, with
a log line when its fault changes: one odd object must not stop a cluster.
"""

from collections.abc import Callable, Iterator, Mapping
from time import time
from typing import Any, Final

from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.cache.delegated_pods import is_unschedulable
from webhook.cache.feed import Feed
from webhook.cache.hint_certainty import given_on, hint_certainty, of_resident
from webhook.cache.kubelet_admission import AssignedPod, KubeletAdmission
from webhook.cache.management import as_managed
from webhook.cache.missed_creations import MissedPods
from webhook.cache.missing_hint import HintBackfill
from webhook.cache.node_policies import NodePolicies
from webhook.cache.pod_info import PodInfo
from webhook.cache.unmanaged import is_annotated
from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.engine.assumed.assumed_pods import AssumedPods
from webhook.engine.assumed.known_placements import HintChange
from webhook.engine.assumed.unreported import ReportingTimes
from webhook.engine.kubelet.allocation_replay import replay
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.single_node import chosen_node, less, node_alone
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.internal_errors import Where, contained, internal_error
from webhook.model.gates import waits_for_us_alone
from webhook.model.hint import NUMANodeAmounts
from webhook.model.hint_key import HintKey
from webhook.model.membership import AssignedMember
from webhook.model.namespace import Namespace
from webhook.model.node import Node
from webhook.model.nrt import NodeTopology
from webhook.model.resident import ResidentPod
from webhook.model.rules import Rules
from webhook.model.topology import Topology, TopologySource

Raw = dict[str, Any]

# Of an unmanaged pod with more of them nothing is predicted: that could take a second, and any user can create one.
_MOST_CONTAINERS: Final = 4


class ClusterCache:
    """Everything known of the cluster, current as of the last event."""

    def __init__(
        self, times: ReportingTimes | None = None, clock: Callable[[], float] = time, rules: Rules | None = None
    ) -> None:
        self.generation = 0
        """That of the latest view; it grows with the changes that views took in."""
        times = times or ReportingTimes()
        self._state = ClusterState(_node_failed)
        self._ledger = Ledger()
        self._assumed_pods = AssumedPods(self._ledger, times)
        self._clock = clock  # wall clock: the API server's stamps on pods and NRTs are compared with it
        self._waiting: dict[str, Raw] = {}
        self._gated: dict[str, Raw] = {}
        self._groups: dict[str, dict[str, AssignedMember]] = {}
        self._unasked: dict[str, dict[str, AssignedMember]] = {}
        self._seats_of: dict[str, tuple[dict[str, dict[str, AssignedMember]], str]] = {}
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

    def snapshot(self) -> ClusterSnapshot:
        """The cluster for one decision; it stays as it is while the cluster goes on changing."""
        node_arrays = self._settle()
        self.generation = node_arrays.generation
        return ClusterSnapshot(Snapshot(node_arrays, self._ledger), self.topologies_by_name(), self._namespaces)

    def topologies_by_name(self) -> Mapping[str, Topology]:
        """The same name in both groups is two objects; KAI's, whose annotations are read, wins."""
        return {**self._topologies[TopologySource.KUEUE], **self._topologies[TopologySource.KAI]}

    def knows_namespace(self, name: str) -> bool:
        """Whether it was seen."""
        return name in self._namespaces

    def as_managed(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The pod with the marks that it misses; as it is where it misses none."""
        unread = not (raw.get("spec") or {}).get("containers")
        return raw if unread or is_annotated(raw) else as_managed(raw, self.snapshot(), self._rules)

    def chosen_node(self, node: str, pod: str) -> Snapshot | None:
        """The node alone, as free as it is to the pod namespace/name; None when it is not known."""
        return chosen_node(self._settle(), self._ledger, node, pod, self._assumed_pods.bound_to(node))

    def kubelet_admission(self, node: str, pod: str) -> KubeletAdmission | None:
        """The node as the pod namespace/name will find it when it is bound to it; None when it is not known."""
        residents = [resident for resident in self._assumed_pods.bound_to(node) if resident.key != pod]
        alone = node_alone(self._settle(), node, residents)
        if alone is None:
            return None
        assigned = [assumed for assumed in self._assumed_pods.assigned(node) if assumed.pod != pod]
        own = self._ledger.get(pod)
        # The pod that is bound first has it: a tentative reservation blocks no other pod.
        others = [assumed for assumed in self._assumed_pods.tentative(node) if assumed.pod != pod]
        given = less(self._ledger.sums(node), node, [*assigned, *others, *(() if own is None else (own,))])
        waiting = [(assumed, self._waiting.get(assumed.pod)) for assumed in assigned]
        return KubeletAdmission(
            alone,
            given,
            tuple(AssignedPod(assumed, raw) for assumed, raw in waiting if raw is not None),
            own,
            self._assumed_pods.leeway(node, pod, self._clock()),
        )

    def hint_backfills(self) -> Iterator[HintBackfill]:
        """The pods that were bound without a hint and are not counted by an NRT, and what each is to have for one.

        And those that have none since it is not certain, for so long that the NRT should have shown it.
        """
        self._settle()
        for pod in self._assumed_pods.uncertain(self._clock()):
            yield HintBackfill.not_certain(pod)
        for pod, replayed in self._assumed_pods.replayed(self._clock()):
            if replayed.numa or replayed.doubt is not None:
                backfill = None
                with contained(Where.POD, pod=pod.key):
                    backfill = HintBackfill.of(pod, replayed, self.kubelet_admission(pod.node, pod.key))
                if backfill is not None:
                    yield backfill

    def hint_changes(self) -> tuple[HintChange, ...]:
        """The bound pods whose hints are not what they should be."""
        self._settle()
        return tuple(self._assumed_pods.hints.changes())

    def hint_written(self, change: HintChange) -> None:
        """The pod has that hint now."""
        self._assumed_pods.hints.written(change)

    def assigned(self, node: str) -> tuple[Reservation, ...]:
        """What is promised to pods that are placed on the node and not on their way to its kubelet yet."""
        return self._assumed_pods.assigned(node)

    def has_binding_in_progress(self, node: str, pod: str, expiring_after: float) -> bool:
        """Whether another pod was given NUMA nodes there with a binding that no object shows yet.

        Of assumed pods that expire later than that only, on the clock of their `expires`.
        """
        binding_to = self._assumed_pods.binding_to(node)
        return any(
            assumed_pod.numa and assumed_pod.pod != pod and assumed_pod.expires > expiring_after
            for assumed_pod in binding_to
        )

    def waiting_pod(self, key: str, uid: str) -> Mapping[str, Any] | None:
        """A pod that is not bound yet; None when it, or this incarnation of it, was not seen.

        Of one that is not managed, and has no gate of ours, no more than its metadata's name and uid.
        """
        pod = self._waiting.get(key)
        if pod is None or uid not in {"", pod["metadata"].get("uid")}:
            return None
        return self.as_managed(pod)

    def assumed(self, pod: str, uid: str, node: str) -> NUMANodeAmounts | None:
        """What the pod was granted on the node in an answer or patch that it does not show yet."""
        assumed_pod = self._assumed_pods.assumed_by(pod)
        return (
            tuple(assumed_pod.numa.items())
            if assumed_pod and (assumed_pod.uid, assumed_pod.node) == (uid, node)
            else None
        )

    def assumed_by(self, pod: str) -> AssumedPod | None:
        """What was given to the pod and no object shows yet."""
        return self._assumed_pods.assumed_by(pod)

    def assume(self, assumed_pod: AssumedPod) -> None:
        """Keep what was given to a pod."""
        self._assumed_pods.assume(assumed_pod)

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

    def assigned_members(self, group: str) -> Mapping[str, AssignedMember]:
        """The members of a group that have a place, by namespace/name; not to be changed."""
        return self._groups.get(group, {})

    def unasked(self, group: str) -> Mapping[str, AssignedMember]:
        """Pods of a controller that were bound before they could take their group from it; not to be changed."""
        return self._unasked.get(group, {})

    def groups(self) -> Mapping[str, Mapping[str, AssignedMember]]:
        """The members that have a place, by group and by namespace/name; not to be changed."""
        return self._groups

    def assumed_node(self, pod: str) -> str | None:
        """The node that the pod was given and does not show yet; None when it was given none."""
        assumed_pod = self._assumed_pods.assumed_by(pod)
        return None if assumed_pod is None else assumed_pod.node

    @property
    def assumed_count(self) -> int:
        """How many grants no object shows yet."""
        return self._assumed_pods.assumed_count

    def expired_pods(self, now: float) -> tuple[AssumedPod, ...]:
        """The assumed pods that no object has come to show by the time they had, on the clock of `time.monotonic`."""
        return self._assumed_pods.expired(now)

    def holds(self, assumed_pod: AssumedPod) -> bool:
        """Whether this assumed pod is kept, and no object shows it yet."""
        return self._assumed_pods.assumed_by(assumed_pod.pod) is assumed_pod

    def forget(self, assumed_pod: AssumedPod) -> None:
        """What was given will not be taken."""
        if self.holds(assumed_pod):
            self._assumed_pods.forget(assumed_pod.pod)

    def _settle(self) -> NodeArrays:
        """The state as it is now, with the ledger in step: all that is promised, and where unhinted pods are."""
        if self._assumed_pods.settle(self._clock(), _node_failed):
            self.on_change()
        node_arrays = self._state.node_arrays()
        if self._assumed_pods.hints.has_changes:
            self.on_hint_change()
        for node in self._assumed_pods.to_replay():
            try:
                unhinted = self._assumed_pods.unhinted(node)
                if (alone := node_alone(node_arrays, node, unhinted.residents)) is not None:
                    self._assumed_pods.keep(node, replay(alone, unhinted))
            except Exception as error:  # noqa: BLE001 # what is on one node must not cost every view
                _node_failed(node, error)
                self._assumed_pods.give_up(node)
        return node_arrays

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

    def _read_pod(self, raw: Mapping[str, Any]) -> PodInfo:
        return PodInfo.from_object(raw, self._rules, self.hint_key, self._is_missed)

    def _is_missed(self, raw: Mapping[str, Any], pod: ResidentPod) -> bool:
        return self._missed.is_missed(raw, pod, self._clock())

    def _put_pod(self, pod: PodInfo) -> None:
        key = pod.record.key
        self._state.upsert_pod(pod.record)
        self._assumed_pods.put_pod(pod.record, in_order=self.in_order(), now=self._clock())
        for newcomer in self._assumed_pods.hints.newcomers():
            if self.in_order():
                with contained(Where.POD, pod=newcomer.key):
                    self._replay(newcomer)
        if self._assumed_pods.hints.has_changes:
            self.on_hint_change()
        if pod.waiting is None:
            self._waiting.pop(key, None)
        else:
            self._waiting[key] = pod.waiting
        if pod.waiting is not None and waits_for_us_alone(pod.waiting):
            self._gated[key] = pod.waiting
        else:
            self._gated.pop(key, None)
        self._note_member(pod)
        self._note_failure(pod)
        self.on_change()

    def _replay(self, newcomer: ResidentPod) -> None:
        """Work out what a kubelet gives a pod that was just bound and is none of ours: it is in the others' way."""
        if len(newcomer.containers) > _MOST_CONTAINERS:
            return
        kubelet_admission = self.kubelet_admission(newcomer.node, newcomer.key)
        if kubelet_admission is None or self._assumed_pods.is_counted(newcomer):
            return
        request_on = of_resident(newcomer)
        given = given_on(kubelet_admission.kubelet_snapshot(), request_on)
        if given:
            replayed = hint_certainty(kubelet_admission, request_on, given)
            self._assumed_pods.keep_for(newcomer, dict(given), replayed.alternatives, sure=replayed.sure)

    def _drop_pod(self, key: str) -> None:
        self._state.delete_pod(key)
        self._assumed_pods.drop_pod(key, self._clock())
        self._missed.forget(key)
        if self._assumed_pods.hints.has_changes:
            self.on_hint_change()
        self._waiting.pop(key, None)
        self._gated.pop(key, None)
        self._forget_member(key)
        self.on_change()

    def _note_failure(self, pod: PodInfo) -> None:
        """Give back what was tentative where the scheduler says that it cannot bind the pod; it will try again."""
        assumed_pod = self._assumed_pods.assumed_by(pod.record.key)
        if (
            assumed_pod is not None
            and assumed_pod.tentative
            and pod.waiting is not None
            and is_unschedulable(pod.waiting)
        ):
            self._assumed_pods.forget(assumed_pod.pod)

    def _note_member(self, pod: PodInfo) -> None:
        """Keep which members of a group have a place."""
        key = pod.record.key
        self._forget_member(key)
        if pod.seat is not None:
            seats = self._unasked if pod.unasked else self._groups
            seats.setdefault(pod.group, {})[key] = pod.seat
            self._seats_of[key] = seats, pod.group

    def _forget_member(self, key: str) -> None:
        if (found := self._seats_of.pop(key, None)) is not None:
            seats, group = found
            del seats[group][key]
            if not seats[group]:
                del seats[group]

    def _put_node_topology(self, topology: NodeTopology) -> None:
        self._state.upsert_topology(topology)
        self._assumed_pods.put_topology(topology)
        self.policies.changed(topology.node)
        self.on_change()

    def _drop_node_topology(self, name: str) -> None:
        self._state.delete_topology(name)
        self._assumed_pods.drop_topology(name)
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
