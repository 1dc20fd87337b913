"""Node affinity that limits a pod to a set of nodes, ANDed with what the user wrote.

1. The set becomes requirements. A node is named by its hostname label if that label is unique, else by its name in
   matchFields. Terms are ORed and a matchFields requirement takes one value, so every node named in matchFields is a
   separate alternative. Nodes to avoid need no alternatives: their requirements are ANDed.
2. The requirements are appended to every required term of the pod: the first alternative to the term itself, each
   further one to a copy of it. A term without requirements matches no node. It stays empty, or it would match some.
3. Preferences are appended.
4. A pod without a controller may come from a manifest that its user applies again. Once the pod has no gate, the API
   server rejects every change of its affinity and nodeSelector. So our additions must survive a merge:
   `kubectl apply` resets what the manifest has, and merges maps by key, while a list of terms is one value.
   `kubectl apply --server-side` takes nodeSelector as one value as well.

    the manifest has         we write                      client-side   server-side
    neither, or preferences  required node affinity        repeatable    repeatable
    nodeSelector             required node affinity        repeatable    repeatable
    required node affinity   nodeSelector                  repeatable    repeatable
    both                     nodeSelector                  repeatable    refused, with a warning

   So a gated pod's own lists of terms are not changed. nodeSelector can name a node only by its hostname label. If that
   is missing or shared, or the pod gets no gate, we extend the terms anyway.

Nothing of the user's is changed or removed: the patch consists of `add` operations only. The pod's types were checked
when it was decoded (by the API server, or by `review`).

Source: k8s.io/api core/v1 NodeSelector (`nodeSelector` +mapType=atomic, NodeSelector +structType=atomic,
`preferredDuringSchedulingIgnoredDuringExecution` +listType=atomic; none of them has a patchStrategy); kubernetes
pkg/apis/core/validation (ValidateNodeSelectorTerm, ValidateNodeFieldSelectorRequirement, validateNodeSelectorMutation,
validateNodeAffinityMutation).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from webhook.formats.patches.json_patch import END, Patch, PatchError
from webhook.model.limits import MAX_ADDED
from webhook.model.names import HOSTNAME_LABEL, MANAGED_FIELDS

AFFINITY_PATH = ("spec", "affinity")
NODE_AFFINITY_PATH = (*AFFINITY_PATH, "nodeAffinity")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS_PATH = (*NODE_AFFINITY_PATH, REQUIRED, "nodeSelectorTerms")
PREFERRED_PATH = (*NODE_AFFINITY_PATH, PREFERRED)

# The two lists of requirements that a term can have.
EXPRESSIONS = "matchExpressions"
FIELDS = "matchFields"

# As in the object: {"key", "operator", "values"}, and {"matchExpressions": [..], "matchFields": [..]}.
Requirement = dict[str, Any]
Term = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A node as affinity can name it. hostname: its hostname label; None if missing or shared with another node."""

    name: str
    hostname: str | None


@dataclass(frozen=True, slots=True)
class Constraint:
    """What is added to a pod's node affinity.

    alternatives: terms of which one must match; () = any node. preferred: preferred scheduling terms.
    """

    alternatives: tuple[Term, ...] = ()
    preferred: tuple[Term, ...] = ()


def one_of(nodes: Sequence[NodeRef]) -> tuple[Term, ...]:
    """Alternatives that match exactly these nodes (at least one)."""
    if len(nodes) == 1:
        # The scheduler then checks only this node.
        return ({FIELDS: [_is_named(nodes[0])]},)
    hostnames = sorted(node.hostname for node in nodes if node.hostname is not None)
    by_label = [{EXPRESSIONS: [_requirement(HOSTNAME_LABEL, "In", hostnames)]}] if hostnames else []
    by_name = [{FIELDS: [_is_named(node)]} for node in nodes if node.hostname is None]
    return (*by_label, *by_name)


def none_of(nodes: Sequence[NodeRef]) -> tuple[Term, ...]:
    """The one alternative that matches every node except these; () if there is none to avoid."""
    hostnames = sorted(node.hostname for node in nodes if node.hostname is not None)
    unlabelled = [node for node in nodes if node.hostname is None]
    term: Term = {}
    if hostnames:
        term[EXPRESSIONS] = [_requirement(HOSTNAME_LABEL, "NotIn", hostnames)]
    if unlabelled:
        term[FIELDS] = [_requirement("metadata.name", "NotIn", [node.name]) for node in unlabelled]
    return (term,) if term else ()


def all_of(constraint: Constraint, *terms: Term) -> Constraint:
    """The constraint to nodes that match each of these terms, too."""
    alternatives = constraint.alternatives
    for more in terms:
        alternatives = tuple(_anded(term, more) for term in alternatives or ({},))
    return replace(constraint, alternatives=alternatives)


def preference(node: NodeRef, score: int) -> Term:
    """A preferred scheduling term for one node. Scores run from 0 to 100, weights from 1."""
    if node.hostname is None:
        term = {FIELDS: [_is_named(node)]}
    else:
        term = {EXPRESSIONS: [_requirement(HOSTNAME_LABEL, "In", [node.hostname])]}
    return {"weight": min(max(score, 1), 100), "preference": term}


def _is_named(node: NodeRef) -> Requirement:
    return _requirement("metadata.name", "In", [node.name])


def _requirement(key: str, operator: str, values: list[str]) -> Requirement:
    return {"key": key, "operator": operator, "values": values}


def constrain(patch: Patch, constraint: Constraint) -> None:
    """Append the constraint to the pod of the patch."""
    if constraint.alternatives:
        _require(patch, constraint.alternatives)
    if constraint.preferred and not node_affinity(patch.document).get(PREFERRED):
        patch.put(PREFERRED_PATH, list(constraint.preferred))
        return
    for term in constraint.preferred:
        patch.put((*PREFERRED_PATH, END), term)


def _require(patch: Patch, alternatives: Sequence[Term]) -> None:
    terms = required_terms(patch.document)
    if terms is None:
        patch.put(TERMS_PATH, list(alternatives))
        return
    first, *others = alternatives
    filled = [(position, term) for position, term in enumerate(terms) if not is_empty(term)]
    for position, _ in filled:
        for where, requirements in first.items():
            for requirement in requirements:
                patch.put((*TERMS_PATH, position, where, END), requirement)
    for alternative in others:
        for _, term in filled:
            patch.put((*TERMS_PATH, END), _anded(term, alternative))


def within_bounds(constraint: Constraint, terms: Sequence[Mapping[str, Any] | None] | None) -> Constraint:
    """The constraint with as many alternatives as can be added to each of these terms within the limits.

    Fewer alternatives allow fewer nodes. Nodes that are no longer excluded are checked at the binding.
    """
    if not terms:
        return constraint
    size = sum(1 + len(term.get(EXPRESSIONS) or ()) + len(term.get(FIELDS) or ()) for term in terms if term)
    kept = constraint.alternatives[: max(1, MAX_ADDED // max(size, 1))]
    most = max(1, MAX_ADDED // len(terms))
    cut = tuple({where: requirements[:most] for where, requirements in term.items()} for term in kept)
    return Constraint(cut, constraint.preferred)


def _anded(term: Mapping[str, Any], more: Mapping[str, Any]) -> Term:
    """A copy of the term with these requirements added, and without empty lists."""
    held = {where: requirements for where, requirements in term.items() if requirements}
    return held | {where: [*held.get(where, ()), *requirements] for where, requirements in more.items()}


def is_empty(term: Mapping[str, Any] | None) -> bool:
    """Whether a term has no requirement, and so matches no node."""
    return not term or not (term.get(EXPRESSIONS) or term.get(FIELDS))


def required_terms(pod: Mapping[str, Any]) -> list[Any] | None:
    """The pod's required terms; None if it requires nothing. An empty list matches no node, like an empty term."""
    required = node_affinity(pod).get(REQUIRED)
    return None if required is None else list(required.get("nodeSelectorTerms") or ())


def node_affinity(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod's `spec.affinity.nodeAffinity`; {} if absent or null."""
    spec: Mapping[str, Any] = pod.get("spec") or {}
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}


def check_only_appended(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raise PatchError unless the node affinity still has everything that it had before, in the same place."""
    terms_before, terms_after = required_terms(before) or [], required_terms(after) or []
    preferred_before, preferred_after = (node_affinity(pod).get(PREFERRED) or [] for pod in (before, after))
    kept = preferred_after[: len(preferred_before)] == preferred_before and len(terms_after) >= len(terms_before)
    for old, new in zip(terms_before, terms_after, strict=False):
        if is_empty(old):
            kept = kept and is_empty(new)
            continue
        for where in (EXPRESSIONS, FIELDS):
            requirements = old.get(where) or []
            kept = kept and (new.get(where) or [])[: len(requirements)] == requirements
    if not kept:
        raise PatchError("the patch would change what the user wrote in the pod's node affinity")


NODE_SELECTOR_PATH: Final = ("spec", "nodeSelector")

# Written by kubectl and other clients that apply client-side.
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def may_be_applied_again(raw: Mapping[str, Any]) -> bool:
    """Whether the pod has no controller, so that its user may apply its manifest again."""
    return not any(owner.get("controller") for owner in raw["metadata"].get("ownerReferences") or ())


def terms_are_fixed(raw: Mapping[str, Any]) -> bool:
    """Whether the pod has required terms of its own that must not change."""
    return required_terms(raw) is not None and may_be_applied_again(raw)


def kept_by_a_merge(raw: Mapping[str, Any], constraint: Constraint) -> Constraint:
    """The part of the constraint that can be added to a gated pod without changing its user's own fields."""
    if not may_be_applied_again(raw):
        return constraint
    own = node_affinity(raw)
    return Constraint(
        () if required_terms(raw) is not None else constraint.alternatives,
        () if own.get(PREFERRED) else constraint.preferred,
    )


def selects(raw: Mapping[str, Any]) -> Mapping[str, str]:
    """The pod's nodeSelector; {} if absent or null."""
    return (raw.get("spec") or {}).get("nodeSelector") or {}


def select(patch: Patch, hostname: str) -> bool:
    """Pin the pod of the patch to the node with this hostname; False if its nodeSelector names another one."""
    held = selects(patch.document).get(HOSTNAME_LABEL)
    if held is None:
        patch.put((*NODE_SELECTOR_PATH, HOSTNAME_LABEL), hostname)
    return held in {None, hostname}


def warnings_of(raw: Mapping[str, Any], *, gated: bool, constraint: Constraint) -> Iterator[str]:
    """Warnings for the user who applies a manifest of a pod that cannot be applied again.

    constraint: what is added to the pod now.
    """
    client_side = (raw["metadata"].get("annotations") or {}).get(_LAST_APPLIED, "")
    server_side = [one for one in raw["metadata"].get("managedFields") or () if one.get("operation") == "Apply"]
    if not may_be_applied_again(raw) or not (client_side or server_side):
        return
    if MANAGED_FIELDS in client_side or MANAGED_FIELDS in repr(server_side):
        yield (
            f"this manifest cannot be applied again once the pod is placed: it was exported, and contains what was "
            f"added to another pod ({MANAGED_FIELDS}). Apply the manifest that was written by hand."
        )
    elif gated and server_side and selects(raw) and required_terms(raw) is not None:
        yield (
            "this manifest cannot be applied again with --server-side once the pod is placed: it has nodeSelector and "
            "required node affinity, and the node is added to nodeSelector. Move what nodeSelector says into the node "
            "affinity."
        )
    elif not gated and kept_by_a_merge(raw, constraint) != constraint:
        yield (
            "this manifest cannot be applied again: the nodes that fit are added to the pod's own node affinity, which "
            "cannot change any more. Use nodeSelector instead, or a controller that makes the pod."
        )
