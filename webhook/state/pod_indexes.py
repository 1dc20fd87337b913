"""The pods of the cluster as controllers look them up, beside what is counted per node.

- unbound: without a node, with their objects
- gated: those of them whose only gate is ours
- unconfirmed: with a node, but the condition `topology-webhook.dev/Placed` does not say so yet. A pod has a node when
  it is assigned (our allocation names the node, and our gate is removed) or bound.
- bound: as preemption sees them. Kept only where that is enabled: it is a record for each pod of the cluster.
- members of gangs, and the gangs that lost some with their nodes
- missed: managed pods whose creation no replica saw
- rejected by their kubelets
- the PodGroups of KAI-Scheduler that users write for their pods
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from webhook.formats.kai import is_kept_by_us, read_pod_group
from webhook.formats.kubernetes.bound_pod import BoundPod
from webhook.formats.kubernetes.gates import waits_for_us_alone
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.kubernetes.namespace import Namespace
from webhook.formats.kubernetes.rejected_pod import KubeletRejection, RejectedPod, rejected_pod, rejection_reason
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.user_pod_group import UserPodGroup
from webhook.model.options import Manage
from webhook.model.raw import Raw
from webhook.signal import Signal
from webhook.state.management import mode_in, namespace_of
from webhook.state.pod_info import PodInfo
from webhook.state.rules import Rules
from webhook.state.store import Store
from webhook.state.unmanaged import is_annotated, why_not_scheduled_by_ours, why_unmanaged

# A watch is about 10 ms behind, on a busy machine 100 ms.
_LAG_SECONDS: Final = 1.0
_MOST_MISSED: Final = 10_000
# More gangs than lose a node at a time. The oldest of the namespace with the most are dropped: pods of one tenant that
# name no existing node must not displace the gangs of others.
_MOST: Final = 1024
# A pod that was bound longer ago runs: its condition tells nothing new. After an upgrade there are 50,000 of these.
_NEWS_SECONDS: Final = 600.0


class KAIPodGroups(Store[UserPodGroup]):
    """KAI-Scheduler's PodGroups that users write, by namespace/name. Those that we write are left out.

    Their watch is another than that of the pods, so a PodGroup may arrive a moment after pods that were created later.
    A caller that does not find one learns whether it may still come.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """clock: the time in seconds."""
        super().__init__("PodGroup of KAI-Scheduler", _of_a_user, lambda group: group.key)
        self._clock = clock
        self._missed: dict[str, float] = {}
        """When a PodGroup was first looked for and not found, by namespace/name, oldest first."""
        self._waits_until = 0.0

    def may_come(self, key: str) -> bool:
        """Whether an unknown PodGroup (namespace/name) was first looked for so recently that it may be on its way."""
        if not self.version:
            return False
        now = self._clock()
        if len(self._missed) >= _MOST_MISSED:
            del self._missed[next(iter(self._missed))]
        since = self._missed.setdefault(key, now)
        if not 0 <= now - since < _LAG_SECONDS:  # less than 0: the clock was set back
            return False
        self._waits_until = since + _LAG_SECONDS
        return True

    def advance(self) -> None:
        """Announce that the wait for PodGroups has ended by time alone."""
        if 0 < self._waits_until <= self._clock():
            self._waits_until = 0.0
            self.changed.emit()

    def put(self, record: UserPodGroup) -> None:
        """Add a PodGroup, or replace it."""
        self._missed.pop(record.key, None)
        super().put(record)


def _of_a_user(raw: Raw) -> UserPodGroup | None:
    return None if is_kept_by_us(raw) else read_pod_group(raw)


class KubeletRejections(Store[RejectedPod]):
    """The pods that exist and that their kubelets rejected, by namespace/name: what the placement should prevent.

    A kubelet sets the phase Failed and a reason, and never changes them again (see `rejected_pod`). A pod counts once,
    when it is seen to be rejected. One that comes with a list does not: an earlier process may have counted it.
    """

    def __init__(self, rules: Rules, in_order: Callable[[], bool]) -> None:
        """in_order: whether failed pods arrive as they fail."""
        super().__init__("Pod", self._rejected, lambda pod: pod.key)
        self.seen = Signal[[KubeletRejection]]()
        """Emitted for each pod that was rejected since we know the cluster."""
        self.found = Signal[[RejectedPod, bool]]()
        """Emitted for each rejected pod, also one of a list; the flag: whether it was rejected just now."""
        self._rules = rules
        self._in_order = in_order

    def put(self, record: RejectedPod) -> None:
        """Add a pod, or replace it."""
        known = self.by_key().get(record.key)
        super().put(record)
        if known is None or known.uid != record.uid:
            in_order = self._in_order()
            if in_order:
                self.seen.emit(record.rejection)
            self.found.emit(record, in_order)

    def _rejected(self, raw: Raw) -> RejectedPod | None:
        """None if the pod failed for another reason."""
        reason = rejection_reason(raw)
        if reason is None:
            return None
        rejected = rejected_pod(raw, reason, managed=why_unmanaged(raw, self._rules) is None)
        if why_not_scheduled_by_ours(raw, self._rules):
            return replace(rejected, groups=())  # we do not choose the next pod's node
        return rejected


class MissedPods:
    """Pods that `manage` covers although no replica saw their creation: they have no marks, but are managed.

    1. The cache keeps the whole object of a pod that waits for its node, so that the binding guard handles its binding
       (see `as_managed` in `management`).
    2. A pod that was recently bound without an allocation may be on any NUMA node until its node's NodeResourceTopology
    has
       reported it. It gets an allocation if its NUMA nodes are known (see `webhook.controllers.allocation_backfill`).
    Pods that were bound longer ago existed before they were managed, or are reported by now. Nothing changes for them.

    namespaces: by name, current as of the last event. recent: seconds after its binding in which a pod that was bound
    before this process saw it may still be unreported.
    """

    def __init__(self, rules: Rules, namespaces: Mapping[str, Namespace], recent: float) -> None:
        self._rules = rules
        self._namespaces = namespaces
        self._recent = recent
        self._bound: dict[str, str] = {}

    def is_missed(self, raw: Raw, pod: ResidentPod, now: float) -> bool:
        """Whether the creation of this pod was missed. now: seconds by the API server's clock."""
        if not self._is_covered(raw, pod):
            self.forget(pod.key)
            return False
        if not pod.node:
            return True
        if self._bound.get(pod.key) != pod.uid:
            if pod.allocation is not None or pod.bound_at is None or now - pod.bound_at > self._recent:
                return False
            self._bound[pod.key] = pod.uid
        return pod.allocation is None

    def forget(self, pod: str) -> None:
        """Remove the pod (namespace/name) from the records."""
        self._bound.pop(pod, None)

    def _is_covered(self, raw: Raw, pod: ResidentPod) -> bool:
        if not self._rules.manage_missed or pod.terminal:
            return False
        name = namespace_of(raw)
        mode = mode_in(self._namespaces.get(name), self._rules)
        # A pod without exclusive resources from its kubelet has no NUMA nodes, whatever the policies of the cluster.
        return (
            (mode is Manage.ALL or (mode is Manage.ALIGNED and pod.exclusive_resources))
            and not is_annotated(raw)
            and name not in self._rules.excluded_namespaces
            and not why_not_scheduled_by_ours(raw, self._rules)
        )


_Members = dict[str, dict[str, AssignedMember]]


class GangMembers:
    """The members of gangs that have a node: bound, or assigned to one and waiting for the binding.

    An index over all pods. Results are live views and must not be changed.
    """

    def __init__(self) -> None:
        self.left = Signal[[str, AssignedMember]]()
        """Emitted with the gang and the member when one has a node no more, or is being deleted."""
        self._assigned: _Members = {}
        self._unasked: _Members = {}
        self._group_of: dict[str, tuple[_Members, str]] = {}
        self._with_template: dict[str, dict[str, AssignedMember]] = {}

    def assigned(self, group: str) -> Mapping[str, AssignedMember]:
        """The members of a gang that have a node, by namespace/name."""
        return self._assigned.get(group, {})

    def unasked(self, group: str) -> Mapping[str, AssignedMember]:
        """Pods of a controller that were bound before they could get their gang from it, by namespace/name."""
        return self._unasked.get(group, {})

    def groups(self) -> Mapping[str, Mapping[str, AssignedMember]]:
        """The members that have a node, by gang and by namespace/name."""
        return self._assigned

    def with_template(self, template: str) -> Mapping[str, AssignedMember]:
        """The members of any gang with a claim of this template (namespace/name), by namespace/name."""
        return self._with_template.get(template, {})

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
        for template in pod.member.claim_templates:
            self._with_template.setdefault(template, {})[key] = pod.member

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
        for template in member.claim_templates:
            self._with_template[template].pop(key, None)  # a pod may name it twice
            if not self._with_template[template]:
                del self._with_template[template]
        return group, member


class LostMembers:
    """By gang, the nodes on which it lost members: gone or not ready when a member's pod was deleted.

    A node that fails is tainted, and its pods are evicted; the pods of a node that was deleted are removed by the
    garbage collector. Either way the pod's controller creates another one, which is held to the domain of the remaining
    members. A loss is known from what this replica has seen. The leader records it on the members that run, for a
    replica that starts later (see `controllers.gang_repair`).

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


Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class UnconfirmedPod:
    """A pod whose condition is to be written."""

    uid: str
    bound: bool
    """Whether it is bound, not only assigned."""
    text: str
    """Its placement annotation."""


class BoundPods:
    """The bound pods as preemption sees them; empty where it is not enabled."""

    def __init__(self, *, is_enabled: bool) -> None:
        self._is_enabled = is_enabled
        self._by_key: dict[str, BoundPod] = {}

    def by_key(self) -> Mapping[str, BoundPod]:
        """The bound pods that have not ended, by namespace/name, live."""
        return self._by_key

    def read(self, raw: Raw, record: ResidentPod) -> BoundPod | None:
        """The record of a pod object; None if it has no node, has ended, or if preemption is off."""
        return BoundPod.of(raw, record) if self._is_enabled and record.node and not record.terminal else None

    def put(self, key: str, pod: BoundPod | None) -> None:
        """Add the pod, or replace what is known about it; None: it is not bound, or has ended."""
        _set(self._by_key, key, pod)


class PodIndexes:
    """Each by namespace/name, current as of the last event. The mappings are live and must not be changed."""

    def __init__(self, clock: Callable[[], float], *, preempts: bool) -> None:
        """clock: seconds since the epoch by the API server's clock. preempts: whether `bound` is kept."""
        self.unbound: dict[str, Raw] = {}
        """An unmanaged pod without our gate has only its name and uid."""
        self.gated: dict[str, Raw] = {}
        self.unconfirmed: dict[str, UnconfirmedPod] = {}
        self.bound = BoundPods(is_enabled=preempts)
        self._clock = clock

    def ungated(self) -> dict[str, Raw]:
        """The managed pods without a node and without any gate."""
        without_gate = ((key, raw) for key, raw in self.unbound.items() if not raw["spec"].get("schedulingGates"))
        return {key: raw for key, raw in without_gate if is_annotated(raw)}

    def put(self, pod: PodInfo) -> None:
        """Add the pod, or replace what is known about it."""
        record, waiting = pod.record, pod.waiting
        key = record.key
        _set(self.unbound, key, waiting)
        _set(self.gated, key, waiting if waiting is not None and waits_for_us_alone(waiting) else None)
        news = pod.unconfirmed if pod.unconfirmed and not self._is_old(record) else ""
        _set(self.unconfirmed, key, UnconfirmedPod(record.uid, bool(record.node), news) if news else None)
        self.bound.put(key, pod.bound)

    def drop(self, key: str) -> None:
        """Remove a pod that was deleted."""
        for index in (self.unbound, self.gated, self.unconfirmed):
            index.pop(key, None)
        self.bound.put(key, None)

    def _is_old(self, record: ResidentPod) -> bool:
        return record.bound_at is not None and self._clock() - record.bound_at > _NEWS_SECONDS


def _set(index: dict[str, Record], key: str, record: Record | None) -> None:
    """Set what is known under a key; None: nothing."""
    if record is None:
        index.pop(key, None)
    else:
        index[key] = record
