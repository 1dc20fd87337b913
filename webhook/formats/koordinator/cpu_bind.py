"""How Koordinator binds CPUs to physical cores: what a pod's annotation `resource-spec` asks for, and which pods may.

    scheduling.koordinator.sh/resource-spec  {"requiredCPUBindPolicy": "FullPCPUs"}

1. CPUs are bound for pods with the label `koordinator.sh/qosClass` LSE or LSR whose priority is that of koord-prod.
   Koordinator ignores the fields of all other pods.
2. The required policy must hold. Without one the preferred one (FullPCPUs by default) is a wish, and a node may
   require its own (`engine.cpu_cores`).
3. Only whole CPUs can be bound.

Source: koordinator apis/extension (resource.go, numa_aware.go, qos.go, priority.go, priority_utils.go),
pkg/scheduler/plugins/nodenumaresource (plugin.go PreFilter, util.go AllowUseCPUSet).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webhook.model.names import KOORDINATOR_PRIORITY_CLASS_LABEL, KOORDINATOR_QOS_LABEL

REQUIRED_FIELD: Final = "requiredCPUBindPolicy"
PREFERRED_FIELD: Final = "preferredCPUBindPolicy"
EXCLUSIVE_CPU_FIELD: Final = "preferredCPUExclusivePolicy"

_BOUND_QOS: Final = frozenset({"LSE", "LSR"})
_PROD: Final = "koord-prod"
# Each class has a thousand priorities from its first one on.
_CLASSES: Final = {9000: _PROD, 7000: "koord-mid", 5000: "koord-batch", 3000: "koord-free"}
_PRIORITIES_OF_A_CLASS: Final = 1000
_NAMED: Final = frozenset(_CLASSES.values())


class CPUBindPolicy(StrEnum):
    """Which CPUs of a physical core a pod gets."""

    DEFAULT = "Default"
    """That of Koordinator's scheduler, FullPCPUs unless configured."""
    FULL_PCPUS = "FullPCPUs"
    """All CPUs of each of its physical cores."""
    SPREAD_BY_PCPUS = "SpreadByPCPUs"
    """One CPU of each of its physical cores."""
    CONSTRAINED_BURST = "ConstrainedBurst"
    """No CPUs of its own: a part of the shared pool."""


class CPUExclusivePolicy(StrEnum):
    """Which pods Koordinator's scheduler tries to keep off the same cores or NUMA nodes."""

    NONE = "None"
    PCPU_LEVEL = "PCPULevel"
    NUMA_NODE_LEVEL = "NUMANodeLevel"


NO_POLICY: Final = "None"
"""What Koordinator's manual names for no wish at all, although its API has no constant for it."""

ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    REQUIRED_FIELD: tuple(CPUBindPolicy),
    PREFERRED_FIELD: (NO_POLICY, *CPUBindPolicy),
    EXCLUSIVE_CPU_FIELD: tuple(CPUExclusivePolicy),
}
"""The fields and their values; an empty value is the same as none."""


@dataclass(frozen=True, slots=True)
class CPUBindSpec:
    """What the annotation asks for; None where it asks for nothing."""

    required: CPUBindPolicy | None = None
    preferred: CPUBindPolicy | None = None
    exclusive: CPUExclusivePolicy | None = None


NO_CPU_BIND: Final = CPUBindSpec()


@dataclass(frozen=True, slots=True)
class CPUBind:
    """The CPUs of a pod are bound to physical cores."""

    required: CPUBindPolicy | None
    """FULL_PCPUS or SPREAD_BY_PCPUS; None: only what a node requires must hold."""


def cpu_bind_of(spec: CPUBindSpec, labels: Mapping[str, str], priority: int, cpu: int) -> CPUBind | None:
    """How the CPUs of a pod are bound; None if they are not. cpu: all that it requests, in millicores.

    A request that is not whole is bound only if the pod requires a policy: no node can then hold it.
    """
    if cpu <= 0 or not may_be_bound(labels, priority):
        return None
    required = required_policy(spec)
    policy = required or spec.preferred or CPUBindPolicy.DEFAULT
    if policy is CPUBindPolicy.CONSTRAINED_BURST:
        return None
    return None if required is None and cpu % 1000 else CPUBind(required)


def required_policy(spec: CPUBindSpec) -> CPUBindPolicy | None:
    """The required policy, with the default resolved."""
    return CPUBindPolicy.FULL_PCPUS if spec.required is CPUBindPolicy.DEFAULT else spec.required


def may_be_bound(labels: Mapping[str, str], priority: int) -> bool:
    """Whether Koordinator binds the CPUs of pods with these labels and this priority."""
    return labels.get(KOORDINATOR_QOS_LABEL) in _BOUND_QOS and _priority_class(labels, priority) == _PROD


def _priority_class(labels: Mapping[str, str], priority: int) -> str:
    """The class by its label, else by the priority; that of LSE and LSR without either is koord-prod."""
    if KOORDINATOR_PRIORITY_CLASS_LABEL in labels:
        name = labels[KOORDINATOR_PRIORITY_CLASS_LABEL]
        return name if name in _NAMED else _PROD
    return _CLASSES.get(priority // _PRIORITIES_OF_A_CLASS * _PRIORITIES_OF_A_CLASS, _PROD)
