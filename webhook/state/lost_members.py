"""Gangs that lost a member with its node: the node was gone or not ready when the pod was deleted.

A node that fails is tainted, and its pods are evicted; the pods of a node that was deleted are removed by the garbage
collector. Either way the pod's controller creates another one, which is held to the domain of the remaining members.

Known from what this replica has seen. The leader records it on the members that run, for a replica that starts later
(see `controllers.lost_node_records`).
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

from webhook.formats.kubernetes.membership import AssignedMember

# More gangs than lose a node at a time. The oldest of the namespace with the most are dropped: pods of one tenant that
# name no existing node must not displace the gangs of others.
_MOST: Final = 1024


class LostMembers:
    """By gang, the nodes on which it lost members.

    is_ready: whether a node exists and is ready. count: how many members of a gang have a node now.
    """

    def __init__(self, is_ready: Callable[[str], bool], count: Callable[[str], int]) -> None:
        self._is_ready = is_ready
        self._count = count
        self._nodes: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._before: dict[str, int] = {}
        """How many members had a node before the loss."""

    def left(self, group: str, member: AssignedMember) -> None:
        """Take a member that has a node no more, or is being deleted."""
        if self._is_ready(member.node):
            return
        self._before[group] = max(self._before.get(group, 0), self._count(group) + 1)
        self._put(group, self._nodes.pop(group, frozenset()) | {member.node})

    def restore(self, group: str, nodes: frozenset[str]) -> None:
        """Take what another replica has seen."""
        self._put(group, self._nodes.pop(group, frozenset()) | nodes)

    def joined(self, group: str) -> None:
        """Forget the loss if a gang has as many members again. Only the leader has a controller for it."""
        if group in self._before and self._count(group) >= self._before[group]:
            self.forget(group)

    def nodes(self, group: str) -> frozenset[str]:
        """The lost nodes of a gang; empty if it lost none."""
        return self._nodes.get(group, frozenset())

    def forget(self, group: str) -> None:
        """The gang has all its members again, or begins anew."""
        self._nodes.pop(group, None)
        self._before.pop(group, None)

    def _put(self, group: str, nodes: frozenset[str]) -> None:
        self._nodes[group] = nodes
        if len(self._nodes) > _MOST:
            counts = Counter(map(_namespace, self._nodes))
            most = max(counts, key=counts.__getitem__)
            self.forget(next(group for group in self._nodes if _namespace(group) == most))


def _namespace(group: str) -> str:
    return group.partition("/")[0]
