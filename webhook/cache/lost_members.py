"""Gangs that lost a member with its node: the node was gone or not ready when the pod was deleted.

A node that fails is tainted, and its pods are evicted; the pods of a node that was deleted are removed by the garbage
collector. Either way the pod's controller creates another one, which is held to the domain of the remaining members.

Known from what this replica has seen: a replica that starts later does not know it.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from webhook.model.membership import AssignedMember

# More gangs than lose a node at a time. The oldest are dropped.
_MOST: Final = 1024


class LostMembers:
    """By gang, the nodes on which it lost members. is_ready: whether a node exists and is ready."""

    def __init__(self, is_ready: Callable[[str], bool]) -> None:
        self._is_ready = is_ready
        self._nodes: OrderedDict[str, frozenset[str]] = OrderedDict()

    def left(self, group: str, member: AssignedMember) -> None:
        """Take a member that has a node no more, or is being deleted."""
        if self._is_ready(member.node):
            return
        self._nodes[group] = self._nodes.pop(group, frozenset()) | {member.node}
        if len(self._nodes) > _MOST:
            self._nodes.popitem(last=False)

    def nodes(self, group: str) -> frozenset[str]:
        """The lost nodes of a gang; empty if it lost none."""
        return self._nodes.get(group, frozenset())

    def forget(self, group: str) -> None:
        """The gang has all its members again, or begins anew."""
        self._nodes.pop(group, None)
