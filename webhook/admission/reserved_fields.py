"""Reserved fields: only this service and trusted users may write them, because node agents and reservations obey them.

- Annotations and labels under `topology-webhook.dev/` except those that request something, and
  `scheduling.koordinator.sh/resource-status`, by which koordlet moves a pod to the CPUs of a NUMA node: other users may
  not set, change or remove them.
- Our scheduling gate: other users may not remove it. They may add it, which only makes their own pod wait.
- Break-glass: members of the trusted groups may remove the gate and change `placement`, which then says so. They may
  write no other reserved field.
- What mutation writes at a pod's creation may be in the created pod (`review -o yaml | kubectl apply -f -` sends it):
  mutation overwrites it.
- A Binding's annotations become those of the pod, so the same rules apply to them.

With the chart's ValidatingAdmissionPolicies, the API server enforces the same rules by itself.

Source: kubernetes pkg/registry/core/pod/storage (assignPod merges a Binding's annotations and labels into the pod).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from webhook.formats.kubernetes.admission_review import AdmissionRequest, Operation
from webhook.formats.kubernetes.gates import has_gate
from webhook.model.errors import UserError, UserErrors
from webhook.model.names import (
    DOMAIN,
    EPOCH,
    INHERIT,
    INJECT_ENV,
    KUBELET_OPTIONS,
    LOST_NODES,
    MANAGED,
    MANAGED_FIELDS,
    MIN_MEMBER,
    NUMA_ALLOCATION,
    NUMA_DEFAULTS,
    NUMA_SIGNATURE,
    OUR_DOMAIN,
    PCIE_ROOT,
    PLACEMENT,
    PLACEMENT_GATE,
    RANK,
    RESOURCE_STATUS,
    SCHEDULING_GROUP,
    SHARD,
    STRATEGY,
)
from webhook.model.raw import Raw
from webhook.model.wording import counted, nearest
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_not_mutated

_BY_MUTATION: Final = frozenset({MANAGED, NUMA_DEFAULTS, PLACEMENT, MANAGED_FIELDS, SCHEDULING_GROUP, SHARD})
# Under our domain, but written by users.
_BY_USERS: Final = frozenset({INHERIT, INJECT_ENV, KUBELET_OPTIONS, MIN_MEMBER, PCIE_ROOT, STRATEGY})

OUTPUTS: Final = frozenset(
    {
        DOMAIN,
        EPOCH,
        LOST_NODES,
        MANAGED,
        NUMA_DEFAULTS,
        NUMA_ALLOCATION,
        NUMA_SIGNATURE,
        PLACEMENT,
        RANK,
        RESOURCE_STATUS,
        MANAGED_FIELDS,
        SCHEDULING_GROUP,
        SHARD,
    }
)
"""The fixed names that we write. The chart's policies and match conditions list these. Other names under our domain,
such as those of levels, are only checked if the webhook is called for another reason."""


# An object has room for tens of thousands.
_MOST_TOLD: Final = 5


def forgery(request: AdmissionRequest, rules: Rules) -> UserError | None:
    """The reserved fields that the user must not write in this pod or Binding; None if there are none."""
    user = request.user.username
    if user in rules.trusted_users:
        return None
    faults = [*_changes(request, rules, user), *_removed_gate(request, rules, user)]
    if len(faults) > 1:
        return UserErrors(faults)
    return faults[0] if faults else None


def is_output(name: str) -> bool:
    """Whether only we may write an annotation of this name, also in a pod template."""
    return _is_ours(name) and name not in _BY_MUTATION


def _changes(request: AdmissionRequest, rules: Rules, user: str) -> Iterator[UserError]:
    creates = request.operation is Operation.CREATE
    rewritten = creates and request.kind == "Pod" and why_not_mutated(request.object, rules) is None
    for field in ("annotations", "labels"):
        before, after = _metadata(request.old_object, field), _metadata(request.object, field)
        ours = sorted(filter(_is_ours, before.keys() | after.keys()))
        changed = [name for name in ours if before.get(name) != after.get(name)]
        forged = [name for name in changed if not (rewritten and name in _BY_MUTATION)]
        if field == "annotations" and _breaks_glass(request, rules):
            forged = [name for name in forged if name != PLACEMENT]
        if more := len(forged[_MOST_TOLD:]):
            yield UserError(
                f"metadata.{field}",
                f"{counted(len(forged), 'name')} here only topology-webhook may write: {more} beside the following.",
            )
        for name in forged[:_MOST_TOLD]:
            place = f"metadata.{field}[{name}]"
            if name not in after:
                yield UserError(place, f"topology-webhook wrote this, and {user} may not remove it. Leave it as it is.")
            elif name in before:
                yield UserError(place, f"topology-webhook wrote this, and {user} may not change it. Leave it as it is.")
            else:
                meant = "" if name in OUTPUTS else _did_you_mean(name)
                yield UserError(
                    place, f"Only topology-webhook writes this, and {user} may not set it. Leave it out.{meant}"
                )


def _did_you_mean(name: str) -> str:
    # Without the domain: it would make all names similar.
    said = nearest(name.removeprefix(OUR_DOMAIN), (one.removeprefix(OUR_DOMAIN) for one in sorted(_BY_USERS)))
    return "" if said is None else f" Did you mean {OUR_DOMAIN}{said}?"


def _breaks_glass(request: AdmissionRequest, rules: Rules) -> bool:
    return request.operation is Operation.UPDATE and not rules.trusted_groups.isdisjoint(request.user.groups)


def _removed_gate(request: AdmissionRequest, rules: Rules, user: str) -> Iterator[UserError]:
    if request.operation is not Operation.UPDATE or _breaks_glass(request, rules):
        return
    if has_gate(request.old_object) and not has_gate(request.object):
        yield UserError(
            "spec.schedulingGates",
            f"topology-webhook removes the gate {PLACEMENT_GATE} when it has placed the pod, and {user} may not. "
            "To stop it from waiting, delete the pod.",
        )


def _is_ours(name: str) -> bool:
    return (name.startswith(OUR_DOMAIN) and name not in _BY_USERS) or name == RESOURCE_STATUS


def _metadata(raw: Raw, field: str) -> Mapping[str, str]:
    return (raw.get("metadata") or {}).get(field) or {}
