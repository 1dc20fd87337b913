"""Which node groups could take a pod with one more node, judged by the nodes that they have.

A new node of a group is taken to be like those that are there, without their pods. What DaemonSets will take of it is
not subtracted: the autoscaler does that itself before it adds a node.

- cluster-autoscaler: the nodes of a group are meant to be equal, but a group may have been changed. So its newest node
  decides. If what a group adds turns out not to take the pod, the group is not asked again: no nodes are added without
  end.
- Karpenter: the nodes of a pool differ, and it chooses by amounts among types that may not be there yet. So any node of
  the pool may say yes.

A node that is new may lack what is still to come: devices, NUMA nodes, the end of a taint. It does not say no.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Bytes
from webhook.engine.reason import FITS, Reason
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.formats.autoscaling.node_group import group_of
from webhook.formats.kubernetes.node import Node

# A node that lacks knowledge, or is tainted for a time, does not represent its group.
_SILENT: Final = frozenset({Reason.NO_TOPOLOGY, Reason.UNKNOWN_POLICY, Reason.UNTOLERATED_TAINT})


@dataclass(frozen=True, slots=True, eq=False)
class NodeGroup:
    """The nodes of one group."""

    label: str
    """The node label that names it."""
    name: str
    """The value of that label."""
    nodes: npt.NDArray[np.intp]
    """int [node of the group]: the nodes (their n), newest first."""
    created: Sequence[int]
    """When each of them was created, in seconds since the epoch; 0 = not known."""


def node_groups(node_arrays: NodeArrays, nodes: Mapping[str, Node], keys: Sequence[str]) -> tuple[NodeGroup, ...]:
    """The groups of the present nodes, by name. keys: the labels that name groups, in order."""
    found: dict[tuple[str, str], list[tuple[int, str, int]]] = {}
    for n, (name, labels) in enumerate(zip(node_arrays.names, node_arrays.labels.rows, strict=False)):
        group = group_of(labels, keys)
        if group is not None:
            created = nodes[name].created if name in nodes else 0
            found.setdefault(group, []).append((-created, name, n))
    groups = []
    for group, members in sorted(found.items()):
        members.sort()
        numbers = np.array([n for _, _, n in members], dtype=np.intp)
        groups.append(NodeGroup(*group, numbers, tuple(-created for created, _, _ in members)))
    return tuple(groups)


def helpful(
    groups: Sequence[NodeGroup], reasons: Bytes, settled: float, *, newest_decides: bool
) -> tuple[NodeGroup, ...]:
    """The groups of which one more node could take the pod.

    reasons: uint8 [node], why each node could not take it if it were empty. settled: nodes created before this time, in
    seconds since the epoch, are complete. newest_decides: whether the newest complete node represents its group.
    """
    return tuple(one for one in groups if _helps(one, reasons[one.nodes], settled, newest_decides=newest_decides))


def _helps(group: NodeGroup, reasons: npt.NDArray[Any], settled: float, *, newest_decides: bool) -> bool:
    if not newest_decides:
        return bool((reasons == FITS).any())
    for reason, created in zip(reasons.tolist(), group.created, strict=True):
        if reason == FITS:
            return True
        if reason not in _SILENT and created < settled:
            return False
    return False
