"""A pod as the engine reads it: what it requests, where it may run, who owns it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from webhook.formats.kubernetes.avoided_node import AvoidedNode
from webhook.formats.kubernetes.exclusions import PodExclusions
from webhook.formats.kubernetes.pod_resources import (
    Container,
    ContainerKind,
    PodLevelResources,
    QoS,
    container_requests,
    effective_requests,
    parse_containers,
    pod_level_resources,
    qos_class,
)
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.errors import UserError
from webhook.model.fields import mapping, mappings
from webhook.model.limits import check_size
from webhook.model.resources import parse_list
from webhook.model.wording import quoted

__all__ = ["Container", "ContainerKind", "Owner", "Pod", "PodLevelResources", "PreferredTerm", "QoS", "ResidentPod"]


@dataclass(frozen=True, slots=True)
class Owner:
    """One owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool

    @classmethod
    def from_reference(cls, raw: Mapping[str, Any]) -> "Owner":
        """Read an entry of `metadata.ownerReferences`."""
        return cls(
            api_version=raw.get("apiVersion") or "",
            kind=raw.get("kind") or "",
            name=raw.get("name") or "",
            uid=raw.get("uid") or "",
            controller=raw.get("controller") is True,
        )


class PreferredTerm(NamedTuple):
    """One preferred scheduling term."""

    weight: int
    """1..100."""
    term: Mapping[str, Any]
    """The nodeSelectorTerm, unparsed."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, parsed once from its JSON object. Amounts in engine units (cpu in millicores, the rest in base units)."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    containers: tuple[Container, ...]
    """Init containers and sidecars in start order, then the apps."""
    overhead: Mapping[str, int]
    pod_level: PodLevelResources | None
    qos: QoS
    requests: Mapping[str, int]
    """What the scheduler counts on the node: containers, pod-level resources, overhead."""
    phase: str
    node_selector: Mapping[str, str]
    required_terms: tuple[Mapping[str, Any], ...] | None
    """nodeSelectorTerms of the required node affinity, ORed, unparsed; None if there is no required affinity."""
    tolerations: tuple[Mapping[str, Any], ...]
    owners: tuple[Owner, ...]
    priority: int
    deleting: bool
    created: str
    """metadata.creationTimestamp, unparsed (RFC 3339); empty before creation."""
    preferred_terms: tuple[PreferredTerm, ...] = ()
    """Preferred node affinity."""
    avoided: tuple[AvoidedNode, ...] = ()
    """Nodes that it avoids for a while. Not a part of its object."""
    unchecked: str = ""
    """Which of its resource claims `requests` does not have, and why. Not a part of its object."""
    gets_devices: bool = False
    """Whether its resource claims can be allocated before the scheduler sees it. Not a part of its object."""
    exclusions: PodExclusions | None = None
    """What it keeps off its node or domain; None = nothing."""
    learned: tuple[AvoidedNode, ...] = ()
    """Nodes whose kubelets give whole cores only, as its namespace has learned. Not a part of its object."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def controller(self) -> Owner | None:
        """The owner that manages the pod, if any."""
        return next((owner for owner in self.owners if owner.controller), None)

    @property
    def has_own_affinity(self) -> bool:
        """Whether it has node affinity but no controller: then a user may apply its manifest again."""
        return self.controller is None and (self.required_terms is not None or bool(self.preferred_terms))

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "Pod":
        """Read a pod object; raises UserError with the path of the fault, or TooLarge."""
        metadata = mapping(raw, "metadata", "metadata")
        spec = mapping(raw, "spec", "spec")
        check_size(spec, with_ours=True)
        containers = parse_containers(spec)
        together = container_requests(containers)
        pod_level = pod_level_resources(spec, together)
        overhead = parse_list(spec.get("overhead"), "spec.overhead")
        return cls(
            namespace=metadata.get("namespace", ""),
            name=metadata.get("name", ""),
            uid=metadata.get("uid", ""),
            labels=mapping(metadata, "labels", "metadata.labels"),
            annotations=mapping(metadata, "annotations", "metadata.annotations"),
            containers=containers,
            overhead=overhead,
            pod_level=pod_level,
            qos=qos_class(containers, pod_level),
            requests=effective_requests(together, pod_level, overhead),
            phase=mapping(raw, "status", "status").get("phase", ""),
            node_selector=mapping(spec, "nodeSelector", "spec.nodeSelector"),
            required_terms=_required_terms(spec),
            preferred_terms=_preferred_terms(spec),
            tolerations=tuple(mappings(spec, "tolerations", "spec.tolerations")),
            owners=tuple(map(Owner.from_reference, _references(metadata))),
            priority=spec.get("priority") or 0,
            deleting="deletionTimestamp" in metadata,
            created=metadata.get("creationTimestamp") or "",
            exclusions=PodExclusions.of(
                spec, metadata.get("namespace") or "", mapping(metadata, "labels", "metadata.labels")
            ),
        )


_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MOST_WEIGHT: Final = 100


def _preferred_terms(spec: Mapping[str, Any]) -> tuple[PreferredTerm, ...]:
    affinity = mapping(spec, "affinity", "spec.affinity")
    held = mapping(affinity, "nodeAffinity", "spec.affinity.nodeAffinity")
    path = f"spec.affinity.nodeAffinity.{_PREFERRED}"
    terms = []
    for index, raw in enumerate(mappings(held, _PREFERRED, path)):
        weight = raw.get("weight")
        if type(weight) is not int or not 1 <= weight <= _MOST_WEIGHT:
            raise UserError(f"{path}[{index}].weight", f"This must be a number from 1 to 100, not {quoted(weight)}.")
        terms.append(PreferredTerm(weight, mapping(raw, "preference", f"{path}[{index}].preference")))
    return tuple(terms)


# Objects in use have one or two owners.
_MOST_OWNERS: Final = 16


def _references(metadata: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The owner references; of a very long list only the controller's and the first ones."""
    references = mappings(metadata, "ownerReferences", "metadata.ownerReferences")
    if len(references) <= _MOST_OWNERS:
        return references
    controllers = [one for one in references if one.get("controller") is True]
    return (*controllers[:1], *references[:_MOST_OWNERS])


def _required_terms(spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...] | None:
    path = "spec.affinity"
    for field in ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        if spec.get(field) is None:
            return None
        path = f"{path}.{field}" if field != "affinity" else path
        spec = mapping(spec, field, path)
    return tuple(mappings(spec, "nodeSelectorTerms", f"{path}.nodeSelectorTerms"))
