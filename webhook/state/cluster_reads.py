"""What decisions read of the cluster: its snapshot, single nodes, the pods without a node, the hints of bound pods.

Changes are applied at the next read, so a burst of changes costs one update. A read also brings the reservations up to
date with the clock. It calls no observer. `advance` announces the changes that are due to time alone. The placement
controller calls it at the start of each cycle, the service ten times a second.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.single_node import NodeAlone, chosen_node, node_for
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.hint_key import HintKey
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.topology import Topology
from webhook.internal_errors import Where, internal_error
from webhook.signal import Signal
from webhook.state.assumed.assumed_pods import AssumedPods
from webhook.state.assumed.known_placements import HintChange
from webhook.state.assumed.unreported import ReportingTimes
from webhook.state.avoided_nodes import AvoidedNodes
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.kai_pod_groups import KAIPodGroups
from webhook.state.kubelet_admission import KubeletAdmission
from webhook.state.kubelet_predictions import KubeletPredictions
from webhook.state.management import as_managed
from webhook.state.missing_hint import HintBackfill
from webhook.state.native_pod_groups import NativePodGroups
from webhook.state.pod_assumptions import PodAssumptions
from webhook.state.pod_info import believed
from webhook.state.rules import Rules
from webhook.state.topologies import Topologies
from webhook.state.unbound_pods import UnboundPods
from webhook.state.unconfirmed_pods import UnconfirmedPod, UnconfirmedPods
from webhook.state.unmanaged import is_annotated

if TYPE_CHECKING:
    from webhook.formats.kubernetes.namespace import Namespace

Raw = dict[str, Any]


class ClusterReads(PodAssumptions):
    """The state of the cluster, current as of the last event. Who fills it is `cluster_cache`."""

    def __init__(self, times: ReportingTimes, clock: Callable[[], float], rules: Rules) -> None:
        """clock: seconds since the epoch; it is compared with the API server's timestamps on pods and NRTs."""
        self._ledger = Ledger()
        self._assumed_pods = AssumedPods(self._ledger, times)
        super().__init__(self._assumed_pods, self._uid_of)
        self.topology_changed = Signal[[]]()
        """Emitted when a topology was added or changed."""
        self.hints_changed = Signal[[]]()
        """Emitted when hints of bound pods may have to be written, corrected or removed."""
        self.times = times
        """How long it takes until a node's NodeResourceTopology shows a change of its pods."""
        self._clock = clock
        self._rules = rules
        self._state = ClusterState(_node_failed, unenforced=rules.unenforced)
        self._time_has_changed = False
        self._unbound = UnboundPods()
        self._unconfirmed = UnconfirmedPods(clock)
        self._predictions = KubeletPredictions(self._assumed_pods, self._ledger, self._unbound.waiting)
        self.avoided = AvoidedNodes(clock, times.age, self._written_at, self._ready_since, self.changed)
        """The nodes that the next pods of a rejected pod's controller or gang avoid."""
        self._namespaces: dict[str, Namespace] = {}
        self._hint_key = HintKey.create()
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

    def prepare(self, nodes: int) -> bool:
        """Apply the changes of at most so many nodes; whether few are left for the next read.

        A read applies all of them. After a list that takes seconds.
        """
        return self._assumed_pods.settle_some(nodes, self._clock(), _node_failed) and self._state.write_some(nodes)

    def sign(self, uid: str, hint: str) -> str:
        """The signature that proves to every replica that we gave this hint to the pod with this uid."""
        return self._hint_key.sign(uid, hint)

    def believed(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The pod, with its hint only as far as that counts."""
        return believed(raw, self._rules, self._hint_key)

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

    def hint_change(self, pod: str) -> HintChange | None:
        """How the hint of the bound pod namespace/name must be changed now; None if it need not be."""
        self._settled()
        return self._assumed_pods.hints.change(pod)

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

    def _uid_of(self, pod: str) -> str:
        waiting = self._unbound.waiting.get(pod)
        return self._assumed_pods.shown_uid(pod) if waiting is None else str(waiting["metadata"].get("uid", ""))

    def _settled(self) -> NodeArrays:
        """The current state. The ledger is updated to match: all reservations, and the replayed unhinted pods."""
        self._time_has_changed |= self._assumed_pods.settle(self._clock(), _node_failed)
        node_arrays = self._state.node_arrays()
        self._predictions.replay_unhinted(node_arrays)
        return node_arrays

    def _announce_hints(self) -> None:
        if self._assumed_pods.hints.has_changes:
            self.hints_changed.emit()

    def _ready_since(self, node: str) -> int:
        found = self._state.nodes.get(node)
        return 0 if found is None else found.ready_since

    def _written_at(self, node: str) -> int | None:
        topology = self._state.topologies.get(node)
        return None if topology is None else topology.written_at


def _node_failed(node: str, error: Exception) -> None:
    internal_error(Where.NODE, error, node=node)
