"""Which pods belong to a workload or a PodGroup.

1. A pod belongs to a workload that is among its owners. Each owner is matched by its uid.
2. A snapshot usually has no workloads, but each pod names its controller. If that is a kind which the workload makes,
   its label or name says whose it is: `web-7d9f` is a ReplicaSet of the Deployment `web`.
3. A pod belongs to a PodGroup that it, or its owners, name as its gang.
"""

from collections.abc import Mapping
from typing import Any, Final

from webhook.cli.gang_members import MAKES
from webhook.cli.judgement_context import Owners
from webhook.cli.object_reference import ObjectReference
from webhook.model.errors import UserError
from webhook.model.owner_chain import owner_above
from webhook.model.pod import Owner

Raw = Mapping[str, Any]

_MADE: Final[Mapping[str, frozenset[str]]] = {**MAKES, "CronJob": frozenset({"Job"})}
# Kind -> the label on its pods that names it. Source: the APIs' labels.
_LABELS: Final[Mapping[str, str]] = {
    "JobSet": "jobset.sigs.k8s.io/jobset-name",
    "LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/name",
}

# A generated name keeps at least this much of its owner's.
_WHOLE: Final = 40


def is_owned_by(pod: Raw, reference: ObjectReference, owners: Owners) -> bool:
    """Whether the workload is an owner of the pod, at any height."""
    try:
        chain, unknown = owners.above(pod)
    except UserError:
        return False  # its reference to an owner is invalid
    wanted = reference.group, reference.kind, reference.name
    if any((_group(str(raw["apiVersion"])), raw["kind"], raw["metadata"]["name"]) == wanted for raw in chain):
        return True
    if unknown is None:
        return False
    if (_group(unknown.api_version), unknown.kind, unknown.name) == wanted:
        return True
    return unknown.kind in _MADE.get(reference.kind, ()) and _is_named_after(unknown, pod, reference)


def may_be_owned_by(pod: Raw, reference: ObjectReference) -> bool:
    """Whether the pod's owner is worth a read: it, or what the workload makes, begins with the workload's name."""
    try:
        owner = owner_above(pod)
    except UserError:
        return False
    # Names that controllers generate are cut to their limit.
    return owner is not None and owner.name.startswith(reference.name[:_WHOLE])


def _is_named_after(owner: Owner, pod: Raw, reference: ObjectReference) -> bool:
    if (label := _LABELS.get(reference.kind)) is not None:
        return bool((pod["metadata"].get("labels") or {}).get(label) == reference.name)
    if owner.kind == "RayCluster":
        return owner.name.startswith(f"{reference.name}-")
    # The controller appends one word: a hash, a time, or "launcher".
    return owner.name.rpartition("-")[0] == reference.name


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
