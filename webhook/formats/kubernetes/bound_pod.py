"""What preemption has to know of a pod with a node, beyond what it holds there."""

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any, Final

from webhook.formats.kubernetes.membership import controller_uid, is_of_apps, is_of_daemon_set
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.model.errors import UserError
from webhook.model.fields import mapping
from webhook.model.wording import quoted
from webhook.records import record

# The kubelet shows static pods as mirror pods, and ignores it when these are deleted.
_MIRROR: Final = "kubernetes.io/config.mirror"
# The API server's default for `terminationGracePeriodSeconds`.
_DEFAULT_GRACE_SECONDS: Final = 30


@record
class BoundPod:
    """A pod that is bound and has not ended."""

    key: str
    """namespace/name."""
    uid: str
    node: str
    priority: int
    started: int
    """When its kubelet saw it, in seconds since the epoch; its creation, if that is not known."""
    labels: Mapping[str, str]
    workload: str
    """The uid of its controller; its own without one."""
    is_static: bool
    """Whether a file on its node defines it: the API server cannot end it."""
    of_daemon_set: bool
    """Whether a DaemonSet would create it again on the same node at once."""
    deleting: bool
    gone_by: int | None = None
    """When its graceful period ends, in seconds since the epoch; None if it is not being deleted."""
    targeted: bool = False
    """Whether kube-scheduler has chosen it as a victim: it is about to be deleted for a pod that is nominated there.

    Source: kubernetes pkg/scheduler/framework/preemption/executor.go, which writes this condition first.
    """
    grace: int = _DEFAULT_GRACE_SECONDS
    """The graceful period that it gets when it is deleted, in seconds. Its owner chooses it freely."""

    @classmethod
    def of(cls, raw: Mapping[str, Any], record: ResidentPod) -> "BoundPod":
        """Read a pod object with a node. record: the same pod.

        Raises UserError. The API server checks these fields; files may have any.
        """
        metadata, spec = raw["metadata"], raw["spec"]
        annotations = metadata.get("annotations") or {}
        grace = _number(spec, "terminationGracePeriodSeconds")
        started = record.started_at
        if started is None:
            started = epoch_seconds(metadata.get("creationTimestamp")) or 0
        return cls(
            key=record.key,
            uid=record.uid,
            node=record.node,
            priority=_number(spec, "priority") or 0,
            started=started,
            labels=_labels(metadata),
            workload=intern(controller_uid(metadata)) or record.uid or record.key,
            is_static=_MIRROR in annotations,
            of_daemon_set=is_of_daemon_set(metadata) and is_of_apps(metadata),
            deleting=record.deleting,
            gone_by=epoch_seconds(metadata.get("deletionTimestamp")),
            targeted=_is_targeted(raw.get("status") or {}),
            grace=_DEFAULT_GRACE_SECONDS if grace is None else grace,
        )


def _is_targeted(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions") or ()
    return any(
        (one.get("type"), one.get("status"), one.get("reason")) == ("DisruptionTarget", "True", "PreemptionByScheduler")
        for one in conditions
    )


def _number(spec: Mapping[str, Any], name: str) -> int | None:
    value = spec.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise UserError(f"spec.{name}", f"This must be a whole number, not {quoted(value)}.")
    return value


_REMEMBERED: Final = 16
"""Labels. 8,192 sets of that size take at most 60 MiB, whatever tenants write."""


def _labels(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    labels = mapping(metadata, "labels", "metadata.labels")
    if len(labels) > _REMEMBERED or not all(isinstance(value, str) for value in labels.values()):
        return labels
    return _kept_once(tuple(labels.items()))


# The pods of one template have equal labels, so they share one mapping.
@lru_cache(maxsize=8192)
def _kept_once(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return MappingProxyType(dict(labels))
