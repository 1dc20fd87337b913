"""Devices of Dynamic Resource Allocation (DRA): what drivers offer on nodes, what claims hold, and what pods request.

1. Informers fill the feeds, where the API server serves `resource.k8s.io/v1` and the setting is on. A change marks the
   nodes that it concerns; nothing is computed yet.
2. `settle` computes marked nodes: how much each has of
   - each extended resource that a DeviceClass maps (KEP-5004), in devices;
   - the devices that each request of a claim or template selects, in devices;
   - each claim or template that more than a number of devices describes, in pods whose claims it can serve together.
   To the engine these are resources of the node, so that nodes, gangs and reservations count them like any other.
   What pods on the node are about to get counts as taken by every other name (`webhook.state.devices_in_flight`).
3. `claimed` says what a pod requests of them, and which of its claims are not counted, and why.
4. `claims_of` has the claims of a pod whose devices can be allocated before the scheduler sees it (`PodClaims`).

An allocation that the leader has decided on is assumed: whoever reads devices or claims finds it, as if it were
written. The states of an assumption:

    assumed   no object shows it yet. An allocation of the claim shows it (then that one counts); the claim's deletion,
              or `forget_claims`, ends it.
    shown     what the claim says counts. Its devices are still `assumed_holder`s: another allocator's watch may be
              behind ours. It ends when the pod is bound or gone, or the claim loses its allocation.

An allocation by others that the API server is about to write is noted in the same way, for some seconds at most. It
guards nothing, and ends when it is shown.

What is not known counts as there: a device that a selector may match, or a claim whose search takes too long. So these
amounts never exclude a node that the scheduler could use, but they may include one that it cannot use.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2s
from math import inf
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from webhook.engine.dra.aligned_devices import AlignedFitter, AlignedSearch, Place
from webhook.engine.dra.device_allocation import MAX_CONSUMERS, DeviceAllocator, Verdict
from webhook.engine.dra.device_pools import Budget, DeviceInventory, NodeDevices, TakenDevices
from webhook.engine.snapshot.cluster_state import ClusterState, SliceAmount
from webhook.formats.dra import (
    Allocation,
    Claim,
    ClaimSpec,
    ClaimTemplate,
    DeviceClass,
    DeviceId,
    PodClaim,
    Request,
    Result,
    Slice,
    TaintRule,
    is_channel,
    pod_claims,
    written_allocation,
)
from webhook.formats.kubernetes.native_pod_group import NativePodGroup, scheduling_group_of
from webhook.formats.kubernetes.pod import Pod
from webhook.model.resources import NO_RESOURCES
from webhook.signal import Signal
from webhook.state.assumed.assumed_pods import AssumedPods
from webhook.state.delegated_pods import why_delegated
from webhook.state.devices_in_flight import DeviceRow, DevicesInFlight, Requesting, claims_in_flight
from webhook.state.store import Feed

DEVICE_KINDS: Final = ("DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaimTemplate", "ResourceClaim")
"""The kinds that are read."""
NAMESPACED_DEVICE_KINDS: Final = frozenset({"ResourceClaimTemplate", "ResourceClaim"})

MOST_ROWS: Final = 64
MOST_ROWS_OF_NAMESPACE: Final = 16
"""Resources that claims and templates define, each of which costs every node some 0.1 ms when its devices change. A
cluster has a few classes, with a selector or two; a tenant can write any number of templates.
"""
# More equal pods with devices than any node has. What is left over counts as any number.
_MOST_PODS: Final = 64
_ANY_NUMBER: Final = 1 << 20
NO_GROUPS: Final[Mapping[str, NativePodGroup]] = MappingProxyType({})
DEFAULT_NAMESPACE: Final = "default"  # of manifests that name none
# Of one resource on one node, of which evaluations of selectors take most; see device_allocation.OPERATIONS.
_OPERATIONS: Final = 20_000
# A read computes at most so many nodes (some 50 ms); after a change that concerns all nodes, turns compute the others.
_AT_ONCE: Final = 64


class Claimed(NamedTuple):
    """What a claim or a template requests of a node."""

    amounts: Mapping[str, int] = NO_RESOURCES
    """By name of a resource that `settle` computes."""
    unchecked: str = ""
    """Why its devices are not counted, or not all of them; empty: they are."""


@dataclass(slots=True)
class _Assumed:
    """An allocation that is on its way to its claim."""

    pod_uid: str
    """Of an allocation by others: the claim's own uid."""
    claim_uid: str
    allocation: Allocation
    expires: float = inf
    """Of an allocation by others: when it is not counted any more if no object shows it, by `time.monotonic`."""
    shown: bool = False
    """Whether the claim has an allocation by now."""
    bound_or_gone: bool = False
    """Whether the pod is: once the allocation is shown, nothing is to be guarded any more."""


class DeviceState:
    """The devices of the cluster, current as of the last event. nodes: they get the amounts."""

    def __init__(
        self, nodes: ClusterState, pods: AssumedPods, groups: Mapping[str, NativePodGroup] = NO_GROUPS
    ) -> None:
        """pods: what counts on nodes. groups: Kubernetes' own PodGroups by namespace/name, live."""
        self.changed = Signal[[]]()
        """Emitted after each change that may affect a waiting pod."""
        self.inventory = DeviceInventory()
        """The devices of each node."""
        self._allocator = DeviceAllocator(self.inventory)
        self._nodes = nodes
        self._pods = pods
        self._requesting: dict[str, tuple[Requesting, ...]] = {}  # by node, as of its last computation
        self._in_flight = DevicesInFlight(self.inventory, self._mark_devices)
        self._extended: dict[str, str] = {}  # uid of a pod -> the claim that has its extended resources
        self._groups = groups
        self._slices: dict[str, Slice] = {}
        self._nodes_of: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)  # by driver and pool
        self._claims: dict[str, Claim] = {}  # with what is assumed
        self._assumed: dict[str, _Assumed] = {}  # by namespace/name of the claim
        self._assumed_for: defaultdict[str, set[str]] = defaultdict(set)  # the same keys by the pod's uid
        self._templates: dict[str, ClaimSpec] = {}
        self.channels: frozenset[str] = frozenset()
        """The templates (namespace/name) of ComputeDomains; another object once they change."""
        self._counted: dict[str, Claimed] = {}  # by `template` or `claim`, then namespace/name
        self._rows: dict[str, DeviceRow] = {}
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        self._unsaid: defaultdict[str, dict[str, str]] = defaultdict(dict)  # by row, then node: why it is not counted
        self._served: frozenset[str] | None = frozenset()
        self._reaches_any = False
        """Whether a claim that pods name is or was allocated: its nodes need not have slices."""
        self._marked: dict[str, None] = {}
        self._has_changed = False
        self.feeds: Mapping[str, Feed[Any]] = {
            "DeviceClass": Feed("DeviceClass", DeviceClass.from_object, self._put_class, self._drop_class),
            "DeviceTaintRule": Feed("DeviceTaintRule", TaintRule.from_object, self._put_rule, self._drop_rule),
            "ResourceSlice": Feed("ResourceSlice", Slice.from_object, self._put_slice, self._drop_slice),
            "ResourceClaimTemplate": Feed(
                "ResourceClaimTemplate", ClaimTemplate.from_object, self._put_template, self._drop_template
            ),
            "ResourceClaim": Feed("ResourceClaim", Claim.from_object, self._put_claim, self._drop_claim),
        }
        """By kind."""

    @property
    def resources(self) -> frozenset[str]:
        """The resources that `settle` computes: a node that does not have one now may have it later."""
        return frozenset((*self.inventory.mapped, *self._rows))

    def claims(self) -> Mapping[str, Claim]:
        """The claims by namespace/name, live. What is assumed counts as allocated."""
        return self._claims

    def assume_claims(self, pod_uid: str, allocations: Mapping[str, Allocation]) -> bool:
        """Count the devices as taken from now on, in place of what was assumed for the pod before.

        allocations: by namespace/name of the claim. False if one of the claims is not known, is being deleted or has
        an allocation already: then nothing is assumed, and nothing must be written.
        """
        self.forget_claims(pod_uid)
        claims = [self._claims.get(key) for key in allocations]
        if any(claim is None or claim.deleted or claim.fault or claim.allocation is not None for claim in claims):
            return False
        for key, allocation in allocations.items():
            self._assume(key, _Assumed(pod_uid, self._claims[key].uid, allocation))
        return True

    def note_claim(self, claim: Claim, expires: float) -> None:
        """Count the devices of an allocation by others as taken until its claim shows it, or time runs out.

        Once more noted, it does not get more time: a write that never comes would be awaited without limit.
        """
        known, noted = self._claims.get(claim.key), self._assumed.get(claim.key)
        if known is None or known.uid != claim.uid or claim.allocation is None:
            return
        if noted is not None and noted.pod_uid == claim.uid:
            expires = min(expires, noted.expires)
            self.forget_claims(claim.uid)
        elif known.allocation is not None:
            return
        self._assume(claim.key, _Assumed(claim.uid, claim.uid, claim.allocation, expires))

    def expire_notes(self, now: float) -> Sequence[tuple[str, str]]:
        """End what was noted for too long; returns these claims (namespace/name) with their uids."""
        expired = [(key, noted.claim_uid) for key, noted in self._assumed.items() if noted.expires <= now]
        for _, uid in expired:
            self.forget_claims(uid)
        return expired

    def _assume(self, key: str, assumed: _Assumed) -> None:
        self._assumed[key] = assumed
        self._assumed_for[assumed.pod_uid].add(key)
        self._use_claim(replace(self._claims[key], allocation=assumed.allocation))

    def forget_claims(self, pod_uid: str) -> None:
        """Count the claims of a pod as their objects are: its placement is given up, or it is gone."""
        for key in sorted(self._assumed_for.get(pod_uid, ())):
            if not self._end_assumption(key).shown:
                self._use_claim(replace(self._claims[key], allocation=None))
                self.changed.emit()

    def bound_or_gone(self, _: str, pod_uid: str) -> None:
        """Guard the devices of this pod no longer, once its claims show them."""
        for key in tuple(self._assumed_for.get(pod_uid, ())):
            self._assumed[key].bound_or_gone = True
            if self._assumed[key].shown:
                self._end_assumption(key)

    def assumed_pod(self, claim: str) -> str:
        """The uid of the pod that the claim namespace/name is assumed for; empty: for none."""
        assumed = self._assumed.get(claim)
        return "" if assumed is None else assumed.pod_uid

    def assumed_holder(self, device: DeviceId) -> tuple[str, str] | None:
        """The claim (namespace/name) to which the leader has given the device alone, and the uid of its pod."""
        for key in self.inventory.taken.holders.get(device, ()):
            assumed = self._assumed.get(key)
            if assumed is not None and assumed.expires == inf:
                return key, assumed.pod_uid
        return None

    def node_of(self, device: DeviceId) -> str:
        """The only node that offers a device; empty if several may reach it, or none is known."""
        nodes: Mapping[str, int] = self._nodes_of.get((device.driver, device.pool), {})
        return next(iter(nodes)) if len(nodes) == 1 else ""

    def numa_nodes_held(self, raw: Mapping[str, Any], node: str) -> frozenset[int]:
        """The NUMA ids of a node that devices of the pod's claims publish; empty: none are known."""
        namespace = raw["metadata"].get("namespace", "")
        claims = [self._claims.get(f"{namespace}/{one.claim}") for one in pod_claims(raw) if one.claim]
        held = {one.device for claim in claims if claim and claim.allocation for one in claim.allocation.results}
        devices = self.on(node).devices if held else ()
        return frozenset(one.numa_nodes[0] for one in devices if one.id in held and one.numa_nodes)

    def on(self, node: str) -> NodeDevices:
        """The devices that a node can use."""
        known = self._nodes.nodes.get(node)
        return self.inventory.on(node, {} if known is None else known.labels)

    def put_node(self, name: str) -> None:
        """Note a node that is new or changed: by its labels it may reach devices that are not its own.

        What its device plugins serve, pods on it do not get by claims.
        """
        if self.inventory.has_shared or self._reaches_any or name in self._requesting:
            self._marked[name] = None

    def settle(self, most: int = _AT_ONCE) -> bool:
        """Compute so many of the marked nodes; whether none is left."""
        if self._served is None:
            self._served = self.resources
            self._nodes.put_served_resources(self._served)
        self._mark_requested()
        for _ in range(most):
            if not self._marked:
                break
            node = next(iter(self._marked))
            del self._marked[node]
            amounts = dict(self._amounts(node))
            self._marked.pop(node, None)  # by what is in flight there, which is in the amounts
            self._has_changed |= self._nodes.put_slice_amounts(node, amounts)
        return not self._marked

    def _mark_requested(self) -> None:
        """Mark the nodes on which pods request other devices than before. They come first: the pods count already."""
        changed = [one for one in self._pods.take_changed() if self._requested(one) != self._requesting.get(one, ())]
        if changed:
            self._marked = {**dict.fromkeys(changed), **self._marked}

    def _requested(self, node: str) -> tuple[Requesting, ...]:
        """The pods that count with devices on a node that has some."""
        served = self._served
        if not served or not self.on(node).pools:
            return ()
        return tuple(
            Requesting(key, uid, amounts)
            for key, uid, requests in self._pods.requesting(node)
            if (amounts := tuple(sorted((name, requests[name]) for name in served & requests.keys() if requests[name])))
        )

    def advance(self) -> None:
        """Announce what `settle` has found since the last call."""
        if self._has_changed:
            self._has_changed = False
            self.changed.emit()

    def claimed(self, raw: Mapping[str, Any], namespace: str) -> Claimed:
        """What a pod's claims request of its node."""
        amounts: Counter[str] = Counter()
        unchecked: dict[str, str] = {}
        for one in self._entries(raw, namespace):
            claim, template = f"{namespace}/{one.claim}", f"{namespace}/{one.template}"
            if one.skipped:
                continue
            if one.template and one.claim and (made := self._claims.get(claim)) is not None and made.allocation:
                found = Claimed(unchecked="it is allocated already")
            elif one.template:
                found = self._counted.get(f"template {template}", Claimed(unchecked="its template is not known"))
            else:
                found = self._counted.get(f"claim {claim}", Claimed(unchecked="it is not known"))
            amounts.update(found.amounts)
            if why := found.unchecked or next(filter(None, map(self._unsaid_of, found.amounts)), ""):
                unchecked.setdefault(one.name, why)
        return Claimed(amounts, "; ".join(f"claim {name}: {why}" for name, why in unchecked.items()))

    def claims_of(self, raw: Mapping[str, Any], namespace: str, uid: str) -> "PodClaims":
        """The claims of a pod. uid: the pod's; empty if it is not created yet: its claims will be made, then."""
        found: list[Claim] = []
        names: list[str] = []
        why_not, missing, waits, has_all = "", "", "", True
        left_over: list[str] = []
        for one in self._entries(raw, namespace):
            if one.skipped:
                continue
            claim, awaited = self._claim_of(one, namespace)
            if awaited and uid:
                missing = missing or f"claim {one.name} {awaited}"
                has_all &= claim is not None
            elif claim is None:
                why_not = why_not or f"claim {one.name} is not known"
            if claim is None:
                continue
            if any(user.uid == uid for user in claim.reserved_for):
                waits = waits or f"claim {one.name} has an earlier allocation, which is being taken back"
                left_over.append(claim.key)
            else:
                why_not = why_not or _why_not_allocated(claim, one, uid)
            names.append(one.name)
            found.append(claim)
        rows = frozenset(self.claimed(raw, namespace).amounts)
        return PodClaims(
            tuple(names),
            tuple(found),
            rows,
            uid,
            why_not if has_all else "",
            waits or missing,
            tuple(left_over),
            self._allocator,
            self.on,
            self.inventory.classes,
        )

    def _entries(self, raw: Mapping[str, Any], namespace: str) -> Iterator[PodClaim]:
        """The claims that a pod names. An entry that its PodGroup has as well is the group's."""
        name = scheduling_group_of(raw)
        group = self._groups.get(f"{namespace}/{name}") if name else None
        shared = {} if group is None else {one.name: one for one in group.claims}
        for one in pod_claims(raw):
            of = shared.get(one.name)
            if of is not None and (of.template == one.template if one.template else of.claim == one.claim):
                yield PodClaim(one.name, of.claim, "", of_group=True)
            else:
                yield one

    def _claim_of(self, one: PodClaim, namespace: str) -> tuple[Claim | None, str]:
        """The claim of a pod's entry, or what will be it; and why it is not there yet, if it will come."""
        if one.claim:
            made = self._claims.get(f"{namespace}/{one.claim}")
            if made is not None or not one.template:
                return made, ""
        if not one.template:
            return None, ""
        template = self._templates.get(f"{namespace}/{one.template}")
        if template is None:
            return None, f"has no ResourceClaimTemplate {one.template} yet"
        return Claim(namespace, "", "", template, pod_claim_name=one.name), "is not made yet"

    def _amounts(self, node: str) -> Iterator[tuple[str, SliceAmount]]:
        offered = self.on(node)
        requested = self._count_in_flight(node, offered)
        if any(True for _ in offered.devices) or any(pool.fault for pool in offered.pools):
            for resource in self.inventory.mapped:
                amount = self._of_class(offered, resource)
                if amount.devices:
                    yield resource, amount.beside(requested[resource])
        for name, row in self._rows.items():
            is_next = row.shared and self._in_flight.has(node, name)  # it is about to be allocated here
            amount, unsaid = (_ANY, "") if is_next else self._of_row(offered, row)
            if unsaid:
                self._unsaid[name][node] = unsaid
            elif name in self._unsaid:
                self._unsaid[name].pop(node, None)
            if amount.devices:
                yield name, amount.beside(requested[name])

    def _count_in_flight(self, node: str, offered: NodeDevices) -> Counter[str]:
        """Count the devices of pods in flight as taken. Returns what all pods on the node request, by resource."""
        pods = self._requested(node)
        self._requesting[node] = pods
        if not pods:
            del self._requesting[node]
        of_plugins = {} if (known := self._nodes.published(node)) is None else known.allocatable
        classes = {
            resource: one.name for resource, one in self.inventory.mapped.items() if of_plugins.get(resource, 0) <= 0
        }
        self._in_flight.put(offered, claims_in_flight(pods, classes, self._rows, self._extended))
        requested: Counter[str] = Counter()
        for pod in pods:
            requested.update(dict(pod.amounts))
        return requested

    def _of_class(self, offered: NodeDevices, resource: str) -> SliceAmount:
        count = self._allocator.count(resource, offered, budget=Budget(_OPERATIONS))
        devices = min(max(count.total, count.at_most), _ANY_NUMBER)
        return SliceAmount(devices, devices - min(count.at_most, devices))

    def _unsaid_of(self, row: str) -> str:
        """Why a row is not counted on some node; empty: it is on all."""
        return next(iter(self._unsaid.get(row, {}).values()), "")

    def _of_row(self, offered: NodeDevices, row: DeviceRow) -> tuple[SliceAmount, str]:
        """How many the node has of a row; and, where that is not known, so that it has any number, why."""
        fitter = self._allocator.fitter([row.claim], budget=Budget(_OPERATIONS))
        most = 1 if row.shared else _MOST_PODS
        free, answer = fitter.how_many(offered, most)
        unsaid = ""
        if answer.verdict is Verdict.CANNOT_SAY:  # the detail begins with a request, which is the row's own
            unsaid = answer.detail.partition(": ")[2] or answer.cause.phrase
        if unsaid or free == most:
            free = _ANY_NUMBER
        if free == _ANY_NUMBER:
            return _ANY, unsaid
        if row.claim.allocation is not None:
            # It is elsewhere, or used by as many pods as can: some day it may be allocated here.
            anew = replace(row.claim, allocation=None, reserved_for=())
            fitter = self._allocator.fitter([anew], budget=Budget(_OPERATIONS))
        total, answer = fitter.how_many(replace(offered, taken=_NONE_TAKEN), most)
        if answer.verdict is Verdict.CANNOT_SAY or total == most:
            total = _ANY_NUMBER
        total = max(total, free)
        return SliceAmount(total, total - free), unsaid

    # Objects that arrive.

    def _put_class(self, one: DeviceClass) -> None:
        if self.inventory.classes.get(one.name) != one:
            self.inventory.put_class(one)
            self._mark_all()

    def _drop_class(self, name: str) -> None:
        if name in self.inventory.classes:
            self.inventory.remove_class(name)
            self._mark_all()

    def _put_rule(self, one: TaintRule) -> None:
        self.inventory.put_rule(one)
        self._mark_all()

    def _drop_rule(self, name: str) -> None:
        self.inventory.remove_rule(name)
        self._mark_all()

    def _put_slice(self, one: Slice) -> None:
        self._forget_slice(one.name)
        self.inventory.put_slice(one)
        self._slices[one.name] = one
        self._nodes_of[one.driver, one.pool][one.scope.node if one.scope else ""] += 1
        self._mark_pool((one.driver, one.pool))
        self.changed.emit()

    def _drop_slice(self, name: str) -> None:
        if name in self._slices:
            self._forget_slice(name)
            self.inventory.remove_slice(name)
            self.changed.emit()

    def _forget_slice(self, name: str) -> None:
        one = self._slices.pop(name, None)
        if one is None:
            return
        pool = one.driver, one.pool
        self._mark_pool(pool)
        self._nodes_of[pool][one.scope.node if one.scope else ""] -= 1
        self._nodes_of[pool] += Counter()  # drops zeros
        if not self._nodes_of[pool]:
            del self._nodes_of[pool]

    def _put_template(self, one: ClaimTemplate) -> None:
        if one.key not in self._templates:
            self.changed.emit()  # pods wait for it
        self._templates[one.key] = one.spec
        if is_channel(one.spec) != (one.key in self.channels):
            self.channels ^= {one.key}
        claim = Claim(one.namespace, "", "", one.spec)
        self._count(f"template {one.key}", one.namespace, self._defined(claim, f"claims like {one.key}"))

    def _drop_template(self, key: str) -> None:
        self._templates.pop(key, None)
        self.channels -= {key}
        self._count(f"template {key}", "", None)

    def _put_claim(self, claim: Claim) -> None:
        if self._use_claim(self._with_assumed(claim)):
            self.changed.emit()

    def _with_assumed(self, claim: Claim) -> Claim:
        """The claim as it counts: with its assumed allocation until it shows one."""
        assumed = self._assumed.get(claim.key)
        if assumed is None:
            return claim
        is_shown = claim.allocation is not None or bool(claim.fault)
        guards = assumed.expires == inf and not assumed.bound_or_gone
        if assumed.claim_uid != claim.uid or (is_shown and not guards) or (assumed.shown and not is_shown):
            self._end_assumption(claim.key)
            return claim
        assumed.shown = is_shown
        return claim if is_shown else replace(claim, allocation=assumed.allocation)

    def _end_assumption(self, key: str) -> _Assumed:
        assumed = self._assumed.pop(key)
        keys = self._assumed_for[assumed.pod_uid]
        keys.discard(key)
        if not keys:
            del self._assumed_for[assumed.pod_uid]
        return assumed

    def _use_claim(self, claim: Claim) -> bool:
        """Count the claim; whether that may affect a waiting pod."""
        before = self._claims.get(claim.key)
        self._claims[claim.key] = claim
        if before is not None and replace(before, resource_version=claim.resource_version) == claim:
            return False
        if before is None or (before.allocation, before.fault) != (claim.allocation, claim.fault):
            self._mark_devices(before)
            self._mark_devices(claim)
            self.inventory.put_claim(claim)
            self._note_extended(claim)
        if not claim.owner_uid or claim.owned_by_group:
            self._count(f"claim {claim.key}", claim.namespace, self._named(claim))
        return True

    def _note_extended(self, claim: Claim) -> None:
        """Note whether a claim has what its pod requests by extended resources."""
        uid = claim.owner_uid
        if claim.for_extended_resources and claim.allocation is not None:
            self._extended[uid] = claim.key
        elif self._extended.get(uid) == claim.key:
            del self._extended[uid]

    def _drop_claim(self, key: str) -> None:
        claim = self._claims.pop(key, None)
        if claim is None:
            return
        if key in self._assumed:
            self._end_assumption(key)
        self._mark_devices(claim)
        self.inventory.remove_claim(key)
        self._note_extended(replace(claim, allocation=None))
        self._count(f"claim {key}", "", None)
        self.changed.emit()

    # What claims and templates request.

    def _defined(self, claim: Claim, name: str) -> tuple[Claimed, Mapping[str, DeviceRow]]:
        """What one of such claims requests, and the rows for it. name: of the row for the claim as a whole."""
        spec = claim.spec
        if spec.fault:
            return Claimed(unchecked=spec.fault), {}
        rows: dict[str, DeviceRow] = {}
        amounts: Counter[str] = Counter()
        for request in spec.requests:
            if request.fault or request.admin or request.count is None or request.first_available:
                continue
            row = _row_name(request)
            rows[row] = DeviceRow(Claim("", "", "", ClaimSpec((replace(request, name="devices", count=1),))))
            amounts[row] += request.count
        if len(spec.requests) != 1 or spec.constraints or not rows:
            rows[name] = DeviceRow(replace(claim, namespace="", name=""), parts=dict(amounts))
            amounts[name] = 1
        return Claimed(amounts), rows

    def _named(self, claim: Claim) -> tuple[Claimed, Mapping[str, DeviceRow]]:
        """What pods request that name the claim: how many of them share it is not known."""
        name = f"claim {claim.key}"
        # Only what the nodes depend on: each pod that uses it changes its object. More than all are no pod's any more.
        users = claim.reserved_for if len(claim.reserved_for) >= MAX_CONSUMERS else ()
        row = Claim(claim.namespace, claim.name, claim.uid, claim.spec, claim.allocation, users, fault=claim.fault)
        self._reaches_any |= claim.allocation is not None
        return Claimed({name: 1}), {name: DeviceRow(row, shared=True)}

    def _count(self, user: str, namespace: str, defined: tuple[Claimed, Mapping[str, DeviceRow]] | None) -> None:
        """Set what a claim or template requests; None: it is gone."""
        wanted, rows = (Claimed(), {}) if defined is None else defined
        for name in [name for name, users in self._users.items() if user in users and name not in rows]:
            self._users[name].discard(user)
            if not self._users[name]:
                del self._users[name], self._rows[name]
                self._unsaid.pop(name, None)
        new = [name for name in rows if name not in self._rows]
        if new and self._too_many(new, namespace):
            wanted, rows = Claimed(unchecked=_TOO_MANY), {}
        for name, row in rows.items():
            self._users[name].add(user)
            if self._rows.get(name) != row:
                self._rows[name] = row
                self._mark_all()
        if defined is None:
            self._counted.pop(user, None)
        else:
            self._counted[user] = wanted

    def _too_many(self, new: Sequence[str], namespace: str) -> bool:
        begin = f"{namespace}/"
        own = sum(all(user.split(" ")[1].startswith(begin) for user in users) for users in self._users.values())
        return len(self._rows) + len(new) > MOST_ROWS or own + len(new) > MOST_ROWS_OF_NAMESPACE

    # The nodes that a change concerns.

    def _mark_devices(self, claim: Claim | None) -> None:
        for result in claim.allocation.results if claim is not None and claim.allocation is not None else ():
            self._mark_pool((result.device.driver, result.device.pool))

    def _mark_pool(self, pool: tuple[str, str]) -> None:
        nodes: Mapping[str, int] = self._nodes_of.get(pool, {})
        if "" in nodes:
            self._mark_all()
        else:
            self._marked.update(dict.fromkeys(nodes))

    def _mark_all(self) -> None:
        """Mark all nodes that can have devices, and look at what the resources are."""
        self._served = None
        every = self.inventory.has_shared or self._reaches_any
        self._marked.update(dict.fromkeys(self._nodes.nodes if every else self.inventory.nodes))
        self.changed.emit()


_NONE_TAKEN: Final = TakenDevices()
_ANY: Final = SliceAmount(_ANY_NUMBER, 0)
_TOO_MANY: Final = "there are too many different requests for devices"


@dataclass(frozen=True, slots=True, eq=False)
class PodClaims:
    """The claims of a pod, which get devices near its CPUs and memory before the scheduler sees it, if they can."""

    names: tuple[str, ...]
    """The entries of the pod."""
    claims: tuple[Claim, ...]
    """The claim of each. One that is not made yet has no uid."""
    rows: frozenset[str]
    """The resources by which they count on nodes until they are allocated."""
    pod_uid: str
    why_not: str
    """Why only the scheduler can allocate them; empty: nothing prevents it."""
    missing: str
    """What must happen to them first, if nothing prevents it; empty: nothing."""
    left_over: tuple[str, ...]
    """The claims (namespace/name) that are allocated and reserved for the pod: an earlier placement left them, which is
    taken back first. kube-scheduler reserves none for a pod with a gate. While the pod's own placement is on its way,
    it is assumed.
    """
    _allocator: DeviceAllocator
    _on: Callable[[str], NodeDevices]
    _classes: Mapping[str, DeviceClass]

    @property
    def why_not_now(self) -> str:
        """Why they cannot be allocated before the scheduler sees the pod; empty: they can."""
        return self.why_not or self.missing

    @property
    def signature(self) -> Hashable:
        """Equal for pods whose claims get the same devices."""
        return self.why_not_now, tuple((one.spec, "" if one.pod_claim_name else one.key) for one in self.claims)

    def search(self, places: Iterable[Place], *, one_root: bool, also: Sequence[Result] = ()) -> AlignedSearch:
        """The devices at the best of these places. one_root: whether one PCIe root is required, not just preferred.

        also: devices that are taken besides.
        """
        fitter = AlignedFitter(self._allocator, self.claims, pod_uid=self.pod_uid, one_root=one_root)
        return fitter.search(places, self._on, also)

    def written(self, claim: Claim, results: Sequence[Result], node: str) -> Mapping[str, Any]:
        """The `status.allocation` of one of the claims with these devices of a node."""
        return written_allocation(claim.spec, results, self._classes, node)


def _why_not_allocated(claim: Claim, entry: PodClaim, uid: str) -> str:
    """Why only the scheduler can allocate the claim; empty: nothing prevents it."""
    named, spec = f"claim {entry.name}", claim.spec
    if claim.allocation is not None or claim.fault:
        return f"{named} is allocated already"
    if entry.of_group:
        return f"{named} is shared by its PodGroup"
    if claim.deleted:
        return f"{named} is being deleted"
    if claim.uid and entry.template and claim.owner_uid != uid:
        return f"{named} is not made for this pod"
    if fault := spec.fault or next((one.fault for one in spec.requests if one.fault), ""):
        return f"{named}: {fault}"
    if any(one.first_available for one in spec.requests):
        return f"{named} has a list of alternatives"
    if any(one.admin for one in spec.requests):
        return f"{named} asks for admin access"
    return "" if spec.requests else f"{named} has no request"


def with_claims(pod: Pod, raw: Mapping[str, Any], devices: DeviceState | None, namespace: str = "") -> Pod:
    """The pod of an object with what its claims request. namespace: where the object names none."""
    if devices is None or not (raw.get("spec") or {}).get("resourceClaims"):
        return pod
    of = pod.namespace or namespace or DEFAULT_NAMESPACE
    claimed, claims = devices.claimed(raw, of), devices.claims_of(raw, of, pod.uid)
    gets_devices = not claims.why_not and why_delegated(raw, with_claims=False) is None
    requests = MappingProxyType({**pod.requests, **claimed.amounts})
    return replace(pod, requests=requests, unchecked=claimed.unchecked, gets_devices=gets_devices)


def _row_name(request: Request) -> str:
    """`devices of class gpu.example.com`; with a digest of what else selects them."""
    more = request.selectors, request.tolerations, request.capacity
    of_class = f"devices of class {request.device_class}"
    if not any(more):
        return of_class
    return f"{of_class} ({blake2s(repr(more).encode(), digest_size=3).hexdigest()})"
