"""The cluster cache: informers' raw objects become model records, records become the engine's arrays.

An informer fills one `Feed` for each kind of object. An object that cannot be read is left out, counted in a metric,
and logged when its fault changes. One odd object must not stop a cluster. What decisions read is in `cluster_reads`.
"""

from collections.abc import Callable, Mapping
from time import time
from typing import Any

from webhook.formats.kubernetes.namespace import Namespace
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology
from webhook.internal_errors import Where, contained
from webhook.signal import Signal
from webhook.state.assumed.unreported import ReportingTimes
from webhook.state.bound_pods import BoundPods
from webhook.state.cluster_reads import ClusterReads
from webhook.state.delegated_pods import is_unschedulable
from webhook.state.disruption_budgets import DisruptionBudgets
from webhook.state.feed import Feed
from webhook.state.gang_members import GangMembers
from webhook.state.koordinator_reservations import KoordinatorReservations
from webhook.state.kubelet_rejections import KubeletRejections
from webhook.state.lost_members import LostMembers
from webhook.state.missed_creations import MissedPods
from webhook.state.node_policies import NodePolicies
from webhook.state.pod_info import PodInfo
from webhook.state.provisioning_requests import ProvisioningRequests
from webhook.state.rules import Rules


def _always() -> bool:
    return True


class ClusterCache(ClusterReads):
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
        super().__init__(times, clock, rules or Rules())
        self.namespace_changed = Signal[[]]()
        """Emitted when a namespace was added or changed."""
        self._in_order = pods_in_order
        self.rejections = KubeletRejections(self._rules, failed_in_order)
        """Pods that their kubelets rejected."""
        self.rejections.found.subscribe(self.avoided.saw)
        self.gangs = GangMembers()
        """The members of gangs that have a node."""
        self.lost_members = LostMembers(self._is_ready, lambda group: len(self.gangs.assigned(group)))
        """The gangs that lost a member with its node."""
        self.gangs.left.subscribe(self.lost_members.left)
        self.bound_pods = BoundPods(is_enabled=preempts)
        """The bound pods as preemption sees them."""
        self.disruption_budgets = DisruptionBudgets()
        """The PodDisruptionBudgets, where preemption is enabled."""
        self.koordinator_reservations = KoordinatorReservations(self._assumed_pods, self.changed)
        """What Koordinator's Reservations hold, where the setting lets them be read."""
        self.provisioning_requests = ProvisioningRequests(lambda: self.hint_key)
        """The ProvisioningRequests that the leader made, where the setting names a class of them."""
        self.policies = NodePolicies(self._state.nodes.get, self._state.topologies.get)
        """Unknown and contradictory policies that nodes publish."""
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
        self.pods = Feed("Pod", self._read_pod, self._put_pod, self._drop_pod)
        self.failed_pods = self.rejections.feed

    def _put_node(self, node: Node) -> None:
        if self._state.upsert_node(node):
            self.policies.changed(node.name)
            self.changed.emit()
        self.avoided.restarted(node.name, node.ready_since)

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
        return PodInfo.from_object(raw, self._rules, self._hint_key, self._is_missed, self.bound_pods.read)

    def _is_missed(self, raw: Mapping[str, Any], pod: ResidentPod) -> bool:
        return self._missed.is_missed(raw, pod, self._clock())

    def _put_pod(self, pod: PodInfo) -> None:
        key, uid = pod.record.key, pod.record.uid
        if (shown := self._uid_of(key)) not in {"", uid}:
            # A list shows the next pod of this name, and no event that the last one is gone.
            self.gangs.drop(key)
            self.bound_or_gone.emit(key, shown)
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
        self.lost_members.joined(pod.group)
        self.bound_pods.put(key, pod.bound)
        if pod.waiting is not None and is_unschedulable(pod.waiting):
            self._forget_tentative(key)
        if pod.waiting is None:
            self.bound_or_gone.emit(key, uid)
        self.changed.emit()

    def _drop_pod(self, key: str) -> None:
        uid = self._uid_of(key)
        self._state.delete_pod(key)
        self._assumed_pods.drop_pod(key, self._clock())
        self._missed.forget(key)
        self._announce_hints()
        self._unbound.drop(key)
        self._unconfirmed.drop(key)
        self.gangs.drop(key)
        self.bound_pods.put(key, None)
        self.bound_or_gone.emit(key, uid)
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

    def _read_rest(self, raw: Mapping[str, Any]) -> NodeTopology | None:
        """The NRT of an object without its zones, which are those of the last one."""
        known = self._state.topologies.get(raw["metadata"]["name"])
        return None if known is None or known.problems else NodeTopology.from_object(raw, known)

    def _drop_node_topology(self, name: str) -> None:
        self._state.delete_topology(name)
        self._assumed_pods.drop_topology(name)
        self.policies.changed(name)
        self.changed.emit()
