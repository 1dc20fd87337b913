"""The NUMA policies that nodes publish: unknown ones, and nodes whose two sources name different ones.

Both are counted for metrics, and each is logged once per change.
"""

from collections.abc import Callable
from typing import Final

import structlog

from webhook.engine.snapshot.node_kind import unknown_policy
from webhook.formats.kubernetes.node import Node
from webhook.formats.nrt import NodeTopology

log = structlog.get_logger(__name__)

# One exporter's setting may be wrong on all 5,000 nodes. 5,000 lines say no more than these do.
_LOGGED: Final = 20


class NodePolicies:
    """Checks a node's policies whenever one of its two sources changes."""

    def __init__(
        self, node_of: Callable[[str], Node | None], topology_of: Callable[[str], NodeTopology | None]
    ) -> None:
        self._node_of = node_of
        self._topology_of = topology_of
        self._disagreements: dict[str, tuple[str, str]] = {}
        self._unknown: dict[str, str] = {}

    @property
    def disagreements(self) -> int:
        """The number of nodes whose policy label and NodeResourceTopology name different policies."""
        return len(self._disagreements)

    @property
    def unknown(self) -> int:
        """The number of nodes whose policy is unknown."""
        return len(self._unknown)

    def changed(self, name: str) -> None:
        """Check a node after it or its NodeResourceTopology was added, changed or deleted."""
        node, topology = self._node_of(name), self._topology_of(name)
        self._compare(name, node, topology)
        self._read(name, node, topology)

    def _compare(self, name: str, node: Node | None, topology: NodeTopology | None) -> None:
        before = self._disagreements.pop(name, None)
        if node is None or topology is None:
            return
        label = node.policy_label
        if label is None or topology.unknown_policy or label == topology.policy:
            if before is not None:
                log.info("node.policies_agree", node=name)
            return
        now = self._disagreements[name] = label.name, topology.policy.name
        if now != before:
            log.warning("node.policies_disagree", node=name, label=now[0], topology=now[1])

    def _read(self, name: str, node: Node | None, topology: NodeTopology | None) -> None:
        before = self._unknown.pop(name, "")
        text = "" if node is None else unknown_policy(node, topology)
        if text:
            self._unknown[name] = text
        if text and text != before:
            report = log.warning if len(self._unknown) <= _LOGGED else log.debug
            report("node.policy_unknown", node=name, policy=text)
        elif before and not text and node is not None:
            log.info("node.policy_known", node=name)
