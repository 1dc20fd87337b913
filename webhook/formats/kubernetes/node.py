"""A node as the engine reads it: labels, taints, readiness, allocatable amounts, Koordinator's policy label."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from webhook.formats.koordinator.cpu_bind import CPUBindPolicy
from webhook.formats.koordinator.koordinator_node import is_amplified, less_reserved, node_bind_policy
from webhook.formats.kubernetes.kubelet_options import NO_OPTIONS, KubeletOptions, stated_options
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.model.errors import UserError
from webhook.model.fields import NO_FIELDS
from webhook.model.names import KOORDINATOR_NODE_POLICY_LABEL
from webhook.model.policy import NUMAPolicy, read_policy
from webhook.model.resources import MAX_AMOUNT, NO_RESOURCES, is_device, largest_share, parse_list
from webhook.model.wording import MAX_NODE_RESOURCES, MAX_TAINTS, counted, quoted, told
from webhook.records import record

PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
"""The effect of a soft taint, which never excludes a pod."""


@dataclass(frozen=True, slots=True)
class Taint:
    """One taint."""

    key: str
    value: str
    effect: str


@record
class Node:
    """A node, parsed once from its JSON object. Amounts in engine units."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: bool
    """False if the node reports that it is not ready; without a Ready condition a node counts as ready."""
    allocatable: Mapping[str, int]
    policy_label: NUMAPolicy | None
    """Koordinator's label `node.koordinator.sh/numa-topology-policy`; None if absent, empty or unknown."""
    unknown_policy: str = ""
    """The label and its value if the value is not a policy; empty otherwise."""
    devices_away: Mapping[str, int] = field(default_factory=lambda: NO_RESOURCES)
    """Device -> how many of them its kubelet knows and does not offer now; MAX_AMOUNT = it does not say how many."""
    problems: tuple[str, ...] = ()
    """What could not be read, as sentences for a log."""
    cpu_bind: CPUBindPolicy | None = None
    """What Koordinator's label `node.koordinator.sh/cpu-bind-policy` requires of bound CPUs."""
    amplified: bool = False
    """Koordinator amplifies its CPUs: `allocatable` has more than the machine."""
    kubelet: KubeletOptions = NO_OPTIONS
    """The options of its kubelet that an operator states."""
    ready_since: int = 0
    """When it became ready, in seconds since the epoch; 0 = it is not, or it is not known. A kubelet that restarts is
    not ready for a moment."""
    created: int = 0
    """When it was created, in seconds since the epoch; 0 = not known."""

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "Node":
        """Read a node object; unusable values are named in `problems`."""
        metadata: Mapping[str, Any] = raw.get("metadata") or NO_FIELDS
        spec: Mapping[str, Any] = raw.get("spec") or NO_FIELDS
        status: Mapping[str, Any] = raw.get("status") or NO_FIELDS
        labels: Mapping[str, str] = metadata.get("labels") or NO_FIELDS
        annotations: Mapping[str, str] = metadata.get("annotations") or NO_FIELDS
        problems: list[str] = []
        policy_label, unknown_policy = _policy_label(labels, problems)
        return cls(
            name=metadata.get("name", ""),
            labels=labels,
            taints=_taints(spec, problems),
            unschedulable=bool(spec.get("unschedulable")),
            ready=_is_ready(status),
            allocatable=less_reserved(_allocatable(status, problems), annotations, problems),
            devices_away=_devices_away(status),
            policy_label=policy_label,
            unknown_policy=unknown_policy,
            cpu_bind=node_bind_policy(labels, problems),
            amplified=is_amplified(annotations, problems),
            kubelet=stated_options(annotations, problems),
            ready_since=_ready_since(status),
            created=epoch_seconds(metadata.get("creationTimestamp")) or 0,
            problems=told(problems),
        )


def _taints(spec: Mapping[str, Any], problems: list[str]) -> tuple[Taint, ...]:
    raws = spec.get("taints") or ()
    if len(raws) > MAX_TAINTS:
        problems.append(f"{len(raws)} taints: those after the first {MAX_TAINTS} are ignored")
    return tuple(_taint(raw["key"], raw.get("value") or "", raw["effect"]) for raw in raws[:MAX_TAINTS])


# Nodes of one pool have equal taints, so they share one object.
@lru_cache(maxsize=1024)
def _taint(key: str, value: str, effect: str) -> Taint:
    return Taint(key, value, effect)


def _is_ready(status: Mapping[str, Any]) -> bool:
    return all(
        condition.get("status") == "True"
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Ready"
    )


def _ready_since(status: Mapping[str, Any]) -> int:
    return max(
        (
            epoch_seconds(condition.get("lastTransitionTime")) or 0
            for condition in status.get("conditions") or ()
            if condition.get("type") == "Ready" and condition.get("status") == "True"
        ),
        default=0,
    )


def _allocatable(status: Mapping[str, Any], problems: list[str]) -> Mapping[str, int]:
    try:
        allocatable = parse_list(status.get("allocatable"), "status.allocatable")
    except UserError as error:
        problems.extend(map(str, error.faults))
        return NO_RESOURCES
    if len(allocatable) > MAX_NODE_RESOURCES:
        problems.append(f"{counted(len(allocatable), 'resource')}: only the first {MAX_NODE_RESOURCES} count")
    return largest_share(allocatable, MAX_NODE_RESOURCES)


def _devices_away(status: Mapping[str, Any]) -> Mapping[str, int]:
    """The devices that may come back.

    While a device plugin restarts, or a device is unhealthy, the capacity stays and less is allocatable. After five
    minutes, and when the kubelet itself restarts, both are 0.
    Source: kubernetes pkg/kubelet/cm/devicemanager (GetCapacity, endpointStopGracePeriod); kubelet_node_status.go
    (reconcileExtendedResource).
    """
    try:
        capacity = parse_list(status.get("capacity"), "status.capacity")
        allocatable = parse_list(status.get("allocatable"), "status.allocatable")
    except UserError:
        return NO_RESOURCES
    away = {}
    for name in filter(is_device, allocatable.keys() | capacity.keys()):
        offered = allocatable.get(name, 0)
        missing = capacity.get(name, offered) - offered if offered or capacity.get(name) else MAX_AMOUNT
        if missing > 0:
            away[name] = missing
    return away or NO_RESOURCES


def _policy_label(labels: Mapping[str, str], problems: list[str]) -> tuple[NUMAPolicy | None, str]:
    """The policy, and the label's text if it names none."""
    value = labels.get(KOORDINATOR_NODE_POLICY_LABEL)
    if not value:
        return None, ""
    if (found := read_policy(value)) is not None:
        return found[0], ""
    text = f"label {KOORDINATOR_NODE_POLICY_LABEL} {quoted(value)}"
    problems.append(
        f"{text} is no known policy: pods that its kubelet might reject stay away; "
        "the values are SingleNUMANode, Restricted, BestEffort and None"
    )
    return None, text
