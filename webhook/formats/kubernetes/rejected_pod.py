"""A pod that its kubelet rejected, for whatever reason.

1. A rejected pod is bound, has the phase Failed and the kubelet's reason, and no container of it ever started.
2. The reasons below are always a rejection: also for a pod that ran before its kubelet restarted and rejected it.
3. What ends a pod that was admitted is no rejection: an eviction, a deadline, a node that shuts down or is lost. The
   kubelet's own rejections during an eviction or a shutdown say so in their message.
4. Any other reason is a rejection, too: newer kubelets, their distributions and their plugins have their own.

Source: kubernetes pkg/kubelet/kubelet.go (rejectPod, admissionRejectionReasons), pkg/kubelet/status/status_manager.go
(startTime), and for the reasons pkg/kubelet/cm/topologymanager (ErrorTopologyAffinity), pkg/kubelet/cm/cpumanager
(ErrorSMTAlignment), pkg/kubelet/cm/admission/errors.go, pkg/kubelet/lifecycle (predicate.go, handlers.go),
pkg/kubelet/{eviction,preemption,nodeshutdown,volumemanager}, pkg/controller/{nodelifecycle,podgc}.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from webhook.formats.kubernetes.kubelet_options import threads_named
from webhook.formats.kubernetes.membership import controllers_group, membership_of
from webhook.formats.kubernetes.owner_chain import check_owner
from webhook.formats.kubernetes.pod import Owner
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.model.errors import UserError

# The API server's own have 36 characters.
_LONGEST_UID: Final = 64
# A namespace, and the name of a PodGroup or what stands for one.
_LONGEST_GROUP: Final = 512
# How the kubelet's message begins.
_REJECTED: Final = "Pod was rejected"
# Reasons of pods that were admitted. DeadlineExceeded: activeDeadlineSeconds has passed.
_ENDED: Final = frozenset({"Evicted", "Preempting", "Terminated", "Shutdown", "NodeLost", "DeadlineExceeded"})
# A word, or OutOf and the name of a resource, which has up to 317 characters (a DNS domain, a slash and a name).
_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9./_-]{0,321}", re.ASCII)
_OUT_OF: Final = "OutOf"


class RejectionReason(StrEnum):
    """The kubelet's reason, as it is counted: everybody who may write a status could make up any number of others."""

    TOPOLOGY_AFFINITY = "TopologyAffinityError"
    """The Topology Manager found no NUMA nodes that its policy allows."""
    SMT_ALIGNMENT = "SMTAlignmentError"
    """The CPU manager gives whole cores only (full-pcpus-only), and the request is none or too few are free."""
    EMPTY_POD_SHARED_POOL = "EmptyPodSharedPoolError"
    """Containers would share CPUs of the pod, and the others leave none (pod-level resources)."""
    UNEXPECTED_ADMISSION = "UnexpectedAdmissionError"
    """A manager failed to allocate, such as CPUs that are no longer free."""
    OUT_OF_CPU = "OutOfcpu"
    """Together the pods on the node request more than it has; likewise."""
    OUT_OF_MEMORY = "OutOfmemory"
    OUT_OF_STORAGE = "OutOfephemeral-storage"
    OUT_OF_PODS = "OutOfpods"
    OUT_OF_EXTENDED = "OutOfExtendedResources"
    """OutOf and the name of any other resource."""
    OTHER = "Other"
    """Any other reason."""

    @classmethod
    def counting(cls, reason: str) -> "RejectionReason":
        """The member that counts a kubelet's reason."""
        if reason in _COUNTED:
            return _COUNTED[reason]
        return cls.OUT_OF_EXTENDED if reason.startswith(_OUT_OF) else cls.OTHER


_COUNTED: Final[Mapping[str, RejectionReason]] = {reason.value: reason for reason in RejectionReason}

EVENT_REASONS: Final = tuple(
    reason.value for reason in RejectionReason if reason not in {RejectionReason.OUT_OF_EXTENDED, RejectionReason.OTHER}
)
"""The reasons of Events that are about nothing but a rejection."""


@dataclass(frozen=True, slots=True)
class KubeletRejection:
    """One rejection. managed: whether the service decides about the pod."""

    reason: str
    """As the kubelet wrote it."""
    managed: bool

    @property
    def counted_as(self) -> RejectionReason:
        """The reason for a metric."""
        return RejectionReason.counting(self.reason)


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
    threads: int = 0
    """The threads per core that its kubelet named: it gives whole cores only. 0: it named none."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


def rejection_reason(raw: Mapping[str, Any]) -> str | None:
    """Why a kubelet rejected the pod; None if none did."""
    status = raw.get("status") or {}
    reason = status.get("reason")
    if status.get("phase") != "Failed" or not isinstance(reason, str) or not reason:
        return None
    if reason in _COUNTED and reason != RejectionReason.OTHER:
        return reason
    if not (raw.get("spec") or {}).get("nodeName") or _has_started(status):
        return None
    if reason in _ENDED and not str(status.get("message") or "").startswith(_REJECTED):
        return None
    return reason if _REASON.fullmatch(reason) else RejectionReason.OTHER.value


def _has_started(status: Mapping[str, Any]) -> bool:
    """Whether a container of the pod has ever run. One whose start is unknown has an id, or a restart."""
    return any(
        one.get("containerID")
        or one.get("restartCount")
        or any(
            ((one.get(state) or {}).get(how) or {}).get("startedAt")
            for state in ("state", "lastState")
            for how in ("running", "terminated")
        )
        for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        for one in status.get(kind) or ()
    )


def rejected_pod(raw: Mapping[str, Any], reason: str, *, managed: bool) -> RejectedPod:
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
        threads=threads_named(raw["status"]) if reason == RejectionReason.SMT_ALIGNMENT else 0,
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

    A rejected pod never started: its startTime is the time of the rejection, by the kubelet's clock. A kubelet that
    restarts writes the status of its failed pods again, so a later time of the API server is not that of the rejection.
    """
    written = [
        time
        for entry in metadata.get("managedFields") or ()
        if entry.get("subresource") == "status" and "f:reason" in ((entry.get("fieldsV1") or {}).get("f:status") or {})
        if (time := epoch_seconds(entry.get("time"))) is not None
    ]
    started, created = epoch_seconds(status.get("startTime")), epoch_seconds(metadata.get("creationTimestamp"))
    if written:
        last = max(written)
        return last if started is None or _has_started(status) else min(last, max(started, created or 0))
    return started if started is not None else created
