"""A pod as nodes see it that do not exist yet: what it says of nodes by name does not concern them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from webhook.model.names import HOSTNAME_LABEL
from webhook.model.pod import Pod

_FIELDS, _EXPRESSIONS = "matchFields", "matchExpressions"
_NAME: Final = "metadata.name"
_Requirements = Sequence[Mapping[str, Any]]


def for_new_nodes(pod: Pod) -> Pod | None:
    """The pod without its requirements on the names of nodes; None if it requires one of the nodes that exist."""
    if HOSTNAME_LABEL in pod.node_selector:
        return None
    if not names_nodes(pod) or pod.required_terms is None:
        return pod
    terms = []
    for term in pod.required_terms:
        named = _naming(term)
        if any(one.get("operator") == "In" for one in named):
            continue  # this alternative is about existing nodes alone
        rest = {kind: kept for kind in (_EXPRESSIONS, _FIELDS) if (kept := _others(term, kind))}
        if named and not rest:
            return replace(pod, required_terms=None)  # every new node matches
        terms.append(rest if named else term)
    return replace(pod, required_terms=tuple(terms)) if terms else None


def names_nodes(pod: Pod) -> bool:
    """Whether it selects nodes by their names or host names, or excludes some: Karpenter ignores such a pod.

    Source: karpenter pkg/controllers/provisioning/provisioner.go (Validate), pkg/scheduling/requirements.go.
    """
    return HOSTNAME_LABEL in pod.node_selector or any(_naming(term) for term in pod.required_terms or ())


def _naming(term: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The requirements of a term that name nodes."""
    return [
        one
        for kind in (_EXPRESSIONS, _FIELDS)
        for one in term.get(kind) or ()
        if one.get("key") == (HOSTNAME_LABEL if kind == _EXPRESSIONS else _NAME)
        and one.get("operator") in {"In", "NotIn"}
    ]


def _others(term: Mapping[str, Any], kind: str) -> _Requirements:
    named = _naming(term)
    return [one for one in term.get(kind) or () if one not in named]
