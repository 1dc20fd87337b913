"""The devices that each node can use, and which of them are taken.

    inventory = DeviceInventory()
    inventory.put_slice(slice); inventory.put_claim(claim); inventory.put_class(..); inventory.put_rule(..)
    devices = inventory.on(node name, its labels)     # NodeDevices, for webhook.engine.dra.device_allocation

What this promises:

- `put_*` and `remove_*` are idempotent and may come in any order; a put replaces. They cost what they change.
- `on()` builds the pools of a node once and keeps them until a slice or rule that concerns the node changes. Its pools
  are in kube-scheduler's order: by driver and name, those with binding conditions last; slices by name; devices as they
  stand in their slice.
- `NodeDevices.taken` is live: it changes with the claims. Use a NodeDevices at once, and ask again after a change.
- An allocation counts from the moment that its claim says so, whichever node its pod is on. Devices with admin access
  do not count. An assumed allocation is a claim like any other: put it.

A pool on a node is, as upstream's GatherPools sees it:

1. the slices that the node can use, of the highest generation among them;
2. complete if they are as many as `resourceSliceCount`, or if all slices of the pool with this generation are;
3. obsolete, and left out, if it is not complete by them alone and another slice of the pool has a newer generation;
4. invalid if two devices have one name or a device consumes counters that do not exist.

Only complete and valid pools have devices.

Source: k8s.io/dynamic-resource-allocation v0.37.2 structured/internal/incubating/pools_incubating.go (which
kube-scheduler uses with its default feature gates since 1.36), resourceslice/tracker (DeviceTaintRules); kubernetes
pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from webhook.engine.dra.device_selector import Selector, Unevaluable, compiled
from webhook.engine.snapshot.label_columns import integer
from webhook.formats.dra import (
    Claim,
    Device,
    DeviceClass,
    DeviceId,
    NodeScope,
    Result,
    Slice,
    TaintRule,
    mapped_resources,
)

MAX_SELECTIONS: Final = 32
"""Different lists of selectors whose answers a pool keeps. A pool serves a handful of DeviceClasses; the rest are those
of users' claims, which are as many as a hostile tenant likes.
"""


class PoolDevices:
    """A pool as one node sees it."""

    __slots__ = (
        "__weakref__",
        "_selections",
        "_used",
        "binds_late",
        "consumers",
        "counters",
        "devices",
        "driver",
        "fault",
        "incomplete",
        "invalid",
        "name",
        "plain",
    )

    def __init__(self, driver: str, name: str) -> None:
        self.driver = driver
        self.name = name
        self.devices: tuple[Device, ...] = ()
        """Those that the node can use, in kube-scheduler's order; none if the pool is incomplete or invalid."""
        self.counters: Mapping[str, Mapping[str, int]] = MappingProxyType({})
        """Set of shared counters -> counter -> nano-units."""
        self.consumers: tuple[Device, ...] = ()
        """All devices of the pool that consume counters, also those of other nodes."""
        self.binds_late = False
        """Whether a device has binding conditions; kube-scheduler then takes other pools first."""
        self.plain = True
        """Whether each device is free or not: none is shared or consumes counters."""
        self.incomplete = False
        """Whether its driver is replacing it now."""
        self.invalid = ""
        """Why kube-scheduler does not use it."""
        self.fault = ""
        """What of it could not be read: nothing is known about the pool."""
        self._used: tuple[TakenDevices, int, tuple[bool, ...]] | None = None
        self._selections: dict[tuple[str, ...], tuple[bool | Unevaluable, ...]] = {}

    def selected(self, selectors: tuple[str, ...], budget: "Budget") -> Sequence[bool | Unevaluable]:
        """For each of `devices`, whether all selectors select it. The first that is not true decides."""
        known = self._selections.get(selectors)
        if known is not None:
            return known
        programs = [compiled(selector) for selector in selectors]
        if any(program.excludes(self.driver) for program in programs):
            return (False,) * len(self.devices)
        found = tuple(_all_of(programs, device, budget) for device in self.devices)
        if OUT_OF_BUDGET not in found:
            if len(self._selections) >= MAX_SELECTIONS:
                del self._selections[next(iter(self._selections))]
            self._selections[selectors] = found
        return found

    def used(self, taken: "TakenDevices") -> tuple[bool, ...]:
        """For each of `devices`, whether a claim has it alone."""
        revision = taken.revisions.get((self.driver, self.name), 0)
        if self._used is None or self._used[0] is not taken or self._used[1] != revision:
            self._used = taken, revision, tuple(device.id in taken.holders for device in self.devices)
        return self._used[2]


OUT_OF_BUDGET: Final = Unevaluable("evaluating its selectors on all nodes takes too long")


def _all_of(programs: Sequence[Selector], device: Device, budget: "Budget") -> bool | Unevaluable:
    for program in programs:
        found = program.known(device)
        if found is None:
            found = program.selects(device) if budget.take(program.cost) else OUT_OF_BUDGET
        elif not budget.take(1):
            found = OUT_OF_BUDGET
        if found is not True:
            return found
    return Unevaluable(device.fault, unread=True) if device.fault else True


@dataclass
class Budget:
    """How much work a decision may still do, in operations of about a microsecond."""

    left: int

    def take(self, operations: int) -> bool:
        """Whether the work may be done, which then counts."""
        if operations > self.left:
            return False
        self.left -= operations
        return True


class TakenDevices:
    """The allocations of all claims."""

    __slots__ = ("_claims", "holders", "revisions", "shares", "unread")

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self.holders: dict[DeviceId, tuple[str, ...]] = {}
        """Device -> the claims that have it alone, as namespace/name. More than one is a fault of an allocator."""
        self.shares: dict[DeviceId, dict[str, list[Result]]] = {}
        """Device -> claim -> its shares of the device."""
        self.unread: dict[str, str] = {}
        """Claim -> what of its allocation could not be read. It may have any device."""
        self.revisions: dict[tuple[str, str], int] = {}
        """Driver and name of a pool -> a number that changes with the allocations of its devices."""

    def put(self, claim: Claim) -> None:
        """Count the allocation of a claim, and no longer that of its predecessor."""
        self.remove(claim.key)
        if claim.fault:
            self.unread[claim.key] = claim.fault
        if claim.allocation is None and not claim.fault:
            return
        self._claims[claim.key] = claim
        for result in claim.allocation.results if claim.allocation else ():
            self._count_change(result.device)
            if result.share:
                self.shares.setdefault(result.device, {}).setdefault(claim.key, []).append(result)
            elif not result.admin:
                self.holders[result.device] = (*self.holders.get(result.device, ()), claim.key)

    def remove(self, key: str) -> None:
        """Forget the allocation of a claim. key: namespace/name."""
        claim = self._claims.pop(key, None)
        self.unread.pop(key, None)
        if claim is None or claim.allocation is None:
            return
        for result in claim.allocation.results:
            self._count_change(result.device)
            others = tuple(holder for holder in self.holders.get(result.device, ()) if holder != key)
            if others:
                self.holders[result.device] = others
            else:
                self.holders.pop(result.device, None)
            shares = self.shares.get(result.device)
            if shares is not None:
                shares.pop(key, None)
                if not shares:
                    del self.shares[result.device]

    def _count_change(self, device: DeviceId) -> None:
        pool = device.driver, device.pool
        self.revisions[pool] = self.revisions.get(pool, 0) + 1

    def has(self, device: DeviceId) -> bool:
        """Whether a claim has the device, or a share of it."""
        return device in self.holders or device in self.shares


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """What a node offers to claims."""

    name: str
    labels: Mapping[str, str]
    pools: tuple[PoolDevices, ...]
    """In kube-scheduler's order."""
    taken: TakenDevices
    """The allocations of all claims of the cluster; live."""

    @property
    def devices(self) -> Iterable[Device]:
        """All devices of usable pools."""
        return (device for pool in self.pools for device in pool.devices)


class DeviceInventory:
    """The devices of a cluster, their classes, and the claims that have them."""

    def __init__(self) -> None:
        self._slices: dict[str, Slice] = {}
        self._by_node: defaultdict[str, dict[str, Slice]] = defaultdict(dict)
        self._shared: dict[str, Slice] = {}
        self._by_pool: defaultdict[tuple[str, str], dict[str, Slice]] = defaultdict(dict)
        self._rules: dict[str, TaintRule] = {}
        self._built: dict[str, tuple[Mapping[str, str], tuple[PoolDevices, ...]]] = {}
        self.taken = TakenDevices()
        self.classes: dict[str, DeviceClass] = {}
        """By name."""
        self._mapped: Mapping[str, DeviceClass] | None = None

    @property
    def empty(self) -> bool:
        """Whether the cluster has no slice at all."""
        return not self._slices

    def put_slice(self, found: Slice) -> None:
        """Add or replace a ResourceSlice."""
        if self._slices.get(found.name) == found:
            return
        self.remove_slice(found.name)
        self._slices[found.name] = found
        self._by_pool[found.driver, found.pool][found.name] = found
        scope = found.scope
        if scope is not None and scope.node:
            self._by_node[scope.node][found.name] = found
        else:
            self._shared[found.name] = found
        self._forget_pool(found)

    def remove_slice(self, name: str) -> None:
        """Remove a ResourceSlice."""
        found = self._slices.pop(name, None)
        if found is None:
            return
        self._forget_pool(found)
        del self._by_pool[found.driver, found.pool][name]
        if not self._by_pool[found.driver, found.pool]:
            del self._by_pool[found.driver, found.pool]
        self._shared.pop(name, None)
        if found.scope is not None and found.scope.node:
            del self._by_node[found.scope.node][name]
            if not self._by_node[found.scope.node]:
                del self._by_node[found.scope.node]

    def _forget_pool(self, changed: Slice) -> None:
        """Forget the pools of all nodes that have slices of this pool: one slice can make it complete or obsolete."""
        for other in self._by_pool[changed.driver, changed.pool].values():
            if other.scope is None or not other.scope.node:
                self._built.clear()
                return
            self._built.pop(other.scope.node, None)

    def put_rule(self, rule: TaintRule) -> None:
        """Add or replace a DeviceTaintRule."""
        if self._rules.get(rule.name) != rule:
            self._rules[rule.name] = rule
            self._built.clear()

    def remove_rule(self, name: str) -> None:
        """Remove a DeviceTaintRule."""
        if self._rules.pop(name, None) is not None:
            self._built.clear()

    def put_class(self, found: DeviceClass) -> None:
        """Add or replace a DeviceClass."""
        self.classes[found.name] = found
        self._mapped = None

    def remove_class(self, name: str) -> None:
        """Remove a DeviceClass."""
        self.classes.pop(name, None)
        self._mapped = None

    def put_claim(self, claim: Claim) -> None:
        """Add or replace the allocation of a ResourceClaim."""
        self.taken.put(claim)

    def remove_claim(self, key: str) -> None:
        """Remove a ResourceClaim. key: namespace/name."""
        self.taken.remove(key)

    @property
    def mapped(self) -> Mapping[str, DeviceClass]:
        """Extended resource -> the DeviceClass that serves it."""
        if self._mapped is None:
            self._mapped = MappingProxyType(mapped_resources(self.classes.values()))
        return self._mapped

    @property
    def nodes(self) -> Iterable[str]:
        """The nodes that have slices of their own."""
        return self._by_node.keys()

    @property
    def has_shared(self) -> bool:
        """Whether there are slices that are not of one node: any node may have devices then."""
        return bool(self._shared)

    def on(self, node: str, labels: Mapping[str, str]) -> NodeDevices:
        """The devices that a node can use."""
        known = self._built.get(node)
        if known is not None and (known[0] is labels or not self._shared or known[0] == labels):
            return NodeDevices(node, labels, known[1], self.taken)
        own = self._by_node.get(node)
        pools: tuple[PoolDevices, ...] = ()
        if own or self._shared:
            pools = self._pools(node, labels, own or {})
            self._built[node] = labels, pools
        return NodeDevices(node, labels, pools, self.taken)

    def _pools(self, node: str, labels: Mapping[str, str], own: Mapping[str, Slice]) -> tuple[PoolDevices, ...]:
        by_pool: defaultdict[tuple[str, str], list[Slice]] = defaultdict(list)
        for one in (*own.values(), *self._shared.values()):
            if _uses(one, node, labels):
                by_pool[one.driver, one.pool].append(one)
        found = []
        for key in sorted(by_pool):
            pool = self._pool(key, by_pool[key], node, labels)
            if pool is not None:
                found.append(pool)
        found.sort(key=lambda pool: pool.binds_late)  # stable
        return tuple(found)

    def _pool(
        self, key: tuple[str, str], slices: Sequence[Slice], node: str, labels: Mapping[str, str]
    ) -> PoolDevices | None:
        """The pool, or None if it is obsolete."""
        pool = PoolDevices(*key)
        generation = max(one.generation for one in slices)
        slices = sorted((one for one in slices if one.generation == generation), key=lambda one: one.name)
        every = [one for one in self._by_pool[key].values() if one.generation == generation]
        counts = {one.slices for one in slices}
        pool.fault = next((one.fault for one in self._by_pool[key].values() if one.fault), "")
        if len(counts) > 1:
            # Upstream, the first that it sees counts, which may be any.
            pool.fault = pool.fault or f"the slices of pool {key[1]} of {key[0]} differ in resourceSliceCount"
        elif any(use.groups for one in every for device in one.devices for use in device.counters):
            # Whether they count depends on an alpha feature gate.
            pool.fault = pool.fault or f"pool {key[1]} of {key[0]} has compatibility groups"
        if pool.fault:
            return pool
        (count,) = counts
        if len(slices) == count:
            every = list(slices)
        else:
            if any(one.generation > generation for one in self._by_pool[key].values()):
                return None
            if len(every) != count:
                pool.incomplete = True
                return pool
        self._fill(pool, slices, every, node, labels)
        return pool

    def _fill(
        self, pool: PoolDevices, slices: Sequence[Slice], every: Sequence[Slice], node: str, labels: Mapping[str, str]
    ) -> None:
        """Check the pool, and set its devices if it is valid. every: all slices that count for shared counters."""
        names = [device.id.name for one in slices if not one.counters for device in one.devices]
        sets = [(name, counters) for one in every for name, counters in one.counters.items()]
        counters = dict(sets)
        consumers = tuple(device for one in every if not one.counters for device in one.devices if device.counters)
        if len(set(names)) < len(names):
            pool.invalid = "two devices have one name"
        elif len(counters) < len(sets):
            pool.invalid = "two sets of shared counters have one name"
        elif any(
            not use.counters.keys() <= counters.get(use.counter_set, _NO_SET).keys() or use.counter_set not in counters
            for device in consumers
            for use in device.counters
        ):
            pool.invalid = "a device consumes counters that do not exist"
        else:
            usable = [device for one in slices if not one.counters for device in one.devices]
            pool.devices = tuple(
                self._tainted(device) for device in usable if device.scope is None or covers(device.scope, node, labels)
            )
            pool.binds_late = any(device.binding_conditions for device in usable)
            pool.plain = not any(device.shared or device.counters for device in pool.devices)
            pool.counters = counters
            pool.consumers = consumers

    def _tainted(self, device: Device) -> Device:
        """The device with the taints that rules set on it."""
        rules = [rule for rule in self._rules.values() if rule.selects(device.id)]
        if not rules:
            return device
        fault = next((rule.fault for rule in rules if rule.fault), "")
        return replace(
            device,
            taints=(*device.taints, *(rule.taint for rule in rules if not rule.fault)),
            fault=device.fault or fault,
        )


_NO_SET: Final[Mapping[str, int]] = MappingProxyType({})


def _uses(one: Slice, node: str, labels: Mapping[str, str]) -> bool:
    """Whether the node can use the slice, or one of its devices."""
    if one.scope is not None:
        return covers(one.scope, node, labels)
    return any(device.scope is not None and covers(device.scope, node, labels) for device in one.devices)


def covers(scope: NodeScope, node: str, labels: Mapping[str, str]) -> bool:
    """Whether the node is in the scope."""
    if scope.node:
        return scope.node == node
    return scope.all_nodes or (scope.terms is not None and any_holds(scope.terms, node, labels))


def any_holds(terms: Iterable[Mapping[str, Any]], node: str, labels: Mapping[str, str]) -> bool:
    """Whether any of these nodeSelectorTerms holds for the node; see webhook.engine.filter.node_fit."""
    return any(_holds(term, node, labels) for term in terms)


def _holds(term: Mapping[str, Any], node: str, labels: Mapping[str, str]) -> bool:
    on_labels, on_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    return bool(on_labels or on_fields) and (
        all(_matches(one, labels.get(one.get("key", ""))) for one in on_labels)
        and all(one.get("key") == "metadata.name" and _names(one, node) for one in on_fields)
    )


def _names(requirement: Mapping[str, Any], node: str) -> bool:
    values: Sequence[str] = requirement.get("values") or ()
    if len(values) != 1 or requirement.get("operator") not in {"In", "NotIn"}:
        return False
    return (node == values[0]) is (requirement["operator"] == "In")


def _matches(requirement: Mapping[str, Any], value: str | None) -> bool:
    """Whether a label's value (None: the node lacks it) meets the requirement. A malformed one is met nowhere."""
    values: Sequence[str] = requirement.get("values") or ()
    match operator := requirement.get("operator"):
        case "In":
            return value in values if value is not None else False
        case "NotIn":
            return bool(values) and (value is None or value not in values)
        case "Exists":
            return value is not None and not values
        case "DoesNotExist":
            return value is None and not values
        case "Gt" | "Lt" if len(values) == 1 and value is not None:
            number, bound = integer(value), integer(str(values[0]))
            if number is None or bound is None:
                return False
            return number > bound if operator == "Gt" else number < bound
    return False
