"""Judgements for programs: one JSON array, an entry per object."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from webhook.cli.offline.judgement import Judgement, PodSet
from webhook.engine.decide import Candidate, Decision
from webhook.engine.enforcement import not_enforced
from webhook.placing.gang.workload_judgement import WorkloadAssignment

# The same number as in the preferred node affinity that the webhook writes.
_BEST = 10


def render_json(judgements: Sequence[Judgement], *, all_nodes: bool) -> str:
    """The array as text."""
    entries = [_entry(judgement, all_nodes=all_nodes) for judgement in judgements]
    return json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False)


def _entry(judgement: Judgement, *, all_nodes: bool) -> dict[str, Any]:
    item, decision = judgement.item, judgement.decision
    entry: dict[str, Any] = {
        "object": {
            "apiVersion": item.api_version,
            "kind": item.kind,
            "namespace": item.namespace,
            "name": item.name,
        },
        "verdict": judgement.verdict.value,
        "message": judgement.message,
        "warnings": list(judgement.warnings),
        "nodes": _nodes(decision),
        "podSets": [_pod_set(one) for one in judgement.sets],
        "mutated": judgement.mutated,
    }
    if judgement.group is not None:
        entry["group"] = group_object(judgement.group)
    if all_nodes:
        entry["perNode"] = [] if decision is None else per_node(decision)
    return entry


def _pod_set(one: PodSet) -> dict[str, Any]:
    """The pods of one template, each judged by itself."""
    outcome = one.outcome
    intent = outcome.intent
    return {
        "name": one.name,
        "path": one.path,
        "pods": one.pods,
        "managed": outcome.managed,
        "policy": intent.policy.koordinator if intent.policy else None,
        "exclusive": intent.exclusive.value if intent.exclusive else None,
        "inGroup": one.in_group,
        "verdict": outcome.verdict.value,
        "message": outcome.message,
        "warnings": list(outcome.warnings),
        "nodes": _nodes(outcome.decision),
    }


def _nodes(decision: Decision | None) -> dict[str, Any]:
    if decision is None:
        return {"fit": 0, "best": [], "excluded": {}}
    return {
        "fit": decision.fit_count,
        "best": [_candidate(one) for one in decision.best(_BEST)],
        "excluded": {reason.code: nodes for reason, nodes in decision.excluded.items()},
    }


def group_object(group: WorkloadAssignment) -> dict[str, Any]:
    """The whole gang; if there are several, each of them, too."""
    gangs = [gang.to_object() for gang in group.gangs]
    entry: dict[str, Any] = {
        "name": group.name,
        "topology": group.topology,
        "required": _common(gang["required"] for gang in gangs),
        "preferred": _common(gang["preferred"] for gang in gangs),
        "strategy": _common(gang["strategy"] for gang in gangs),
        "minimum": sum(gang["minimum"] for gang in gangs),
        "placed": group.assigned,
        "domain": list(map(list, group.domain)) or None,
        "pods": [pod for gang in gangs for pod in gang["pods"]] if group.assigned else [],
        "unplaced": group.unplaced(),
        "running": dict(group.running),
        "missed": [
            {
                "part": missed.part,
                "level": missed.label,
                "domains": [list(map(list, path)) for path in missed.domains],
                "outside": missed.outside,
                "segments": missed.segments,
            }
            for missed in group.missed()
        ],
        "why": [short for gang in gangs for short in gang["why"]],
        "exhaustive": all(gang["exhaustive"] for gang in gangs),
        "fitsEmptyCluster": group.fits_when_empty,
    }
    if len(group.topologies) > 1:
        entry["topologies"] = list(group.topologies)
    if len(gangs) > 1 or any("parts" in gang for gang in gangs):
        entry["gangs"] = gangs
    return entry


def _common(values: Iterable[str | None]) -> str | None:
    """The fields of every entry."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _candidate(one: Candidate) -> dict[str, Any]:
    return {"node": one.node, "score": one.score, "preference": one.preference, "numaNodes": list(one.numa_nodes)}


def per_node(decision: Decision) -> list[dict[str, Any]]:
    """Every node, sorted by name."""
    nodes = []
    for index in decision.snapshot.node_arrays.order.tolist():
        reason, message = decision.explain(index)
        fits = bool(decision.fits[index])
        nodes.append(
            {
                "node": decision.snapshot.node_arrays.names[index],
                "fits": fits,
                "reason": reason.code,
                "message": message,
                "numaNodes": list(decision.numa_nodes(index)) if fits else [],
                "score": int(decision.score[index]) if fits else 0,
                "preference": decision.preference(index) if fits else None,
                "notEnforced": not_enforced(decision.snapshot.node_arrays, decision.request, index),
            }
        )
    return nodes
