"""Decides on a binding: whether the chosen node can still take the pod, and which NUMA nodes the pod gets there.

1. Bindings of unmanaged pods are allowed.
2. A pod that is already assigned to a node is refused on any other node: the placement of its gang depends on it.
3. Where we choose the NUMA nodes, the pod gets those of its allocation if they are still free for it.
4. On other nodes the kubelet chooses when the pod arrives. So the admission of every pod, assigned or not, is predicted
   on this node in its current state: the binding is refused, or the pod gets what the kubelet will allocate. If more or
   less may be free than is known, the kubelet may choose other NUMA nodes (see `allocation_certainty`). Then the pod
   gets no allocation until the node's NRT includes it.
5. The prediction may need NUMA nodes that the allocation of another assigned, unbound pod holds. Then the other pod is
   bound first, so an allocation in a pod is never given to a second pod. This is safe even if the leader dies and
   another replica binds the first pod. A pod that gets what its own allocation names waits for no other: if others
   were bound without us, not all allocations may fit, and each pod would wait for the next. An assigned pod that the
   scheduler could not bind loses its allocation (see `controllers.unbindable_pods`): no pod waits for it, and if it is
   bound after all, it gets what is free then. A pod that would get several NUMA nodes waits even if there is room
   beside such an allocation: the memory manager lets no others into them.
6. What a binding was given is given again to equal pods on equal nodes (`RecentBindings`).

The result goes into the Binding's annotations. The API server writes them into the pod when it binds the pod.
Source: kubernetes pkg/registry/core/pod/storage (assignPod); koordinator apis/extension/numa_aware.go.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from webhook.engine.cpu_cores import in_cores
from webhook.engine.decide import Decision, decide
from webhook.engine.enforcement import not_enforced, obeys_no_allocation, unenforced
from webhook.engine.koordinator import ours_to_place
from webhook.engine.reason import Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.single_node import is_free
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.koordinator.numa_allocation import NUMAAllocation, NUMANodeAmounts, resource_status_to_json
from webhook.formats.kubernetes.avoided_node import Avoided, avoided_by, used_again_text
from webhook.formats.kubernetes.gates import has_gate
from webhook.formats.kubernetes.membership import controller_uid, membership_of
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.patches.json_patch import Operation, Patch
from webhook.model.names import NUMA_ALLOCATION, PLACEMENT, RESOURCE_STATUS
from webhook.model.policy import NUMAPolicy, Scope
from webhook.model.raw import Raw
from webhook.model.resources import format_amount
from webhook.placing.pod import placement_text
from webhook.placing.pod.binding_pod import BindingPod, assigned_node
from webhook.placing.pod.placement_text import annotated
from webhook.state.kubelet_admission import CERTAIN, AllocationCertainty, KubeletAdmission, allocation_certainty, of_pod
from webhook.state.rules import Rules

# A node goes through some dozen states while equal pods fill it. An entry takes some kilobytes.
_MOST: Final = 1024


class Recent(NamedTuple):
    """What a kubelet would give such a pod."""

    given: "Given"
    held: bool
    """Whether allocations of other pods hold some of its NUMA nodes. Those pods are bound first."""


class RecentBindings:
    """What the last bindings were given, to be given again, for one set of rules.

    Pods of one template come to many equal nodes. Two bindings are given the same if these are the same:
    - the pod's signature, what is assumed for it, and whether a stricter policy of the node is ignored for it;
    - the node as the pod finds it: its resources and NUMA nodes, what others were given there, which pods are assigned
      there (see `KubeletAdmission.key`).

    A pod that must wait because allocations of others hold these NUMA nodes is included: in a burst it is examined each
    time one of the others is bound, and only their names differ. Other refusals are left out: they are rare, and name
    nodes.
    """

    def __init__(self) -> None:
        self._given: dict[Hashable, Recent] = {}

    def get(self, key: Hashable) -> Recent | None:
        """What an equal pod would be given on an equal node; None if that is not known."""
        return self._given.get(key)

    def put(self, key: Hashable, given: Recent) -> None:
        """Keep this one. Beyond the limit the oldest is dropped."""
        if len(self._given) >= _MOST:
            del self._given[next(iter(self._given))]
        self._given[key] = given


def shortage(decision: Decision) -> str | None:
    """The first resource of which no NUMA node has enough; None if only the combination is missing.

    For the text of a refusal.
    """
    request = decision.request
    snapshot = in_cores(decision.snapshot, request)
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


@dataclass(frozen=True, slots=True)
class Pass:
    """The binding is allowed as it is."""

    message: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """The node cannot take the pod. The scheduler tries again, and the pod's events give the reason."""

    message: str
    reason: str
    """For programs."""
    after: frozenset[str] = frozenset()
    """Pods (namespace/name) that must be bound first. Once one of them is bound or deleted, this one may fit."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the pod gets on the node. No NUMA nodes: it is not bound to any, so the node's totals suffice."""

    node: str
    numa_nodes: NUMANodeAmounts
    requests: Mapping[str, int]
    policy: NUMAPolicy | None
    assumed: NUMANodeAmounts | None = None
    """What was reserved for the pod when it was assigned, if that is still free; else None."""
    how_chosen: str | None = None
    """How its node was chosen, if its placement text says so; else None."""
    affinity: str = ""
    """What was added to the pod's node affinity, for a placement text with `how_chosen`."""
    chosen: bool = False
    """Whether we choose the NUMA nodes; otherwise the kubelet does."""
    allocation_certainty: AllocationCertainty = CERTAIN
    """How certain it is that the kubelet chooses these NUMA nodes."""
    was_allocated: bool = False
    """Whether the pod has or had an allocation that names NUMA nodes. A Binding can overwrite it, but not remove it."""
    placement: str = ""
    """The pod's current placement text."""
    signature: Hashable = None
    """Equal for pods that a kubelet treats alike."""
    weak: bool = False
    """Whether nothing on the node enforces the pod's policy, or tries to: it may get any NUMA nodes."""
    not_enforced: str = ""
    """What the node does not enforce of it, as a clause; empty: nothing that is known."""

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations to add to the Binding."""
        said = self._said
        if self.allocation_certainty.sure and self.numa_nodes:
            return said | {
                NUMA_ALLOCATION: NUMAAllocation(self.node, self.numa_nodes).to_json(),
                RESOURCE_STATUS: resource_status_to_json(self.numa_nodes),
            }
        if self.was_allocated:
            blank = NUMAAllocation.without_numa_nodes(self.node).to_json()
            return said | {NUMA_ALLOCATION: blank, RESOURCE_STATUS: resource_status_to_json(())}
        return said

    def as_assumed(self) -> "Given | None":
        """The same with the NUMA nodes that are already reserved for the pod; None if there are none."""
        if self.assumed is None:
            return None
        if self.chosen or dict(self.assumed) == dict(self.numa_nodes):
            return replace(self, numa_nodes=self.assumed)
        others = (self.allocation_certainty.alternatives | dict(self.numa_nodes).keys()) - dict(self.assumed).keys()
        return replace(
            self, numa_nodes=self.assumed, allocation_certainty=AllocationCertainty(sure=False, alternatives=others)
        )

    def is_as_assigned(self, allocation: NUMAAllocation) -> bool:
        """Whether the pod gets what it was assigned, whatever reaches the node before it (see `binding.guard`)."""
        if self.assumed is None or not dict(self.assumed) == dict(self.numa_nodes) == dict(allocation.numa_nodes):
            return False
        return self.chosen or self.weak or (self.allocation_certainty.sure and len(self.numa_nodes) < 2)

    @property
    def message(self) -> str:
        """The result in one line."""
        weak = f"; {self.not_enforced}" if self.not_enforced else ""
        return f"bound to {self.node}{placement_text.where(self._numa_ids)}{weak}"

    @property
    def _numa_ids(self) -> Sequence[int] | None:
        """The NUMA IDs; None if they are not certain yet. Where nothing enforces the policy they never will be."""
        if self.weak:
            return ()
        return [numa_id for numa_id, _ in self.numa_nodes] if self.allocation_certainty.sure else None

    @property
    def _said(self) -> dict[str, str]:
        if self.how_chosen is not None:
            return {PLACEMENT: annotated(f"{self.message}; {self.how_chosen}", self.affinity)}
        located = placement_text.located(self.placement, self.node, self._numa_ids)
        return {} if located is None or located == self.placement else {PLACEMENT: located}


def rejected_before(raw: Raw, node: str, avoided: Avoided) -> Refusal | None:
    """The refusal of a node that the pod avoids after a rejection; None if it does not avoid it."""
    if not avoided:
        return None
    metadata, membership = raw["metadata"], membership_of(raw)
    group = "" if membership is None else membership.group
    avoids = avoided_by(avoided, metadata.get("namespace", ""), controller_uid(metadata), group)
    rejection = next((one for one in avoids if one.node == node), None)
    if rejection is None:
        return None
    why = f"its kubelet rejected a pod of the same controller or gang ({rejection.what})"
    return Refusal(f"node {node} is avoided: {why}; {used_again_text((rejection,))}", Reason.REJECTED_BEFORE.code)


def guard(
    binding_pod: BindingPod,
    node: str,
    kubelet_admission: KubeletAdmission | None,
    rules: Rules,
    assumed: NUMANodeAmounts | None = None,
    recent: RecentBindings | None = None,
) -> Given | Refusal | Pass:
    """Decide on the binding of a pod to `node`.

    kubelet_admission: the node as the pod will find it; None if the node is not known. assumed: what is already assumed
    for this pod there, if that is newer than the pod's allocation. recent: earlier results with the same rules.
    """
    pod, intent, allocation = binding_pod.pod, binding_pod.intent, binding_pod.allocation
    if pod is None:
        return Pass(f"unmanaged: {binding_pod.unmanaged}")
    if assumed is None and allocation is not None:
        if allocation.node != node:
            return Refusal(f"this pod was placed on node {allocation.node}, not on {node}", "AssignedElsewhere")
        assumed = allocation.numa_nodes if allocation.reserved and allocation.certain else None
    if kubelet_admission is None:
        return _on_unknown_node(node, intent)
    unknowing = _was_assigned_unknowing(allocation, intent)
    own: dict[str, Any] = {
        "node": node,
        "how_chosen": binding_pod.how_chosen,
        "affinity": binding_pod.affinity,
        "was_allocated": allocation is not None and (bool(allocation.numa_nodes) or not allocation.certain),
        "placement": binding_pod.placement,
    }
    signature = binding_pod.signature, pod.learned
    key = None if recent is None else (kubelet_admission.key, signature, unknowing, repr(assumed))
    found = None if recent is None else recent.get(key)
    if found is None:
        how = _decided(pod, binding_pod, node, kubelet_admission, rules, assumed, unknowing=unknowing)
        if not isinstance(how, Recent):
            return replace(how, **own) if isinstance(how, Given) else how
        found = how
        if recent is not None:
            recent.put(key, found)
    knows_own = allocation is None or allocation.certain
    if found.held and (first := _holders(kubelet_admission, found.given.numa_nodes, with_unknown=knows_own)):
        message = f"{', '.join(sorted(first))} was placed before on the NUMA nodes of {node} that this pod would get"
        return Refusal(message, "BindingInProgress", first)
    return replace(found.given, **own)


def _decided(
    pod: Pod,
    binding_pod: BindingPod,
    node: str,
    kubelet_admission: KubeletAdmission,
    rules: Rules,
    reserved: NUMANodeAmounts | None,
    *,
    unknowing: bool,
) -> Recent | Given | Refusal:
    """A new decision. Given: what was reserved for the pod, where we choose. reserved: when the pod was assigned."""
    intent, signature = binding_pod.intent, binding_pod.signature
    snapshot = kubelet_admission.assumed_snapshot()
    assumed = reserved if reserved is not None and is_free(snapshot, reserved) else None
    ours, policy = bool(ours_to_place(snapshot.node_arrays)[0]), intent.policy
    weak, clause = _enforcement(snapshot.node_arrays, pod, intent)
    if ours and assumed:
        certainty = _UNOBEYED if weak else CERTAIN
        return Given(
            node,
            assumed,
            pod.requests,
            policy,
            assumed,
            chosen=ours,
            allocation_certainty=certainty,
            signature=signature,
            weak=weak,
            not_enforced=clause,
        )
    found = snapshot if ours else kubelet_admission.kubelet_snapshot()
    decision = decide(found, pod, intent, rules.engine)
    if unknowing and decision.reason[0] in {Reason.POLICY_MISMATCH, Reason.UNKNOWN_POLICY}:
        intent = replace(intent, policy=None)
        decision = decide(found, pod, intent, rules.engine)
    if not decision.fits[0]:
        return _refusal(node, decision)
    numa_nodes = decision.allocation(0)
    held = dict(numa_nodes) != dict(reserved or ()) and (
        not is_free(snapshot, numa_nodes)
        or (not ours and len(numa_nodes) > 1 and bool(_holders(kubelet_admission, numa_nodes, with_unknown=False)))
    )
    exact = rules.engine.fidelity == "Kubelet"
    if ours:
        replayed = _UNOBEYED if weak and numa_nodes else CERTAIN
    else:
        replayed = allocation_certainty(kubelet_admission, of_pod(pod, intent), numa_nodes, exact=exact)
    given = Given(
        node,
        numa_nodes,
        pod.requests,
        policy,
        assumed,
        chosen=ours,
        allocation_certainty=replayed,
        signature=signature,
        weak=weak,
        not_enforced=clause,
    )
    return Recent(given, held)


# The kubelet may give the pod any NUMA nodes. Only the expected ones are reserved: to keep all of them would make
# other pods wait for an alignment that nothing there enforces anyway.
_UNOBEYED: Final = AllocationCertainty(sure=False)


def _enforcement(node_arrays: NodeArrays, pod: Pod, intent: NUMAIntent) -> tuple[bool, str]:
    """Whether nothing on the only node enforces or tries the pod's policy; what it does not enforce, as a clause."""
    request = PodRequest.of(pod, intent, node_arrays.resources)
    weak = obeys_no_allocation(node_arrays, 0) or unenforced(node_arrays, request) is not None
    return weak, not_enforced(node_arrays, request, 0)


def into_binding(binding: Raw, given: Given, version: str = "") -> tuple[Operation, ...]:
    """The JSON patch that writes the result into a Binding. Other annotations of the Binding stay.

    version: the pod's resourceVersion, if the API server is to reject the Binding (409) of any other version of the
    pod; empty: of none. Source: kubernetes pkg/registry/core/pod/storage (the preconditions of setPodNodeAndMetadata).
    """
    patch = Patch(binding)
    if version:
        patch.put(("metadata", "resourceVersion"), version)
    for name, text in given.annotations.items():
        patch.put(("metadata", "annotations", name), text)
    return tuple(patch.operations)


def _was_assigned_unknowing(allocation: NUMAAllocation | None, intent: NUMAIntent) -> bool:
    """Whether the pod was assigned before the node's NUMA nodes were known, and requests no strict policy.

    It is pinned to that node, and a stricter node aligns it better than it requests.
    """
    return allocation is not None and not allocation.numa_nodes and intent.policy is NUMAPolicy.BEST_EFFORT


def _on_unknown_node(node: str, intent: NUMAIntent) -> Refusal | Pass:
    """The result for a node that is not in the cache yet, or that cannot be parsed."""
    if intent.policy in {NUMAPolicy.RESTRICTED, NUMAPolicy.SINGLE_NUMA_NODE}:
        return Refusal(f"nothing is known of node {node} yet", Reason.NO_TOPOLOGY.code)
    return Pass(f"nothing is known of node {node}")


def _holders(kubelet_admission: KubeletAdmission, numa_nodes: NUMANodeAmounts, *, with_unknown: bool) -> frozenset[str]:
    """The pods whose allocations hold some of these NUMA nodes.

    A pod that is delegated to the scheduler has no allocation, so it blocks no other pod: it may get another node.
    with_unknown: also those whose allocations name their node alone, which hold room on each NUMA node. They do not
    wait for
    each other.
    """
    wanted = {numa_id for numa_id, _ in numa_nodes}
    return frozenset(
        assigned.assumed.pod
        for assigned in kubelet_admission.assigned
        if not wanted.isdisjoint(assigned.assumed.numa) and _holds(assigned.raw, with_unknown=with_unknown)
    )


def _holds(raw: Raw, *, with_unknown: bool) -> bool:
    allocation = assigned_node(raw)
    return has_gate(raw) or (allocation is not None and (allocation.certain or with_unknown))


def _refusal(node: str, decision: Decision) -> Refusal:
    reason, sentence = decision.explain(0)
    if reason is not Reason.NO_SINGLE_NUMA_NODE:
        return Refusal(f"node {node} can no longer hold this pod: {sentence}", reason.code)
    why = shortage(decision) or sentence
    return Refusal(f"node {node} can no longer hold this pod on one NUMA node: {why}", reason.code)
