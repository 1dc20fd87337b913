"""KAI-Scheduler's PodGroup of a gang: the fields that we send with server-side apply.

    metadata: {name: pg-<top>-<uid>, ownerReferences: [the top], annotations: {topology-webhook.dev/placement: ..}}
    spec: {minMember, queue, priorityClassName, topologyConstraint, subGroups: [{name, minMember,
    topologyConstraint}]}

- The queue is read from the label `kai.scheduler/queue`, the priority class from the label `priorityClassName`. The
  label on the top owner wins over the pod's. Without a label the field is left out.
- A gang of several pod sets has a sub-group for each. A pod set that requests a level has its own constraint.
- Levels are node labels, however the user named them.

Source: KAI-Scheduler pkg/apis/scheduling/v2alpha2; pkg/podgrouper podgroup/handler.go, plugins defaultgrouper, ray.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from webhook.formats.kubernetes.owner_chain import OwnerChain
from webhook.formats.topology import Topology
from webhook.formats.workload.record import WorkloadGang
from webhook.formats.workload.topology_request import TopologyRequest, topology_request
from webhook.model.errors import UserError
from webhook.model.names import KAI_PRIORITY_CLASS, KAI_QUEUE, PLACEMENT

API_VERSION: Final = "scheduling.run.ai/v2alpha2"
_NOT_IN_A_LABEL: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_LABEL: Final = 63


def pod_group(
    owner_chain: OwnerChain, pod: Mapping[str, Any], minimum: int, topologies: Mapping[str, Topology], status: str
) -> dict[str, Any]:
    """The PodGroup of a pod that already has the annotations from its owners. Raises UserError.

    minimum: pods that must start together; status: the state of the gang as a sentence.
    """
    metadata, top = pod["metadata"], owner_chain.top
    labels = metadata.get("labels") or {}
    gang = owner_chain.gang(labels)
    several = gang is not None and len(gang.all_pod_sets()) > 1
    request = gang.request if gang and several else topology_request((metadata["annotations"], "metadata.annotations"))
    queue = _label(KAI_QUEUE, owner_chain, labels)
    priority = _label(KAI_PRIORITY_CLASS, owner_chain, labels) or (pod.get("spec") or {}).get("priorityClassName")
    parts = list(_parts(gang, topologies)) if gang and several else []
    return {
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": owner_chain.group_name(labels),
            "namespace": metadata["namespace"],
            **({"labels": {KAI_QUEUE: queue}} if queue else {}),
            "annotations": {PLACEMENT: status},
            "ownerReferences": [
                {"apiVersion": top.api_version, "kind": top.kind, "name": top.name, "uid": top.uid},
            ],
        },
        "spec": {
            "minMember": minimum,
            **({"queue": queue} if queue else {}),
            **({"priorityClassName": priority} if priority else {}),
            **_constrained(request, topologies),
            **({"subGroups": parts} if parts else {}),
        },
    }


def is_said(wanted: Any, found: Any) -> bool:
    """Whether an object has all the fields that we send, whatever else it has."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(is_said(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(is_said(one, other) for one, other in zip(wanted, found, strict=True))
        )
    return bool(wanted == found)


def _label(key: str, owner_chain: OwnerChain, labels: Mapping[str, str]) -> str:
    top = ((owner_chain.raw or {}).get("metadata") or {}).get("labels") or {}
    return str(top.get(key) or labels.get(key) or "")


def _parts(gang: WorkloadGang, topologies: Mapping[str, Topology]) -> Iterator[dict[str, Any]]:
    """The pod sets of a gang and of its subgroups, the latter with the subgroup's constraint."""
    for pod_set in gang.pod_sets:
        yield {"name": _dns_label(pod_set.name), "minMember": pod_set.minimum}
    for part in gang.gangs:
        for pod_set in part.all_pod_sets():
            constraint = _constrained(part.request, topologies)
            yield {"name": _dns_label(pod_set.name), "minMember": pod_set.minimum, **constraint}


def _constrained(request: TopologyRequest, topologies: Mapping[str, Topology]) -> dict[str, Any]:
    if request.topology is None:
        return {}
    levels = {"requiredTopologyLevel": request.required, "preferredTopologyLevel": request.preferred}
    topology = topologies.get(request.topology)
    named = {key: _node_label(level, topology) for key, level in levels.items() if level}
    return {"topologyConstraint": {"topology": request.topology, **named}}


def _node_label(level: str, topology: Topology | None) -> str:
    if topology is None:
        return level
    try:
        return topology.node_labels[topology.level(level)]
    except UserError:
        return level


def _dns_label(name: str) -> str:
    return _NOT_IN_A_LABEL.sub("-", name.lower())[:_LONGEST_LABEL].strip("-") or "pods"
