"""The level that members of a ComputeDomain prefer by default: one NVLink partition (clique), as if they asked for it.

1. A pod is in a ComputeDomain if a claim template of its is for a channel (`webhook.formats.dra.is_channel`).
2. The level is the label by which nodes say their clique, in the Topology that has it, else in the one that the label
   alone makes (`webhook.formats.topology.LABEL_TOPOLOGIES`).
3. Only managed pods get it, and only if neither they nor their owners name a preferred level or segments.
4. If they name a Topology, its levels count: where it has none of cliques, or the required one is as fine, there is no
   default. Nor is there one for the pods of a PodGroup that a user wrote for KAI-Scheduler.

All of this is known only once the template exists, which the controller of ComputeDomains makes after a while, so it is
not decided at a pod's creation but whenever the gated pod is read.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, Self

from webhook.formats.dra import pod_claims
from webhook.formats.topology import CLIQUE_LABELS, Topology, with_levels
from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
)
from webhook.state.cluster_snapshot import ClusterSnapshot

_OWN_CHOICE: Final = frozenset(
    {KAI_PREFERRED_PLACEMENT, KAI_SEGMENT_PREFERRED_PLACEMENT, KAI_SEGMENT_REQUIRED_PLACEMENT}
)


@dataclass(frozen=True, slots=True)
class DefaultLevel:
    """What a pod gets by default."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    """As if it had them."""
    compute_domain: str = ""
    """The template (namespace/name) of its ComputeDomain; empty: it is in none."""
    why_none: str = ""
    """Why it prefers no clique although it is in a ComputeDomain, as a clause; empty if it does, or asks for another.
    """


NO_DEFAULT: Final = DefaultLevel()


@dataclass(frozen=True, slots=True)
class DefaultLevels:
    """The defaults in a cluster."""

    label: str = ""
    """The node label of cliques; empty: no node says its clique."""
    topologies: Mapping[str, Topology] = field(default_factory=dict)
    channels: AbstractSet[str] = frozenset()
    """The claim templates (namespace/name) of ComputeDomains."""

    @classmethod
    def of(cls, cluster: ClusterSnapshot) -> Self:
        """Those of this cluster."""
        channels = frozenset[str]() if cluster.devices is None else cluster.devices.channels
        return cls(cluster.clique_label, cluster.topologies, channels)

    def namespaces_with_others(self, before: Self) -> AbstractSet[str] | None:
        """The namespaces whose pods may get another default than before; None: all of them.

        A tenant's templates concern its own pods alone, however often they change.
        """
        if (self.label, self.topologies) != (before.label, before.topologies):
            return None
        return {key.partition("/")[0] for key in self.channels ^ before.channels}

    def compute_domain(self, raw: Mapping[str, Any], namespace: str) -> str:
        """The template (namespace/name) of the ComputeDomain that a pod is in; empty: it is in none.

        A ComputeDomain has one such template.
        """
        if not self.channels or not (raw.get("spec") or {}).get("resourceClaims"):
            return ""
        keys = (f"{namespace}/{one.template}" for one in pod_claims(raw) if one.template)
        return next((key for key in keys if key in self.channels), "")

    def of_pod(self, raw: Mapping[str, Any], annotations: Mapping[str, str], namespace: str) -> DefaultLevel:
        """The default of a managed pod. annotations: its own and those that it takes from its owners."""
        domain = self.compute_domain(raw, namespace)
        if not domain or not _OWN_CHOICE.isdisjoint(annotations):
            return DefaultLevel(compute_domain=domain)
        if not self.label:
            labels = f"{', '.join(CLIQUE_LABELS[:-1])} or {CLIQUE_LABELS[-1]}"
            return DefaultLevel(compute_domain=domain, why_none=f"{_WITHOUT}: no node has the label {labels}")
        named = annotations.get(KAI_TOPOLOGY)
        return self._within(named, annotations, domain) if named else self._alone(annotations, domain)

    def _alone(self, annotations: Mapping[str, str], domain: str) -> DefaultLevel:
        if KAI_REQUIRED_PLACEMENT in annotations:  # without a topology it is invalid
            return DefaultLevel(compute_domain=domain)
        topology = with_levels((self.label,), self.topologies)[0]
        return DefaultLevel({KAI_TOPOLOGY: topology.name, KAI_PREFERRED_PLACEMENT: self.label}, domain)

    def _within(self, named: str, annotations: Mapping[str, str], domain: str) -> DefaultLevel:
        topology, required = self.topologies.get(named), annotations.get(KAI_REQUIRED_PLACEMENT)
        if topology is None:
            return DefaultLevel(compute_domain=domain)
        if self.label not in topology.node_labels:
            why = f"{_WITHOUT}: topology {shortened(named)} has no level {self.label}"
            return DefaultLevel(compute_domain=domain, why_none=why)
        try:
            is_as_fine = bool(required) and topology.level(required or "") >= topology.node_labels.index(self.label)
        except UserError:
            return DefaultLevel(compute_domain=domain)
        return DefaultLevel({} if is_as_fine else {KAI_PREFERRED_PLACEMENT: self.label}, domain)


_WITHOUT: Final = "no NVLink clique is preferred for its ComputeDomain"
OF_POD_GROUP: Final = f"{_WITHOUT}: its PodGroup says where it goes"
NO_DEFAULTS: Final = DefaultLevels()
