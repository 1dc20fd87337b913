"""The cluster as decisions see it: informers' raw objects become model records, records become the engine's arrays.

An informer fills one `Feed` for each kind of object. An object that cannot be read is left out, counted in a metric,
and logged when its fault changes. One odd object must not stop a cluster.

Changes are applied at the next read, so a burst of changes costs one update. A read also brings the reservations up to
date with the clock. It calls no observer. `advance` announces the changes that are due to time alone. The placement
controller calls it at the start of each cycle, the service once a second.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from time import time
from typing import Any

from webhook.cache.avoided_nodes import AvoidedNodes
from webhook.cache.bound_pods import BoundPods
from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.cache.delegated_pods import is_unschedulable
from webhook.cache.disruption_budgets import DisruptionBudgets
from webhook.cache.feed import Feed
from webhook.cache.gang_members import GangMembers
from webhook.cache.kai_pod_groups import KAIPodGroups
from webhook.cache.koordinator_reservations import KoordinatorReservations
from webhook.cache.kubelet_admission import KubeletAdmission
from webhook.cache.kubelet_predictions import KubeletPredictions
from webhook.cache.kubelet_rejections import KubeletRejections
from webhook.cache.lost_members import LostMembers
from webhook.cache.management import as_managed
from webhook.cache.missed_creations import MissedPods
from webhook.cache.missing_hint import HintBackfill
from webhook.cache.native_pod_groups import NativePodGroups
from webhook.cache.node_policies import NodePolicies
from webhook.cache.pod_assumptions import PodAssumptions
from webhook.cache.pod_info import PodInfo
from webhook.cache.topologies import Topologies
from webhook.cache.unbound_pods import UnboundPods
from webhook.cache.unconfirmed_pods import UnconfirmedPod, UnconfirmedPods
from webhook.cache.unmanaged import is_annotated
from webhook.engine.assumed.assumed_pods import AssumedPods
from webhook.engine.assumed.known_placements import HintChange
from webhook.engine.assumed.unreported import ReportingTimes
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.single_node import NodeAlone, chosen_node, node_for
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.internal_errors import Where, contained, internal_error
from webhook.model.hint_key import HintKey
from webhook.model.namespace import Namespace
from webhook.model.node import Node
from webhook.model.nrt import NodeTopology
from webhook.model.resident import ResidentPod
from webhook.model.rules import Rules
from webhook.model.topology import Topology
from webhook.signal import Signal

Raw = dict[str, Any]


def _always() -> bool:
    return True


class ClusterCache(PodAssumptions):
    """The state of the cluster, current as of the last event; for assumed pods see `pod_assumptions`."""

    def __init__(
        self,
        times: ReportingTimes | None = None,
        clock: Callable[[], float] = time,
        rules: Rules | None = None,
        pods_in_order: Callable[[], bool] = _always,
        failed_in_order: Callable[[], bool] = _always,
        *,
        preempts: bool = False,
    ) -> None:
        """pods_in_order: whether pods arrive in the order of their changes, as from a watch but not from a list.

        failed_in_order: the same for failed pods. preempts: whether it keeps what preemption has to know.
        """
        times = times or ReportingTimes()
        self._ledger = Ledger()
        self._assumed_pods = AssumedPods(self._ledger, times)
        super().__init__(self._assumed_pods)
        self.topology_changed = Signal[[]]()
        """Emitted when a topology was added or changed."""
        self.namespace_changed = Signal[[]]()
        """Emitted when a namespace was added or changed."""
        self.hints_changed = Signal[[]]()
        """Emitted when hints of bound pods may have to be written, corrected or removed."""
        self._clock = clock  # wall clock: compared with the API server's timestamps on pods and NRTs
        self._rules = rules or Rules()
        self._in_order = pods_in_order
        self._state = ClusterState(_node_failed)
        self._time_has_changed = False
        self._unbound = UnboundPods()
        self._unconfirmed = UnconfirmedPods(clock)
        self._predictions = KubeletPredictions(self._assumed_pods, self._ledger, self._unbound.waiting)
        self.rejections = KubeletRejections(self._rules, failed_in_order)
        """Pods that their kubelets rejected."""
        self.avoided = AvoidedNodes(clock, times.age, self._written_at, self.changed)
        """The nodes that the next pods of a rejected pod's controller or gang avoid."""
        self.rejections.found.subscribe(self.avoided.saw)
        self.gangs = GangMembers()
        """The members of gangs that have a node."""
        self.lost_members = LostMembers(self._is_ready)
        """The gangs that lost a member with its node."""
        self.gangs.left.subscribe(self.lost_members.left)
        self.bound_pods = BoundPods(is_enabled=preempts)
        """The bound pods as preemption sees them."""
        self.disruption_budgets = DisruptionBudgets()
        """The PodDisruptionBudgets, where preemption is enabled."""
        self.koordinator_reservations = KoordinatorReservations(self._assumed_pods, self.changed)
        """What Koordinator's Reservations hold, where the setting lets them be read."""
        self.policies = NodePolicies(self._state.nodes.get, self._state.topologies.get)
        """Unknown and contradictory policies that nodes publish."""
        self._namespaces: dict[str, Namespace] = {}
        self._missed = MissedPods(self._rules, self._namespaces, 2 * (times.age + times.settle))
        self.namespaces = Feed("Namespace", Namespace.from_object, self._put_namespace, self._drop_namespace)
        self.nodes = Feed("Node", Node.from_object, self._put_node, self._drop_node)
        self.node_topologies = Feed(
            "NodeResourceTopology",
            NodeTopology.from_object,
            self._put_node_topology,
            self._drop_node_topology,
            self._read_rest,
        )
        self._hint_key = HintKey.create()
        self.pods = Feed("Pod", self._read_pod, self._put_pod, self._drop_pod)
        self.failed_pods = self.rejections.feed
        self._topologies = Topologies(self.topology_changed, self.changed)
        self.topologies = self._topologies.feeds
        self.native_groups = NativePodGroups(self.changed)
        """Kubernetes' own PodGroups."""
        self.kai_groups = KAIPodGroups(self.changed, self._clock)

    @property
    def generation(self) -> int:
        """The generation of the latest snapshot; it grows when a snapshot contains new changes."""
        return self._state.generation

    @property
    def state(self) -> ClusterState:
        """The records of nodes, NodeResourceTopologies and bound pods; must not be changed."""
        return self._state

    @property
    def hint_key(self) -> HintKey:
        """Signs our hints."""
        return self._hint_key

    def use_hint_key(self, key: HintKey) -> None:
        """Sign with this key, and trust the hints that it signed. Applies to pods that are read from now on."""
        self._hint_key = key

    def advance(self) -> None:
        """Apply the changes due to time alone, and announce those that reads have found since the last call."""
        self._settled()
        if self._time_has_changed:
            self._time_has_changed = False
            self.changed.emit()
        self._announce_hints()
        self.kai_groups.advance()
        self.avoided.advance()

    def sign(self, uid: str, hint: str) -> str:
        """The signature that proves to every replica that we gave this hint to the pod with this uid."""
        return self._hint_key.sign(uid, hint)

    def snapshot(self) -> ClusterSnapshot:
        """The cluster for one decision. Later changes of the cluster do not affect it."""
        return ClusterSnapshot(
            Snapshot(self._settled(), self._ledger),
            self.topologies_by_name(),
            self._namespaces,
            self.native_groups.by_key(),
            self.kai_groups.by_key(),
            self.avoided.by_key(),
        )

    def topologies_by_name(self) -> Mapping[str, Topology]:
        """The topologies of both API groups."""
        return self._topologies.by_name()

    def knows_namespace(self, name: str) -> bool:
        """Whether the namespace is in the cache."""
        return name in self._namespaces

    def as_managed(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The pod with its missing marks added; unchanged if none is missing."""
        unread = not (raw.get("spec") or {}).get("containers")
        return raw if unread or is_annotated(raw) else as_managed(raw, self.snapshot(), self._rules)

    def chosen_node(self, node: str, pod: str) -> Snapshot | None:
        """One node alone, with what is free there for the pod namespace/name; None if the node is unknown."""
        return chosen_node(self._settled(), self._ledger, node, pod, self._assumed_pods.bound_to(node))

    def node_for(self, node: str, pod: str) -> tuple[NodeAlone, NodeSums] | None:
        """The same as the node, and what others hold there: for equal pods on equal nodes these are equal."""
        return node_for(self._settled(), self._ledger, node, pod, self._assumed_pods.bound_to(node))

    def kubelet_admission(self, node: str, pod: str) -> KubeletAdmission | None:
        """The node as the pod namespace/name will find it when bound to it; None if the node is unknown."""
        return self._predictions.admission(self._settled(), node, pod, self._clock())

    def hint_backfills(self) -> Iterator[HintBackfill]:
        """The hint for each unreported pod that was bound without one, or the reason why it has none."""
        return self._predictions.hint_backfills(self._settled(), self._clock())

    def hint_changes(self) -> tuple[HintChange, ...]:
        """The bound pods whose hints must be written, corrected or removed."""
        self._settled()
        return tuple(self._assumed_pods.hints.changes())

    def hint_written(self, change: HintChange) -> None:
        """Record that the pod has this hint now."""
        self._assumed_pods.hints.written(change)

    def waiting_pod(self, key: str, uid: str) -> Mapping[str, Any] | None:
        """A pod that is not bound yet; None if this pod, or the pod with this uid, was not seen.

        An unmanaged pod without our gate has only its name and uid in its metadata.
        """
        pod = self._unbound.waiting.get(key)
        if pod is None or uid not in {"", pod["metadata"].get("uid")}:
            return None
        return self.as_managed(pod)

    def pods_on(self, node: str) -> tuple[ResidentPod, ...]:
        """The pods bound to a node that have not ended, unordered."""
        return self._assumed_pods.bound_to(node)

    def current_time(self) -> float:
        """Seconds since the epoch, by the clock that ages are compared with."""
        return self._clock()

    def waiting_pods(self) -> Mapping[str, Raw]:
        """The pods that are not bound, by namespace/name. The result must not be changed.

        An unmanaged pod without our gate has only its name and uid.
        """
        return self._unbound.waiting

    def gated_pods(self) -> Mapping[str, Raw]:
        """The pods whose only gate is ours. The result must not be changed."""
        return self._unbound.gated

    def ungated_pods(self) -> Mapping[str, Raw]:
        """The managed pods without any gate and without a node, by namespace/name."""
        return self._unbound.ungated()

    def unconfirmed_pods(self) -> Mapping[str, UnconfirmedPod]:
        """The managed pods that have a node, and whose condition `Placed` does not say so yet, by namespace/name."""
        return self._unconfirmed.by_key

    def _settled(self) -> NodeArrays:
        """The current state. The ledger is updated to match: all reservations, and the replayed unhinted pods."""
        self._time_has_changed |= self._assumed_pods.settle(self._clock(), _node_failed)
        node_arrays = self._state.node_arrays()
        self._predictions.replay_unhinted(node_arrays)
        return node_arrays

    def _announce_hints(self) -> None:
        if self._assumed_pods.hints.has_changes:
            self.hints_changed.emit()

    def _put_node(self, node: Node) -> None:
        if self._state.upsert_node(node):
            self.policies.changed(node.name)
            self.changed.emit()

    def _drop_node(self, name: str) -> None:
        self._state.delete_node(name)
        self.avoided.gone(name)
        self.policies.changed(name)
        self.changed.emit()

    def _put_namespace(self, namespace: Namespace) -> None:
        self._namespaces[namespace.name] = namespace
        self.namespace_changed.emit()

    def _drop_namespace(self, name: str) -> None:
        self._namespaces.pop(name, None)

    def _read_pod(self, raw: Mapping[str, Any]) -> PodInfo:
        pod = PodInfo.from_object(raw, self._rules, self._hint_key, self._is_missed)
        bound = self.bound_pods.read(raw)
        return pod if bound is None or pod.record.terminal else replace(pod, bound=bound)

    def _is_missed(self, raw: Mapping[str, Any], pod: ResidentPod) -> bool:
        return self._missed.is_missed(raw, pod, self._clock())

    def _put_pod(self, pod: PodInfo) -> None:
        key = pod.record.key
        self._state.upsert_pod(pod.record)
        self._assumed_pods.put_pod(pod.record, in_order=self._in_order(), now=self._clock())
        for newcomer in self._assumed_pods.hints.newcomers():
            if self._in_order():
                with contained(Where.POD, pod=newcomer.key):
                    self._predictions.replay_newcomer(self._settled(), newcomer, self._clock())
        self._announce_hints()
        self._unbound.put(pod)
        self._unconfirmed.put(pod)
        self.gangs.put(pod)
        self.bound_pods.put(key, pod.bound)
        if pod.waiting is not None and is_unschedulable(pod.waiting):
            self._forget_tentative(key)
        if pod.waiting is None:
            self.bound_or_gone.emit(key)
        self.changed.emit()

    def _drop_pod(self, key: str) -> None:
        self._state.delete_pod(key)
        self._assumed_pods.drop_pod(key, self._clock())
        self._missed.forget(key)
        self._announce_hints()
        self._unbound.drop(key)
        self._unconfirmed.drop(key)
        self.gangs.drop(key)
        self.bound_pods.put(key, None)
        self.bound_or_gone.emit(key)
        self.changed.emit()

    def _put_node_topology(self, topology: NodeTopology) -> None:
        differs = self._state.upsert_topology(topology)
        if differs:
            self.policies.changed(topology.node)
        if self._assumed_pods.put_topology(topology) or differs:
            self.changed.emit()
        self.avoided.reported(topology.node)

    def _is_ready(self, node: str) -> bool:
        found = self._state.nodes.get(node)
        return found is not None and found.ready

    def _written_at(self, node: str) -> int | None:
        topology = self._state.topologies.get(node)
        return None if topology is None else topology.written_at

    def _read_rest(self, raw: Mapping[str, Any]) -> NodeTopology | None:
        """The NRT of an object without its zones, which are those of the last one."""
        known = self._state.topologies.get(raw["metadata"]["name"])
        return None if known is None or known.problems else NodeTopology.from_object(raw, known)

    def _drop_node_topology(self, name: str) -> None:
        self._state.delete_topology(name)
        self._assumed_pods.drop_topology(name)
        self.policies.changed(name)
        self.changed.emit()


def _node_failed(node: str, error: Exception) -> None:
    internal_error(Where.NODE, error, node=node)
