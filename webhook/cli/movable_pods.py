"""Which running pods `defrag` may move, and why it leaves the others where they are.

A pod moves by its eviction: its controller creates the next one, which gets another place. So a pod that nothing
recreates, or whose next place cannot be predicted, stays.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from webhook.admission.pod.managed_fields import ManagedFields, without_ours
from webhook.cache.cluster_cache import ClusterCache
from webhook.cache.delegated_pods import why_delegated
from webhook.cache.unmanaged import why_unmanaged
from webhook.engine.freeing.holdings import HeldPod
from webhook.engine.moves.movable import Movable, Placeable
from webhook.engine.preemption.candidates import Candidate, Candidates
from webhook.model.errors import UserError
from webhook.model.intent import parse_numa_intent
from webhook.model.limits import check_annotations
from webhook.model.membership import membership_of
from webhook.model.names import MANAGED_FIELDS
from webhook.model.pod import Pod
from webhook.model.rules import Rules
from webhook.views.freeing import Holdings

Raw = Mapping[str, Any]

# Source: kubernetes pkg/apis/scheduling (SystemCriticalPriority).
_SYSTEM_CRITICAL: Final = 2_000_000_000
# Controllers that create the next pod at once, whatever became of the last one. A Job may count an eviction as a
# failure, and of other kinds it is not known.
_RECREATE: Final = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
_DAEMON_SET: Final = "DaemonSet"
# Annotation -> the value with which a pod's owner asks that it is not evicted, of Cluster Autoscaler and Karpenter.
_PROTECTED: Final = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}


class Unmovable(StrEnum):
    """Why a running pod is not moved."""

    NO_CONTROLLER = "NoController"
    """No ReplicaSet, StatefulSet or ReplicationController recreates it."""
    DAEMON_SET = "DaemonSet"
    """It belongs to its node."""
    SYSTEM_CRITICAL = "SystemCritical"
    """It has a system-critical priority."""
    GANG = "Gang"
    """It is a member of a gang, which could not go on without it."""
    UNMANAGED = "Unmanaged"
    """kube-scheduler places its next pod, and may put it where it was."""
    SCHEDULER = "Scheduler"
    """Only the scheduler can judge where it could go, e.g. because of its volumes."""
    PROTECTED = "Protected"
    """An annotation asks that it is not evicted."""
    BUDGETS = "Budgets"
    """A PodDisruptionBudget allows no eviction now, or several budgets count it."""
    NOT_RUNNING = "NotRunning"
    """It does not run yet, or cannot be read."""


@dataclass(frozen=True, slots=True)
class RunningPods:
    """The running pods of the cluster, by whether they may be moved."""

    movable: Mapping[str, Movable]
    """By namespace/name."""
    unmovable: Mapping[Unmovable, int]
    """How many there are of each reason. Static pods are not counted."""


def running_pods(candidates: Candidates, raws: Iterable[Raw], cache: ClusterCache, rules: Rules) -> RunningPods:
    """All pods with a node. raws: their objects; others may be among them."""
    by_key = {f"{raw['metadata'].get('namespace') or 'default'}/{raw['metadata']['name']}": raw for raw in raws}
    holdings = Holdings(cache)
    held = {pod.key: pod for node in candidates.by_node for pod in holdings.on(node).pods}
    movable: dict[str, Movable] = {}
    counts: Counter[Unmovable] = Counter()
    for key, candidate in candidates.pods.items():
        raw = by_key.get(key)
        why = Unmovable.NOT_RUNNING if raw is None else why_unmovable(raw, candidate, candidates, rules)
        found = None if why is not None or raw is None or key not in held else _movable(raw, candidate, held[key])
        if found is None:
            counts[why or Unmovable.NOT_RUNNING] += 1
        else:
            movable[key] = found
    return RunningPods(movable, counts)


def why_unmovable(raw: Raw, candidate: Candidate, candidates: Candidates, rules: Rules) -> Unmovable | None:
    """Why the pod stays where it is; None if it may be moved."""
    metadata = raw["metadata"]
    annotations = metadata.get("annotations") or {}
    kinds = {owner.get("kind") for owner in metadata.get("ownerReferences") or () if owner.get("controller")}
    if _DAEMON_SET in kinds:
        return Unmovable.DAEMON_SET
    if candidate.priority >= _SYSTEM_CRITICAL:
        return Unmovable.SYSTEM_CRITICAL
    if candidate.gang or membership_of(raw) is not None:
        return Unmovable.GANG
    if not kinds & _RECREATE:
        return Unmovable.NO_CONTROLLER
    if any(annotations.get(name) == value for name, value in _PROTECTED.items()):
        return Unmovable.PROTECTED
    if why_unmanaged(raw, rules) is not None:
        return Unmovable.UNMANAGED
    if why_delegated(raw) is not None:
        return Unmovable.SCHEDULER
    # The eviction API refuses a pod that several budgets count.
    if len(candidate.budgets) > 1 or any(candidates.allowed[number] <= 0 for number in candidate.budgets):
        return Unmovable.BUDGETS
    if (raw.get("status") or {}).get("phase") != "Running":
        return Unmovable.NOT_RUNNING
    return None


def _movable(raw: Raw, candidate: Candidate, held: HeldPod) -> Movable | None:
    """The pod as its controller would create it again: without the node that it was placed on."""
    annotations = raw["metadata"].get("annotations") or {}
    try:
        check_annotations(annotations, with_ours=True)
        users = without_ours(raw, ManagedFields.parse(annotations.get(MANAGED_FIELDS)))
        spec = {name: value for name, value in users["spec"].items() if name != "nodeName"}
        pod = Pod.from_object({**users, "spec": spec})
        intent = parse_numa_intent(annotations)[0]
    except UserError:
        return None
    alike = candidate.node, candidate.workload, candidate.budgets, repr((held.requests, held.numa, held.reserved))
    return Movable(candidate, Placeable(candidate.key, pod, intent), alike)
