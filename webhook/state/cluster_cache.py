"""The state of the cluster as decisions see it: informers' objects go in, snapshots and single pods come out.

An informer fills one feed for each kind of object. Changes are applied at the next read, so a burst of changes costs
one update. A read also brings the reservations up to date with the clock. It calls no observer: `advance` announces the
changes that are due to time alone. The placement controller calls it at the start of each cycle, the service ten times
a second.

What a pod holds, and who says so (as in kube-scheduler's cache):

              assume              shown               shown            counted
    observed ─────────> assumed ─────────> assigned ─────────> bound ──────────> reported
       ^  ^              │ │ │ ^              │                  ^
       │  │              │ │ │ └── assume ────┘                  │
       │  └─ forgotten <─┘ │ └──────── shown: was a binding ─────┘
       └──── expired <─────┘                        any of them ──> gone: deleted, or ended

- observed: an object shows the pod without a node of ours. It holds nothing.
- assumed: a patch or the answer to a binding gave it a node and NUMA nodes, and no object shows that yet. It holds what
  `AssumedPod` says. A binding is assumed for an assigned pod, too, in place of what the patch gave it.
- assigned: the pod shows our allocation, and has no node. The allocation says what it holds, unless nothing is reserved
any more.
  A patch is shown by this; an assumed binding is shown by a bound pod only.
- bound: the pod has its node. It holds what its allocation says, or what a replay of its kubelet's choice gives.
- reported: its node's NodeResourceTopology (NRT) counts it, so nothing is reserved beside the NRT. A pod without
  exclusive resources never gets here; koordlet's NRT counts no pod.
- forgotten: its patch or binding failed or is not sent, or the scheduler, which chooses the node of a tentative one,
  could not bind it. What objects show of the pod counts again.
- expired: no object showed it by its time. `webhook.controllers.assumed_pod_sweep` reads the pod before it says so.
- gone: nothing is held, and what the NRT still shows as taken by it is given back.

The machine itself is `assumed.assumed_pods`. It is pure, and every replica that reads the same objects derives the same
from them. Only assumed pods, and where a pod may be instead of on its allocation's NUMA nodes, are known to one
replica.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import time
from typing import Final

from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.single_node import NodeAlone, chosen_node, node_for
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.autoscaling import own_request
from webhook.formats.grove import read_pod_gang
from webhook.formats.koordinator.koordinator_reservation import KoordinatorReservation
from webhook.formats.koordinator.numa_allocation import AllocationKey, NUMANodeAmounts
from webhook.formats.kubernetes.disruption_budget import DisruptionBudget
from webhook.formats.kubernetes.membership import Membership
from webhook.formats.kubernetes.namespace import Namespace
from webhook.formats.kubernetes.native_pod_group import GATED_AS_A_WHOLE, NativePodGroup
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.kueue_admission import AdmissionCheck, PendingWorkload, ResourceFlavor
from webhook.formats.nrt import NodeTopology
from webhook.formats.topology import CLIQUE_LABELS, LABEL_TOPOLOGIES, Topology, TopologySource, with_levels
from webhook.formats.user_pod_group import UserPodGroup
from webhook.internal_errors import Where, contained, internal_error
from webhook.model.raw import Raw
from webhook.signal import Signal
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.assumed.assumed_pods import AssumedPods
from webhook.state.assumed.known_placements import AllocationChange, Known
from webhook.state.assumed.observed_placement import PodNUMANodes
from webhook.state.assumed.unreported import ReportingTimes
from webhook.state.avoided_nodes import AvoidedNodes
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.delegated_pods import is_unschedulable
from webhook.state.devices import DeviceState
from webhook.state.kubelet_admission import KubeletAdmission
from webhook.state.kubelet_predictions import AllocationBackfill, KubeletPredictions
from webhook.state.management import as_managed
from webhook.state.node_policies import NodePolicies
from webhook.state.our_pods import OurPods
from webhook.state.pod_indexes import (
    GangMembers,
    KAIPodGroups,
    KubeletRejections,
    LostMembers,
    MissedPods,
    PodIndexes,
    UnconfirmedPod,
)
from webhook.state.pod_info import PodInfo, believed
from webhook.state.rules import Rules
from webhook.state.shards import NodeShards
from webhook.state.store import Feed, Store
from webhook.state.unmanaged import is_annotated


def _always() -> bool:
    return True


_BY_WEIGHT: Final = (TopologySource.KUEUE, TopologySource.GROVE, TopologySource.KAI)


@dataclass(frozen=True, slots=True)
class _Topologies:
    """The topologies by name, until an object or the label of NVLink partitions changes."""

    basis: Hashable
    in_use: Mapping[str, Topology]
    named: Mapping[str, Topology]
    """Also those that no node has the label for yet: pods may name them."""

    @classmethod
    def of(cls, revision: int, clique_label: str, objects: Mapping[str, Topology]) -> "_Topologies":
        shown = {clique_label: LABEL_TOPOLOGIES[clique_label]} if clique_label else {}
        if with_levels((clique_label,), objects):
            shown = {}
        return cls((revision, clique_label), {**shown, **objects}, {**LABEL_TOPOLOGIES, **objects})


class KueueAdmission:
    """What Kueue asks us: the checks that name us, what flavors add to pods, the Workloads that wait for any check."""

    def __init__(self) -> None:
        self.checks: Store[AdmissionCheck] = Store(
            "AdmissionCheck", AdmissionCheck.from_object, lambda check: check.name
        )
        self.flavors: Store[ResourceFlavor] = Store(
            "ResourceFlavor", ResourceFlavor.from_object, lambda flavor: flavor.name
        )
        self.workloads: Store[PendingWorkload] = Store(
            "Workload", PendingWorkload.from_object, lambda workload: workload.key
        )


class ClusterCache:
    """The state of the cluster, current as of the last event. Pods are identified by namespace/name."""

    def __init__(  # noqa: PLR0915 # builds the parts, and has no branches
        self,
        times: ReportingTimes | None = None,
        clock: Callable[[], float] = time,
        rules: Rules | None = None,
        pods_in_order: Callable[[], bool] = _always,
        failed_in_order: Callable[[], bool] = _always,
        *,
        preempts: bool = False,
        shards: NodeShards | None = None,
    ) -> None:
        """clock: seconds since the epoch; it is compared with the API server's timestamps on pods and NRTs.

        pods_in_order: whether pods arrive in the order of their changes, as from a watch but not from a list.
        failed_in_order: the same for failed pods. preempts: whether it keeps what preemption has to know.
        shards: of the nodes; None: those of the rules, none of which is closed.
        """
        self.changed = Signal[[]]()
        """Emitted after each change that may affect a waiting pod."""
        self.bound_or_gone = Signal[[str, str]]()
        """Emitted with the pod (namespace/name) and its uid when it is seen that it is bound, has ended or is gone."""
        self.topology_changed = Signal[[]]()
        """Emitted when a topology was added or changed."""
        self.allocations_changed = Signal[[]]()
        """Emitted when allocations of bound pods may have to be written, corrected or removed."""
        self.namespace_changed = Signal[[]]()
        """Emitted when a namespace was added or changed."""
        self.times = times = times or ReportingTimes()
        """How long it takes until a node's NodeResourceTopology shows a change of its pods."""
        self._clock = clock
        self._rules = rules = rules or Rules()
        self._in_order = pods_in_order
        self._allocation_key = AllocationKey.create()
        self._time_has_changed = False

        self._ledger = Ledger()
        self._assumed_pods = AssumedPods(self._ledger, times)
        self._state = ClusterState(_node_failed, unenforced=rules.unenforced)
        self._pods = PodIndexes(clock, preempts=preempts)
        self._predictions = KubeletPredictions(self._assumed_pods, self._ledger, self._pods.unbound)
        self.bound_pods = self._pods.bound
        """The bound pods as preemption sees them."""
        self.gangs = GangMembers()
        """The members of gangs that have a node."""
        self.shards: Final = shards or NodeShards(rules.shard_label)
        """The shards of the nodes."""
        self.ours: Final = OurPods(self.shards, self._pods, self.gangs, self._assumed_pods.shown_node)
        """The pods that this replica works on."""
        self.lost_members = LostMembers(self._is_ready, lambda group: len(self.gangs.assigned(group)))
        """The gangs that lost a member with its node."""
        self.gangs.left.subscribe(self.lost_members.left)
        self.avoided = AvoidedNodes(clock, times.age, self._written_at, self._ready_since, self.changed)
        """The nodes that the next pods of a rejected pod's controller or gang avoid."""
        self.rejections = KubeletRejections(rules, failed_in_order)
        """Pods that their kubelets rejected."""
        self.rejections.found.subscribe(self.avoided.saw)
        self.policies = NodePolicies(self._state.nodes.get, self._state.topologies.get)
        """Unknown and contradictory policies that nodes publish."""

        self._namespaces = Store("Namespace", Namespace.from_object, lambda namespace: namespace.name)
        self._namespaces.arrived.subscribe(self.namespace_changed.emit)
        self._missed = MissedPods(rules, self._namespaces.by_key(), 2 * (times.age + times.settle))
        self._topologies = {
            source: Store(f"Topology of {source}", Topology.from_object, lambda topology: topology.name)
            for source in TopologySource
        }
        for topologies in self._topologies.values():
            topologies.arrived.subscribe(self.topology_changed.emit)
            topologies.changed.subscribe(self.changed.emit)
        self._topologies_known = _Topologies.of(0, "", {})
        self._with_clique: Counter[str] = Counter()  # nodes with each of the labels of NVLink partitions
        self.native_groups = Store("PodGroup of Kubernetes", NativePodGroup.from_object, lambda group: group.key)
        """Kubernetes' own PodGroups. Their status does not count as a change."""
        self.native_groups.changed.subscribe(self.changed.emit)
        self.kai_groups = KAIPodGroups(clock)
        self.kai_groups.changed.subscribe(self.changed.emit)
        self.pod_gangs = Store("PodGang of Grove", read_pod_gang, lambda gang: gang.key)
        """Grove's PodGangs, where a setting lets them be read. Their pods and their status do not count as a change."""
        self.pod_gangs.changed.subscribe(self.changed.emit)
        self._user_groups: tuple[int, Mapping[str, UserPodGroup]] = (0, {})
        self.disruption_budgets = Store("PodDisruptionBudget", DisruptionBudget.from_object, lambda budget: budget.key)
        """The PodDisruptionBudgets, where preemption is enabled."""
        self.provisioning_requests = Store(
            "ProvisioningRequest", lambda raw: own_request(raw, self._allocation_key), lambda request: request.key
        )
        """Those that the leader made, where the setting names a class of them."""

        self.devices = DeviceState(self._state, self._assumed_pods, self.native_groups.by_key())
        """Devices and claims of Dynamic Resource Allocation, where they are served and a setting lets them be read."""
        self.devices.changed.subscribe(self.changed.emit)
        self.bound_or_gone.subscribe(self.devices.bound_or_gone)

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
        self.namespaces = self._namespaces.feed
        self.topologies = {source: store.feed for source, store in self._topologies.items()}
        self.kueue = KueueAdmission()
        """What Kueue asks by AdmissionChecks, where a setting lets it be read."""
        self.koordinator_reservations = Feed(
            "Reservation of Koordinator", KoordinatorReservation.from_object, self._put_held, self._drop_held
        )
        """What Koordinator's Reservations hold, where the setting lets them be read."""

    @property
    def generation(self) -> int:
        """The generation of the latest snapshot; it grows when a snapshot contains new changes."""
        return self._state.generation

    @property
    def reservations_version(self) -> int:
        """Grows with each change of what is reserved on nodes."""
        return self._ledger.version

    @property
    def follows_pods(self) -> bool:
        """Whether a watch shows the changes of pods as they are made, as far as is known."""
        return self._in_order()

    @property
    def state(self) -> ClusterState:
        """The records of nodes, NodeResourceTopologies and bound pods; must not be changed."""
        return self._state

    @property
    def allocation_key(self) -> AllocationKey:
        """Signs our allocations."""
        return self._allocation_key

    def use_allocation_key(self, key: AllocationKey) -> None:
        """Sign with this key, and trust the allocations that it signed. Applies to pods that are read from now on."""
        self._allocation_key = key

    def advance(self) -> None:
        """Apply the changes due to time alone, and announce those that reads have found since the last call."""
        self._settled()
        if self._time_has_changed:
            self._time_has_changed = False
            self.changed.emit()
        self._announce_allocations()
        self.kai_groups.advance()
        self.avoided.advance()
        self.devices.advance()

    def prepare(self, nodes: int) -> bool:
        """Apply the changes of at most so many nodes; whether few are left for the next read.

        A read applies all of them. After a list that takes seconds.
        """
        return (
            self._assumed_pods.settle_some(nodes, self._clock(), _node_failed)
            and self.devices.settle(nodes)
            and self._state.write_some(nodes)
        )

    def sign(self, uid: str, allocation: str) -> str:
        """The signature that proves to every replica that we gave this allocation to the pod with this uid."""
        return self._allocation_key.sign(uid, allocation)

    def believed(self, raw: Raw) -> Raw:
        """The pod, with its allocation only as far as that counts."""
        return believed(raw, self._rules, self._allocation_key)

    def snapshot(self) -> ClusterSnapshot:
        """The cluster for one decision. Later changes of the cluster do not affect it."""
        return ClusterSnapshot(
            Snapshot(self._settled(), self._ledger),
            self._known_topologies().named,
            self._namespaces.by_key(),
            self.native_groups.served(),
            self.user_groups(),
            self.avoided.by_key(),
            self.devices,
            self._clique_label(),
            self.shards,
        )

    def topologies_by_name(self) -> Mapping[str, Topology]:
        """The topologies of all API groups, and that of NVLink partitions if no object has this level.

        It is the same object until one changes. If several groups have a topology of the same name, KAI's wins, because
        KAI's annotations are read, then Grove's, which makes KAI's of its own.
        """
        return self._known_topologies().in_use

    def _known_topologies(self) -> "_Topologies":
        revision, label = sum(store.revision for store in self._topologies.values()), self._clique_label()
        if self._topologies_known.basis != (revision, label):
            kueue, grove, kai = (self._topologies[source].by_key() for source in _BY_WEIGHT)
            self._topologies_known = _Topologies.of(revision, label, {**kueue, **grove, **kai})
        return self._topologies_known

    def _clique_label(self) -> str:
        return next((label for label in CLIQUE_LABELS if self._with_clique[label]), "")

    def user_groups(self) -> Mapping[str, UserPodGroup]:
        """What users or Grove wrote to define gangs, by namespace/name.

        Of two with the same name the PodGang wins: Grove makes PodGroups of KAI-Scheduler of its PodGangs.
        """
        if not self.pod_gangs.by_key():
            return self.kai_groups.by_key()
        revision, known = self._user_groups
        now = self.kai_groups.revision + self.pod_gangs.revision
        if revision != now:
            known = {**self.kai_groups.by_key(), **self.pod_gangs.by_key()}
            self._user_groups = now, known
        return known

    def knows_namespace(self, name: str) -> bool:
        """Whether the namespace is in the cache."""
        return name in self._namespaces.by_key()

    def known_namespaces(self) -> Collection[str]:
        """The names of the namespaces in the cache."""
        return self._namespaces.by_key().keys()

    def as_managed(self, raw: Raw) -> Raw:
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

    def allocation_backfills(self) -> Iterator[AllocationBackfill]:
        """The allocation for each unreported pod that was bound without one, or the reason why it has none."""
        return self._predictions.allocation_backfills(self._settled(), self._clock())

    def allocation_changes(self) -> tuple[AllocationChange, ...]:
        """The bound pods whose allocations must be written, corrected or removed."""
        self._settled()
        return tuple(self._assumed_pods.allocations.changes())

    def allocation_change(self, pod: str) -> AllocationChange | None:
        """How the allocation of the bound pod namespace/name must be changed now; None if it need not be."""
        self._settled()
        return self._assumed_pods.allocations.change(pod)

    def allocation_written(self, change: AllocationChange) -> None:
        """Record that the pod has this allocation now."""
        self._assumed_pods.allocations.written(change)

    def waiting_pod(self, key: str, uid: str) -> Raw | None:
        """A pod that is not bound yet; None if this pod, or the pod with this uid, was not seen.

        An unmanaged pod without our gate has only its name and uid in its metadata.
        """
        pod = self._pods.unbound.get(key)
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
        return self._pods.unbound

    def gated_pods(self) -> Mapping[str, Raw]:
        """The pods whose only gate is ours. The result must not be changed."""
        return self._pods.gated

    def ungated_pods(self) -> Mapping[str, Raw]:
        """The managed pods without any gate and without a node, by namespace/name."""
        return self._pods.ungated()

    def is_gated_as_a_whole(self, membership: Membership | None) -> bool:
        """Whether kube-scheduler tries none of the gang's pods while one of its unbound pods is gated."""
        of_object = membership is not None and membership.of_object
        return of_object and self.native_groups.version in GATED_AS_A_WHOLE

    def unconfirmed_pods(self) -> Mapping[str, UnconfirmedPod]:
        """The managed pods that have a node, and whose condition `Placed` does not say so yet, by namespace/name."""
        return self._pods.unconfirmed

    def assume(self, assumed_pod: AssumedPod) -> None:
        """Reserve the resources of an assumed pod."""
        self._assumed_pods.assume(assumed_pod, self._uid_of(assumed_pod.pod))

    def forget(self, assumed_pod: AssumedPod) -> None:
        """Free the resources and devices of an assumed pod that will not use them."""
        if self.holds(assumed_pod):
            self._assumed_pods.forget(assumed_pod.pod)
            self.devices.forget_claims(assumed_pod.uid)

    def expire(self, assumed_pod: AssumedPod) -> None:
        """Free the resources of an assumed pod that no object showed in time, and emit `changed` for waiting pods."""
        self.forget(assumed_pod)
        self.changed.emit()

    def holds(self, assumed_pod: AssumedPod) -> bool:
        """Whether this pod is still assumed: no object shows it, and it was neither forgotten nor replaced."""
        return self._assumed_pods.assumed_by(assumed_pod.pod) is assumed_pod

    def assumed_by(self, pod: str) -> AssumedPod | None:
        """The assumed pod of this name; None if the pod is not assumed."""
        return self._assumed_pods.assumed_by(pod)

    def assumed_node(self, pod: str) -> str | None:
        """The node that the pod is assumed on; None if the pod is not assumed."""
        assumed_pod = self._assumed_pods.assumed_by(pod)
        return None if assumed_pod is None else assumed_pod.node

    def assumed(self, pod: str, uid: str, node: str) -> NUMANodeAmounts | None:
        """The resources on NUMA nodes assumed for the pod with this uid on the node; None if not assumed there."""
        assumed_pod = self._assumed_pods.assumed_by(pod)
        return (
            tuple(assumed_pod.numa.items())
            if assumed_pod and (assumed_pod.uid, assumed_pod.node) == (uid, node)
            else None
        )

    def known_numa_nodes(self, pod: str) -> Known | None:
        """The NUMA nodes of the pod as far as they are known, as of the last snapshot; None if nothing is."""
        return self._assumed_pods.allocations.known(pod)

    def numa_nodes(self, node: str) -> Mapping[str, PodNUMANodes]:
        """The NUMA nodes of the pods bound to a node, by key, and how they are known, as of the last snapshot."""
        return self._assumed_pods.numa_nodes(node, self._clock())

    def assumed_pods(self) -> Collection[AssumedPod]:
        """The assumed pods, also the tentative ones."""
        return self._assumed_pods.all_assumed()

    @property
    def assumed_count(self) -> int:
        """The number of assumed pods that an object is expected to show."""
        return self._assumed_pods.assumed_count

    def expired_pods(self, now: float) -> tuple[AssumedPod, ...]:
        """The assumed pods that no object has shown in time. now: seconds of `time.monotonic`."""
        return self._assumed_pods.expired(now)

    def assigned(self, node: str) -> tuple[Reservation, ...]:
        """The reservations of pods that are assigned to the node and whose binding has not begun."""
        return self._assumed_pods.assigned(node)

    def bindings_in_progress(self, node: str, pod: str, expiring_after: float) -> tuple[AssumedPod, ...]:
        """The other pods that got NUMA nodes on this node with bindings that no object shows yet.

        expiring_after: ignores assumed pods that expire at this time or before, on the clock of their `expires`.
        """
        return tuple(
            assumed_pod
            for assumed_pod in self._assumed_pods.binding_to(node)
            if assumed_pod.numa and assumed_pod.pod != pod and assumed_pod.expires > expiring_after
        )

    def _put_node(self, node: Node) -> None:
        self._count_clique_labels(node.name, node)
        moved = self.shards.put(node)
        if self._state.upsert_node(node) or moved:
            self.devices.put_node(node.name)
            self.policies.changed(node.name)
            self.changed.emit()
        self.avoided.restarted(node.name, node.ready_since)

    def _drop_node(self, name: str) -> None:
        self._count_clique_labels(name, None)
        self.shards.drop(name)
        self._state.delete_node(name)
        self.avoided.gone(name)
        self.policies.changed(name)
        self.changed.emit()

    def _count_clique_labels(self, name: str, node: Node | None) -> None:
        """Before the node of this name is replaced. None: it is deleted."""
        before = self._state.nodes.get(name)
        for label in CLIQUE_LABELS:
            had, has = (known is not None and label in known.labels for known in (before, node))
            self._with_clique[label] += has - had

    def _put_held(self, one: KoordinatorReservation) -> None:
        if self._assumed_pods.hold(one):
            self.changed.emit()

    def _drop_held(self, name: str) -> None:
        if self._assumed_pods.release_held(name):
            self.changed.emit()

    def _read_pod(self, raw: Raw) -> PodInfo:
        pod = PodInfo.from_object(raw, self._rules, self._allocation_key, self._is_missed, self._pods.bound.read)
        record = pod.record
        if not record.assigned_node or not raw["spec"].get("resourceClaims"):
            return pod
        # Until it is bound, its claims may hold nothing yet.
        claimed = self.devices.claimed(raw, raw["metadata"].get("namespace", "")).amounts
        return replace(pod, record=replace(record, requests={**record.requests, **claimed}))

    def _is_missed(self, raw: Raw, pod: ResidentPod) -> bool:
        return self._missed.is_missed(raw, pod, self._clock())

    def _put_pod(self, pod: PodInfo) -> None:
        key, uid = pod.record.key, pod.record.uid
        if (shown := self._uid_of(key)) not in {"", uid}:
            # A list shows the next pod of this name, and no event that the last one is gone.
            self.gangs.drop(key)
            self.bound_or_gone.emit(key, shown)
        self._state.upsert_pod(pod.record)
        self._assumed_pods.put_pod(pod.record, in_order=self._in_order(), now=self._clock())
        for newcomer in self._assumed_pods.allocations.newcomers():
            if self._in_order():
                with contained(Where.POD, pod=newcomer.key):
                    self._predictions.replay_newcomer(self._settled(), newcomer, self._clock())
        self._announce_allocations()
        self._pods.put(pod)
        self.gangs.put(pod)
        self.lost_members.joined(pod.group)
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
        self._announce_allocations()
        self._pods.drop(key)
        self.gangs.drop(key)
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

    def _read_rest(self, raw: Raw) -> NodeTopology | None:
        """The NRT of an object without its zones, which are those of the last one."""
        known = self._state.topologies.get(raw["metadata"]["name"])
        return None if known is None or known.problems else NodeTopology.from_object(raw, known)

    def _drop_node_topology(self, name: str) -> None:
        self._state.delete_topology(name)
        self._assumed_pods.drop_topology(name)
        self.policies.changed(name)
        self.changed.emit()

    def _forget_tentative(self, pod: str) -> None:
        """Free a tentative reservation: the scheduler reports that it cannot bind the pod, and will try again."""
        assumed_pod = self._assumed_pods.assumed_by(pod)
        if assumed_pod is not None and assumed_pod.tentative:
            self._assumed_pods.forget(pod)

    def _uid_of(self, pod: str) -> str:
        waiting = self._pods.unbound.get(pod)
        return self._assumed_pods.shown_uid(pod) if waiting is None else str(waiting["metadata"].get("uid", ""))

    def _settled(self) -> NodeArrays:
        """The current state, with an up-to-date ledger: reservations, and the replayed pods without an allocation."""
        self._time_has_changed |= self._assumed_pods.settle(self._clock(), _node_failed)
        self.devices.settle()
        node_arrays = self._state.node_arrays()
        self._predictions.replay_unallocated(node_arrays)
        return node_arrays

    def _announce_allocations(self) -> None:
        if self._assumed_pods.allocations.has_changes:
            self.allocations_changed.emit()

    def _ready_since(self, node: str) -> int:
        found = self._state.nodes.get(node)
        return 0 if found is None else found.ready_since

    def _written_at(self, node: str) -> int | None:
        topology = self._state.topologies.get(node)
        return None if topology is None else topology.written_at


def _node_failed(node: str, error: Exception) -> None:
    internal_error(Where.NODE, error, node=node)
