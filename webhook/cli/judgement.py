"""What the webhook would say to an object: to a pod itself, to a workload by its template, to a group by all its pods.

Each object is judged on its own against the snapshot: objects of one call do not take room from each other, and the
replicas of a workload that is no group count once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from webhook.admission.gang import GangJudgement, GangPlacement
from webhook.admission.manage import DEFAULT_NAMESPACE
from webhook.admission.rules import Rules
from webhook.admission.steer import Verdict, steer
from webhook.admission.world import World
from webhook.cli.documents import Item
from webhook.cli.shape import METADATA, POD, faults
from webhook.cli.workloads import DAEMON_SET, at, pod_path, with_at
from webhook.engine.decide import Decision
from webhook.model.errors import UserError
from webhook.model.names import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from webhook.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one object."""

    item: Item
    verdict: Verdict
    message: str
    mutated: Mapping[str, Any]
    """The object as it is let in; as it came where nothing is changed."""
    warnings: tuple[str, ...] = ()
    decision: Decision | None = None
    """What the engine says of each node; None where it was not asked."""
    group: GangPlacement | None = None
    """Where the pods of a group go together; None for what is no group, and for a group that is denied."""

    @property
    def is_fine(self) -> bool:
        """Whether the object is let in and fits somewhere now."""
        if self.group is not None:
            return self.verdict is Verdict.ALLOW
        fits = self.decision is None or self.decision.fit_count > 0
        return self.verdict is Verdict.ALLOW and fits


def judge(item: Item, world: World, rules: Rules, gang: GangJudgement | None = None) -> Judgement:
    """The judgement of one object; raises InputError for one that the API server would not take.

    `gang`: what was judged of the group that its pods are; the object itself is let in as without it.
    """
    judgement = _judge_pod(item, world, rules)
    if gang is None or judgement.verdict is Verdict.DENY:
        return judgement
    mutated = item.body if gang.verdict is Verdict.DENY else judgement.mutated
    return replace(judgement, verdict=gang.verdict, message=gang.message, mutated=mutated, group=gang.placement)


def _judge_pod(item: Item, world: World, rules: Rules) -> Judgement:
    """The judgement of an object by one of its pods."""
    for fault in faults(item.body["metadata"], METADATA, "metadata"):
        raise item.fault(fault.path, fault.message)
    path = pod_path(item.group, item.kind)
    if path is None:
        return _let_through(item, world)
    prefix = "".join(f"{key}." for key in path)
    pod = at(item.body, path)
    if pod is None:
        raise item.fault(prefix.removesuffix("."), "This is missing.")
    for fault in faults(pod, POD, prefix.removesuffix(".")):
        raise item.fault(fault.path, fault.message)
    try:
        # Read although it may not be ours: what the API server would refuse is told here already.
        Pod.from_object(pod)
        steering = steer(pod, world, rules, prefix, namespace=item.namespace or DEFAULT_NAMESPACE)
    except UserError as error:
        fault = error.faults[0]
        raise item.fault(prefix + fault.path, fault.message) from error
    return Judgement(
        item,
        steering.verdict,
        steering.message,
        with_at(item.body, path, steering.mutated),
        (*_misplaced(item, path), *steering.warnings),
        steering.decision,
    )


def _let_through(item: Item, world: World) -> Judgement:
    if (item.group, item.kind) == DAEMON_SET:
        message = "left alone: a DaemonSet chooses its pods' nodes itself"
        return Judgement(item, Verdict.ALLOW, message, item.body)
    message = f"left alone: no pods are looked for in a {item.kind} ({item.api_version})"
    if (item.group, item.kind) == ("", "Namespace"):
        return Judgement(item, Verdict.ALLOW, message, item.body, world.namespaces[item.name].problems)
    return Judgement(item, Verdict.ALLOW, message, item.body, _misplaced(item, None))


def _misplaced(item: Item, path: tuple[str, ...] | None) -> tuple[str, ...]:
    """Warnings about annotations on the workload, where no pod will have them."""
    if path == ():
        return ()
    annotations = item.body["metadata"].get("annotations") or {}
    where = f"its pods inherit those of {'.'.join(path)}.metadata.annotations only" if path else "it is not read there"
    return tuple(
        f"metadata.annotations[{name}] stands on the {item.kind} itself: {where}."
        for name in (NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC)
        if name in annotations
    )
