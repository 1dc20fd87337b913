"""The cluster at one moment: arrays over (resource, NUMA node, node) that never change once handed out.

A snapshot is a window on one of ClusterState's two buffers. It stays as it is for as long as somebody holds the
Snapshot itself (holding one of its arrays is not enough).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webhook.engine.arrays import Amounts, Bools, Bytes, Codes, Counts, Enums, Ids, Nodes
from webhook.engine.snapshot.change_log import ChangeLog
from webhook.engine.snapshot.label_columns import LabelColumns
from webhook.engine.snapshot.rare_resources import RareTable
from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.model.node import Taint


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class NodeArrays:
    """R resources, Z positions of NUMA nodes, N nodes. Every array is read-only and runs contiguously along its nodes.

    Amounts: cpu in millicores, the rest in bytes or pieces; -1 = not listed.
    """

    generation: int
    names: Sequence[str]
    """[N] node names, in no order."""
    index: Mapping[str, int]
    """Node name -> n."""
    order: Nodes
    """int [N]: the nodes in the order of their names (ties are broken by it)."""
    resources: ResourceIndex

    available: Amounts
    """int64 [R, Z, N]: free in the NUMA node, as published; where the publisher gives totals, placed pods taken off."""
    capacity: Amounts
    """int64 [R, Z, N]: capacity of the NUMA node."""
    zone_allocatable: Amounts
    """int64 [R, Z, N]: allocatable of the NUMA node (capacity without what the system keeps)."""
    zone_ids: Ids
    """int16 [Z, N]: NUMA id at each position, ascending; -1 = the node has no such position."""
    distances: Ids
    """int16 [Z, Z, N]: distance from position to position, 255 where nobody published one."""
    policy: Enums
    """int8 [N]: NUMAPolicy: Koordinator's label if it has one, else the NRT's, else none; none where it is unknown."""
    scope: Enums
    """int8 [N]: Scope of the topology manager."""
    plugin_policy: Enums
    """int8 [N]: `policy` as the upstream plugin reads an NRT."""
    plugin_scope: Enums
    """int8 [N]: `scope` as the upstream plugin reads an NRT."""
    max_numa_nodes: Ids
    """int16 [N]: max-allowable-numa-nodes."""
    prefer_closest: Bools
    """bool [N]: prefer-closest-numa-nodes."""
    has_topology: Bools
    """bool [N]: an NRT with at least one NUMA node is known."""
    total: Bools
    """bool [N]: the publisher gives totals in `available` (koordlet): placing the pod is ours, not the kubelet's."""
    kind: Bytes
    """uint8 [N]: all of the above that decides how a pod is aligned, in one number
    (webhook.engine.snapshot.node_kind)."""
    listed: Bools
    """bool [R, N]: some NUMA node of the node lists the resource."""
    single_residents: Counts
    """int32 [Z, N]: pods with policy SingleNUMANode that live in the NUMA node."""
    multi_residents: Counts
    """int32 [Z, N]: pods placed over several NUMA nodes, this one among them."""

    allocatable: Amounts
    """int64 [R, N]: allocatable of the node; -1 = the node does not name the resource."""
    requested: Amounts
    """int64 [R, N]: sum of the requests of the pods bound to the node; row "pods" counts them."""
    node_free: Amounts
    """int64 [R, N]: allocatable (0 if not named) minus requested; negative if over-committed."""
    ready: Bools
    """bool [N]."""
    unschedulable: Bools
    """bool [N]: cordoned."""
    taint_set: Codes
    """int32 [N]: index into `taint_sets`."""
    taint_sets: Sequence[tuple[Taint, ...]]
    """The distinct sets of taints that keep pods away (NoSchedule, NoExecute); number 0 is the empty one."""
    soft_taint_count: Bytes
    """uint8 [N]: taints with the effect PreferNoSchedule."""
    soft_taints: LabelColumns
    """These taints of every node, the value by the key, as labels are."""
    labels: LabelColumns
    """Labels of every node, and columns of codes for the keys that somebody asked for."""

    unknown_policies: Mapping[str, str]
    """Node name -> where its policy stands and what it says, of nodes whose policy is unknown."""
    rare: RareTable
    """Resources that have no row of their own (webhook.engine.snapshot.rare_resources)."""

    changes: ChangeLog[int]
    """Which nodes (by n) changed in which generation; n may lie beyond the present number of nodes."""

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.names)

    @property
    def z(self) -> int:
        """Positions for NUMA nodes: those of the widest node seen."""
        return int(self.zone_ids.shape[0])
