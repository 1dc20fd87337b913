"""A pod at its creation: which nodes can take it, and how that is written into it. The webhook and `review` share this.

1. Pods that are not ours to place are left alone.
2. The annotations say what the pod asks for; faults in them deny it.
3. What an earlier pass added is taken out: the decision starts from what the user wrote.
4. The engine decides on every node.
5. Some nodes fit: the pod is held to them. None fits now: it is kept off those that never can. There is nothing to wait
   for: denied, or let in with a warning.
6. A pod that is to be placed by the controller gets the gate instead: behind it affinity can only be added to.
7. The affinity or gate, the placement in words, the marker and, if wanted, variables of the environment become one
   patch, tried on the pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from webhook.admission import placement_text
from webhook.admission.affinity import AFFINITY_PATH, Constraint, check_only_appended, constrain, required_terms
from webhook.admission.environment import inject_environment
from webhook.admission.gate import needs_gate, set_gate
from webhook.admission.left_alone import why_left_alone
from webhook.admission.marker import Marker, without_ours
from webhook.admission.node_set import hold_to_fitting, keep_off_others
from webhook.admission.outlook import Prospect, look_ahead
from webhook.admission.patch import Operation, Patch
from webhook.admission.rules import Rules
from webhook.admission.world import World
from webhook.engine.decide import Decision, decide
from webhook.model.errors import UserError
from webhook.model.flag import is_on
from webhook.model.intent import NUMAIntent, parse_numa_intent
from webhook.model.names import INHERIT, INJECT_ENV, PLACEMENT, STEERED
from webhook.model.pod import Pod
from webhook.model.topology import Topology


class Verdict(StrEnum):
    """What becomes of a pod."""

    ALLOW = "allow"
    DENY = "deny"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Steering:
    """The verdict on a pod, and what is done to it."""

    verdict: Verdict
    message: str
    """In one line: what was decided, or why nothing is."""
    mutated: Mapping[str, Any]
    """The pod as it is let in; as it came where nothing is changed."""
    operations: tuple[Operation, ...] = ()
    """The JSON patch from the pod to `mutated`."""
    warnings: tuple[str, ...] = ()
    decision: Decision | None = None
    """What the engine says of each node; None where it was not asked."""
    reason: str = ""
    """Of a denial, for programs."""


def steer(raw: Mapping[str, Any], world: World, rules: Rules, path: str = "") -> Steering:
    """Decide on a pod; `path` is where it stands in its workload ("spec.template."), for messages.

    Raises UserError for a pod that is unreadable beyond its annotations.
    """
    if reason := why_left_alone(raw, rules):
        return Steering(Verdict.ALLOW, f"left alone: {reason}", raw)
    annotations = raw["metadata"]["annotations"]
    try:
        intent, warnings = parse_numa_intent(annotations, f"{path}metadata.annotations")
        for switch in (INHERIT, INJECT_ENV):
            is_on(annotations, switch, f"{path}metadata.annotations")
    except UserError as error:
        return Steering(Verdict.DENY, " ".join(map(str, error.faults)), raw, reason="InvalidAnnotation")
    users = without_ours(raw, Marker.parse(annotations.get(STEERED)))
    pod = Pod.from_object(users)
    decision = decide(world.view, pod, intent, rules.engine)
    case = _Case(raw, users, pod, intent, warnings, decision, world.topologies)
    return _held_to_fitting(case, world, rules) if decision.fit_count else _fits_nowhere(case, world, rules)


@dataclass(frozen=True, slots=True)
class _Case:
    """A pod that is decided on."""

    raw: Mapping[str, Any]
    users: Mapping[str, Any]
    """The pod without what an earlier pass added."""
    pod: Pod
    intent: NUMAIntent
    warnings: tuple[str, ...]
    decision: Decision
    topologies: Mapping[str, Topology]


def _held_to_fitting(case: _Case, world: World, rules: Rules) -> Steering:
    snapshot = world.view.snapshot
    best = case.decision.best(max(rules.preferred_nodes, placement_text.BEST))
    preferred = best[: rules.preferred_nodes]
    text = placement_text.fitting(case.pod, case.intent, case.decision, best[: placement_text.BEST])
    if needs_gate(case.users, rules.gate, fits=True):
        return _let_in(Verdict.ALLOW, text, case, None)
    constraint = hold_to_fitting(snapshot, case.decision, preferred, rules.max_affinity_values)
    return _let_in(Verdict.ALLOW, text, case, constraint)


def _fits_nowhere(case: _Case, world: World, rules: Rules) -> Steering:
    snapshot = world.view.snapshot
    outlook = look_ahead(snapshot, case.pod, case.intent, rules.engine)
    text = placement_text.nowhere(case.pod, case.intent, case.decision, outlook.message)
    if outlook.prospect in {Prospect.LATER, Prospect.NO_NODE}:
        if needs_gate(case.users, rules.gate, fits=False):
            return _let_in(Verdict.WAIT, text, case, None, warn=True)
        constraint = keep_off_others(snapshot, outlook, rules.max_affinity_values)
        return _let_in(Verdict.WAIT, text, case, constraint, warn=True)
    if rules.no_compatible_node == "warn":
        return _let_in(Verdict.ALLOW, text, case, Constraint(), warn=True)
    return Steering(Verdict.DENY, text, case.raw, (), case.warnings, case.decision, outlook.prospect.value)


def _let_in(verdict: Verdict, text: str, case: _Case, constraint: Constraint | None, *, warn: bool = False) -> Steering:
    """The pod with the constraint, or None: with the gate, and with the text and the marker written into it."""
    waits, constraint = constraint is None, constraint or Constraint()
    marker = Marker.of(constraint, len(required_terms(case.users) or ()))
    wanted = Patch(case.users)
    constrain(wanted, constraint)
    patch = Patch(case.raw)
    if _affinity(wanted.document) != _affinity(case.raw):
        _restore(patch, case.users)
        constrain(patch, constraint)
    set_gate(patch, wanted=waits)
    _annotate(patch, PLACEMENT, placement_text.annotated(_behind_gate(text, case) if waits else text))
    _annotate(patch, STEERED, marker.text() if marker else None)
    inject_environment(patch, case.topologies)
    check_only_appended(case.users, patch.document)
    warnings = (*case.warnings, text) if warn else case.warnings
    return Steering(verdict, text, patch.document, tuple(patch.operations), warnings, case.decision)


def _behind_gate(text: str, case: _Case) -> str:
    return placement_text.to_be_placed(text) if case.decision.fit_count else placement_text.waiting(text)


def _affinity(pod: Mapping[str, Any]) -> Any:
    return (pod.get("spec") or {}).get("affinity")


def _restore(patch: Patch, users: Mapping[str, Any]) -> None:
    """Bring the affinity back to what the user wrote."""
    if _affinity(users) is None and _affinity(patch.document) is not None:
        patch.remove(AFFINITY_PATH)
    elif _affinity(users) != _affinity(patch.document):
        patch.replace(AFFINITY_PATH, _affinity(users))


def _annotate(patch: Patch, name: str, text: str | None) -> None:
    path = ("metadata", "annotations", name)
    stands = patch.document["metadata"]["annotations"].get(name)
    if text is None and stands is not None:
        patch.remove(path)
    elif text is not None and text != stands:
        patch.put(path, text)
