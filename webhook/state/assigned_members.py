"""The members of gangs that have a node, and the gangs that lost members with their nodes.

A member has a node when it is bound, or assigned to one and waiting for the binding.

A member is lost if its node was gone or not ready when the pod was deleted: a node that fails is tainted, and its pods
are evicted; the pods of a node that was deleted are removed by the garbage collector. Either way the pod's controller
creates another one, which is held to the domain of the remaining members.
A loss is known from what this replica has seen. The leader records it on the members that run, for a replica that
starts later (see `controllers.lost_node_records`).
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from webhook.formats.kubernetes.membership import AssignedMember
from webhook.signal import Signal
from webhook.state.pod_info import PodInfo

_Members = dict[str, dict[str, AssignedMember]]


class GangMembers:
    """An index over all pods. Results are live views and must not be changed."""

    def __init__(self) -> None:
        self.left = Signal[[str, AssignedMember]]()
        """Emitted with the gang and the member when one has a node no more, or is being deleted."""
        self._assigned: _Members = {}
        self._unasked: _Members = {}
        self._group_of: dict[str, tuple[_Members, str]] = {}

    def assigned(self, group: str) -> Mapping[str, AssignedMember]:
        """The members of a gang that have a node, by namespace/name."""
        return self._assigned.get(group, {})

    def unasked(self, group: str) -> Mapping[str, AssignedMember]:
        """Pods of a controller that were bound before they could get their gang from it, by namespace/name."""
        return self._unasked.get(group, {})

    def groups(self) -> Mapping[str, Mapping[str, AssignedMember]]:
        """The members that have a node, by gang and by namespace/name."""
        return self._assigned

    def member(self, key: str) -> AssignedMember | None:
        """The pod namespace/name, if it is a member that has a node."""
        members, group = self._group_of.get(key, (self._assigned, ""))
        return None if members is self._unasked else members.get(group, {}).get(key)

    def put(self, pod: PodInfo) -> None:
        """Add the pod, or replace what is known about it."""
        key = pod.record.key
        if pod.member is None:
            self.drop(key)
            return
        self._remove(key)
        members = self._unasked if pod.unasked else self._assigned
        members.setdefault(pod.group, {})[key] = pod.member
        self._group_of[key] = members, pod.group

    def drop(self, key: str) -> None:
        """Remove the pod namespace/name."""
        if (removed := self._remove(key)) is not None:
            self.left.emit(*removed)

    def _remove(self, key: str) -> tuple[str, AssignedMember] | None:
        """The gang and the member, if the pod was one."""
        found = self._group_of.pop(key, None)
        if found is None:
            return None
        members, group = found
        member = members[group].pop(key)
        if not members[group]:
            del members[group]
        return group, member


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
