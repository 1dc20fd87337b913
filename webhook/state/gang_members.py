"""The members of gangs that have a node, by gang: bound, or assigned to a node and waiting for the binding."""

from collections.abc import Mapping

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
