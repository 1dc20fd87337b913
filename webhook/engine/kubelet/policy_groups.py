"""Groups of nodes whose kubelets decide equally about a pod, by policy and scope of their Topology Manager."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from webhook.engine.arrays import Bools, Nodes, every
from webhook.engine.kubelet.demand import is_aligned
from webhook.engine.reason import Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot import node_kind
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.policy import NUMAPolicy, Scope


@dataclass(frozen=True, slots=True)
class PolicyGroup:
    """Nodes that decide equally."""

    nodes: Nodes
    policy: NUMAPolicy
    scope: Scope
    closest: bool
    """prefer-closest-numa-nodes."""
    ours: bool
    """The kubelet does not align: we choose the NUMA nodes that the policy requires, for the whole pod."""
    verdict: Reason | None
    """The reason whatever is free: unknown NUMA nodes or policy, or more NUMA nodes than the kubelet supports."""

    def at(self, where: Bools | Nodes) -> "PolicyGroup":
        """A part of the group."""
        # take() needs half the time that an index needs.
        return self.of(self.nodes[where] if where.dtype == np.bool_ else self.nodes.take(where))

    def of(self, nodes: Nodes) -> "PolicyGroup":
        """Other nodes, as if they decided equally."""
        return PolicyGroup(nodes, self.policy, self.scope, self.closest, self.ours, self.verdict)


_Rules = tuple[NUMAPolicy, Scope, bool, bool, Reason | None]


def policy_groups(snapshot: Snapshot, request: PodRequest, nodes: Nodes) -> Iterator[PolicyGroup]:
    """Divide nodes into groups that decide equally, by their kind; a cluster has few kinds."""
    kinds = snapshot.node_arrays.kind
    if len(nodes) != len(kinds):
        kinds = kinds[nodes]
    if not len(kinds):
        return
    if every(kinds == kinds[0]):
        yield PolicyGroup(nodes, *_rules(int(kinds[0]), request))
        return
    for kind in np.flatnonzero(np.bincount(kinds)).tolist():
        yield PolicyGroup(nodes[kinds == kind], *_rules(kind, request))


def _rules(kind: int, request: PodRequest) -> _Rules:
    """The rules of a group for this pod."""
    if kind & node_kind.UNKNOWN_POLICY:
        return _where_the_policy_is_unknown(kind, request)
    return _known_rules(kind, request.policy, request.strict)


def _where_the_policy_is_unknown(kind: int, request: PodRequest) -> _Rules:
    """Any kubelet admits a pod without alignment; another pod might be rejected if the node has NUMA nodes at all."""
    policy, scope, closest, ours, verdict = _known_rules(
        kind & ~node_kind.UNKNOWN_POLICY, request.policy, request.strict
    )
    if not kind & node_kind.NO_TOPOLOGY:
        is_at_risk = request.policy is not None or is_aligned(request)
        verdict = Reason.UNKNOWN_POLICY if is_at_risk else Reason.FITS
    return policy, scope, closest, ours, verdict


@lru_cache(maxsize=node_kind.KINDS * len(NUMAPolicy))
def _known_rules(kind: int, asked: NUMAPolicy | None, strict: bool) -> _Rules:
    own = NUMAPolicy(kind & node_kind.POLICY)
    loose = own is NUMAPolicy.NONE
    ours = bool(kind & node_kind.TOTAL) or (loose and asked is not None)
    policy = asked or NUMAPolicy.NONE if loose and ours else own
    verdict = None
    if kind & node_kind.NO_TOPOLOGY:
        verdict = Reason.NO_TOPOLOGY if strict else Reason.FITS
    elif ours and policy is NUMAPolicy.NONE:
        verdict = Reason.FITS
    elif kind & node_kind.TOO_MANY and not (ours or loose):
        verdict = Reason.TOO_MANY_NUMA_NODES
    scope = Scope.POD if kind & node_kind.POD_SCOPE else Scope.CONTAINER
    return policy, scope, bool(kind & node_kind.CLOSEST), ours, verdict
