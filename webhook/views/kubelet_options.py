"""The options of a node's kubelet that are known, and how: stated by an operator, published, or learned.

They are listed as the node's annotation states them, so that what is published or learned can be stated as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webhook.formats.kubernetes.avoided_node import AvoidedNode
from webhook.formats.kubernetes.kubelet_options import KubeletOptions
from webhook.formats.kubernetes.node import Node
from webhook.formats.nrt import DEFAULT_MAX_NUMA_NODES, NodeTopology
from webhook.model.names import KUBELET_OPTIONS

# Of the namespaces in a text.
_NAMED: Final = 3


class OptionSource(StrEnum):
    """How options are known."""

    STATED = "Stated"
    """The Node's annotation states them."""
    PUBLISHED = "Published"
    """Its NodeResourceTopology has them."""
    LEARNED = "Learned"
    """Its kubelet named them when it rejected a pod."""


@dataclass(frozen=True, slots=True)
class KubeletOptionsView:
    """The options of one source."""

    source: OptionSource
    options: Mapping[str, str]
    """As the node's annotation states them: option -> value."""
    namespaces: tuple[str, ...]
    """The namespaces for whose pods they count; empty: for all pods."""
    text: str
    """The evidence, for people."""

    @property
    def stated_as(self) -> str:
        """The options as the value of the annotation."""
        return ",".join(f"{name}={value}" for name, value in self.options.items())


def kubelet_options_views(
    node: Node, topology: NodeTopology | None, learned: Mapping[str, AvoidedNode]
) -> tuple[KubeletOptionsView, ...]:
    """What is known of the kubelet of a node. learned: by namespace."""
    found = []
    if options := node.kubelet.named():
        found.append(KubeletOptionsView(OptionSource.STATED, options, (), f"annotation {KUBELET_OPTIONS} of its Node"))
    if topology is not None and (options := _published(topology)):
        found.append(KubeletOptionsView(OptionSource.PUBLISHED, options, (), "its NodeResourceTopology"))
    by_threads: dict[int, dict[str, AvoidedNode]] = {}
    for namespace, rejection in sorted(learned.items()):
        by_threads.setdefault(rejection.threads, {})[namespace] = rejection
    return (*found, *(_learned(threads, of) for threads, of in sorted(by_threads.items())))


def _published(topology: NodeTopology) -> Mapping[str, str]:
    cpus = topology.cpus
    threads = cpus.topology.threads if cpus is not None and cpus.full_cores_only else 0
    limit = 0 if topology.max_numa_nodes == DEFAULT_MAX_NUMA_NODES else topology.max_numa_nodes
    return KubeletOptions(threads, topology.prefer_closest, limit).named()


def _learned(threads: int, rejections: Mapping[str, AvoidedNode]) -> KubeletOptionsView:
    last = max(rejections.values(), key=lambda one: one.rejected_at)
    namespaces = tuple(rejections)
    more = f" and {len(namespaces) - _NAMED} more" if len(namespaces) > _NAMED else ""
    text = f"it rejected a pod: {last.what}; counts for pods of {', '.join(namespaces[:_NAMED])}{more}"
    return KubeletOptionsView(OptionSource.LEARNED, KubeletOptions(threads).named(), namespaces, text)
