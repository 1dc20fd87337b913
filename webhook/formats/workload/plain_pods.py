"""Workloads read from their pods alone: pods that name a gang, or that have an owner of any kind.

1. Pods with the same `pod-group-name` belong together, then those with the same controller. Any other pod is alone.
2. Equal pods are one pod set, in order of rank (webhook.formats.workload.record), then of name.
3. A topology annotation that all pods of a gang have applies to the gang; one that only a pod set has applies to it.
4. A gang that pods name starts as a whole; the pods of an owner one by one. An annotation on a pod sets another
   minimum.
5. Running pods are listed separately: they have a node and need no assignment.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from json import dumps
from typing import Any, Final

from webhook.formats.workload.common_fields import annotations_of, batch_min_member, gang_of_pod_sets, with_minimum
from webhook.formats.workload.record import Workload, WorkloadGang, WorkloadPodSet, rank_of
from webhook.model.fields import mapping, mappings
from webhook.model.names import KAI_PREFERRED_PLACEMENT, KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, POD_GROUP_NAME

BY_HAND: Final = "PodGroup"
"""The kind of a gang that pods name themselves."""

_WHERE: Final = {KAI_TOPOLOGY, KAI_REQUIRED_PLACEMENT, KAI_PREFERRED_PLACEMENT}

# Fields that differ between pods of one template.
_OF_ONE_POD = {"nodeName", "hostname"}


@dataclass(frozen=True, slots=True)
class PodsTogether:
    """A workload read from its pods."""

    workload: Workload
    running: Mapping[str, str]
    """Pod name -> node, for bound pods."""


def workloads_of_pods(pods: Iterable[Mapping[str, Any]]) -> list[PodsTogether]:
    """The workloads of these pods, in the order of their first pods; raises UserError."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for pod in pods:
        groups.setdefault(belongs_to(pod), []).append(pod)
    return [_together(key, members) for key, members in groups.items()]


def belongs_to(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """(namespace, kind, name) of the gang, and the uid of its controller if it has one; raises UserError."""
    metadata = mapping(pod, "metadata", "metadata")
    namespace = str(metadata.get("namespace") or "default")
    by_hand = annotations_of(pod, "").get(POD_GROUP_NAME)
    if by_hand:
        return namespace, BY_HAND, by_hand
    for owner in mappings(metadata, "ownerReferences", "metadata.ownerReferences"):
        if owner.get("controller") is True:
            return namespace, str(owner.get("kind")), str(owner.get("name")), str(owner.get("uid", ""))
    return namespace, "Pod", _name(pod)


def _together(key: tuple[str, ...], pods: list[Mapping[str, Any]]) -> PodsTogether:
    namespace, kind, name, *_ = key
    templates: dict[str, list[Mapping[str, Any]]] = {}
    for pod in sorted(pods, key=_order):
        templates.setdefault(_template(pod), []).append(pod)
    together = _asked_by_all([alike[0] for alike in templates.values()])
    pod_sets = []
    for index, alike in enumerate(templates.values()):
        names = tuple(map(_name, alike))
        name_of = "pods" if len(templates) == 1 else f"pods-{index}"
        pod_sets.append(WorkloadPodSet(name_of, names, len(names), _without(alike[0], together), ""))
    asked = next(filter(None, (batch_min_member(annotations_of(pod, "")) for pod in pods)), None)
    if asked is None and kind not in {BY_HAND, "Pod"}:
        asked = 1
    gang: WorkloadGang = gang_of_pod_sets(name, together, with_minimum(pod_sets, asked), one_topology=True)
    running = {_name(pod): node for pod in pods if (node := mapping(pod, "spec", "spec").get("nodeName"))}
    return PodsTogether(Workload(kind, namespace, name, "", (gang,), {}), running)


def _asked_by_all(pods: list[Mapping[str, Any]]) -> dict[str, str]:
    """The topology annotations that all these pods share."""
    first, *others = [annotations_of(pod, "") for pod in pods]
    alike = {key: text for key, text in first.items() if all(other.get(key) == text for other in others)}
    return {key: text for key, text in alike.items() if key in _WHERE}


def _without(pod: Mapping[str, Any], together: Mapping[str, str]) -> Mapping[str, Any]:
    """The pod without the annotations that apply to the whole gang."""
    left = {key: text for key, text in annotations_of(pod, "").items() if key not in together}
    return {**pod, "metadata": {**pod["metadata"], "annotations": left}}


def _order(pod: Mapping[str, Any]) -> tuple[bool, int, str]:
    labels = mapping(mapping(pod, "metadata", "metadata"), "labels", "metadata.labels")
    rank = rank_of(_name(pod), labels, annotations_of(pod, ""))
    return rank is None, rank or 0, _name(pod)


def _template(pod: Mapping[str, Any]) -> str:
    """Equal for pods of one template, which are one pod set with one name.

    This is stricter than `pod_signature`, which is equal for all pods that fit on the same nodes.
    """
    spec = {key: value for key, value in mapping(pod, "spec", "spec").items() if key not in _OF_ONE_POD}
    return dumps([spec, dict(annotations_of(pod, ""))], sort_keys=True)


def _name(pod: Mapping[str, Any]) -> str:
    metadata = mapping(pod, "metadata", "metadata")
    return str(metadata.get("name") or metadata.get("generateName") or "pod")
