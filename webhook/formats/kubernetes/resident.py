"""A pod that holds or reserves resources of a node: the slim record kept for each of a cluster's 50,000 pods."""

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final

from webhook.formats.kai_placement import parse_observed
from webhook.formats.koordinator.intent import NO_INTENT, NUMAIntent, parse_numa_intent
from webhook.formats.koordinator.numa_allocation import (
    NUMAAllocation,
    NUMANodeAmounts,
    parse_cpuset,
    parse_resource_status,
    up_to,
)
from webhook.formats.kubernetes.gates import has_gate
from webhook.formats.kubernetes.pod_resources import Container, PodAmounts, QoS
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.model.errors import UserError
from webhook.model.fields import NO_FIELDS
from webhook.model.names import (
    KAI_OBSERVED_PLACEMENT,
    NUMA_ALLOCATION,
    NUMA_DEFAULTS,
    NUMA_TOPOLOGY_SPEC,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
)
from webhook.model.policy import Exclusive, NUMAPolicy
from webhook.model.resources import is_memory
from webhook.records import record

TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})


@record
class ResidentPod:
    """A pod that is bound or assigned to a node. Amounts in engine units; equal pods share their mappings."""

    key: str
    """namespace/name."""
    uid: str
    node: str
    """Empty until the pod is bound."""
    requests: Mapping[str, int]
    """What the scheduler counts on the node."""
    qos: QoS
    policy: NUMAPolicy | None
    """The pod's own NUMA policy."""
    exclusive: Exclusive | None
    allocation: NUMANodeAmounts | None
    """Its NUMA nodes on this node, or on `assigned_node`, from its annotation, limited to the pod's own requests. A
    user who can write the annotation gains nothing beyond the requests. None: they are not known.
    """
    exclusive_resources: bool
    """Whether the kubelet's managers may give it exclusive resources: CPUs, NUMA memory, devices."""
    terminal: bool
    """Succeeded or failed: it no longer holds resources."""
    deleting: bool
    exclusive_beyond_memory: bool = False
    """The same without a memory manager: exclusive CPUs or devices, once its init containers have finished."""
    assigned_node: str = ""
    """The node that it is assigned to and not yet bound to: our allocation names it, our gate is gone. Empty once
    bound.
    """
    reserved: bool = True
    """Whether its resources are reserved on `assigned_node`; false after the scheduler could not bind it there."""
    nominated: str = ""
    """The node on which kube-scheduler keeps room for it, neither bound nor assigned by us: `status.nominatedNodeName`.
    Empty behind our gate, where preemption holds the node (see `placing.preemption.takeover`).
    """
    bound_at: int | None = None
    """The earliest time of its binding, in seconds since the epoch by the API server's clock; None = not known."""
    containers: tuple[Container, ...] = ()
    """In admission order; empty if the kubelet's managers give it nothing exclusive."""
    pod_level: bool = False
    """Whether it has pod-level resources."""
    started: bool = True
    """Whether its status proves that the kubelet admitted it."""
    started_at: int | None = None
    """A time by which the kubelet had admitted the pod, in seconds since the epoch. None = not known."""
    ended_at: int | None = None
    """When the last container of a terminal pod ended, likewise; None if none ran, so the kubelet never admitted it."""
    unallocated: bool = False
    """Whether it is managed and was bound without an allocation."""
    unreviewed: bool = False
    """Whether it was bound without a review: its allocation is still the one of its assignment."""
    lasts: bool = False
    """Whether it ends only when it is deleted: its containers are always restarted."""
    cpus: frozenset[int] = frozenset()
    """The CPUs that Koordinator's scheduler gave to it."""
    observed: NUMANodeAmounts | None = None
    """The NUMA nodes on which a node agent says that it runs, limited to its requests; None: no agent says anything,
    empty: what it says is unreadable. See `state.assumed.observed_placement` for when that counts.
    """

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """The name within the namespace."""
        return self.key.partition("/")[2]

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "ResidentPod":
        """Read a pod object; raises UserError if its resources are unreadable. Broken annotations count as absent.

        The caller has already checked that the allocation of an unbound pod is ours (`AllocationKey`).
        """
        metadata: Mapping[str, Any] = raw["metadata"]
        spec: Mapping[str, Any] = raw["spec"]
        annotations: Mapping[str, str] = metadata.get("annotations") or NO_FIELDS
        node = intern(spec.get("nodeName") or "")
        status: Mapping[str, Any] = raw.get("status") or NO_FIELDS
        amounts = PodAmounts.of(spec, status)
        containers = amounts.containers
        intent = _intent_of(annotations)
        placement = None if node else _placement(annotations, raw)
        terminal = status.get("phase") in TERMINAL_PHASES
        allocation, reviewed = _allocation(annotations, node)
        if placement is not None:
            allocation = placement.numa_nodes if placement.certain else None
        most_nodes = len(containers) if intent.policy is NUMAPolicy.SINGLE_NUMA_NODE else None
        return cls(
            key=f"{metadata.get('namespace', '')}/{metadata['name']}",
            uid=metadata.get("uid", ""),
            node=node,
            requests=amounts.requests,
            qos=amounts.qos,
            policy=intent.policy,
            exclusive=intent.exclusive,
            allocation=_believed(allocation, amounts.requests, most_nodes),
            exclusive_resources=amounts.exclusive,
            terminal=terminal,
            deleting="deletionTimestamp" in metadata,
            exclusive_beyond_memory=amounts.exclusive_beyond_memory,
            assigned_node="" if placement is None else intern(placement.node),
            reserved=placement is None or placement.reserved,
            nominated="" if node or placement or terminal or has_gate(raw) else _nominated(status),
            bound_at=_bound_at(metadata, status) if node else None,
            containers=containers if amounts.exclusive else (),
            pod_level=amounts.pod_level,
            started=bool(status.get("containerStatuses")),
            started_at=epoch_seconds(status.get("startTime")) if node else None,
            ended_at=_ended_at(status) if terminal else None,
            unreviewed=bool(node) and not reviewed,
            lasts=spec.get("restartPolicy", "Always") == "Always",  # the API server's default
            cpus=parse_cpuset(annotations.get(RESOURCE_STATUS) or "") if node else frozenset(),
            observed=_observed(annotations, amounts.requests) if node and amounts.exclusive and not terminal else None,
        )


def has_one_group(pod: ResidentPod) -> bool:
    """Whether by its allocation one container has memory or huge pages of several NUMA nodes together."""
    if pod.allocation is None or len(pod.allocation) < 2:
        return False
    with_memory = sum(any(map(is_memory, container.requests)) for container in pod.containers)
    return with_memory == 1 and sum(any(map(is_memory, amounts)) for _, amounts in pod.allocation) > 1


_INTENT: Final = (NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, NUMA_DEFAULTS)
_NONE: Final = (None,) * len(_INTENT)
# No intent is that long. A longer text is not cached.
_REMEMBERED_CHARACTERS: Final = 1024


def _intent_of(annotations: Mapping[str, str]) -> NUMAIntent:
    texts = tuple(map(annotations.get, _INTENT))
    if texts == _NONE:
        return NO_INTENT
    short = all(text is None or len(text) <= _REMEMBERED_CHARACTERS for text in texts)
    return _intent(*texts) if short else _intent.__wrapped__(*texts)


# A cluster's pods have few distinct annotations.
@lru_cache(maxsize=1024)
def _intent(*texts: str | None) -> NUMAIntent:
    stated = zip(_INTENT, texts, strict=True)
    try:
        return parse_numa_intent({name: text for name, text in stated if text is not None})[0]
    except UserError:
        return NO_INTENT


def _allocation(annotations: Mapping[str, str], node: str) -> tuple[NUMANodeAmounts | None, bool]:
    """Our allocation if it names this node, else Koordinator's scheduler's; and whether it was reviewed."""
    try:
        if (text := annotations.get(NUMA_ALLOCATION)) is not None:
            allocation = NUMAAllocation.parse(text)
            if allocation.node == node and not allocation.certain:
                return None, True
            if allocation.node == node and allocation.reserved:
                return allocation.numa_nodes, allocation.reviewed
        if (text := annotations.get(RESOURCE_STATUS)) is not None:
            return parse_resource_status(text) or None, True
    except UserError:
        pass
    return None, True


def _observed(annotations: Mapping[str, str], requests: Mapping[str, int]) -> NUMANodeAmounts | None:
    text = annotations.get(KAI_OBSERVED_PLACEMENT)
    return None if text is None else up_to(parse_observed(text), requests)


def _believed(
    allocation: NUMANodeAmounts | None, requests: Mapping[str, int], most_nodes: int | None
) -> NUMANodeAmounts | None:
    """The plausible part of an allocation, or None. most_nodes: at most one NUMA node for each container."""
    if not allocation:
        return allocation
    if most_nodes is not None and len(allocation) > most_nodes:
        return None
    return up_to(allocation, requests) or None


def _placement(annotations: Mapping[str, str], raw: Mapping[str, Any]) -> NUMAAllocation | None:
    """The allocation of an unbound pod. It is ignored while our gate is present: one patch changes both."""
    text = annotations.get(NUMA_ALLOCATION)
    if text is None or has_gate(raw):
        return None
    try:
        return NUMAAllocation.parse(text)
    except UserError:
        return None


def _nominated(status: Mapping[str, Any]) -> str:
    return intern(str(status.get("nominatedNodeName") or ""))


def _bound_at(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> int | None:
    """The API server sets PodScheduled at binding; a pod created with a node was bound at its creation."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return epoch_seconds(condition.get("lastTransitionTime"))
    return epoch_seconds(metadata.get("creationTimestamp"))


def _ended_at(status: Mapping[str, Any]) -> int | None:
    """When its last container ended; a rejected pod has no container statuses."""
    states = [entry.get("state") or NO_FIELDS for entry in status.get("containerStatuses") or ()]
    ends = [epoch_seconds((state.get("terminated") or NO_FIELDS).get("finishedAt")) for state in states]
    return max((end for end in ends if end is not None), default=None)
