"""The cluster at one moment: arrays over (resource, NUMA node, node) that never change once returned.

It is a window on one of ClusterState's buffers. It stays unchanged while a reader holds the object itself; holding
one of its arrays is not enough.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from webhook.engine.arrays import Amounts, Bools, Bytes, Codes, Counts, Enums, Ids, Nodes
from webhook.engine.snapshot.label_columns import LabelColumns
from webhook.engine.snapshot.rare_resources import RareTable
from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.formats.kubernetes.node import Taint
from webhook.model.options import Unenforced

# A reader further behind copies everything, which costs about as much as this many single changes.
_VERSIONS: Final = 1024

T = TypeVar("T")


class ChangeLog(Generic[T]):
    """What changed since a version: enough for an overlay or a tree to catch up instead of being rebuilt.

    The items changed by each of the last versions: append-only, shared by all readers.
    """

    __slots__ = ("_entries", "version")

    def __init__(self) -> None:
        self._entries: deque[tuple[T, ...]] = deque(maxlen=_VERSIONS)
        self.version = 0

    def append(self, changed: Iterable[T]) -> int:
        """Record that the next version differs in `changed`; returns its number."""
        self._entries.append(tuple(changed))
        self.version += 1
        return self.version

    def since(self, version: int) -> set[T] | None:
        """What may differ between `version` and now; None if the log no longer reaches back that far."""
        behind = self.version - version
        if not 0 <= behind <= len(self._entries):
            return None
        changed: set[T] = set()
        for step in range(1, behind + 1):
            changed.update(self._entries[-step])
        return changed


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class NodeArrays:
    """R resources, Z positions of NUMA nodes, N nodes. Every array is read-only and runs contiguously along its nodes.

    Amounts: cpu in millicores, the rest in bytes or pieces; -1 = not listed.
    """

    generation: int
    names: Sequence[str]
    """[N] node names, unsorted."""
    index: Mapping[str, int]
    """Node name -> n."""
    order: Nodes
    """int [N]: the nodes sorted by name (ties are broken by it)."""
    resources: ResourceIndex

    available: Amounts
    """int64 [R, Z, N]: free in the NUMA node, as published; minus bound pods if the publisher gives totals."""
    capacity: Amounts
    """int64 [R, Z, N]: capacity of the NUMA node, also of what no manager of its kubelet allocates; `available` and
    `zone_allocatable` are then -1.
    """
    zone_allocatable: Amounts
    """int64 [R, Z, N]: allocatable of the NUMA node (capacity without what is reserved for the system)."""
    zone_ids: Ids
    """int16 [Z, N]: NUMA id at each position, ascending; -1 = the node has no such position."""
    distances: Ids
    """int16 [Z, Z, N]: distance from position to position, 255 if unpublished."""
    policy: Enums
    """int8 [N]: NUMAPolicy: Koordinator's label if it is set, else the NRT's, else none; none also if it is unknown."""
    scope: Enums
    """int8 [N]: Scope of the topology manager."""
    plugin_policy: Enums
    """int8 [N]: `policy` as the upstream plugin reads an NRT."""
    plugin_scope: Enums
    """int8 [N]: `scope` as the upstream plugin reads an NRT."""
    max_numa_nodes: Ids
    """int16 [N]: max-allowable-numa-nodes as published, which the upstream plugin's scores divide by."""
    numa_nodes: Ids
    """int16 [N]: NUMA nodes of the machine, also those that have nothing, which have no position."""
    spread_cpus: Bools
    """bool [N]: its kubelet does not take CPUs of several NUMA nodes packed: how many of each is not known."""
    numa_per_socket: Ids
    """int16 [N]: NUMA nodes of a socket where the kubelet aligns CPUs by sockets; 0 = it does not."""
    numa_limit: Ids
    """int16 [N]: the most NUMA nodes with which its kubelet starts, unless its policy is none."""
    prefer_closest: Bools
    """bool [N]: prefer-closest-numa-nodes."""
    has_topology: Bools
    """bool [N]: an NRT with at least one NUMA node is known."""
    total: Bools
    """bool [N]: the publisher gives totals in `available` (koordlet): we choose NUMA nodes, not the kubelet."""
    threads: Ids
    """int16 [N]: CPUs of each physical core; 0 = not known."""
    cpu_rule: Bytes
    """uint8 [N]: what the node requires of bound CPUs (webhook.engine.snapshot.core_columns)."""
    split_cpu: Amounts
    """int64 [Z, N]: free CPUs, in millicores, that are in no wholly free core."""
    core_cpu: Amounts
    """int64 [Z, N]: one free CPU of each core that has one, in millicores."""
    split_cpu_of_node: Amounts
    """int64 [N]: the same as `split_cpu` for the node as a whole, for pods that are bound to no NUMA node."""
    kind: Bytes
    """uint8 [N]: all fields above that determine how a pod is aligned, in one number
    (webhook.engine.snapshot.node_kind).
    """
    listed: Bools
    """bool [R, N]: some NUMA node of the node lists the resource, and a manager of its kubelet allocates it."""
    single_residents: Counts
    """int32 [Z, N]: pods with policy SingleNUMANode on the NUMA node."""
    multi_residents: Counts
    """int32 [Z, N]: pods over several NUMA nodes, including this one."""
    ungrouped_residents: Counts
    """int32 [Z, N]: those of them whose memory need not be on several NUMA nodes together."""

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
    """The distinct sets of taints that exclude pods (NoSchedule, NoExecute); number 0 is the empty one."""
    soft_taint_count: Bytes
    """uint8 [N]: taints with the effect PreferNoSchedule."""
    soft_taints: LabelColumns
    """The soft taints of every node, key -> value, stored like labels."""
    labels: LabelColumns
    """Labels of every node, and columns of codes for the requested keys."""

    unknown_policies: Mapping[str, str]
    """Node name -> the source of its policy and the value, for nodes whose policy is unknown."""
    devices_away: Mapping[str, Mapping[str, int]]
    """Node name -> device -> how many of them its kubelet knows and does not offer now (`Node.devices_away`)."""
    rare: RareTable
    """Resources without a row of their own (webhook.engine.snapshot.rare_resources)."""

    changes: ChangeLog[int]
    """Which nodes (by n) changed in which generation; n may exceed the present number of nodes."""
    served_by_slices: frozenset[str] = frozenset()
    """The extended resources that a DeviceClass maps: nodes that do not name them may have them in ResourceSlices."""
    from_slices: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Node name -> the resources that its ResourceSlices serve, which no kubelet aligns with CPUs."""
    unenforced: Unenforced = Unenforced.LAST
    """What the operator allows on nodes that do not enforce a pod's NUMA policy (webhook.engine.enforcement)."""

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.names)

    @property
    def z(self) -> int:
        """Positions for NUMA nodes: those of the widest node seen."""
        return int(self.zone_ids.shape[0])
