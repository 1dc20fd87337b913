"""How a pod is pinned to its node so that its manifest can be applied again.

A pod without a controller may come from a manifest that its user applies again. Once the pod has no gate, the API
server rejects every change of its affinity and nodeSelector. So our additions must survive a merge:

- `kubectl apply` resets what the manifest has, and merges maps by key. A list of terms is one value.
- `kubectl apply --server-side` takes nodeSelector as one value as well.

    the manifest has         we write                      client-side   server-side
    neither, or preferences  required node affinity        repeatable    repeatable
    nodeSelector             required node affinity        repeatable    repeatable
    required node affinity   nodeSelector                  repeatable    repeatable
    both                     nodeSelector                  repeatable    refused, with a warning

So a gated pod's own lists of terms are not changed. nodeSelector can name a node only by its hostname label. If that is
missing or shared, or the pod gets no gate, we extend the terms anyway.

Source: k8s.io/api core/v1 (`nodeSelector` +mapType=atomic, NodeSelector +structType=atomic,
`preferredDuringSchedulingIgnoredDuringExecution` +listType=atomic; none of them has a patchStrategy); kubernetes
pkg/apis/core/validation (validateNodeSelectorMutation, validateNodeAffinityMutation).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from webhook.formats.patches.affinity_patch import PREFERRED, Constraint, node_affinity, required_terms
from webhook.formats.patches.json_patch import Patch
from webhook.model.names import HOSTNAME_LABEL, MANAGED_FIELDS

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
