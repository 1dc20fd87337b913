"""What the placement controller writes into a gated pod, as one JSON patch each.

- `placing`: its node, exactly, its NUMA nodes, what people read, and the gate away.
- `releasing`: the gate away without a place, held to a set of nodes.
- `telling`: why it still waits, and in which group.
And one that was bound without a hint gets it afterwards: `hinting`.

Each patch holds the resource version it was made from, so what was decided on an old pod is refused (409) and decided
anew. What the API server allows behind a gate: required terms that are there are only added to, each, and stay as many.
Source: kubernetes pkg/apis/core/validation (validateNodeAffinityMutation); KEP-3838.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from webhook.admission.affinity import Constraint, NodeRef, check_only_appended, constrain, one_of, required_terms
from webhook.admission.gate import set_gate
from webhook.admission.marker import Marker
from webhook.admission.patch import Operation, Patch
from webhook.admission.placement_text import annotated
from webhook.model.hint import NUMAHint, NUMANodeAmounts, resource_status_to_json
from webhook.model.names import NUMA_HINT, PLACEMENT, POD_GROUP_NAME, RESOURCE_STATUS, STEERED


def placing(
    raw: Mapping[str, Any],
    hint: NUMAHint,
    text: str,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> tuple[Operation, ...]:
    """The patch that places a gated pod; `annotations` and `labels` are those of its group."""
    patch = Patch(raw)
    # By name, which the scheduler looks up instead of filtering all nodes.
    _constrain(patch, Constraint(one_of([NodeRef(hint.node, None)])))
    for name, value in {**_outputs(hint), PLACEMENT: annotated(text), **(annotations or {})}.items():
        patch.put(("metadata", "annotations", name), value)
    for name, value in (labels or {}).items():
        patch.put(("metadata", "labels", name), value)
    set_gate(patch, wanted=False)
    return _at_version(raw, patch)


def releasing(
    raw: Mapping[str, Any], constraint: Constraint, text: str, annotations: Mapping[str, str] | None = None
) -> tuple[Operation, ...]:
    """The patch that lets a gated pod go; alternatives are not written if there are terms, which must stay as many."""
    patch = Patch(raw)
    if len(constraint.alternatives) > 1 and required_terms(raw) is not None:
        constraint = replace(constraint, alternatives=())
    _constrain(patch, constraint)
    for name, value in {PLACEMENT: annotated(text), **(annotations or {})}.items():
        patch.put(("metadata", "annotations", name), value)
    set_gate(patch, wanted=False)
    return _at_version(raw, patch)


def telling(raw: Mapping[str, Any], text: str, group: str | None = None) -> tuple[Operation, ...]:
    """The patch that says why the pod waits, and the name of its group; empty when it says so already."""
    wanted = {PLACEMENT: annotated(text), **({POD_GROUP_NAME: group} if group else {})}
    if wanted.items() <= (raw["metadata"].get("annotations") or {}).items():
        return ()
    patch = Patch(raw)
    for name, value in wanted.items():
        patch.put(("metadata", "annotations", name), value)
    return _at_version(raw, patch)


def hinting(raw: Mapping[str, Any], hint: NUMAHint) -> tuple[Operation, ...]:
    """The patch that gives a bound pod the hint it lacks; empty when it lacks nothing."""
    patch = Patch(raw)
    present = raw["metadata"].get("annotations") or {}
    for name, value in _outputs(hint).items():
        if name not in present:
            patch.put(("metadata", "annotations", name), value)
    return _at_version(raw, patch) if patch.operations else ()


def _outputs(hint: NUMAHint) -> dict[str, str]:
    """For node agents and for us: which NUMA nodes, and what of each."""
    held: NUMANodeAmounts = hint.numa_nodes
    return {NUMA_HINT: hint.to_json(), **({RESOURCE_STATUS: resource_status_to_json(held)} if held else {})}


def _constrain(patch: Patch, constraint: Constraint) -> None:
    before = patch.document
    marker = Marker.of(constraint, len(required_terms(before) or ()))
    constrain(patch, constraint)
    check_only_appended(before, patch.document)
    if marker:
        patch.put(("metadata", "annotations", STEERED), marker.text())


def _at_version(raw: Mapping[str, Any], patch: Patch) -> tuple[Operation, ...]:
    version = {"op": "replace", "path": "/metadata/resourceVersion", "value": raw["metadata"]["resourceVersion"]}
    return (version, *patch.operations)
