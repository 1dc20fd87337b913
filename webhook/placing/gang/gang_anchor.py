"""The domain to which assigned members of a gang hold the others, even if their nodes are gone or relabelled.

1. Members whose nodes exist hold the others to the domain in which most of them are now. On a tie after relabelling, it
   is the domain that their placement recorded in the pods.
2. If none of their nodes exists any more, only the record counts: the pods may still run, and return with their node.
3. If there is no record, or records differ, or the recorded domain has no nodes, it is unknown: the others wait. Once
   the garbage collector has removed those pods, the gang is as free as a new one.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from webhook.engine.arrays import Codes
from webhook.engine.gang.result import Path
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.topology.tree import Domain, TopologyTree
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.model.errors import UserError
from webhook.model.json_text import parse_object
from webhook.model.names import DOMAIN


@dataclass(frozen=True, slots=True)
class Unknown:
    """The domain of a gang's running members is unknown."""

    why: str
    """The reason in words."""


@dataclass(frozen=True)
class Anchors:
    """The domains of gang members, in a tree of this snapshot's nodes."""

    tree: TopologyTree
    node_arrays: NodeArrays

    def of(self, assigned_members: Collection[AssignedMember], level: int) -> Domain | Unknown | None:
        """The domain of a tree level (1: the topology's first) to which these hold the others; None if they do not.

        Rests, the nodes without the label, are not domains: a node there says as little as one that is gone.
        """
        if not assigned_members:
            return None
        name = self.tree.topology.levels[level - 1].last_segment
        records = Counter(path for member in assigned_members if (path := self._recorded(member, level)) is not None)
        now = Counter(number for member in assigned_members if (number := self.domain_of(member, level)) is not None)
        if now:
            paths = {number: self.tree.path(Domain(level, number)) for number in now}
            return Domain(level, max(now, key=lambda number: (now[number], records[paths[number]], -number)))
        if len(records) != 1 or records.total() < len(assigned_members):
            return Unknown(f"the nodes of its running pods are gone, and it is not known in which {name} they run")
        (path,) = records
        # An updated tree keeps a domain that has lost its last node.
        real = (Domain(level, number) for number in self.tree.real(level).nonzero()[0].tolist())
        held = next((domain for domain in real if self.tree.path(domain) == path and self._has_nodes(domain)), None)
        return held or Unknown(f"its pods run in {name} {path[-1][1]}, which has no nodes any more")

    def domain_of(self, member: AssignedMember, level: int) -> int | None:
        """The number of the domain that contains the member's node; None if the node is gone or lacks a label."""
        node = self.node_arrays.index.get(member.node)
        if node is None:
            return None
        number = self.tree.containing(int(self._positions[node]), level)
        return number if self.tree.real(level)[number] else None

    def first_node(self, domain: Domain) -> str:
        """The name of a node in the domain, to stand in for nodes that are gone."""
        return self.node_arrays.names[int(self.tree.order[self.tree.span(domain).start])]

    def _has_nodes(self, domain: Domain) -> bool:
        span = self.tree.span(domain)
        return bool(span.start < span.stop)

    @cached_property
    def _positions(self) -> Codes:
        return self.tree.positions()

    def _recorded(self, member: AssignedMember, level: int) -> Path | None:
        """The path to a level that the member's placement recorded in the pod; None if there is no record."""
        if not member.domain:
            return None
        try:
            values = parse_object(member.domain, DOMAIN)[0]
        except UserError:
            return None
        path = tuple((label, str(values[label])) for label in self.tree.topology.node_labels[:level] if label in values)
        return path if len(path) == level else None
