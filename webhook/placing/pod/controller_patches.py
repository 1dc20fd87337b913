"""The JSON patches that the leader's controllers write into pods.

- `assignment_patch` assigns a gated pod: the node, its NUMA nodes, the placement text, and the removal of the gate.
  `affinity_patch` explains how it pins the pod to the node.
- `ungate_patch` removes the gate without an assignment, and limits the pod to a set of nodes, or to a domain.
- `narrow_patch` keeps a gated pod off some nodes, and leaves the gate.
- `status_patch` writes why a gated pod still waits, and its gang.
- `shard_patch` moves a gated pod to the shard of another leader.
- `forget_patch` releases the reservation of an assigned pod that the scheduler cannot bind.
- `allocation_patch` adds the allocation of a pod that was bound without one.
- `correcting` corrects or removes the allocation of a bound pod.

Each patch except the last contains the resource version it was made from. The API server rejects a patch of an old
version (409), and the pod is decided on again. The API server only allows required terms of a gated pod to be extended,
and their number to stay the same.
Source: kubernetes pkg/apis/core/validation (validateNodeAffinityMutation); KEP-3838.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from webhook.formats.koordinator.numa_allocation import (
    NUMAAllocation,
    NUMANodeAmounts,
    names_numa_nodes_only,
    parse_resource_status,
    resource_status_to_json,
)
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.patches.affinity_patch import (
    NODE_SELECTOR_PATH,
    Constraint,
    NodeRef,
    check_only_appended,
    constrain,
    kept_by_a_merge,
    one_of,
    required_terms,
    select,
    selects,
    terms_are_fixed,
    within_bounds,
)
from webhook.formats.patches.json_patch import Operation, Patch
from webhook.formats.patches.managed_fields import ManagedFields
from webhook.formats.shard_choice import ShardChoice
from webhook.model.errors import UserError
from webhook.model.names import (
    MANAGED_FIELDS,
    NUMA_ALLOCATION,
    NUMA_SIGNATURE,
    PLACEMENT,
    POD_GROUP_NAME,
    RESOURCE_STATUS,
    SHARD,
)
from webhook.placing.pod import placement_text
from webhook.placing.pod.gate import set_gate
from webhook.placing.pod.node_names import within_domain
from webhook.placing.pod.placement_text import affinity_added, annotated


def assignment_patch(
    raw: Mapping[str, Any],
    allocation: NUMAAllocation,
    text: str,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    hostname: str | None = None,
) -> tuple[Operation, ...]:
    """The patch that assigns a gated pod.

    annotations, labels: those of its gang. hostname: the node's hostname label; None if missing or shared.
    """
    patch = Patch(raw)
    if terms_are_fixed(raw) and hostname is not None and select(patch, hostname):
        if patch.operations:
            managed_fields = ManagedFields.of_hostname(hostname).after(raw)
            patch.put(("metadata", "annotations", MANAGED_FIELDS), managed_fields.text())
    else:
        # The scheduler looks up a node by its name without filtering all nodes.
        _constrain(patch, Constraint(one_of([NodeRef(allocation.node, None)])))
    said = annotated(text, affinity_added(patch.document))
    for name, value in {**_outputs(allocation), PLACEMENT: said, **(annotations or {})}.items():
        patch.put(("metadata", "annotations", name), value)
    for name, value in (labels or {}).items():
        patch.put(("metadata", "labels", name), value)
    set_gate(patch, wanted=False)
    return _at_version(raw, patch)


def ungate_patch(
    raw: Mapping[str, Any],
    constraint: Constraint,
    text: str,
    annotations: Mapping[str, str] | None = None,
    without: Iterable[str] = (),
    domain: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Operation, ...]:
    """The patch that ungates a pod. Alternatives are omitted if the pod has terms, because their number is fixed.

    without: annotations to remove. domain: node labels of the domain that the pod must stay in.
    """
    patch = Patch(raw)
    constraint = kept_by_a_merge(raw, constraint)
    if len(constraint.alternatives) > 1 and required_terms(raw) is not None:
        constraint = replace(constraint, alternatives=())
    if terms_are_fixed(raw):
        for label in domain.keys() - selects(raw).keys():
            patch.put((*NODE_SELECTOR_PATH, label), domain[label])
    else:
        constraint = within_domain(constraint, domain)
    _constrain(patch, constraint)
    for name, value in {PLACEMENT: annotated(text, affinity_added(patch.document)), **(annotations or {})}.items():
        patch.put(("metadata", "annotations", name), value)
    for name in without:
        if name in (raw["metadata"].get("annotations") or {}):
            patch.remove(("metadata", "annotations", name))
    set_gate(patch, wanted=False)
    return _at_version(raw, patch)


def narrow_patch(raw: Mapping[str, Any], constraint: Constraint) -> tuple[Operation, ...]:
    """The patch that limits a pod that stays gated. constraint: of one alternative."""
    patch = Patch(raw)
    _constrain(patch, constraint)
    before, after = affinity_added(raw), affinity_added(patch.document)
    said = (raw["metadata"].get("annotations") or {}).get(PLACEMENT, "").removesuffix(annotated("", before))
    patch.put(("metadata", "annotations", PLACEMENT), said + annotated("", after))
    return _at_version(raw, patch)


def status_patch(raw: Mapping[str, Any], text: str, group: str | None = None) -> tuple[Operation, ...]:
    """The patch with the reason why the pod waits, and the name of its gang; empty if nothing changes."""
    wanted = {PLACEMENT: annotated(text, affinity_added(raw)), **({POD_GROUP_NAME: group} if group else {})}
    if wanted.items() <= (raw["metadata"].get("annotations") or {}).items():
        return ()
    patch = Patch(raw)
    for name, value in wanted.items():
        patch.put(("metadata", "annotations", name), value)
    return _at_version(raw, patch)


def shard_patch(raw: Mapping[str, Any], choice: ShardChoice) -> tuple[Operation, ...]:
    """The patch that moves a gated pod, and the unit whose oldest pod it is, to another shard."""
    patch = Patch(raw)
    patch.put(("metadata", "annotations", SHARD), choice.text())
    return _at_version(raw, patch)


def forget_patch(
    raw: Mapping[str, Any], allocation: NUMAAllocation, signature: str, text: str
) -> tuple[Operation, ...]:
    """The patch that releases an assigned pod's reservation. allocation: the one without the reservation."""
    patch = Patch(raw)
    said = annotated(text, affinity_added(raw))
    for name, value in {NUMA_ALLOCATION: allocation.to_json(), NUMA_SIGNATURE: signature, PLACEMENT: said}.items():
        patch.put(("metadata", "annotations", name), value)
    if RESOURCE_STATUS in raw["metadata"]["annotations"]:
        patch.remove(("metadata", "annotations", RESOURCE_STATUS))
    return _at_version(raw, patch)


def allocation_patch(raw: Mapping[str, Any], allocation: NUMAAllocation) -> tuple[Operation, ...]:
    """The patch that adds the missing allocation of a bound pod; empty if it has a valid one.

    A resource status without NUMA nodes (Koordinator's cpuset) stays.
    """
    try:
        if ResidentPod.from_object(raw).allocation is not None:
            return ()
    except UserError:
        return ()  # it cannot be parsed, so its resources are unknown
    patch = Patch(raw)
    status = (raw["metadata"].get("annotations") or {}).get(RESOURCE_STATUS)
    for name, value in _outputs(allocation).items():
        if name != RESOURCE_STATUS or status is None or _names_numa_nodes(status):
            patch.put(("metadata", "annotations", name), value)
    return _at_version(raw, patch)


def correcting(raw: Mapping[str, Any], node: str, numa_nodes: NUMANodeAmounts | None) -> tuple[Operation, ...]:
    """The patch that sets or removes a bound pod's allocation; empty if nothing changes, or if it is not ours.

    A resource status with more than NUMA nodes (Koordinator's cpuset) stays.
    """
    annotations: Mapping[str, str] = raw["metadata"].get("annotations") or {}
    held = annotations.get(NUMA_ALLOCATION)
    status = annotations.get(RESOURCE_STATUS)
    if held is None and (numa_nodes is None or status is not None):
        return ()
    patch = Patch(raw)
    wanted: dict[str, str | None] = {NUMA_ALLOCATION: None, RESOURCE_STATUS: None}
    if numa_nodes is not None:
        wanted |= _outputs(NUMAAllocation(node, numa_nodes))
    if status is not None and not names_numa_nodes_only(status):
        del wanted[RESOURCE_STATUS]
    numa_ids = None if numa_nodes is None else [numa_id for numa_id, _ in numa_nodes]
    said = placement_text.located(annotations.get(PLACEMENT, ""), node, numa_ids)
    if said is not None:
        wanted[PLACEMENT] = said
    for name, value in wanted.items():
        if value is None and name in annotations:
            patch.remove(("metadata", "annotations", name))
        elif value is not None and value != annotations.get(name):
            patch.put(("metadata", "annotations", name), value)
    # Only we write these annotations. The version is not checked, so that a status update is no conflict.
    same = {"op": "replace", "path": "/metadata/uid", "value": raw["metadata"].get("uid", "")}
    return (same, *patch.operations) if patch.operations else ()


def _names_numa_nodes(status: str) -> bool:
    try:
        return bool(parse_resource_status(status))
    except UserError:
        return True


def _outputs(allocation: NUMAAllocation) -> dict[str, str]:
    """The annotations with the NUMA nodes and the amounts, for node agents and for us."""
    held: NUMANodeAmounts = allocation.numa_nodes
    return {NUMA_ALLOCATION: allocation.to_json(), **({RESOURCE_STATUS: resource_status_to_json(held)} if held else {})}


def _constrain(patch: Patch, constraint: Constraint) -> None:
    before = patch.document
    terms = required_terms(before)
    constraint = within_bounds(constraint, terms)
    managed_fields = ManagedFields.of(constraint, len(terms or ())).after(before)
    constrain(patch, constraint)
    check_only_appended(before, patch.document)
    if managed_fields:
        patch.put(("metadata", "annotations", MANAGED_FIELDS), managed_fields.text())


def _at_version(raw: Mapping[str, Any], patch: Patch) -> tuple[Operation, ...]:
    version = {"op": "replace", "path": "/metadata/resourceVersion", "value": raw["metadata"]["resourceVersion"]}
    return (version, *patch.operations)
