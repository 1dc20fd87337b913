"""A Topology proposed from the labels that nodes have, with what speaks against it.

1. The labels that clouds and operators write, and those of common names (rack), become levels from coarse to fine.
2. Of several families for one network, the one that labels most nodes is taken.
3. An accelerator's domain goes where its nodes lie: below all levels that contain it, above those that it contains.
4. A level with one domain, or with one for each node, tells nothing and is left out. The last level is the node.
5. Warnings: nodes without a label, names below several domains, and levels of which neither contains the other.

Source of the labels: kubernetes.io well-known labels; NVIDIA topograph (tier 0 is the switch next to the node) and GPU
operator; AWS, network-node-layer-1 is the coarsest; GKE, a block has subblocks, which have hosts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from webhook.formats.topology import CLIQUE_LABELS, MAX_LEVELS
from webhook.model.names import HOSTNAME_LABEL
from webhook.model.wording import counted, quoted

_PLACES: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
# Coarse to fine. In a pattern, the number orders the labels: up, or down (-1).
_NETWORKS: Final[Sequence[tuple[str, Sequence[tuple[str, int]]]]] = (
    ("topograph", ((r"fabric\.topograph\.run/tier-(\d{1,2})", -1),)),
    ("topograph, before 1.0", tuple((rf"network\.topology\.nvidia\.com/{name}", 1) for name in
     ("datacenter", "core", "spine", "block", "leaf"))),
    ("AWS", ((r"topology\.k8s\.aws/network-node-layer-(\d{1,2})", 1),)),
    ("Google Cloud", tuple((rf"cloud\.google\.com/gce-topology-{name}", 1) for name in ("block", "subblock", "host"))),
    ("labels of your own", tuple((rf"[^/]+/{name}", 1) for name in
     ("datacenter", "room", "hall", "row", "pod", "block", "rack", "chassis"))),
)  # fmt: skip
_GPU_CLIQUE, *_DOMAINS = CLIQUE_LABELS
_ACCELERATORS: Final = (*_DOMAINS, _GPU_CLIQUE, "accelerator.topograph.run/sub-domain")
_NAMED: Final = 3

Nodes = Mapping[str, Mapping[str, str]]
"""Name -> labels."""


@dataclass(frozen=True, slots=True)
class ProposedLevel:
    """A level of the proposal. domains: different values. nodes: those with the label."""

    label: str
    domains: int
    nodes: int


@dataclass(frozen=True, slots=True)
class TopologyProposal:
    """A Topology, coarse to fine; no levels: the nodes have no label to build on. warnings: sentences."""

    name: str
    levels: tuple[ProposedLevel, ...]
    warnings: tuple[str, ...]

    def to_object(self) -> dict[str, Any]:
        """The object to apply."""
        return {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": self.name},
            "spec": {"levels": [{"nodeLabel": level.label} for level in self.levels]},
        }


def discover(nodes: Nodes, name: str, own: Sequence[str] = ()) -> TopologyProposal:
    """The proposal. own: labels to use in place of the known ones of a network, coarse to fine."""
    values = _values(nodes)
    warnings: list[str] = []
    network, others = (tuple(own), ()) if own else _network(values)
    warnings += [
        f"The nodes have labels of {source}, too: {', '.join(labels)}. Choose them with --label."
        for source, labels in others
    ]
    warnings += [f"No node has the label {label}." for label in own if label not in values]
    labels = [*(label for label in _PLACES if label in values), *(label for label in network if label in values)]
    labels = [label for label in labels if label in own or _tells(values[label], nodes)]
    for label in _ACCELERATORS:
        if label in values and label not in labels and _tells(values[label], nodes):
            _insert(label, labels, values, warnings)
    labels = labels[: MAX_LEVELS - 1]
    warnings += _gaps(labels, values, nodes)
    warnings += _reused(labels, values, nodes)
    if HOSTNAME_LABEL in values and labels:
        labels.append(HOSTNAME_LABEL)
    levels = [
        ProposedLevel(label, len(set(values.get(label, {}).values())), len(values.get(label, {}))) for label in labels
    ]
    return TopologyProposal(name, tuple(levels), tuple(warnings))


def _values(nodes: Nodes) -> dict[str, dict[str, str]]:
    """Label -> node -> value, where it is not empty."""
    found: dict[str, dict[str, str]] = {}
    for node in sorted(nodes):
        for label, value in nodes[node].items():
            if value:
                found.setdefault(label, {})[node] = value
    return found


def _network(values: Mapping[str, Mapping[str, str]]) -> tuple[tuple[str, ...], list[tuple[str, tuple[str, ...]]]]:
    """Step 2: the labels of a network, and those of the others by their source."""
    families: list[tuple[str, tuple[str, ...]]] = []
    for source, patterns in _NETWORKS:
        known = {label for _, labels in families for label in labels}
        labels = [label for pattern, order in patterns for label in _matching(pattern, order, values.keys() - known)]
        if labels:
            families.append((source, tuple(dict.fromkeys(labels))))
    families.sort(key=lambda family: -max(len(values[label]) for label in family[1]))
    return (families[0][1], families[1:]) if families else ((), [])


def _matching(pattern: str, order: int, labels: Iterable[str]) -> list[str]:
    found = [(match, label) for label in labels if (match := re.fullmatch(pattern, label))]
    return [label for match, label in sorted(found, key=lambda one: (order * int((*one[0].groups(), 0)[0]), one[1]))]


def _tells(of_nodes: Mapping[str, str], nodes: Nodes) -> bool:
    """Step 4."""
    domains = len(set(of_nodes.values()))
    return domains > 1 and (domains < len(of_nodes) or len(nodes) == 1)


def _contains(coarse: Mapping[str, str], fine: Mapping[str, str]) -> bool:
    """Whether each domain of the fine label lies in one of the coarse."""
    above: dict[str, str] = {}
    return all(above.setdefault(fine[node], coarse[node]) == coarse[node] for node in fine if node in coarse)


def _insert(label: str, labels: list[str], values: Mapping[str, Mapping[str, str]], warnings: list[str]) -> None:
    """Step 3."""
    own = values[label]
    for place in range(len(labels), -1, -1):
        above, below = labels[:place], labels[place:]
        if all(_contains(values[each], own) for each in above) and all(_contains(own, values[each]) for each in below):
            labels.insert(place, label)
            return
    crossing = next(each for each in labels if not _contains(values[each], own))
    warnings.append(
        f"{label} is left out: its domains cross those of {crossing}, so that neither label is a level of the other."
    )


def _gaps(labels: Sequence[str], values: Mapping[str, Mapping[str, str]], nodes: Nodes) -> Iterable[str]:
    for label in labels:
        lacking = sorted(nodes.keys() - values.get(label, {}).keys())
        if lacking:
            have = "has" if len(lacking) == 1 else "have"
            yield (
                f"{counted(len(lacking), 'node')} {have} no label {label}: {_some(lacking)}. Without it, a node is in "
                "no domain of this level or of a finer one."
            )


def _reused(labels: Sequence[str], values: Mapping[str, Mapping[str, str]], nodes: Nodes) -> Iterable[str]:
    """Values below several domains; if each domain above lies in one of them, the order is the other way round."""
    for depth in range(1, len(labels)):
        coarse, fine = labels[depth - 1], labels[depth]
        above: dict[str, set[str]] = {}
        for own in nodes.values():
            path = [own.get(label, "") for label in labels[: depth + 1]]
            if all(path):
                above.setdefault(path[-1], set()).add("/".join(path[:-1]))
        several = sorted(value for value, paths in above.items() if len(paths) > 1)
        if several and _contains(values[fine], values[coarse]):
            yield f"{fine} does not lie below {coarse}, but above it. Name the labels with --label, coarse first."
        elif several:
            where = " and ".join(map(quoted, sorted(above[several[0]])[:2]))
            yield f"{fine} uses names again: {_some(several)}, such as in {where}. They count as different domains."


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(quoted, names[:_NAMED])) + more
