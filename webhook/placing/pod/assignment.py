"""The assignment of one pod: its node and NUMA nodes, or why there is none.

Some pods have constraints that only the scheduler can evaluate. Such a pod is delegated: it is only kept off the nodes
that can never fit. The nodes that fit now are preferred, not required: the scheduler may use none of them, and we
cannot add others after ungating. The binding guard checks its node and chooses its NUMA nodes at binding. The best node
is reserved tentatively: for as long as the scheduler usually takes, the next assignments do not count on the same
resources. The pod may never arrive, so otherwise the reservation keeps no other pod off the node.

A kubelet chooses NUMA nodes in the order in which pods reach it, and two pods assigned to one node may be bound in
either order. So while an assigned pod is not bound yet, only equal pods are assigned to its node: among those the order
makes no difference. This lasts as long as the scheduler takes. If every node that fits has such a pod, this pod is
assigned after that one is bound. A delegated pod does not wait for this, because we do not control its order.

The node of a pod with resource claims must also have their devices near its CPUs and memory (see `claim_alignment`).
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import numpy as np

from webhook.engine.decide import Candidate, Decision, decide
from webhook.engine.enforcement import obeys_no_allocation
from webhook.engine.koordinator import is_ours_to_place
from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.node_sums import amounts_key
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.numa_allocation import NUMAAllocation, NUMANodeAmounts
from webhook.formats.patches.affinity_patch import Constraint, kept_by_a_merge, terms_are_fixed
from webhook.formats.patches.json_patch import Operation
from webhook.model.names import NUMA_SIGNATURE
from webhook.model.wording import counted
from webhook.placing.pod import placement_text
from webhook.placing.pod.claim_alignment import (
    Aligned,
    Alignment,
    Claimant,
    ClaimDevices,
    DelegatedToScheduler,
    DevicesApart,
    align_on,
    left_to_scheduler,
)
from webhook.placing.pod.controller_patches import assignment_patch, ungate_patch
from webhook.placing.pod.decision import NOT_ALIGNABLE
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.node_names import PREFERRED_NODES, NodeNames, keep_off_others
from webhook.placing.pod.not_aligned import NotAligned, not_aligned, not_aligned_on
from webhook.placing.pod.schedulability import awaits_node, look_ahead
from webhook.placing.pod.wait_reason import WaitReason, closest
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.delegated_pods import delegation_text, why_delegated
from webhook.state.rules import Rules


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a pod gets: its node and NUMA nodes, and what is written into it."""

    allocation: NUMAAllocation
    text: str
    """The placement annotation, in one line."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The annotations that it takes from its owners, and those of its gang."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of its gang."""
    nodes: Constraint | None = None
    """The nodes among which the scheduler chooses; None: the pod is pinned to the allocation's node."""
    hostname: str | None = None
    """The hostname label of the allocation's node; None if it is missing or not unique."""
    not_aligned: bool = False
    """Whether the pod requests a policy and its node's kubelet aligns nothing of it."""
    chosen: bool = False
    """Whether we choose the NUMA nodes; otherwise the kubelet does."""
    devices: tuple[ClaimDevices, ...] = ()
    """What its claims get, to be written before the pod is ungated; empty: the scheduler allocates them, if any."""

    def arrival(self, gated: GatedPod) -> Hashable:
        """Equal for pods that may reach the kubelet of the node in any order; None: with any others."""
        if self.nodes is not None or self.chosen or not self.allocation.numa_nodes:
            return None
        return gated.signature, amounts_key(dict(self.allocation.numa_nodes))

    def signed(self, signature: str) -> "Assignment":
        """The same with the signature that proves that we wrote the allocation; a delegated pod gets no allocation."""
        if self.nodes is not None:
            return self
        return replace(self, annotations={**self.annotations, NUMA_SIGNATURE: signature})

    def patch(self, raw: Mapping[str, Any]) -> tuple[Operation, ...]:
        """The JSON patch that writes the assignment into the pod and ungates it."""
        if self.nodes is not None:
            return ungate_patch(raw, self.nodes, self.text, self.annotations)
        return assignment_patch(raw, self.allocation, self.text, self.annotations, self.labels, self.hostname)

    def assume(self, gated: GatedPod, expires: float) -> AssumedPod:
        """The assumed pod of this assignment; expires: seconds of `time.monotonic`."""
        pod = gated.pod
        return AssumedPod(
            pod.key,
            pod.uid,
            self.allocation.node,
            dict(self.allocation.numa_nodes),
            gated.requests_beside_claims if self.devices else pod.requests,
            gated.intent.policy,
            expires,
            tentative=self.nodes is not None,
        )


@dataclass(frozen=True, slots=True)
class NoAssignment:
    """Why a pod waits."""

    kind: frozenset[Hashable]
    """The kinds of reasons. While they stay the same, there is nothing new to report."""
    text: str
    """The placement annotation, in one line."""
    reason: str
    """A `WaitReason`, or the code of an exclusion reason."""
    of_one: bool = False
    """Whether this is about a single pod: the text from its creation says the same."""
    awaits_node: bool = False
    """Whether no existing node could take the pod even if it were empty: it is delegated to the scheduler."""
    reserved_nodes: frozenset[str] = frozenset()
    """The nodes that are reserved for its gang meanwhile."""
    apart_on: str = ""
    """The node that has room for a member of its gang, but no devices near it; else empty."""
    fits_on: str = ""
    """The node that it fits on, if other pods must be bound there first; else empty."""
    fits_in: str | None = None
    """The shard of another leader that has room for it; None if none is known to."""


def why_awaited(gated: GatedPod) -> NoAssignment:
    """Why a pod waits whose claims do not exist yet (see `GatedPod.awaited_claim`)."""
    why = gated.awaited_claim
    return NoAssignment(frozenset({WaitReason.CLAIMS, why}), placement_text.waiting(f"its {why}"), WaitReason.CLAIMS)


# Usually one of the first is free; to name all of 5,000 nodes that fit takes some milliseconds.
_LOOKED_AT: Final = 16

AssignedNode = Callable[[str], Iterable[Reservation]]
"""Node -> the reservations there of pods that are assigned and not bound yet."""

IsCertain = Callable[[GatedPod, str, NUMANodeAmounts], bool]
"""(pod, node, NUMA nodes) -> whether its kubelet certainly chooses these."""


def _always(*_: object) -> bool:
    return True


def find_assignment(
    snapshot: Snapshot,
    gated: GatedPod,
    rules: Rules,
    assigned: AssignedNode,
    is_certain: IsCertain = _always,
    decision: Decision | None = None,
) -> Assignment | Decision | NoAssignment:
    """The best node for the pod now; the decision if no node fits; or what must happen first.

    is_certain: of two nodes for a pod with devices, one where it holds comes first. decision: that on the pod, if it is
    known already.
    """
    decision = decision or decide(snapshot, gated.pod, gated.intent, rules.engine)
    if not decision.fit_count:
        # Asked for a new node behind the gate, it does not leave it because all present nodes are excluded.
        if (gated.is_narrowed and rules.autoscaler != "None") or not awaits_node(decision):
            return decision
        return why_refused(snapshot, gated, rules) or replace(
            why_unassigned(decision, gated, rules, 0), awaits_node=True
        )
    first = decision.best(_LOOKED_AT)
    best = first[: placement_text.BEST]
    choice = _choice(decision, first, gated, assigned, is_certain)
    if isinstance(choice, NoAssignment):
        return choice
    node, why = choice.node, choice.delegated
    at = snapshot.node_arrays.index[node]
    allocation = NUMAAllocation(node, decision.allocation(at), reviewed=False)
    # For a delegated pod this is about all nodes.
    unaligned = not_aligned_on(decision, at, gated.intent) if why is None else _not_aligned(snapshot, gated, rules)
    if unaligned and (refusal := why_refused(snapshot, gated, rules)):
        return refusal
    note = unaligned.clause if unaligned else ""
    weak = placement_text.enforcement(decision, node) if node != best[0].node else ""
    extended = placement_text.served_by_slices(gated.pod, node, snapshot.node_arrays)
    note = "; ".join(filter(None, (choice.note, extended, note, gated.default.why_none, weak)))
    text = placement_text.fitting(gated.pod, gated.intent, decision, best, note)
    warns = unaligned is not None and unaligned.warns
    if why is None:
        # This reads all nodes, for the few pods that need it.
        hostname = NodeNames(snapshot.node_arrays).named(node).hostname if terms_are_fixed(gated.raw) else None
        chosen = is_ours_to_place(snapshot.node_arrays, at)
        placed = assigned_node(allocation, snapshot.node_arrays)
        return Assignment(
            allocation,
            f"{placed}; {text}",
            hostname=hostname,
            not_aligned=warns,
            chosen=chosen,
            devices=choice.devices,
        )
    unschedulable = look_ahead(snapshot.node_arrays, gated.pod, gated.intent, rules.engine)
    preferred = decision.best(PREFERRED_NODES)
    nodes = keep_off_others(snapshot.node_arrays, unschedulable, rules.max_affinity_values, preferred)
    alone = "" if kept_by_a_merge(gated.raw, nodes) == nodes else " and by its own node affinity alone"
    return Assignment(allocation, f"{delegation_text(why)}{alone}; {text}", nodes=nodes, not_aligned=warns)


def why_refused(snapshot: Snapshot, gated: GatedPod, rules: Rules) -> NoAssignment | None:
    """Why a pod that takes its policy from its owners waits: with this policy it would have been denied at creation."""
    if rules.not_alignable != "Deny" or not gated.takes_policy:
        return None
    unaligned = _not_aligned(snapshot, gated, rules)
    if unaligned is None or not unaligned.everywhere:
        return None
    return NoAssignment(
        frozenset({NOT_ALIGNABLE}), placement_text.waiting(unaligned.sentence()), WaitReason.NOT_ALIGNABLE
    )


def _not_aligned(snapshot: Snapshot, gated: GatedPod, rules: Rules) -> NotAligned | None:
    return not_aligned(snapshot, gated.pod, gated.intent, rules.engine)


class _Choice(NamedTuple):
    """The node that a pod gets, or that is the best for it."""

    node: str
    delegated: str | None
    """Why only the scheduler can choose the node; None: the pod is pinned to it."""
    note: str = ""
    """What becomes of the devices of its claims."""
    devices: tuple[ClaimDevices, ...] = ()


def _choice(
    decision: Decision, first: Sequence[Candidate], gated: GatedPod, assigned: AssignedNode, is_certain: IsCertain
) -> _Choice | NoAssignment:
    """first: the best nodes."""
    why = gated.delegated_why
    free = _without_others(decision, first, gated, assigned)
    candidate = next(free, None)
    claimant = Claimant.of(gated)
    if claimant is None:
        if candidate is None and why is None:
            return _others_first(first[0].node, assigned)
        return _Choice((candidate or first[0]).node, why)
    if other := why_delegated(gated.raw, with_claims=False):
        alignment: Alignment = left_to_scheduler(claimant, f"only the scheduler can judge its {other}")
    elif candidate is None and not claimant.claims.why_not_now:
        return _others_first(first[0].node, assigned)
    else:
        candidates = chain(filter(None, [candidate]), free)
        alignment = align_on(decision, claimant, _certain_first(decision, gated, candidates, is_certain))
    match alignment:
        case Aligned():
            return _Choice(alignment.node, None, alignment.text, alignment.devices)
        case DelegatedToScheduler():
            pinned = alignment.node
            return _Choice(pinned or (candidate or first[0]).node, None if pinned else why, alignment.text)
        case DevicesApart():
            count = counted(decision.fit_count, "node has room", "nodes have room")
            text = placement_text.shortened(f"{placement_text.subject(gated.intent)}: {count}, but {alignment.text}")
            kind = frozenset({WaitReason.DEVICES_APART})
            return NoAssignment(kind, placement_text.waiting(text), WaitReason.DEVICES_APART)


def _without_others(
    decision: Decision, first: Sequence[Candidate], gated: GatedPod, assigned: AssignedNode
) -> Iterator[Candidate]:
    """The nodes on which only equal pods wait to be bound, the best first. first: the best of all nodes.

    If the leader allocates devices for the pod, these have the same NUMA nodes: while no replica answers, pods may
    arrive in any order.
    """
    as_placed = gated.claims is not None and not gated.claims.why_not_now
    ways = [gated.pod.requests] if gated.claims is None else [gated.pod.requests, gated.requests_beside_claims]
    equal = [(Reservation.of("", "", {}, one).requests, gated.intent.policy) for one in ways]

    def is_free(candidate: Candidate) -> bool:
        return all(
            (other.requests, other.policy) in equal
            and (not as_placed or tuple(sorted(other.numa)) == candidate.numa_nodes)
            for other in assigned(candidate.node)
        )

    yield from filter(is_free, first)
    if len(first) < decision.fit_count:
        yield from filter(is_free, decision.best(decision.fit_count)[len(first) :])


def _certain_first(
    decision: Decision, gated: GatedPod, candidates: Iterable[Candidate], is_certain: IsCertain
) -> Iterator[Candidate]:
    """The same candidates. Of the first ones, those come first whose kubelets certainly take these NUMA nodes.

    Where a pod has ended and the NRT does not show it yet, the kubelet may take a lower NUMA node, away from the
    devices. If it is certain nowhere, the best node is as good as any.
    """
    index, uncertain = decision.snapshot.node_arrays.index, []
    rest = iter(candidates)
    for candidate in islice(rest, _LOOKED_AT):
        if is_certain(gated, candidate.node, decision.allocation(index[candidate.node])):
            yield candidate
        else:
            uncertain.append(candidate)
    yield from uncertain
    yield from rest


def _others_first(node: str, assigned: AssignedNode) -> NoAssignment:
    """Why the pod waits for a binding. This usually lasts too short a time to be reported."""
    others = counted(len(tuple(assigned(node))), "other pod")
    text = f"it fits on {node}, but {others} must be bound there first: the kubelet admits pods in order of arrival"
    kind = frozenset({"others first"})
    return NoAssignment(kind, placement_text.waiting(text), WaitReason.OTHERS_FIRST, fits_on=node)


def why_unassigned(decision: Decision, gated: GatedPod, rules: Rules, reserved_nodes: int) -> NoAssignment:
    """The decision in words; reserved_nodes: how many nodes are reserved for gangs."""
    unschedulable = look_ahead(decision.snapshot.node_arrays, gated.pod, gated.intent, rules.engine)
    unaligned = _not_aligned(decision.snapshot, gated, rules)
    note = unaligned.clause if unaligned else ""
    text = placement_text.nowhere(gated.pod, gated.intent, decision, unschedulable.message, note)
    if reserved_nodes:
        text += f"; {counted(reserved_nodes, 'node is', 'nodes are')} reserved for gangs that have waited long"
    return NoAssignment(
        frozenset(decision.excluded), placement_text.waiting(text), closest(decision.excluded), of_one=True
    )


def without(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """The snapshot with no free resources on these nodes."""
    if not names:
        return snapshot
    node_arrays = snapshot.node_arrays
    closed = np.zeros(node_arrays.n, dtype=np.bool_)
    closed[[node_arrays.index[name] for name in names if name in node_arrays.index]] = True
    return snapshot.closed(closed)


def assigned_node(allocation: NUMAAllocation, node_arrays: NodeArrays) -> str:
    """`placed on n1, NUMA 0`. Where nothing obeys an allocation, the NUMA nodes are not known before the pod runs."""
    numa_nodes = () if obeys_no_allocation(node_arrays, node_arrays.index[allocation.node]) else allocation.numa_nodes
    return f"placed on {allocation.node}{placement_text.where(numa_id for numa_id, _ in numa_nodes)}"
