"""A place for one pod: which node and NUMA nodes, or why there is none.

A pod whose node only the scheduler can choose is promised the best node as well, so that nobody else counts on it, but
is only kept off the nodes that never can take it. The nodes that fit now are preferred, not required: should the
scheduler want none of them for it, it waits for others, where nothing of ours can be added any more. What becomes of it
where it goes, its NUMA nodes among that, is judged when it is bound.

A kubelet chooses NUMA nodes in the order in which pods reach it, and two that are placed on one node may be bound in
either order. So beside a pod that is placed and not bound yet only its equals are placed: among them the order makes no
difference. That lasts as long as the scheduler takes; if every node that fits has such a pod, this one is placed after
it was bound.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from webhook.admission import placement_text
from webhook.admission.affinity import Constraint
from webhook.admission.left_to_scheduler import why_left_to_scheduler
from webhook.admission.node_set import keep_off_others
from webhook.admission.outlook import look_ahead
from webhook.admission.patch import Operation
from webhook.admission.placing import placing, releasing
from webhook.admission.rules import Rules
from webhook.engine.decide import Decision, decide
from webhook.engine.reserve.grant import Grant
from webhook.engine.reserve.ledger import Reservation
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
    """What it takes from its owners, and those of its group."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those of its group."""
    nodes: Constraint | None = None
    """The nodes among which the scheduler chooses; None: it is held to that of the hint."""

    def patch(self, raw: Mapping[str, Any]) -> tuple[Operation, ...]:
        """What writes the place into the pod."""
        if self.nodes is not None:
            return releasing(raw, self.nodes, self.text, self.annotations)
        return placing(raw, self.hint, self.text, self.annotations, self.labels)

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
    keeps: frozenset[str] = frozenset()
    """The nodes that are kept for its group meanwhile."""


# As a rule one of the first is free; to name all of 5,000 nodes that fit takes some milliseconds.
_LOOKED_AT: Final = 16

PlacedOn = Callable[[str], Iterable[Reservation]]
"""Node -> what is promised there to pods that are placed and not bound yet."""


def find_place(view: View, gated: GatedPod, rules: Rules, placed: PlacedOn) -> Place | Decision | None:
    """The best node for the pod now; the decision that there is none; None if it has to wait for others to be bound."""
    decision = decide(view, gated.pod, gated.intent, rules.engine)
    if not decision.fit_count:
        return decision
    best = decision.best(placement_text.BEST)
    node = _first_without_others(decision, gated, placed)
    if node is None:
        return None
    hint = NUMAHint(node, decision.allocation(view.snapshot.index[node]))
    text = placement_text.fitting(gated.pod, gated.intent, decision, best)
    why = why_left_to_scheduler(gated.raw)
    if why is None:
        return Place(hint, f"{placed_on(hint)}; {text}")
    outlook = look_ahead(view.snapshot, gated.pod, gated.intent, rules.engine)
    preferred = decision.best(rules.preferred_nodes)
    nodes = keep_off_others(view.snapshot, outlook, rules.max_affinity_values, preferred)
    return Place(hint, f"the scheduler chooses the node, for its {why}; {text}", nodes=nodes)


def _first_without_others(decision: Decision, gated: GatedPod, placed: PlacedOn) -> str | None:
    """The best node on which none but equals of the pod wait to be bound."""
    equal = Reservation.of("", "", {}, gated.pod.requests).requests, gated.intent.policy
    for looked_at in (_LOOKED_AT, decision.fit_count):
        for candidate in decision.best(looked_at):
            if all((other.requests, other.policy) == equal for other in placed(candidate.node)):
                return candidate.node
    return None


def why_none(decision: Decision, gated: GatedPod, rules: Rules, kept: int) -> NoPlace:
    """The decision in words; kept: how many nodes are kept for others."""
    outlook = look_ahead(decision.view.snapshot, gated.pod, gated.intent, rules.engine)
    text = placement_text.nowhere(gated.pod, gated.intent, decision, outlook.message)
    if kept:
        text += f"; {kept} nodes are kept for groups that have waited long"
    return NoPlace(frozenset(decision.excluded), placement_text.waiting(text), of_one=True)


def without(view: View, names: Collection[str]) -> View:
    """The view with no room on these nodes."""
    if not names:
        return view
    snapshot = view.snapshot
    closed = np.zeros(snapshot.n, dtype=np.bool_)
    closed[[snapshot.index[name] for name in names if name in snapshot.index]] = True
    return view.closed(closed)


def placed_on(hint: NUMAHint) -> str:
    """`placed on n1, NUMA 0`."""
    where = "+".join(str(numa_id) for numa_id, _ in hint.numa_nodes)
    return f"placed on {hint.node}" + (f", NUMA {where}" if where else "")
