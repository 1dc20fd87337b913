"""The snapshot of the cluster for one decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.avoided_node import Avoided
from webhook.formats.kubernetes.namespace import Namespace
from webhook.formats.kubernetes.native_pod_group import NativePodGroup
from webhook.formats.topology import LABEL_TOPOLOGIES, Topology
from webhook.formats.user_pod_group import UserPodGroup
from webhook.state.devices import DeviceState
from webhook.state.shards import NodeShards


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Immutable while a decision is made."""

    nodes: Snapshot
    """Nodes, NUMA nodes and their free resources."""
    topologies: Mapping[str, Topology] = field(default_factory=lambda: LABEL_TOPOLOGIES)
    """Topologies by name, also those without an object."""
    namespaces: Mapping[str, Namespace] = field(default_factory=lambda: MappingProxyType({}))
    """Namespaces by name. A missing namespace is unknown."""
    native_groups: Mapping[str, NativePodGroup] | None = None
    """Kubernetes' own PodGroups by namespace/name; None where the API server does not serve them."""
    user_groups: Mapping[str, UserPodGroup] = field(default_factory=lambda: MappingProxyType({}))
    """The PodGroups that users wrote for KAI-Scheduler, and Grove's PodGangs, by namespace/name."""
    avoided: Avoided = field(default_factory=lambda: MappingProxyType({}))
    """The nodes that pods avoid after a rejection, by key of their controller's pods or of their gang."""
    devices: DeviceState | None = None
    """What claims request, as of now; None: no claim is counted."""
    clique_label: str = ""
    """The label by which nodes name their NVLink partition; empty if none does."""
    shards: NodeShards | None = None
    """The shards of the nodes, as of now; None: there is one."""
