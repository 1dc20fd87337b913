"""A pod that its kubelet rejected because of NUMA nodes, CPUs, memory or devices.

Source: kubernetes pkg/kubelet/kubelet.go (rejectPod), pkg/kubelet/status/status_manager.go (startTime), and for the
reasons pkg/kubelet/cm/topologymanager (ErrorTopologyAffinity), pkg/kubelet/lifecycle (UnexpectedAdmissionError).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from webhook.model.errors import UserError
from webhook.model.membership import controllers_group, membership_of
from webhook.model.owner_reference import check_owner
from webhook.model.pod import Owner
from webhook.model.timestamps import epoch_seconds

# The API server's own have 36 characters.
_LONGEST_UID: Final = 64
# A namespace, and the name of a PodGroup or what stands for one.
_LONGEST_GROUP: Final = 512


class RejectionReason(StrEnum):
    """The kubelet's reason."""

    TOPOLOGY_AFFINITY = "TopologyAffinityError"
    """The Topology Manager found no NUMA nodes that its policy allows."""
    UNEXPECTED_ADMISSION = "UnexpectedAdmissionError"
    """A manager failed to allocate, such as CPUs that are no longer free."""


_REASONS: Final[Mapping[str, RejectionReason]] = {reason.value: reason for reason in RejectionReason}


@dataclass(frozen=True, slots=True)
class KubeletRejection:
    """One rejection. managed: whether the service decides about the pod."""

    reason: RejectionReason
    managed: bool


@dataclass(frozen=True, slots=True)
class RejectedPod:
    """A rejected pod."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    """As last seen."""
    rejection: KubeletRejection
    node: str
    rejected_at: int | None
    """Seconds since the epoch, by the API server's clock; None = not known."""
    controller: Owner | None
    """As its pod names it: the user who created the pod wrote this. None if it can be no real object."""
    groups: tuple[str, ...]
    """The keys of its controller's pods and of its gang: the next pod has one of them, too."""
    deleting: bool

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


def rejection_reason(raw: Mapping[str, Any]) -> RejectionReason | None:
    """Why a kubelet rejected the pod; None if none did."""
    status = raw.get("status") or {}
    if status.get("phase") != "Failed":
        return None
    reason = status.get("reason")
    return _REASONS.get(reason) if isinstance(reason, str) else None


def rejected_pod(raw: Mapping[str, Any], reason: RejectionReason, *, managed: bool) -> RejectedPod:
    """Read a pod object that a kubelet rejected."""
    metadata: Mapping[str, Any] = raw["metadata"]
    namespace = metadata.get("namespace", "")
    controller, membership = _controller(metadata), membership_of(raw)
    groups = {
        *([controllers_group(namespace, controller.uid)] if controller is not None else []),
        *([membership.group] if membership is not None and len(membership.group) <= _LONGEST_GROUP else []),
    }
    return RejectedPod(
        namespace=namespace,
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        rejection=KubeletRejection(reason, managed),
        node=(raw.get("spec") or {}).get("nodeName") or "",
        rejected_at=_rejected_at(metadata, raw["status"]),
        controller=controller,
        groups=tuple(sorted(groups)),
        deleting="deletionTimestamp" in metadata,
    )


def _controller(metadata: Mapping[str, Any]) -> Owner | None:
    controllers = (one for one in metadata.get("ownerReferences") or () if one.get("controller"))
    controller = next(map(Owner.from_reference, controllers), None)
    if controller is None or len(controller.uid) > _LONGEST_UID:
        return None
    try:
        check_owner(controller)
    except UserError:
        return None
    return controller


def _rejected_at(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> int | None:
    """When its reason was written, by the API server's clock; else when the kubelet first reported on the pod.

    A rejected pod never started: its startTime is the time of the rejection, by the kubelet's clock.
    """
    written = [
        time
        for entry in metadata.get("managedFields") or ()
        if entry.get("subresource") == "status" and "f:reason" in ((entry.get("fieldsV1") or {}).get("f:status") or {})
        if (time := epoch_seconds(entry.get("time"))) is not None
    ]
    if written:
        return max(written)
    started = epoch_seconds(status.get("startTime"))
    return started if started is not None else epoch_seconds(metadata.get("creationTimestamp"))
