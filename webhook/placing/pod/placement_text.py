"""The text of a decision: one line in messages, a clause per line in the annotation `topology-webhook.dev/placement`.

SingleNUMANode: 812 of 5000 nodes fit; best n17 (score 95, NUMA 1), n3 (score 92, NUMA 0), n9 (score 92, NUMA 1);
excluded: 4100 no single NUMA node with 8 cpu, 88 NUMA policy mismatch

In the annotation, the last line is the node affinity that was added, because `kubectl describe` shows no affinity:

node affinity added: preferred: n17 95, n3 92, n9 92; excluded: 4188 nodes
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.decide import Candidate, Decision
from webhook.engine.enforcement import not_enforced
from webhook.engine.reason import Reason
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.formats.koordinator.cpu_bind import CPUBindPolicy
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.avoided_node import AvoidedNode, rejections_text, used_again_text
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.patches.affinity_patch import EXPRESSIONS, FIELDS, Constraint
from webhook.formats.patches.managed_fields import ManagedFields
from webhook.model.names import HOSTNAME_LABEL, MANAGED_FIELDS
from webhook.model.resources import EPHEMERAL_STORAGE, STORAGE, format_list
from webhook.model.wording import counted

# The beginning of the text of a pod that no existing node could take.
FOR_A_NODE = "waiting for a node:"

# Node names have up to 253 characters: three of them leave space for the rest in 1 KiB.
_LONGEST = 1000

# Number of best nodes in the text.
BEST = 3

# The first clause of the text of a pod that has a node.
_PLACE = re.compile(
    r"(?P<how>placed on|bound to) (?P<node>[^\s,;]+)(?:, NUMA (?:[0-9+]+|nodes not certain yet))?(?=[;\n]|$)"
)

# `kubectl describe` cuts each line of an annotation after 138 characters (maxAnnotationLen in kubectl's pkg/describe).
_DESCRIBED = 138


def fitting(pod: Pod, intent: NUMAIntent, decision: Decision, best: Sequence[Candidate], note: str = "") -> str:
    """How many nodes fit, the best ones, and why the others do not. note: one more clause about the pod."""
    named = ", ".join(map(_candidate, best))
    fit = "fits" if decision.fit_count == 1 else "fit"
    notes = f"{_noted(_cores(decision))}{_noted(unchecked(pod))}{_noted(note)}"
    count = f"{decision.fit_count} of {counted(len(decision.fits), 'node')} {fit}{notes}"
    text = f"{subject(intent)}: {count}; best {named}{_noted(enforcement(decision, best[0].node))}"
    return shortened(text + excluded(pod, decision, "; excluded: "))


def nowhere(pod: Pod, intent: NUMAIntent, decision: Decision, unschedulable: str, note: str = "") -> str:
    """That no node fits now, whether one can fit later, and why each does not. note: as for `fitting`."""
    if avoided := _avoided(decision):
        would = counted(len(avoided), "node would fit but is", "nodes would fit but are")
        unschedulable = f"{would} avoided for now: {used_again_text(avoided)}"
    notes = f"{_noted(_cores(decision))}{_noted(unchecked(pod))}{_noted(note)}"
    text = f"{subject(intent)}: none of {counted(len(decision.fits), 'node')} fits now; {unschedulable}{notes}"
    return shortened(text + excluded(pod, decision, "; excluded: "))


def unchecked(pod: Pod) -> str:
    """Which devices of its claims are left to the scheduler, and why; empty: none."""
    return f"devices left to the scheduler ({pod.unchecked})" if pod.unchecked else ""


def served_by_slices(pod: Pod, node: str, node_arrays: NodeArrays) -> str:
    """Which extended resources of the pod the node has in ResourceSlices, where nothing aligns them; empty: none.

    What claims request is counted under names with spaces, which no extended resource has.
    """
    names = sorted(one for one in pod.requests.keys() & node_arrays.from_slices.get(node, ()) if " " not in one)
    if not names:
        return ""
    return f"not aligned with its devices: the scheduler makes the claim for {', '.join(names)} when it binds the pod"


def waiting(text: str) -> str:
    """The text of a gated pod that fits nowhere now."""
    return f"waiting: {text}"


def waiting_for_node(text: str) -> str:
    """The text of a pod that no existing node could take. It has no gate, so that a cluster autoscaler sees it."""
    return f"{FOR_A_NODE} {text}"


def to_be_assigned(text: str) -> str:
    """The text of a gated pod that fits somewhere. The placement controller picks the node later."""
    return f"to be placed: {text}"


def where(numa_ids: Iterable[int] | None) -> str:
    """`, NUMA 0+1`, to follow a node's name; empty without NUMA nodes. None: they are not certain."""
    if numa_ids is None:
        return ", NUMA nodes not certain yet"
    ids = "+".join(map(str, numa_ids))
    return f", NUMA {ids}" if ids else ""


def located(text: str, node: str, numa_ids: Iterable[int] | None) -> str | None:
    """The text of a placed or bound pod with these NUMA nodes in it; None if it names no node, or another one."""
    match = _PLACE.match(text)
    if match is None or match["node"] != node:
        return None
    return f"{match['how']} {node}{where(numa_ids)}{text[match.end() :]}"


def subject(intent: NUMAIntent) -> str:
    """The policy that the pod requests, or that it takes each node's policy."""
    return intent.policy.koordinator if intent.policy else "each node's own NUMA policy"


def excluded(pod: Pod, decision: Decision, prefix: str = "") -> str:
    """The reasons with their number of nodes, most frequent first; empty if there are none."""
    ordered = sorted(decision.excluded.items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(
        f"{count} {phrase(reason, pod)}{_in_cores(reason, decision)}{_example(reason, decision)}"
        for reason, count in ordered
    )
    return prefix + reasons if reasons else ""


def _cores(decision: Decision) -> str:
    """The policy by which the pod's CPUs are bound to cores, and on how many fitting nodes that cannot be checked."""
    policy = required_cores(decision)
    if policy is None:
        return ""
    unknown = int(np.count_nonzero(decision.fits & (decision.snapshot.node_arrays.threads == 0)))
    return f"cores for {policy}" + (f" not known on {unknown} of them" if unknown else " are counted")


def required_cores(decision: Decision) -> CPUBindPolicy | None:
    """The policy by which the pod requires its CPUs to be bound to cores."""
    bind = decision.request.cpu_bind
    return None if bind is None else bind.required


def _in_cores(reason: Reason, decision: Decision) -> str:
    policy = required_cores(decision)
    return f" in free cores for {policy}" if policy and reason is Reason.NO_SINGLE_NUMA_NODE else ""


def _example(reason: Reason, decision: Decision) -> str:
    """The avoided nodes. For a fault that an operator must fix: one node that has it, with the invalid value."""
    if reason is Reason.REJECTED_BEFORE:
        return f" ({rejections_text(_avoided(decision))})"
    if reason is not Reason.UNKNOWN_POLICY:
        return ""
    return f" ({unknown_policy(decision.snapshot.node_arrays, decision.reason == reason)})"


def _avoided(decision: Decision) -> tuple[AvoidedNode, ...]:
    """The nodes that would fit if the pod did not avoid them."""
    if not decision.pod.avoided:
        return ()
    index, reasons = decision.snapshot.node_arrays.index, decision.reason
    return tuple(
        one
        for one in decision.pod.avoided
        if (at := index.get(one.node)) is not None and reasons[at] == Reason.REJECTED_BEFORE
    )


def unknown_policy(node_arrays: NodeArrays, where: Bools) -> str:
    """The first of these nodes (bool [node]) by name, and its unknown policy."""
    first = node_arrays.names[int(node_arrays.order[where[node_arrays.order].argmax()])]
    return f"{first}: {node_arrays.unknown_policies[first]}"


def phrase(reason: Reason, pod: Pod) -> str:
    """The reason as text, with the pod's amounts if it has a single container."""
    if reason is Reason.NO_SINGLE_NUMA_NODE and len(pod.containers) == 1:
        return f"no single NUMA node with {format_list(on_numa_nodes(pod.containers[0].requests))}"
    return reason.phrase


def on_numa_nodes(amounts: Mapping[str, int]) -> dict[str, int]:
    """The amounts that NUMA nodes have. Storage belongs to the machine as a whole."""
    return {name: amount for name, amount in amounts.items() if name not in {EPHEMERAL_STORAGE, STORAGE}}


def shortened(text: str) -> str:
    """The text, cut to a length that leaves space for other annotations."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def annotated(text: str, affinity: str = "") -> str:
    """The text with one clause per line, and no line longer than `kubectl describe` shows.

    affinity: what was added to the pod's node affinity (`affinity_text`), for a line of its own.
    """
    clauses = [*text.split("; "), f"node affinity added: {affinity}"] if affinity else text.split("; ")
    return "\n".join(map(_wrapped, clauses))


def affinity_added(pod: Mapping[str, Any]) -> str:
    """What was added to a pod's node affinity so far, in words, as its managed fields record it; empty if nothing."""
    record = (pod["metadata"].get("annotations") or {}).get(MANAGED_FIELDS)
    if record is None:
        return ""
    managed_fields = ManagedFields.parse(record)
    if managed_fields.hostname:
        hostname = (pod["spec"].get("nodeSelector") or {}).get(HOSTNAME_LABEL, "")
        return f"required: {hostname} (in nodeSelector)"
    return affinity_text(managed_fields.added_to(pod))


def affinity_text(constraint: Constraint) -> str:
    """The constraint in words; empty if it adds nothing.

    `required: node-b`, or `preferred: node-b 97, node-c 95; excluded: 4 nodes`. Alternatives differ only in the nodes
    that they name, so their names are one list.
    """
    nodes: dict[str, None] = {}
    labels: dict[str, None] = {}
    others: dict[str, None] = {}
    for requirement in _requirements(constraint.alternatives):
        if requirement["operator"] == "NotIn":
            others |= dict.fromkeys(requirement["values"])
        elif requirement["key"] in _NODE_NAMES:
            nodes |= dict.fromkeys(requirement["values"])
        else:
            labels[f"{requirement['key']} {' or '.join(requirement['values'])}"] = None
    weights = (f"{'/'.join(_names(term['preference']))} {term['weight']}" for term in constraint.preferred)
    required = ", ".join([*labels, *_few(list(nodes))])
    parts = {
        "required": required,
        "preferred": ", ".join(_few(list(weights))),
        "excluded": counted(len(others), "node") if others else "",
    }
    return "; ".join(f"{what}: {words}" for what, words in parts.items() if words)


# How a constraint names nodes.
_NODE_NAMES = frozenset({HOSTNAME_LABEL, "metadata.name"})


def _requirements(terms: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (one for term in terms for where in (EXPRESSIONS, FIELDS) for one in term.get(where) or ())


def _names(term: Mapping[str, Any]) -> list[str]:
    return [name for requirement in _requirements([term]) for name in requirement["values"]]


def _few(names: Sequence[str]) -> list[str]:
    """The first names, and the number of the others."""
    more = len(names) - BEST
    return [*names[:BEST], f"{more} more"] if more > 1 else list(names)


def _wrapped(clause: str) -> str:
    # textwrap costs 50 us even if there is nothing to wrap.
    if len(clause) <= _DESCRIBED:
        return clause
    return "\n".join(wrap(clause, _DESCRIBED, subsequent_indent="  ", break_on_hyphens=False))


def _noted(note: str) -> str:
    return f"; {note}" if note else ""


def _candidate(candidate: Candidate) -> str:
    liked = "" if candidate.preference is None else f", preference {candidate.preference}"
    weak = "" if candidate.enforces else ", not enforced"
    return f"{candidate.node} (score {candidate.score}{liked}{where(candidate.numa_nodes)}{weak})"


def enforcement(decision: Decision, node: str) -> str:
    """What a node does not enforce of the pod's policy, as a clause; empty: nothing that is known."""
    node_arrays = decision.snapshot.node_arrays
    return not_enforced(node_arrays, decision.request, node_arrays.index[node])
