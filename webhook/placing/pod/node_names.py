"""Names the nodes that a decision allows, as a constraint that is as short as possible.

1. A single node is named alone.
2. Otherwise the shorter list is used: the nodes that fit, or the nodes that do not.
3. If both lists are too long, only the best of the nodes that fit are allowed.
4. A waiting pod is kept off the nodes that can never take it in the same way.
5. A pod of a gang that no controller pins to its node is kept in the domains of the gang (`hold_to_domains`).

The best nodes are preferred. The scheduler adds our weights to those of the user's own preferred terms, and divides by
the highest sum, so the user's preferences would count less. Therefore our weights follow the user's preferences, too.

A node is named by its hostname label, or by its name if that label is missing or shared with another node.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Bools
from webhook.engine.decide import Candidate, Decision, decide
from webhook.engine.snapshot.label_columns import ABSENT
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import Domain, TopologyTree
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.patches.affinity_patch import (
    EXPRESSIONS,
    Constraint,
    NodeRef,
    Term,
    all_of,
    none_of,
    one_of,
    preference,
)
from webhook.model.names import HOSTNAME_LABEL
from webhook.placing.pod.schedulability import Unschedulable, UnschedulableReason
from webhook.state.rules import Rules

PREFERRED_NODES: Final = 10
"""The most nodes that are written as preferred: ten are left if the best one fills up before the pod is bound, and each
costs kube-scheduler a comparison with every node."""


def hold_to_fitting(
    node_arrays: NodeArrays, decision: Decision, preferred: Sequence[Candidate], most_names: int
) -> Constraint:
    """A constraint to nodes that fit, some of them preferred. At least one must fit."""
    nodes = NodeNames(node_arrays)
    required = _required(nodes, decision, most_names)
    taking = decision.taking
    wanted = [one for one in preferred if taking[node_arrays.index[one.node]]]
    if len(wanted) == int(np.count_nonzero(taking)) == 1:
        return Constraint(required)
    return Constraint(required, _preferring(nodes, wanted))


def keep_off_others(
    node_arrays: NodeArrays, unschedulable: Unschedulable, most_names: int, preferred: Sequence[Candidate] = ()
) -> Constraint:
    """A constraint to nodes that may fit later, some preferred. If possible it names the others, to allow new nodes."""
    nodes, hopeful = NodeNames(node_arrays), unschedulable.hopeful
    return Constraint(
        _where_hope_is(nodes, unschedulable, np.flatnonzero(hopeful), np.flatnonzero(~hopeful), most_names),
        _preferring(nodes, preferred),
    )


def weights(best: Sequence[Candidate]) -> list[int]:
    """The weights of the best nodes, 1..100, in the same order: the score, reduced for less preferred nodes.

    A weight stays above the next lower score.
    """
    scores = sorted({0, *(one.score for one in best)})
    below = dict(zip(scores[1:], scores, strict=False))
    found = []
    for one in best:
        room = max(one.score - below.get(one.score, 0) - 1, 0)
        missing = 0 if one.preference is None else 100 - one.preference
        found.append(max(one.score - room * missing // 100, 1))
    return found


def _preferring(nodes: "NodeNames", best: Sequence[Candidate]) -> tuple[Term, ...]:
    weighed = zip(best, weights(best), strict=True)
    return tuple(preference(nodes.named(one.node), weight) for one, weight in weighed)


def _where_hope_is(
    nodes: "NodeNames",
    unschedulable: Unschedulable,
    hopeful: npt.NDArray[np.intp],
    others: npt.NDArray[np.intp],
    most: int,
) -> tuple[Term, ...]:
    if len(others) <= most:
        return none_of(nodes.refs(others.tolist()))
    if unschedulable.reason_code is UnschedulableReason.NO_NODE:
        return ()  # it waits for a new node, which no list can name, and existing nodes cannot take it anyway
    if len(hopeful) <= most:
        return one_of(nodes.refs(hopeful.tolist()))
    best = unschedulable.when_empty.best(most)
    return one_of([nodes.named(one.node) for one in best]) if best else ()


def _required(nodes: "NodeNames", decision: Decision, most: int) -> tuple[Term, ...]:
    fits = decision.taking
    count = int(np.count_nonzero(fits))
    others = len(fits) - count
    if count == 1 or count <= min(others, most):
        return one_of(nodes.refs(np.flatnonzero(fits).tolist()))
    if others <= min(count, most):
        return none_of(nodes.refs(np.flatnonzero(~fits).tolist()))
    return one_of([nodes.named(one.node) for one in decision.best(most)])


class NodeNames:
    """The names of a snapshot's nodes in affinity."""

    def __init__(self, node_arrays: NodeArrays) -> None:
        self._node_arrays = node_arrays
        codes, self._hostnames = node_arrays.labels.column(HOSTNAME_LABEL)
        self._codes = codes
        # A value per code; the first one is for nodes without the label.
        self._nodes_with = np.bincount(codes - ABSENT, minlength=1)

    def refs(self, indices: Iterable[int]) -> list[NodeRef]:
        """The nodes with these indices."""
        return [self.ref(i) for i in indices]

    def named(self, name: str) -> NodeRef:
        """The node with this name, which must be in the snapshot."""
        return self.ref(self._node_arrays.index[name])

    def ref(self, i: int) -> NodeRef:
        """The node with this index."""
        code = int(self._codes[i])
        alone = code != ABSENT and self._nodes_with[code - ABSENT] == 1
        return NodeRef(self._node_arrays.names[i], self._hostnames.values[code] if alone else None)


def hold_to_domains(
    snapshot: Snapshot, domains: Sequence[tuple[TopologyTree, Domain]], pod: Pod, intent: NUMAIntent, rules: Rules
) -> Constraint:
    """The constraint of a pod that may run in any of these domains of its gang.

    1. The labels of the levels, coarse to fine: the rack, and the levels above it.
    2. In these domains only the nodes that fit now, named as elsewhere.

    Pods of one template with several domains (one per segment or replica) are limited to all of these domains together.
    """
    inside = np.zeros(snapshot.node_arrays.n, dtype=np.bool_)
    for tree, domain in domains:
        inside[tree.order[tree.span(domain)]] = True
    decision = decide(snapshot.closed(~inside), pod, intent, rules.engine)
    nodes = NodeNames(snapshot.node_arrays)
    labels = _labels(domains)
    terms = _named(nodes, decision, inside, rules.max_affinity_values)
    preferred = decision.best(PREFERRED_NODES) if decision.fit_count > 1 else ()
    found = Constraint(terms, tuple(preference(nodes.named(one.node), one.score) for one in preferred))
    return _all_of(labels, found)


def within_domain(constraint: Constraint, domain: Mapping[str, str]) -> Constraint:
    """The constraint to nodes that are also in the domain of these node labels; {}: in any."""
    return _all_of([{"key": label, "operator": "In", "values": [value]} for label, value in domain.items()], constraint)


def _all_of(labels: list[dict[str, Any]], constraint: Constraint) -> Constraint:
    """The constraint with these labels before it: domains are read from coarse to fine, and end with the nodes."""
    if not labels:
        return constraint
    of_domain = replace(constraint, alternatives=({EXPRESSIONS: labels},))
    nodes = constraint.alternatives or ({},)
    return replace(constraint, alternatives=tuple(all_of(of_domain, term).alternatives[0] for term in nodes))


def _labels(domains: Sequence[tuple[TopologyTree, Domain]]) -> list[dict[str, Any]]:
    """A requirement for each level that all the domains have."""
    values: dict[str, list[str]] = {}
    for tree, domain in domains:
        for label, value in tree.path(domain):
            values.setdefault(label, []).append(value)
    return [
        {"key": label, "operator": "In", "values": sorted(set(found))}
        for label, found in values.items()
        if len(found) == len(domains)
    ]


def _named(nodes: NodeNames, decision: Decision, inside: Bools, most: int) -> tuple[Term, ...]:
    """The nodes that fit, or the nodes inside that do not fit, or the best ones."""
    if decision.fit_count <= most:
        return one_of(nodes.refs(np.flatnonzero(decision.fits).tolist()))
    others = np.flatnonzero(inside & ~decision.fits)
    if len(others) <= most:
        return none_of(nodes.refs(others.tolist()))
    return one_of([nodes.named(one.node) for one in decision.best(most)])
