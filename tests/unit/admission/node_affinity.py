"""Node affinity as kube-scheduler reads it and as the API server validates it, for the tests to check ours against.

Source: k8s.io/component-helpers scheduling/corev1/nodeaffinity; kubernetes pkg/apis/core/validation.
"""

from collections.abc import Mapping
from typing import Any

from webhook.formats.patches.affinity_patch import PREFERRED, REQUIRED


def admits(pod: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """Whether the pod's required node affinity lets it onto a node."""
    required = _node_affinity(pod).get(REQUIRED)
    return required is None or any(_term_holds(term, name, labels) for term in required["nodeSelectorTerms"])


def _term_holds(term: Mapping[str, Any] | None, name: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = (term or {}).get("matchExpressions") or [], (term or {}).get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(_holds(one, labels) for one in expressions) and all(
        _holds(one, {"metadata.name": name}) for one in fields
    )


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    has = requirement["key"] in labels and labels[requirement["key"]] in requirement["values"]
    return has if requirement["operator"] == "In" else not has


def faults(pod: Mapping[str, Any]) -> list[str]:
    """What the API server would refuse in the pod's node affinity."""
    affinity = _node_affinity(pod)
    found = []
    required = affinity.get(REQUIRED)
    if required is not None and not required.get("nodeSelectorTerms"):
        found.append("required: at least one term")
    weighted = affinity.get(PREFERRED) or []
    found += [f"weight {one['weight']}" for one in weighted if not 1 <= one["weight"] <= 100]
    for term in [*((required or {}).get("nodeSelectorTerms") or []), *(one["preference"] for one in weighted)]:
        for requirement in (term or {}).get("matchExpressions") or []:
            if not requirement["values"]:
                found.append("expression without values")
        for requirement in (term or {}).get("matchFields") or []:
            if requirement["key"] != "metadata.name" or len(requirement["values"]) != 1:
                found.append(f"field {requirement}")
    return found


def _node_affinity(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return ((pod["spec"].get("affinity") or {}).get("nodeAffinity")) or {}
