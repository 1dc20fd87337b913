"""The guard: whether the node that the scheduler chose can still hold the pod, and what the pod is given of it.

1. Pods that are not ours to place pass.
2. A pod that was placed goes to the node of its hint and to no other: the placement of its group depends on it.
3. Where the NUMA nodes are ours to choose, it is given what its hint says, as long as that is free to it.
4. Anywhere else the kubelet chooses as the pod reaches it. So every pod, placed or not, is judged anew on this node
   alone as it is at this moment: refused, or given what the kubelet will allocate, whatever was replayed. Where more
   or less may be free than is known, the kubelet may choose otherwise (see `hint_certainty`): then the pod gets no hint
   until the node's NRT has counted it.
5. What that takes may be what the hint of another pod holds, one that was placed there and is not bound yet. Then the
   other one goes first. So a hint in a pod is never given to another pod: it also holds when a leader dies that alone
   knew better, and its pod is bound through another replica, or unhinted. A placed pod that the scheduler could not
   bind has no such hint any more (see `controllers.unbindable_pods`): no pod waits for it, and where it is bound after
   all it is given what is free then.

What a pod is given goes into the Binding's annotations; the API server writes them into the pod as it binds it.
Source: kubernetes pkg/registry/core/pod/storage (assignPod); koordinator apis/extension/numa_aware.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from webhook.admission.patch import Operation, Patch
from webhook.admission.pod import placement_text
from webhook.admission.pod.placement_text import FOR_A_NODE, annotated
from webhook.cache.delegated_pods import delegation_text, why_delegated
from webhook.cache.hint_certainty import CERTAIN, HintCertainty, hint_certainty, of_pod
from webhook.cache.kubelet_admission import KubeletAdmission
from webhook.cache.unmanaged import why_unmanaged
from webhook.engine.decide import Decision, decide
from webhook.engine.koordinator import ours_to_place
from webhook.engine.reason import Reason
from webhook.engine.snapshot.single_node import as_chosen, is_free
from webhook.model.errors import UserError
from webhook.model.gates import has_gate
from webhook.model.hint import NUMAHint, NUMANodeAmounts, resource_status_to_json
from webhook.model.intent import NO_INTENT, NUMAIntent, parse_numa_intent
from webhook.model.names import NUMA_HINT, PLACEMENT, RESOURCE_STATUS
from webhook.model.pod import Pod
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.resources import format_amount
from webhook.model.rules import Rules


@dataclass(frozen=True, slots=True)
class Pass:
    """The binding is none of our affair."""

    message: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """The node cannot take the pod; the scheduler tries again, and the pod's events say why."""

    message: str
    reason: str
    """For programs."""
    after: frozenset[str] = frozenset()
    """The pods (namespace/name) that go first; as soon as one of them is bound or gone, it may be this one's turn."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the pod is given on the node. No NUMA nodes: it is not bound to any, the sums of the node suffice."""

    node: str
    numa_nodes: NUMANodeAmounts
    requests: Mapping[str, int]
    policy: NUMAPolicy | None
    assumed: NUMANodeAmounts | None = None
    """What the pod was promised when it was placed, where that is still free; None where it is not, or was not."""
    how_chosen: str | None = None
    """How its node was chosen, of a pod whose placement says that and perhaps why it waited; None of any other."""
    chosen: bool = False
    """Whether the NUMA nodes are ours to choose."""
    hint_certainty: HintCertainty = CERTAIN
    """How certain it is that the kubelet chooses these."""
    was_hinted: bool = False
    """Whether the pod has a hint that names NUMA nodes, which a Binding can write over and not take away."""
    placement: str = ""
    """The pod's placement text so far."""

    @property
    def annotations(self) -> dict[str, str]:
        """What the Binding is to carry."""
        said = self._said
        if self.hint_certainty.sure and self.numa_nodes:
            return said | {
                NUMA_HINT: NUMAHint(self.node, self.numa_nodes).to_json(),
                RESOURCE_STATUS: resource_status_to_json(self.numa_nodes),
            }
        if self.was_hinted:
            blank = NUMAHint.without_numa_nodes(self.node).to_json()
            return said | {NUMA_HINT: blank, RESOURCE_STATUS: resource_status_to_json(())}
        return said

    def as_assumed(self) -> "Given | None":
        """What takes no promise that was not made before; None where there is no such thing."""
        if self.assumed is None:
            return None
        if self.chosen or dict(self.assumed) == dict(self.numa_nodes):
            return replace(self, numa_nodes=self.assumed)
        others = (self.hint_certainty.alternatives | dict(self.numa_nodes).keys()) - dict(self.assumed).keys()
        return replace(self, numa_nodes=self.assumed, hint_certainty=HintCertainty(sure=False, alternatives=others))

    @property
    def message(self) -> str:
        """In one line."""
        return f"bound to {self.node}{placement_text.where(self._numa_ids)}"

    @property
    def _numa_ids(self) -> Sequence[int] | None:
        """Those that are known; None: they are not certain."""
        return [numa_id for numa_id, _ in self.numa_nodes] if self.hint_certainty.sure else None

    @property
    def _said(self) -> dict[str, str]:
        if self.how_chosen is not None:
            return {PLACEMENT: annotated(f"{self.message}; {self.how_chosen}")}
        located = placement_text.located(self.placement, self.node, self._numa_ids)
        return {} if located is None or located == self.placement else {PLACEMENT: located}


def assigned_node(raw: Mapping[str, Any]) -> NUMAHint | None:
    """Where a pod was placed before it is bound; None when it was not."""
    text = ((raw.get("metadata") or {}).get("annotations") or {}).get(NUMA_HINT)
    try:
        return None if text is None else NUMAHint.parse(text)
    except UserError:
        return None


def guard(
    raw: Mapping[str, Any],
    node: str,
    kubelet_admission: KubeletAdmission | None,
    rules: Rules,
    assumed: NUMANodeAmounts | None = None,
) -> Given | Refusal | Pass:
    """Judge the binding of a pod to `node`.

    kubelet_admission: that node as the pod finds it; None when it is not known. assumed: what this pod was promised
    there already, where that is newer than the pod's hint.
    """
    if reason := why_unmanaged(raw, rules):
        return Pass(f"left alone: {reason}")
    try:
        pod = as_chosen(Pod.from_object(raw))
    except UserError as error:
        return Pass(f"left alone: unreadable: {error}")
    intent = _intent(pod)
    hint = assigned_node(raw)
    if assumed is None and hint is not None:
        if hint.node != node:
            return Refusal(f"this pod was placed on node {hint.node}, not on {node}", "AssignedElsewhere")
        assumed = hint.numa_nodes if hint.reserved else None
    if kubelet_admission is None:
        return _on_unknown_node(node, intent)
    how_chosen = _how_chosen(raw, hint)
    snapshot = kubelet_admission.assumed_snapshot()
    if assumed is not None and not is_free(snapshot, assumed):
        assumed = None
    ours, policy = bool(ours_to_place(snapshot.node_arrays)[0]), intent.policy
    if ours and assumed:
        return Given(node, assumed, pod.requests, policy, assumed, how_chosen, ours)
    found = snapshot if ours else kubelet_admission.kubelet_snapshot()
    decision = decide(found, pod, intent, rules.engine)
    if _was_assigned_unknowing(hint, intent) and decision.reason[0] in {Reason.POLICY_MISMATCH, Reason.UNKNOWN_POLICY}:
        intent = replace(intent, policy=None)
        decision = decide(found, pod, intent, rules.engine)
    if not decision.fits[0]:
        return _refusal(node, decision)
    numa_nodes = decision.allocation(0)
    if not is_free(snapshot, numa_nodes) and (first := _holders(kubelet_admission, numa_nodes)):
        message = f"{', '.join(sorted(first))} was placed before on the NUMA nodes of {node} that this pod would get"
        return Refusal(message, "BindingInProgress", first)
    was_hinted = hint is not None and bool(hint.numa_nodes)
    exact = rules.engine.fidelity == "Kubelet"
    replayed = CERTAIN if ours else hint_certainty(kubelet_admission, of_pod(pod, intent), numa_nodes, exact=exact)
    return Given(
        node, numa_nodes, pod.requests, policy, assumed, how_chosen, ours, replayed, was_hinted, _placement(raw)
    )


def into_binding(binding: Mapping[str, Any], given: Given) -> tuple[Operation, ...]:
    """The JSON patch that writes what is given into a Binding; annotations it has already stay."""
    patch = Patch(binding)
    for name, text in given.annotations.items():
        patch.put(("metadata", "annotations", name), text)
    return tuple(patch.operations)


def _how_chosen(raw: Mapping[str, Any], hint: NUMAHint | None) -> str | None:
    """How the pod's node was chosen, where its placement says what it waits for to be bound; else None."""
    if hint is not None and not hint.reserved:
        return "placed there before"
    says = _placement(raw)
    if says.startswith(FOR_A_NODE):
        return "it waited for a node to be added"
    why = why_delegated(raw)
    begins = None if why is None else delegation_text(why)
    return begins if begins and says.startswith(begins) else None


def _placement(raw: Mapping[str, Any]) -> str:
    text: str = ((raw.get("metadata") or {}).get("annotations") or {}).get(PLACEMENT, "")
    return text


def _intent(pod: Pod) -> NUMAIntent:
    """Faulty annotations ask for nothing: the pod was let in with them, and its node's own policy still holds."""
    try:
        return parse_numa_intent(pod.annotations)[0]
    except UserError:
        return NO_INTENT


def _was_assigned_unknowing(hint: NUMAHint | None, intent: NUMAIntent) -> bool:
    """Whether the pod was placed when nothing was known of the node's NUMA nodes, and asks for no strict policy.

    It is held to that node and can go to no other, and a stricter node keeps more than it asks for.
    """
    return hint is not None and not hint.numa_nodes and intent.policy is NUMAPolicy.BEST_EFFORT


def _on_unknown_node(node: str, intent: NUMAIntent) -> Refusal | Pass:
    """A node that is newer than what we know of the cluster, or that nothing can be read of."""
    if intent.policy in {NUMAPolicy.RESTRICTED, NUMAPolicy.SINGLE_NUMA_NODE}:
        return Refusal(f"nothing is known of node {node} yet", Reason.NO_TOPOLOGY.code)
    return Pass(f"nothing is known of node {node}")


def _holders(kubelet_admission: KubeletAdmission, numa_nodes: NUMANodeAmounts) -> frozenset[str]:
    """The pods whose hints hold something of these NUMA nodes.

    What is promised to a pod that is left to the scheduler stands in no hint, and binds nobody: it may go elsewhere.
    """
    wanted = {numa_id for numa_id, _ in numa_nodes}
    return frozenset(
        assigned.assumed.pod
        for assigned in kubelet_admission.assigned
        if not wanted.isdisjoint(assigned.assumed.numa) and (assigned_node(assigned.raw) or has_gate(assigned.raw))
    )


def _refusal(node: str, decision: Decision) -> Refusal:
    reason, sentence = decision.explain(0)
    if reason is not Reason.NO_SINGLE_NUMA_NODE:
        return Refusal(f"node {node} can no longer hold this pod: {sentence}", reason.code)
    why = _shortage(decision) or sentence
    return Refusal(f"node {node} can no longer hold this pod on one NUMA node: {why}", reason.code)


def _shortage(decision: Decision) -> str | None:
    """The first resource that no NUMA node has enough of; None where each is there, but not together."""
    snapshot, request = decision.snapshot, decision.request
    node_arrays = snapshot.node_arrays
    whole = node_arrays.scope[0] == Scope.POD or node_arrays.total[0] or node_arrays.policy[0] == NUMAPolicy.NONE
    needs = request.node if whole else tuple(map(max, zip(*request.containers, strict=True)))
    for name, row, need in zip(request.resources, request.rows, needs, strict=True):
        free = snapshot.free(row)[:, 0] if row >= 0 else None
        if free is None or need <= 0 or free.max() < 0:
            continue
        most = int(np.argmax(free))
        if free[most] < need:
            has = format_amount(name, int(free[most]))
            numa_id = int(node_arrays.zone_ids[most, 0])
            return f"needs {format_amount(name, need)} {name}, most free on one is {has} (NUMA {numa_id})"
    return None
