"""Topologies above the node: levels of node labels from coarse to fine (zone, rack, host).

KAI-Scheduler's `kai.scheduler/v1alpha1 Topology` and Kueue's `kueue.x-k8s.io Topology` have the same shape. Grove's
`grove.io/v1alpha1 ClusterTopologyBinding` has other names for the same:

    spec: {levels: [{nodeLabel: topology.kubernetes.io/zone}, {nodeLabel: example.com/rack, alias: rack}]}
    spec: {levels: [{key: topology.kubernetes.io/zone, domain: zone}, {key: example.com/rack, domain: rack}]}

Source: grove operator/api/core/v1alpha1/clustertopologybinding.go.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self

from webhook.model.errors import UserError
from webhook.model.wording import counted, did_you_mean

MAX_LEVELS: Final = 16
"""The limit in Kueue's schema of a Topology. Each level costs a column of the tree."""
MAX_LABEL: Final = 317
"""Characters of a node label: a DNS subdomain (253), a slash and a name (63)."""


class TopologySource(StrEnum):
    """The API group a topology comes from."""

    KAI = "kai.scheduler"
    KUEUE = "kueue.x-k8s.io"
    GROVE = "grove.io"

    @property
    def fields(self) -> tuple[str, str]:
        """The fields of a level: its node label, and what else it may be called."""
        return ("key", "domain") if self is TopologySource.GROVE else ("nodeLabel", "alias")


@dataclass(frozen=True, slots=True)
class Level:
    """One level: nodes with the same value of the label (and of all coarser ones) are one domain."""

    node_label: str
    alias: str | None = None

    @property
    def last_segment(self) -> str:
        """The label without its domain: rack of example.com/rack."""
        return self.node_label.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology: its levels, coarse to fine."""

    name: str
    source: TopologySource | None
    """None: there is no object (see `LABEL_TOPOLOGIES`)."""
    levels: tuple[Level, ...]

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> Self:
        """Read a Topology object of any of these groups; raises UserError."""
        group = str(raw.get("apiVersion", "")).partition("/")[0]
        if group not in set(TopologySource):
            raise UserError("apiVersion", f"{group or 'empty'} is no group of a Topology: {', '.join(TopologySource)}.")
        levels: list[Level] = []
        source = TopologySource(group)
        key, alias = source.fields
        entries = (raw.get("spec") or {}).get("levels") or ()
        if len(entries) > MAX_LEVELS:
            raise UserError(
                "spec.levels", f"There are {counted(len(entries), 'level')}. A topology has {MAX_LEVELS} at most."
            )
        for index, entry in enumerate(entries):
            path = f"spec.levels[{index}].{key}"
            label = entry.get(key)
            if isinstance(label, str) and len(label) > MAX_LABEL:
                raise UserError(path, f"{label} is not a node label: it has more than {MAX_LABEL} characters.")
            if not isinstance(label, str) or not label:
                raise UserError(path, "The node label is missing. Every level names a node label.")
            if any(level.node_label == label for level in levels):
                raise UserError(path, f"{label} is a level already. Every level needs a label of its own.")
            levels.append(Level(label, entry.get(alias) or None))
        if not levels:
            raise UserError("spec.levels", "There are no levels. A topology needs at least one level.")
        return cls((raw.get("metadata") or {}).get("name", ""), source, tuple(levels))

    @property
    def node_labels(self) -> tuple[str, ...]:
        """The node labels of the levels, coarse to fine."""
        return tuple(level.node_label for level in self.levels)

    def level(self, reference: str, path: str = "") -> int:
        """The index of the level a user names: by node label, by alias, or by an unambiguous last segment.

        `path`: the field that holds the reference. Raises UserError with all levels and the nearest match.
        """
        for names in (
            [level.node_label for level in self.levels],
            [level.alias for level in self.levels],
            [level.last_segment for level in self.levels],
        ):
            matches = [index for index, name in enumerate(names) if name == reference]
            if len(matches) == 1:
                return matches[0]
            if matches:
                labels = " and ".join(self.levels[index].node_label for index in matches)
                raise UserError(
                    path, f'"{reference}" is ambiguous in topology {self.name}: {labels}. Write one of them.'
                )
        aliases = {level.alias: level for level in self.levels if level.alias}
        candidates = (
            [level.node_label for level in self.levels] + list(aliases) + [level.last_segment for level in self.levels]
        )
        known = ", ".join(
            f"{level.node_label} ({level.alias})" if level.alias else level.node_label for level in self.levels
        )
        raise UserError(
            path,
            f'"{reference}" is no level of topology {self.name}. Its levels are, from coarse to fine: {known}.'
            f"{did_you_mean(reference, candidates)}",
        )


CLIQUE_LABELS: Final = (
    "nvidia.com/gpu.clique",
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/accelerator",
)
"""The node labels that name the NVLink partition (clique) of a node's GPUs, the most exact first.

Source: NVIDIA/k8s-device-plugin internal/lm/imex.go (what the GPUs say themselves); NVIDIA/topograph
docs/reference/node-labels.md (what the provider says), and its name before 1.0.
"""
LABEL_TOPOLOGIES: Final[Mapping[str, Topology]] = MappingProxyType(
    {label: Topology(label, None, (Level(label, "clique"),)) for label in CLIQUE_LABELS}
)
"""The topologies that exist without an object, by name. A slash is in no object's name."""


def with_levels(labels: Collection[str], topologies: Mapping[str, Topology]) -> list[Topology]:
    """The topologies with all of these node labels, by name; those without an object only if no object has them."""
    found = [each for _, each in sorted(topologies.items()) if set(labels) <= set(each.node_labels)]
    return [each for each in found if each.source is not None] or found
