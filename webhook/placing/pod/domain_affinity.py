"""Node affinity that keeps the pods of a gang in its domains, used when no controller pins the pod to its node.

1. The labels of the levels, coarse to fine: the rack, and the levels above it.
2. In these domains only the nodes that fit now, named as in `node_names`.

Pods of one template with several domains (one per segment or replica) are limited to all of these domains together.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.decide import Decision, decide
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import Domain, TopologyTree
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.patches.affinity_patch import EXPRESSIONS, Constraint, Term, all_of, none_of, one_of, preference
from webhook.placing.pod.node_names import NodeNames
from webhook.state.rules import Rules


def hold_to_domains(
    snapshot: Snapshot, domains: Sequence[tuple[TopologyTree, Domain]], pod: Pod, intent: NUMAIntent, rules: Rules
) -> Constraint:
    """The constraint of a pod that may run in any of these domains."""
    inside = np.zeros(snapshot.node_arrays.n, dtype=np.bool_)
    for tree, domain in domains:
        inside[tree.order[tree.span(domain)]] = True
    decision = decide(snapshot.closed(~inside), pod, intent, rules.engine)
    nodes = NodeNames(snapshot.node_arrays)
    labels = _labels(domains)
    terms = _named(nodes, decision, inside, rules.max_affinity_values)
    preferred = decision.best(rules.preferred_nodes) if decision.fit_count > 1 else ()
    found = Constraint(terms, tuple(preference(nodes.named(one.node), one.score) for one in preferred))
    return _all_of(labels, found)


def within_domain(constraint: Constraint, domain: Mapping[str, str]) -> Constraint:
    """The constraint to nodes that are also in the domain of these node labels; {}: in any."""
    return _all_of([{"key": label, "operator": "In", "values": [value]} for label, value in domain.items()], constraint)


def _all_of(labels: list[dict[str, Any]], constraint: Constraint) -> Constraint:
    return all_of(constraint, {EXPRESSIONS: labels}) if labels else constraint


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
