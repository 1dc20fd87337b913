"""Parts of a cluster: nodes whose kubelets decide alike about a pod, by policy and scope of their topology manager."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from webhook.engine import node_kind
from webhook.engine.arrays import Bools
from webhook.engine.reason import Reason
from webhook.engine.request import PodRequest
from webhook.engine.view import View
from webhook.model.policy import NUMAPolicy, Scope

Nodes = npt.NDArray[np.intp]
"""Indexes of nodes."""


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that decide alike."""

    nodes: Nodes
    policy: NUMAPolicy
    scope: Scope
    closest: bool
    """prefer-closest-numa-nodes."""
    ours: bool
    """The kubelet does not place: what the policy asks for is promised here, for the whole pod."""
    verdict: Reason | None
    """The same for every pod: nothing is known, or the kubelet does not run with so many NUMA nodes."""

    def at(self, where: Bools | Nodes) -> "Part":
        """A part of the part."""
        return Part(self.nodes[where], self.policy, self.scope, self.closest, self.ours, self.verdict)


def parts(view: View, request: PodRequest, nodes: Nodes) -> Iterator[Part]:
    """Split nodes into those that decide alike: by kind, of which a cluster has few."""
    kinds = view.snapshot.kind
    if len(nodes) != len(kinds):
        kinds = kinds[nodes]
    if not len(kinds):
        return
    if (kinds == kinds[0]).all():
        yield _part(int(kinds[0]), request, nodes)
        return
    for kind in np.flatnonzero(np.bincount(kinds)).tolist():
        yield _part(kind, request, nodes[kinds == kind])


def _part(kind: int, request: PodRequest, nodes: Nodes) -> Part:
    own = NUMAPolicy(kind & node_kind.POLICY)
    loose = own is NUMAPolicy.NONE
    ours = bool(kind & node_kind.TOTAL) or (loose and request.policy is not None)
    policy = request.policy or NUMAPolicy.NONE if loose and ours else own
    verdict = None
    if kind & node_kind.NO_TOPOLOGY:
        verdict = Reason.NO_TOPOLOGY if request.strict else Reason.FITS
    elif ours and policy is NUMAPolicy.NONE:
        verdict = Reason.FITS
    elif kind & node_kind.TOO_MANY and not (ours or loose):
        verdict = Reason.TOO_MANY_NUMA_NODES
    scope = Scope.POD if kind & node_kind.POD_SCOPE else Scope.CONTAINER
    return Part(nodes, policy, scope, bool(kind & node_kind.CLOSEST), ours, verdict)
