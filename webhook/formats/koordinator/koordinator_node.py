"""What Koordinator says on a node: what it keeps for the system, how CPUs are bound there, and whether they are raised.

    annotation node.koordinator.sh/reservation                   {"resources":{"cpu":"2"},"reservedCPUs":"0-1",
                                                                  "applyPolicy":"Default"}
    label      node.koordinator.sh/cpu-bind-policy               FullPCPUsOnly, SpreadByPCPUs or None
    annotation node.koordinator.sh/resource-amplification-ratio  {"cpu":1.5}

1. Reserved amounts are no pod's. With the policy ReservedCPUsOnly they are not in the node's sums either.
2. The label binds the CPUs of pods whose CPUs Koordinator binds at all (`cpu_bind`).
3. Amplified CPUs are more than the machine has; a bound CPU counts several times then.

Source: koordinator apis/extension (node_reservation.go, node_resource_amplification.go, numa_aware.go),
pkg/util/node.go (TrimNodeAllocatableByNodeReservation).
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from webhook.formats.koordinator.cpu_bind import CPUBindPolicy
from webhook.formats.koordinator.cpu_topology import read_cpu_list
from webhook.model.errors import UserError
from webhook.model.names import (
    KOORDINATOR_AMPLIFICATION,
    KOORDINATOR_NODE_BIND_LABEL,
    KOORDINATOR_NODE_RESERVATION,
)
from webhook.model.resources import CPU, parse_list
from webhook.model.wording import quoted

_BIND_POLICIES: Final = {
    "FullPCPUsOnly": CPUBindPolicy.FULL_PCPUS,
    "SpreadByPCPUs": CPUBindPolicy.SPREAD_BY_PCPUS,
}
_NO_BIND_POLICY: Final = frozenset({"", "None"})
_IN_SUMS: Final = ("", "Default")
_CPUS_ONLY: Final = "ReservedCPUsOnly"
# A list of 8,192 CPUs, each by itself, has 40,000 characters.
_LONGEST: Final = 64 * 1024


def less_reserved(
    allocatable: Mapping[str, int], annotations: Mapping[str, str], problems: list[str]
) -> Mapping[str, int]:
    """The allocatable amounts without those that the node's annotation reserves."""
    if KOORDINATOR_NODE_RESERVATION not in annotations:
        return allocatable
    reserved = _reserved(annotations, problems)
    return {name: max(amount - reserved.get(name, 0), 0) for name, amount in allocatable.items()}


def _reserved(annotations: Mapping[str, str], problems: list[str]) -> dict[str, int]:
    raw = _object(annotations, KOORDINATOR_NODE_RESERVATION, problems)
    if raw is None:
        return {}
    if (applied := raw.get("applyPolicy") or "") not in _IN_SUMS:
        if applied != _CPUS_ONLY:
            policies = f"Default nor {_CPUS_ONLY}"
            problems.append(
                f"annotation {KOORDINATOR_NODE_RESERVATION}: applyPolicy {quoted(applied)} is neither {policies}"
            )
        return {}
    try:
        reserved = dict(parse_list(raw.get("resources"), f"annotation {KOORDINATOR_NODE_RESERVATION}"))
    except UserError as error:
        problems.extend(map(str, error.faults))
        reserved = {}
    if listed := raw.get("reservedCPUs"):
        if (cpus := read_cpu_list(listed)) is None:
            problems.append(f"annotation {KOORDINATOR_NODE_RESERVATION}: {quoted(listed)} is no list of CPUs")
        else:
            reserved[CPU] = 1000 * len(cpus)
    return reserved


def node_bind_policy(labels: Mapping[str, str], problems: list[str]) -> CPUBindPolicy | None:
    """The policy that the label requires; None for none, and for a value that Koordinator does not know."""
    named = labels.get(KOORDINATOR_NODE_BIND_LABEL, "")
    if named not in _BIND_POLICIES and named not in _NO_BIND_POLICY:
        allowed = ", ".join(_BIND_POLICIES)
        problems.append(
            f"label {KOORDINATOR_NODE_BIND_LABEL}: {quoted(named)} requires nothing: it is none of {allowed}"
        )
    return _BIND_POLICIES.get(named)


def is_amplified(annotations: Mapping[str, str], problems: list[str]) -> bool:
    """Whether the node's CPUs are amplified. An unreadable ratio counts as one: Koordinator places no CPUs there."""
    if not annotations.get(KOORDINATOR_AMPLIFICATION):
        return False
    raw = _object(annotations, KOORDINATOR_AMPLIFICATION, problems)
    ratio = 1 if raw is None else raw.get(CPU, 1)
    return raw is None or type(ratio) not in {int, float} or not ratio <= 1


def _object(annotations: Mapping[str, str], name: str, problems: list[str]) -> Mapping[str, Any] | None:
    text: object = annotations[name]
    try:
        raw = json.loads(text) if isinstance(text, str) and len(text) <= _LONGEST else None
    except (ValueError, RecursionError):
        raw = None
    if not isinstance(raw, dict):
        problems.append(f"annotation {name}: {quoted(text)} is not a JSON object")
        return None
    return raw
