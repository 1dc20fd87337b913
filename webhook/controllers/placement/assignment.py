"""A place for one pod: which node and NUMA nodes, or why there is none.

A pod whose node only the scheduler can choose is kept off the nodes that never can take it, and no more. The nodes that
fit now are preferred, not required: should the scheduler want none of them for it, it waits for others, where nothing
of ours can be added any more. What becomes of it where it goes, its NUMA nodes among that, is judged when it is bound.
The best node is reserved for it tentatively: for the moment that the scheduler takes as a rule, those that are placed
next do not count on the same. It may never come, so it keeps no other pod off a node otherwise.

A kubelet chooses NUMA nodes in the order in which pods reach it, and two that are placed on one node may be bound in
either order. So beside a pod that is placed and not bound yet only its equals are placed: among them the order makes no
difference. That lasts as long as the scheduler takes; if every node that fits has such a pod, this one is placed after
it was bound. One that is left to the scheduler does not wait for that: its order is not ours to keep.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from webhook.admission.patch import Operation
from webhook.admission.pod import placement_text
from webhook.admission.pod.affinity_patch import Constraint
from webhook.admission.pod.controller_patches import placing, releasing
from webhook.admission.pod.node_names import NodeNames, keep_off_others
from webhook.admission.pod.not_aligned import NotAligned, not_aligned, not_aligned_on
from webhook.admission.pod.plan import NOT_ALIGNABLE
from webhook.admission.pod.reapply import kept_by_a_merge, terms_are_fixed
from webhook.admission.pod.schedulability import awaits_node, look_ahead
from webhook.cache.delegated_pods import chosen_by_scheduler
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.engine.assumed.assumed_pod import Grant
from webhook.engine.decide import Decision, decide
from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.snapshot import View
from webhook.model.hint import NUMAHint
from webhook.model.names import NUMA_SIGNATURE
from webhook.model.rules import Rules


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
    hostname: str | None = None
    """The hostname label of the hint's node; None when missing or shared."""
    not_aligned: bool = False
    """Whether it asks for a policy, and its node's kubelet aligns nothing of it."""

    def signed(self, signature: str) -> "Place":
        """The same with what proves that its hint is ours; a pod that is left to the scheduler gets no hint."""
        if self.nodes is not None:
            return self
        return replace(self, annotations={**self.annotations, NUMA_SIGNATURE: signature})

    def patch(self, raw: Mapping[str, Any]) -> tuple[Operation, ...]:
        """What writes the place into the pod."""
        if self.nodes is not None:
            return releasing(raw, self.nodes, self.text, self.annotations)
        return placing(raw, self.hint, self.text, self.annotations, self.labels, self.hostname)

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
            tentative=self.nodes is not None,
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
    awaits_node: bool = False
    """No node that is there could take the pod even if it were empty: it is left to the scheduler."""
    keeps: frozenset[str] = frozenset()
    """The nodes that are kept for its group meanwhile."""


# As a rule one of the first is free; to name all of 5,000 nodes that fit takes some milliseconds.
_LOOKED_AT: Final = 16

PlacedOn = Callable[[str], Iterable[Reservation]]
"""Node -> what is promised there to pods that are placed and not bound yet."""


def find_place(view: View, gated: GatedPod, rules: Rules, placed: PlacedOn) -> Place | Decision | NoPlace:
    """The best node for the pod now; the decision that there is none; or what else is to come first."""
    decision = decide(view, gated.pod, gated.intent, rules.engine)
    if not decision.fit_count:
        if not awaits_node(decision):
            return decision
        return why_refused(view, gated, rules) or replace(why_none(decision, gated, rules, 0), awaits_node=True)
    best = decision.best(placement_text.BEST)
    why = gated.left_to_scheduler
    node = _first_without_others(decision, gated, placed)
    if node is None and why is None:
        return _others_first(best[0].node, placed)
    node = node or best[0].node
    at = view.snapshot.index[node]
    hint = NUMAHint(node, decision.allocation(at))
    # Of a pod that the scheduler may put anywhere it is said of all nodes.
    unaligned = not_aligned_on(decision, at, gated.intent) if why is None else _not_aligned(view, gated, rules)
    if unaligned and (refusal := why_refused(view, gated, rules)):
        return refusal
    note = unaligned.clause if unaligned else ""
    text = placement_text.fitting(gated.pod, gated.intent, decision, best, note)
    warns = unaligned is not None and unaligned.warns
    if why is None:
        # A look at all nodes, for the few pods that need it.
        hostname = NodeNames(view.snapshot).named(node).hostname if terms_are_fixed(gated.raw) else None
        return Place(hint, f"{placed_on(hint)}; {text}", hostname=hostname, not_aligned=warns)
    outlook = look_ahead(view.snapshot, gated.pod, gated.intent, rules.engine)
    preferred = decision.best(rules.preferred_nodes)
    nodes = keep_off_others(view.snapshot, outlook, rules.max_affinity_values, preferred)
    alone = "" if kept_by_a_merge(gated.raw, nodes) == nodes else " and by its own node affinity alone"
    return Place(hint, f"{chosen_by_scheduler(why)}{alone}; {text}", nodes=nodes, not_aligned=warns)


def why_refused(view: View, gated: GatedPod, rules: Rules) -> NoPlace | None:
    """Why a pod that takes its policy from its owners waits: its creation, which could not know, would be denied."""
    if rules.not_alignable != "Deny" or not gated.takes_policy:
        return None
    unaligned = _not_aligned(view, gated, rules)
    if unaligned is None or not unaligned.everywhere:
        return None
    return NoPlace(frozenset({NOT_ALIGNABLE}), placement_text.waiting(unaligned.sentence()))


def _not_aligned(view: View, gated: GatedPod, rules: Rules) -> NotAligned | None:
    return not_aligned(view, gated.pod, gated.intent, rules.engine)


def _first_without_others(decision: Decision, gated: GatedPod, placed: PlacedOn) -> str | None:
    """The best node on which none but equals of the pod wait to be bound."""
    equal = Reservation.of("", "", {}, gated.pod.requests).requests, gated.intent.policy
    for looked_at in (_LOOKED_AT, decision.fit_count):
        for candidate in decision.best(looked_at):
            if all((other.requests, other.policy) == equal for other in placed(candidate.node)):
                return candidate.node
    return None


def _others_first(node: str, placed: PlacedOn) -> NoPlace:
    """As a rule this lasts too short a time to be reported."""
    count = len(tuple(placed(node)))
    others = "another pod" if count == 1 else f"{count} other pods"
    text = f"it fits on {node}, but {others} must be bound there first: the kubelet admits pods in order of arrival"
    return NoPlace(frozenset({"others first"}), placement_text.waiting(text))


def why_none(decision: Decision, gated: GatedPod, rules: Rules, kept: int) -> NoPlace:
    """The decision in words; kept: how many nodes are kept for others."""
    outlook = look_ahead(decision.view.snapshot, gated.pod, gated.intent, rules.engine)
    unaligned = _not_aligned(decision.view, gated, rules)
    note = unaligned.clause if unaligned else ""
    text = placement_text.nowhere(gated.pod, gated.intent, decision, outlook.message, note)
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
    return f"placed on {hint.node}{placement_text.where(numa_id for numa_id, _ in hint.numa_nodes)}"
