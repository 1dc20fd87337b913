"""What preemption has to know of a pod with a node, beyond what it holds there."""

from collections.abc import Mapping
from sys import intern
from typing import Any, Final

from webhook.model.membership import controller_uid, is_of_daemon_set
from webhook.model.timestamps import epoch_seconds
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
    grace: int = _DEFAULT_GRACE_SECONDS
    """The graceful period that it gets when it is deleted, in seconds. Its owner chooses it freely."""

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "BoundPod":
        """Read a pod object with a node."""
        metadata, spec = raw["metadata"], raw["spec"]
        annotations = metadata.get("annotations") or {}
        uid = str(metadata.get("uid") or "")
        key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        grace = spec.get("terminationGracePeriodSeconds")
        started = epoch_seconds((raw.get("status") or {}).get("startTime"))
        if started is None:
            started = epoch_seconds(metadata.get("creationTimestamp")) or 0
        return cls(
            key=key,
            uid=uid,
            node=intern(str(spec.get("nodeName") or "")),
            priority=spec.get("priority") or 0,
            started=started,
            labels=metadata.get("labels") or {},
            workload=controller_uid(metadata) or uid or key,
            is_static=_MIRROR in annotations,
            of_daemon_set=is_of_daemon_set(metadata),
            deleting="deletionTimestamp" in metadata,
            gone_by=epoch_seconds(metadata.get("deletionTimestamp")),
            grace=_DEFAULT_GRACE_SECONDS if grace is None else grace,
        )
