"""What a gated pod takes from its PodGroup of Kubernetes itself (see `webhook.formats.kubernetes.native_pod_group`).

1. The group does not exist yet: the pod waits for it. Where such groups are not served any more, it is in none.
2. The group requests a topology, or the pod or its owners request something: the group defines the gang.
3. Neither does, or the group is part of a CompositePodGroup: the pod is not ours to place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.formats.kubernetes.membership import GROUP_ANNOTATIONS, membership_of
from webhook.formats.kubernetes.native_pod_group import NativePodGroup, scheduling_group_of
from webhook.formats.topology import Topology
from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.names import MANAGED, NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, SCHEDULING_GROUP
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.management import namespace_of

_REQUESTS: Final = GROUP_ANNOTATIONS | {NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, MANAGED}


@dataclass(frozen=True, slots=True)
class NativeRequest:
    """The annotations of a pod with those that its group requests."""

    annotations: Mapping[str, str]
    taken: Mapping[str, str]
    """Those that the group adds."""
    fault: str = ""
    """Why the pod waits: the group does not exist, is invalid, or contradicts the pod's annotations."""
    left: str = ""
    """Why kube-scheduler places the pod although something is requested; empty otherwise."""


@dataclass(frozen=True, slots=True)
class GroupBasis:
    """A pod's group, and all that its request depends on."""

    group: NativePodGroup | None
    """None: there is no such group."""
    topologies: Mapping[str, Topology]
    is_served: bool

    @classmethod
    def of(
        cls, groups: Mapping[str, NativePodGroup] | None, topologies: Mapping[str, Topology], namespace: str, name: str
    ) -> "GroupBasis":
        """The basis for the group of this name. groups: by namespace/name; None where they are not served."""
        group = None if groups is None else groups.get(f"{namespace}/{name}")
        return cls(group, topologies, groups is not None)

    def is_same(self, other: "GroupBasis | None") -> bool:
        """Whether a pod takes the same as with the other."""
        if other is None or (self.group, self.is_served) != (other.group, other.is_served):
            return False
        return self.topologies is other.topologies or self.topologies == other.topologies

    def request(self, asked: Mapping[str, str]) -> NativeRequest:
        """What a pod takes. asked: its annotations and those that it takes from its owners."""
        group = self.group
        if not self.is_served:
            return NativeRequest(_unmarked(asked), {})
        if group is None:
            name = shortened(asked[SCHEDULING_GROUP])
            why = (
                f'spec.schedulingGroup.podGroupName: There is no PodGroup "{name}". Create it in the pod\'s namespace.'
            )
            return NativeRequest(asked, {}, why)
        if not group.constrained and _REQUESTS.isdisjoint(asked):
            return NativeRequest(_unmarked(asked), {})
        if group.parent:
            left = (
                f"PodGroup {group.name} is part of CompositePodGroup {group.parent}, which only kube-scheduler places "
                "as a whole"
            )
            return NativeRequest(_unmarked(asked), {}, left=left)
        try:
            requested = group.request(asked, self.topologies)
        except UserError as error:
            return NativeRequest(asked, {}, " ".join(map(str, error.faults)))
        return NativeRequest({**asked, **requested}, requested)


def group_basis(raw: Mapping[str, Any], cluster_snapshot: ClusterSnapshot) -> GroupBasis | None:
    """The basis for a pod object; None unless it is marked as a member of a PodGroup of Kubernetes itself."""
    if not (name := marked_group(raw)):
        return None
    groups, topologies = cluster_snapshot.native_groups, cluster_snapshot.topologies
    return GroupBasis.of(groups, topologies, namespace_of(raw), name)


def marked_group(raw: Mapping[str, Any]) -> str:
    """The name of the PodGroup of Kubernetes itself that a pod's creation marked it as a member of; else empty."""
    membership = membership_of(raw)
    return scheduling_group_of(raw) if membership is not None and membership.of_object else ""


def _unmarked(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in annotations.items() if key != SCHEDULING_GROUP}
