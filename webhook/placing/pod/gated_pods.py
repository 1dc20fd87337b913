"""Gated pods, each parsed once, with their order and the signature that makes two of them equal.

What a pod requests comes from itself, its owners, and its PodGroup of Kubernetes itself (`NativeRequest`).
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

from webhook.formats.koordinator.intent import NUMAIntent, parse_numa_intent
from webhook.formats.kubernetes.avoided_node import Avoided, AvoidedNode, avoided_by, learned_in
from webhook.formats.kubernetes.membership import (
    GROUP_ANNOTATIONS,
    Membership,
    is_in_group,
    may_be_in_group,
    membership_of,
)
from webhook.formats.kubernetes.native_pod_group import NativePodGroup, scheduling_group_of
from webhook.formats.kubernetes.owner_chain import OwnerChain, owner_above, ranked, taken_from_owners
from webhook.formats.kubernetes.pod import Owner, Pod, PreferredTerm
from webhook.formats.kubernetes.pod_signature import pod_signature
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.formats.kueue import asks_kueue, left_to_kueue, owner_is_kueues
from webhook.formats.patches.managed_fields import without_our_preferences
from webhook.formats.topology import Topology
from webhook.internal_errors import Where, internal_error
from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.limits import check_annotations
from webhook.model.names import (
    MANAGED,
    MANAGED_FIELDS,
    NUMA_TOPOLOGY_SPEC,
    PCIE_ROOT,
    POD_GROUP_NAME,
    RESOURCE_SPEC,
    SCHEDULING_GROUP,
)
from webhook.placing.pod.default_level import NO_DEFAULT, NO_DEFAULTS, OF_POD_GROUP, DefaultLevel, DefaultLevels
from webhook.placing.retry_delays import RetryDelays
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.delegated_pods import why_delegated
from webhook.state.devices import DEFAULT_NAMESPACE, DeviceState, PodClaims, with_claims
from webhook.state.management import namespace_of
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_unmanaged
from webhook.steps import Steps

_REQUESTS: Final = GROUP_ANNOTATIONS | {NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, MANAGED}


@dataclass(frozen=True, slots=True)
class NativeRequest:
    """What a gated pod takes from its PodGroup of Kubernetes itself.

    1. The group does not exist yet: the pod waits for it. Where such groups are not served any more, it is in none.
    2. The group requests a topology, or the pod or its owners request something: the group defines the gang.
    3. Neither does, or the group is part of a CompositePodGroup: the pod is not ours to place.

    It has the annotations of the pod with those that its group requests (see
    `webhook.formats.kubernetes.native_pod_group`).
    """

    annotations: Mapping[str, str]
    taken: Mapping[str, str]
    """Those that the group adds."""
    fault: str = ""
    """Why the pod waits: the group does not exist, is invalid, or contradicts the pod's annotations."""
    left: str = ""
    """Why kube-scheduler places the pod although something is requested; empty otherwise."""


@dataclass(frozen=True, slots=True)
class GroupBasis:
    """A pod's group, and all that its request depends on."""

    group: NativePodGroup | None
    """None: there is no such group."""
    topologies: Mapping[str, Topology]
    is_served: bool

    @classmethod
    def of(
        cls, groups: Mapping[str, NativePodGroup] | None, topologies: Mapping[str, Topology], namespace: str, name: str
    ) -> "GroupBasis":
        """The basis for the group of this name. groups: by namespace/name; None where they are not served."""
        group = None if groups is None else groups.get(f"{namespace}/{name}")
        return cls(group, topologies, groups is not None)

    def is_same(self, other: "GroupBasis | None") -> bool:
        """Whether a pod takes the same as with the other."""
        if other is None or (self.group, self.is_served) != (other.group, other.is_served):
            return False
        return self.topologies is other.topologies or self.topologies == other.topologies

    def request(self, asked: Mapping[str, str]) -> NativeRequest:
        """What a pod takes. asked: its annotations and those that it takes from its owners."""
        group = self.group
        if not self.is_served:
            return NativeRequest(_unmarked(asked), {})
        if group is None:
            name = shortened(asked[SCHEDULING_GROUP])
            why = (
                f'spec.schedulingGroup.podGroupName: There is no PodGroup "{name}". Create it in the pod\'s namespace.'
            )
            return NativeRequest(asked, {}, why)
        if not group.constrained and _REQUESTS.isdisjoint(asked):
            return NativeRequest(_unmarked(asked), {})
        if group.parent:
            left = (
                f"PodGroup {group.name} is part of CompositePodGroup {group.parent}, which only kube-scheduler places "
                "as a whole"
            )
            return NativeRequest(_unmarked(asked), {}, left=left)
        try:
            requested = group.request(asked, self.topologies)
        except UserError as error:
            return NativeRequest(asked, {}, " ".join(map(str, error.faults)))
        return NativeRequest({**asked, **requested}, requested)


def group_basis(raw: Mapping[str, Any], cluster_snapshot: ClusterSnapshot) -> GroupBasis | None:
    """The basis for a pod object; None unless it is marked as a member of a PodGroup of Kubernetes itself."""
    if not (name := marked_group(raw)):
        return None
    groups, topologies = cluster_snapshot.native_groups, cluster_snapshot.topologies
    return GroupBasis.of(groups, topologies, namespace_of(raw), name)


def marked_group(raw: Mapping[str, Any]) -> str:
    """The name of the PodGroup of Kubernetes itself that a pod's creation marked it as a member of; else empty."""
    membership = membership_of(raw)
    return scheduling_group_of(raw) if membership is not None and membership.of_object else ""


def _unmarked(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in annotations.items() if key != SCHEDULING_GROUP}


def _has_news(before: DefaultLevel, now: DefaultLevel, others: AbstractSet[str] | None) -> bool:
    """others: see `DefaultLevels.namespaces_with_others`."""
    return before.compute_domain != now.compute_domain or (others is None and bool(now.compute_domain))


def _is_managed(annotations: Mapping[str, str]) -> bool:
    return is_in_group(annotations) or not annotations.keys().isdisjoint({*_NUMA, MANAGED})


ASKS_FOR_NOTHING: Final = "neither it nor its owners ask for a placement"
"""Why a pod is ungated that has our gate and no request."""

_NUMA: Final = (NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC)


@dataclass(frozen=True)
class GatedPod:
    """One version of a pod object that only our gate holds back."""

    raw: Mapping[str, Any]
    pod: Pod
    """With the annotations that it takes from its owners, without the preferences that we added."""
    intent: NUMAIntent
    membership: Membership | None
    """Its gang and its rank there; None if it is in no gang."""
    taken: Mapping[str, str]
    """The annotations that it takes from its owners."""
    owner_chain: OwnerChain | None
    reads_kueue: bool = False
    """Whether Kueue's annotations are read as ours at a pod's creation."""
    scheduling_group: str = ""
    """The name of the PodGroup of Kubernetes itself that its creation marked it as a member of; else empty."""
    basis: GroupBasis | None = None
    """That PodGroup; None until it is looked up."""
    group_fault: str = ""
    """Why it cannot be placed by that PodGroup; empty if it can."""
    left: str = ""
    """Why kube-scheduler places it, with the others of that PodGroup; empty otherwise."""
    default: DefaultLevel = NO_DEFAULT
    """What it prefers because it is in a ComputeDomain."""
    claims: PodClaims | None = None
    """The claims that it names for devices; None if it names none, or none are read."""

    @classmethod
    def from_object(
        cls,
        raw: Mapping[str, Any],
        owner_chain: OwnerChain | None = None,
        basis: GroupBasis | None = None,
        *,
        reads_kueue: bool = False,
        defaults: DefaultLevels | None = None,
    ) -> "GatedPod":
        """Parse the pod; raises UserError. reads_kueue: whether Kueue's annotations are read as ours at creation.

        basis: its PodGroup of Kubernetes itself, for a pod that is marked as a member of one.
        defaults: None for a pod whose default is written into it already.
        """
        own = raw["metadata"].get("annotations") or {}
        if reads_kueue and owner_chain is not None and owner_chain.why_kueues and asks_kueue(own):
            own = left_to_kueue(own)
        asking = {**raw, "metadata": {**raw["metadata"], "annotations": own}}
        taken = taken_from_owners(asking, owner_chain) if owner_chain else {}
        annotations, fault, left, default = {**taken, **own}, "", "", NO_DEFAULT
        group, marked = None if basis is None else basis.group, marked_group(raw)
        is_constrained = group is not None and group.constrained
        if defaults is not None:
            default = DefaultLevel(compute_domain=defaults.compute_domain(raw, namespace_of(raw)))
        if defaults is not None and _is_managed(annotations) and not is_constrained and (group or not marked):
            default = defaults.of_pod(raw, annotations, namespace_of(raw))
        if default.annotations:
            asking = {**raw, "metadata": {**raw["metadata"], "annotations": {**own, **default.annotations}}}
            taken = {**(taken_from_owners(asking, owner_chain) if owner_chain else {}), **default.annotations}
            annotations = {**taken, **own}
        if basis is not None:
            request = basis.request(annotations)
            annotations, taken, fault = dict(request.annotations), {**taken, **request.taken}, request.fault
            left = request.left
        if defaults is not None and is_constrained and not fault and not left:
            default = defaults.of_pod(raw, annotations, namespace_of(raw))
            annotations, taken = {**annotations, **default.annotations}, {**taken, **default.annotations}
        whole = {**raw, "metadata": {**raw["metadata"], "annotations": annotations}}
        check_annotations(whole["metadata"]["annotations"], with_ours=True)
        pod = Pod.from_object(without_our_preferences(whole))
        membership = membership_of(whole)
        if owner_chain:
            membership = ranked(membership, whole, owner_chain)
        intent = parse_numa_intent(pod.annotations)[0]
        return cls(raw, pod, intent, membership, taken, owner_chain, reads_kueue, marked, basis, fault, left, default)

    def claiming(self, devices: DeviceState | None) -> "GatedPod":
        """The same with its claims, and what they request."""
        pod = with_claims(self.pod, self.raw, devices)
        if pod is self.pod or devices is None:
            return self
        return replace(self, pod=pod, claims=devices.claims_of(self.raw, pod.namespace or DEFAULT_NAMESPACE, pod.uid))

    def avoiding(self, avoided: Avoided) -> "GatedPod":
        """The same with the nodes that it avoids after a rejection."""
        controller, membership = self.pod.controller, self.membership
        uid, group = "" if controller is None else controller.uid, "" if membership is None else membership.group
        namespace = self.pod.namespace
        return self.avoiding_these(avoided_by(avoided, namespace, uid, group), learned_in(avoided, namespace))

    def avoiding_these(self, nodes: tuple[AvoidedNode, ...], learned: tuple[AvoidedNode, ...]) -> "GatedPod":
        """The same with these avoided nodes, and what its namespace has learned of nodes."""
        if (nodes, learned) == (self.pod.avoided, self.pod.learned):
            return self
        return replace(self, pod=replace(self.pod, avoided=nodes, learned=learned))

    def preferring(self, terms: tuple[PreferredTerm, ...]) -> "GatedPod":
        """The same with further preferred terms."""
        if not terms:
            return self
        return replace(self, pod=replace(self.pod, preferred_terms=(*self.pod.preferred_terms, *terms)))

    @property
    def without_default(self) -> "GatedPod":
        """The same in a gang whose PodGroup says where it goes."""
        if not self.default.annotations:
            return self
        annotations, taken = (
            {key: text for key, text in found.items() if key not in self.default.annotations}
            for found in (self.pod.annotations, self.taken)
        )
        default = replace(self.default, annotations={}, why_none=OF_POD_GROUP)
        return replace(self, pod=replace(self.pod, annotations=annotations), taken=taken, default=default)

    @property
    def by_its_group(self) -> "GatedPod":
        """The same with what its PodGroup of Kubernetes itself requests, even if its annotations contradict that."""
        group = None if self.basis is None else self.basis.group
        if self.basis is None or group is None or group.faults:
            return self
        try:
            requested = group.request({}, self.basis.topologies)
        except UserError:  # there is no Topology with its level
            return self
        return replace(self, pod=replace(self.pod, annotations={**self.pod.annotations, **requested}))

    @cached_property
    def owner(self) -> Owner | None:
        """The owner whose annotations it may take; None if it takes none."""
        # Its own annotations may be left to Kueue, as long as its owner is Kueue's.
        own = self.raw["metadata"].get("annotations") or {}
        return owner_above(self.raw) if may_be_in_group(own) or may_be_in_group(self.pod.annotations) else None

    @property
    def is_done_once_written(self) -> bool:
        """Whether no other pod waits for it, and no node is reserved for it, while its assignment is being written."""
        return self.membership is None and not self.nominated

    @property
    def nominated(self) -> str:
        """The node that is reserved for it; empty if there is none."""
        return str((self.raw.get("status") or {}).get("nominatedNodeName") or "")

    @property
    def in_group_of_its_top(self) -> bool:
        """Whether its gang is the one that its owners define, not one by a name of its own."""
        return self.owner_chain is not None and self.pod.annotations.get(POD_GROUP_NAME) == self.owner_chain.group_name(
            self.pod.labels
        )

    @property
    def reports_on_owner(self) -> bool:
        """Whether an Event on its top owner reports on its gang, so that the pod needs none of its own."""
        try:
            return self.membership is not None and self.in_group_of_its_top
        except UserError:
            return False  # the top owner's spec cannot be read

    @property
    def is_narrowed(self) -> bool:
        """Whether it was kept off some nodes while it waits for a new one: nothing else is added to a gated pod."""
        return self.pod.required_terms is not None and MANAGED_FIELDS in self.pod.annotations

    @property
    def takes_policy(self) -> bool:
        """Whether its NUMA request comes from its owners."""
        return not self.taken.keys().isdisjoint(_NUMA)

    @property
    def asks(self) -> bool:
        """Whether it is managed: it or its owners request something, or its mode covers it."""
        if self.left:
            return False
        return self.membership is not None or not self.pod.annotations.keys().isdisjoint({*_NUMA, MANAGED})

    @property
    def why_unasked(self) -> str:
        """Why it is ungated without a place, if it asks for nothing, or only kube-scheduler can place it."""
        if self.left:
            return self.left
        kueues = self.owner_chain.why_kueues if self.owner_chain and asks_kueue(self.pod.annotations) else None
        return owner_is_kueues(kueues) if kueues else ASKS_FOR_NOTHING

    @property
    def key(self) -> str:
        """namespace/name."""
        return self.pod.key

    @property
    def order(self) -> tuple[int, str, str]:
        """Sort key: priority (that of its PodGroup, if it has one), then age, then name."""
        group = None if self.basis is None else self.basis.group
        priority = self.pod.priority if group is None or group.priority is None else group.priority
        return -priority, self.pod.created, self.pod.key

    @cached_property
    def delegated_why(self) -> str | None:
        """Which of its constraints only the scheduler can evaluate, in words; None if there is none."""
        return why_delegated(self.raw)

    @property
    def requests_beside_claims(self) -> Mapping[str, int]:
        """What it requests of its node once its claims are allocated."""
        rows = frozenset[str]() if self.claims is None else self.claims.rows
        return {name: amount for name, amount in self.pod.requests.items() if name not in rows}

    @property
    def awaited_claim(self) -> str:
        """What must happen to its claims before they can be allocated near its CPUs; empty: nothing."""
        return "" if self.claims is None or self.claims.why_not else self.claims.missing

    @property
    def request_signature(self) -> Hashable:
        """Equal for pods with the same result. A delegated pod differs, because it does not wait for bindings."""
        if self.claims is None:
            return self.delegated_why is not None, self.signature
        return self.delegated_why, self.signature, self.claims.signature, self.pod.annotations.get(PCIE_ROOT)

    @cached_property
    def preferred(self) -> str:
        """Equal for pods of one signature that prefer the same nodes."""
        return repr(self.pod.preferred_terms) if self.pod.preferred_terms else ""

    @cached_property
    def signature(self) -> Hashable:
        """Equal for pods that fit on the same nodes."""
        return pod_signature(self.pod, self.intent)


class GatedPods:
    """The gated pods of the cluster, each parsed once per version of it and of its owners.

    A pod that cannot be parsed is left out of the order and reported in `faults`. If the fault is ours, parsing is
    retried by `delays`.
    """

    def __init__(self, rules: Rules, delays: RetryDelays) -> None:
        self._rules = rules
        self._delays = delays
        self._read: dict[str, tuple[Mapping[str, Any], GatedPod | None]] = {}
        self._broken: set[str] = set()
        self._defaults = self._parsed_with = NO_DEFAULTS
        self.faults: dict[str, tuple[Mapping[str, Any], str]] = {}
        """Pods that cannot be parsed, and why."""
        self.unmanaged: dict[str, tuple[Mapping[str, Any], str]] = {}
        """Unmanaged pods that have the gate from another client, and why they are unmanaged."""

    def update(
        self, raws: Mapping[str, Mapping[str, Any]], defaults: DefaultLevels = NO_DEFAULTS
    ) -> Steps[list[tuple[str, Owner]]]:
        """Take in the current pods, by namespace/name, and forget all others. A step parses one pod.

        defaults: what members of ComputeDomains prefer now. Returns (namespace, owner) of the pods for which that has
        changed: what was read of these owners counts no more.
        """
        others, self._defaults = defaults.namespaces_with_others(self._parsed_with), defaults
        changed: dict[tuple[str, Owner], None] = {}
        for key in self._read.keys() - raws.keys():
            del self._read[key]
            self._clear(key)
        for key, raw in raws.items():
            known = self._read.get(key)
            if known is None or known[0] is not raw or self._is_due_again(key, raw, others):
                self._clear(key)
                pod = self._contained(key, raw, partial(self._of, key, raw))
                self._read[key] = raw, pod
                before = None if known is None else known[1]
                if before and pod and pod.owner and _has_news(before.default, pod.default, others):
                    changed[pod.pod.namespace, pod.owner] = None
                yield
        self._parsed_with = defaults
        return [*changed]

    def owners(self) -> list[tuple[str, Owner]]:
        """(namespace, owner) of the pods that may take annotations from their owners."""
        return [(pod.pod.namespace, owner) for _, pod in self._read.values() if pod and (owner := pod.owner)]

    def take(
        self, owner_chain: Callable[[str, Owner], OwnerChain | None], basis: Callable[[str, str], GroupBasis]
    ) -> None:
        """Parse again the pods whose owners or PodGroups have changed. basis: of a namespace and a group's name."""
        for key, (raw, pod) in self._read.items():
            if pod is None:
                continue
            owner, name = pod.owner, pod.scheduling_group
            known = owner_chain(pod.pod.namespace, owner) if owner else pod.owner_chain
            # Its owners may request something, so they are read first.
            group = basis(pod.pod.namespace, name) if name and (known is not None or owner is None) else None
            same = known is pod.owner_chain and (group is None or group.is_same(pod.basis))
            if not same or (owner and key in self.faults):
                self.faults.pop(key, None)
                kueue = self._rules.kueue_annotations
                again = partial(GatedPod.from_object, raw, known, group, reads_kueue=kueue, defaults=self._defaults)
                self._read[key] = raw, self._contained(key, raw, again) or pod

    def in_order(self, on_way: AbstractSet[str] = frozenset()) -> Iterable[GatedPod]:
        """The pods to assign, sorted. on_way: pods by namespace/name whose assignment is being written.

        Single pods among these are left out: in a burst they are most of all. The members of a gang know each other.
        """
        pods = (
            pod
            for key, (_, pod) in self._read.items()
            if pod is not None and not (key in on_way and pod.is_done_once_written) and key not in self.faults
        )
        return sorted(pods, key=lambda pod: pod.order)

    def _of(self, key: str, raw: Mapping[str, Any]) -> GatedPod | None:
        if "deletionTimestamp" in raw["metadata"]:
            return None
        if why := why_unmanaged(raw, self._rules):
            self.unmanaged[key] = raw, why
            return None
        pod = GatedPod.from_object(raw, defaults=self._defaults)
        # These are computed here because a fault here affects only this pod; later, it would affect the cycle.
        _ = pod.owner, pod.order
        return pod

    def _contained(self, key: str, raw: Mapping[str, Any], read: Callable[[], GatedPod | None]) -> GatedPod | None:
        try:
            pod = read()
        except UserError as error:
            self.faults[key] = raw, " ".join(map(str, error.faults))
            return None
        except Exception as error:  # noqa: BLE001 # a fault with one pod affects only that pod
            self.faults[key] = raw, internal_error(Where.POD, error, pod=key)
            self._broken.add(key)
            self._delays.failed(raw["metadata"].get("uid", ""))
            return None
        return pod

    def _is_due_again(self, key: str, raw: Mapping[str, Any], others: AbstractSet[str] | None) -> bool:
        """others: the namespaces with other defaults than before; None: all of them."""
        if (others is None or namespace_of(raw) in others) and raw["spec"].get("resourceClaims"):
            return True
        return key in self._broken and not self._delays.is_put_off(raw["metadata"].get("uid", ""))

    def _clear(self, key: str) -> None:
        self._broken.discard(key)
        self.faults.pop(key, None)
        self.unmanaged.pop(key, None)


def seconds_waited(raw: Mapping[str, Any], now: float) -> float:
    """Seconds from the pod's creation, which the API server records in whole seconds of its own clock, to `now`.

    now: seconds since the epoch.
    """
    created = epoch_seconds(raw["metadata"].get("creationTimestamp") or "")
    return 0.0 if created is None else max(0.0, now - created)
