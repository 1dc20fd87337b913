"""Whether new nodes of a node group may lie where a gang's topology constraint allows its members.

The rack of a node that does not exist is not known. So this is what is assumed: a group that has a node in a domain of
the required level adds nodes in such domains. A group whose nodes lack the label of the level never helps, and a gang
that has begun needs a group with a node in its own domain. If all members must share one host, an empty node must be
able to hold them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from webhook.controllers.autoscaling.node_groups import NodeGroup
from webhook.controllers.placement.pod_sets import Assembled
from webhook.engine.gang.backfill_reservation import nodes_of
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.topology.tree import ROOT, TopologyTree


class Reached(NamedTuple):
    """The groups that may add nodes where the gang needs them."""

    groups: tuple[NodeGroup, ...]
    level: str
    """Node label of the finest required level; empty if none is required."""
    is_host: bool = False
    """Whether that level is the single node."""


def reached(groups: Sequence[NodeGroup], assembled: Assembled, tree: TopologyTree) -> Reached:
    """The groups with a node in a domain of the finest level that a part of the gang requires."""
    level = max(_required(assembled.gang), default=ROOT)
    if level == ROOT:
        return Reached(tuple(groups), "")
    positions = tree.positions()
    allowed = tree.real(level)[tree.domains(level)][positions]  # bool [node]
    if assembled.within is not None:
        allowed = allowed & nodes_of(tree, assembled.within)
    found = tuple(group for group in groups if allowed[group.nodes].any())
    label = tree.topology.levels[level - 1].node_label
    return Reached(found, label, level == tree.node_level)


def _required(gang: Gang) -> Iterable[int]:
    """The levels that the gang, its subgroups and segments require."""
    if gang.constraint.required is not None:
        yield gang.constraint.required
    for podset in gang.sets:
        for segments in () if podset.segments is None else podset.segments.layers():
            if segments.constraint.required is not None:
                yield segments.constraint.required
    for subgroup in gang.subgroups:
        yield from _required(subgroup)
