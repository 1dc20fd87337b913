"""A place for one pod: which node and NUMA nodes, or why there is none."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from webhook.admission import placement_text
from webhook.admission.outlook import look_ahead
from webhook.admission.rules import Rules
from webhook.engine.decide import Decision, decide
from webhook.engine.reservations import Grant
from webhook.engine.view import View
from webhook.model.hint import NUMAHint
from webhook.placement.gated import GatedPod


@dataclass(frozen=True, slots=True)
class Place:
    """What a pod is given."""

    hint: NUMAHint
    text: str
    """In one line."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Those of its group."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Likewise."""

    def grant(self, gated: GatedPod, expires: float) -> Grant:
        """The same as a promise to this pod."""
        pod = gated.pod
        return Grant(
            pod.key,
            pod.uid,
            self.hint.node,
            dict(self.hint.numa_nodes),
            pod.requests,
            gated.intent.policy,
            expires,
        )


@dataclass(frozen=True, slots=True)
class NoPlace:
    """Why a pod waits."""

    kind: frozenset[Hashable]
    """The kinds of reasons: as long as they stay the same, there is nothing new to tell."""
    text: str
    """In one line."""
    of_one: bool = False
    """Of a single pod: its own creation said the same."""


def find_place(view: View, gated: GatedPod, rules: Rules) -> Place | Decision:
    """The best node for the pod now, or the decision that there is none."""
    decision = decide(view, gated.pod, gated.intent, rules.engine)
    if not decision.fit_count:
        return decision
    best = decision.best(placement_text.BEST)
    index = view.snapshot.index[best[0].node]
    hint = NUMAHint(best[0].node, decision.allocation(index))
    text = placement_text.fitting(gated.pod, gated.intent, decision, best)
    return Place(hint, f"{placed_on(hint)}; {text}")


def why_none(decision: Decision, gated: GatedPod, rules: Rules) -> NoPlace:
    """The decision in words."""
    outlook = look_ahead(decision.view.snapshot, gated.pod, gated.intent, rules.engine)
    text = placement_text.nowhere(gated.pod, gated.intent, decision, outlook.message)
    return NoPlace(frozenset(decision.excluded), placement_text.waiting(text), of_one=True)


def placed_on(hint: NUMAHint) -> str:
    """`placed on n1, NUMA 0`."""
    where = "+".join(str(numa_id) for numa_id, _ in hint.numa_nodes)
    return f"placed on {hint.node}" + (f", NUMA {where}" if where else "")
