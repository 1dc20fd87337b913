"""Nodes that a pod fits in total, but not on their NUMA nodes: autoscalers take it for one that runs there.

They add no node for such a pod. cluster-autoscaler respects node affinity by host name, so a gated pod can be kept off
these nodes: Kubernetes allows requirements to be added to it, and never to be removed again. A node that is new is left
out, as what it has is still to be published.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.decide import Decision
from webhook.engine.filter.node_fit import node_fit
from webhook.engine.reason import FITS, Reason
from webhook.formats.patches.affinity_patch import Constraint, none_of
from webhook.model.names import HOSTNAME_LABEL
from webhook.placing.pod.node_names import NodeNames


def blind_nodes(decision: Decision) -> Bools:
    """Bool [node]: the pod fits there in total, and cannot be aligned. Avoided nodes are avoided for minutes only."""
    in_total = node_fit(decision.snapshot, decision.pod, decision.request) == FITS
    found: Bools = in_total & ~decision.fits & (decision.reason != Reason.REJECTED_BEFORE)
    return found


def keeping_off(
    decision: Decision, nodes: Bools, terms: Sequence[Mapping[str, Any]] | None, most: int
) -> Constraint | None:
    """The constraint that keeps a pod with these required terms off the nodes (bool [node]).

    None if it would name more than `most` nodes, with those that the terms exclude already.
    """
    refs = NodeNames(decision.snapshot.node_arrays).refs(np.flatnonzero(nodes).tolist())
    if not refs or len(refs) + len(excluded_names(terms)) > most:
        return None
    return Constraint(none_of(refs))


def excluded_names(terms: Sequence[Mapping[str, Any]] | None) -> set[str]:
    """The host names that required terms exclude."""
    return {
        name
        for term in terms or ()
        for one in term.get("matchExpressions") or ()
        if one.get("key") == HOSTNAME_LABEL and one.get("operator") == "NotIn"
        for name in one.get("values") or ()
    }
