"""Devices of Dynamic Resource Allocation (DRA): what drivers offer on nodes, and what claims hold of it.

1. Informers fill the feeds, where the API server serves `resource.k8s.io/v1` and the setting is on. A change marks the
   nodes that it concerns; nothing is computed yet.
2. `settle` computes the marked nodes: what they have of each extended resource that a DeviceClass maps (KEP-5004).

Devices of one node mark that node. Devices that several nodes can reach count on each of them, and mark all of them.

What is not known counts as there: a device that may match, or one that may be free. So these amounts never exclude a
node that the scheduler could use, but they may include one that it cannot use.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from webhook.engine.snapshot.cluster_state import ClusterState, SliceAmount
from webhook.formats.dra import (
    Claim,
    ClaimTemplate,
    Device,
    DeviceClass,
    DeviceId,
    NodeScope,
    Slice,
    TaintRule,
    mapped_resources,
)
from webhook.signal import Signal
from webhook.state.store import Feed, Store

Pool = tuple[str, str]
"""Driver and name."""

DEVICE_KINDS: Final = ("DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaimTemplate", "ResourceClaim")
"""The kinds that are read."""

# Effects that keep a device from requests that do not tolerate them, as those of extended resources.
_EXCLUDING: Final = frozenset({"NoSchedule", "NoExecute"})
_DRIVER: Final = re.compile(r"""\s*device\.driver\s*==\s*(["'])(?P<driver>[^"'\\]+)\1\s*""")


class DeviceState:
    """The devices of the cluster, current as of the last event. nodes: they get the amounts."""

    def __init__(self, nodes: ClusterState) -> None:
        self.changed = Signal[[]]()
        """Emitted after each change that may affect a waiting pod."""
        self.classes = Store("DeviceClass", DeviceClass.from_object, lambda one: one.name)
        self.taint_rules = Store("DeviceTaintRule", TaintRule.from_object, lambda one: one.name)
        self.templates = Store("ResourceClaimTemplate", ClaimTemplate.from_object, lambda one: one.key)
        self.slices = Feed("ResourceSlice", Slice.from_object, self._put_slice, self._drop_slice)
        self.claims = Feed("ResourceClaim", Claim.from_object, self._put_claim, self._drop_claim)
        self.feeds: Mapping[str, Feed[Any]] = {
            "ResourceSlice": self.slices,
            "ResourceClaim": self.claims,
            "ResourceClaimTemplate": self.templates.feed,
            "DeviceClass": self.classes.feed,
            "DeviceTaintRule": self.taint_rules.feed,
        }
        """The feeds of all kinds."""
        self.classes.changed.subscribe(self._mark_all)
        self.taint_rules.changed.subscribe(self._mark_all)
        self.templates.changed.subscribe(self.changed.emit)
        self._nodes = nodes
        self._slices: dict[str, Slice] = {}
        self._pools: defaultdict[Pool, dict[str, Slice]] = defaultdict(dict)
        self._pools_of: defaultdict[str, set[Pool]] = defaultdict(set)  # by node
        self._reached: set[Pool] = set()  # by several nodes
        self._claims: dict[str, Claim] = {}
        self._holders: defaultdict[DeviceId, set[str]] = defaultdict(set)
        self._marked: dict[str, None] = {}
        self._mapped: tuple[int, Mapping[str, DeviceClass]] = 0, {}

    def claims_by_key(self) -> Mapping[str, Claim]:
        """The claims by namespace/name, live."""
        return self._claims

    def put_node(self, name: str) -> None:
        """Note a node, which may be new and reach devices that several nodes can reach."""
        if self._reached:
            self._marked[name] = None

    def settle(self, most: int | None = None) -> bool:
        """Compute the marked nodes, or the first of them; whether none is left."""
        if self._mapped[0] != self.classes.revision:
            self._mapped = self.classes.revision, mapped_resources(self.classes.by_key().values())
            self._nodes.put_served_resources(frozenset(self._mapped[1]))
        for node in tuple(self._marked)[:most]:
            del self._marked[node]
            self._nodes.put_slice_amounts(node, dict(self._amounts(node)))
        return not self._marked

    def devices_of(self, node: str) -> Iterator[Device]:
        """The devices that the node can reach, of complete pools."""
        for pool in sorted(self._pools_of.get(node, set()) | self._reached):
            for one in _newest(self._pools[pool].values()):
                yield from (each for each in one.devices if _may_reach(one.scope or each.scope, node))

    def holders(self, device: DeviceId) -> Iterable[Claim]:
        """The claims that have the device, by name; not those with admin access."""
        return [self._claims[key] for key in sorted(self._holders.get(device, ()))]

    def _amounts(self, node: str) -> Iterator[tuple[str, SliceAmount]]:
        devices = {one.id: one for one in self.devices_of(node)}
        if not devices:
            return
        tainted = {key for key, one in devices.items() if self._is_tainted(one)}
        held = {key: self._classes_of_requests(key) for key in devices if key in self._holders}
        matching: dict[str, list[DeviceId]] = {}
        for resource, found in self._mapped[1].items():
            if found.name not in matching:
                matching[found.name] = [key for key, one in devices.items() if _may_match(one, found)]
            ids = matching[found.name]
            if ids:
                taken = sum(key in tainted or bool(held.get(key, set()) - {found.name}) for key in ids)
                yield resource, SliceAmount(len(ids), taken)

    def _classes_of_requests(self, device: DeviceId) -> set[str]:
        """The classes of the extended resources for which the device is held; "" if it is held for anything else."""
        found = set()
        for claim in self.holders(device):
            of = {request.name: request.device_class for request in claim.spec.requests}
            for result in claim.allocation.results if claim.allocation else ():
                if result.device == device and not result.admin:
                    found.add(of.get(result.request, "") if claim.for_extended_resources else "")
        return found

    def _is_tainted(self, device: Device) -> bool:
        rules = (one.taint for one in self.taint_rules.by_key().values() if one.selects(device.id) and not one.fault)
        return any(taint.effect in _EXCLUDING for taint in (*device.taints, *rules))

    def _put_slice(self, one: Slice) -> None:
        if self._slices.get(one.name) == one:
            return
        self._take_out(one.name)
        pool = one.driver, one.pool
        self._slices[one.name] = self._pools[pool][one.name] = one
        for node in _nodes_of(one):
            self._pools_of[node].add(pool)
        if _is_reached_by_several(one):
            self._reached.add(pool)
        self._mark_pool(pool)
        self.changed.emit()

    def _drop_slice(self, name: str) -> None:
        if name in self._slices:
            self._take_out(name)
            self.changed.emit()

    def _take_out(self, name: str) -> None:
        one = self._slices.pop(name, None)
        if one is None:
            return
        pool = one.driver, one.pool
        self._mark_pool(pool)
        others = self._pools[pool]
        del others[name]
        for node in _nodes_of(one):
            if not any(node in _nodes_of(other) for other in others.values()):
                self._pools_of[node].discard(pool)
        if not any(map(_is_reached_by_several, others.values())):
            self._reached.discard(pool)
        if not others:
            del self._pools[pool]

    def _put_claim(self, claim: Claim) -> None:
        before = self._claims.get(claim.key)
        self._claims[claim.key] = claim
        if before is not None and replace(before, resource_version=claim.resource_version) == claim:
            return
        if before is None or before.allocation != claim.allocation:
            self._hold(before, held=False)
            self._hold(claim, held=True)
        self.changed.emit()

    def _drop_claim(self, key: str) -> None:
        claim = self._claims.pop(key, None)
        if claim is not None:
            self._hold(claim, held=False)
            self.changed.emit()

    def _hold(self, claim: Claim | None, *, held: bool) -> None:
        """Note that the claim holds its devices, or no longer."""
        if claim is None or claim.allocation is None:
            return
        for result in claim.allocation.results:
            if result.admin:
                continue
            if held:
                self._holders[result.device].add(claim.key)
            else:
                self._holders[result.device].discard(claim.key)
                if not self._holders[result.device]:
                    del self._holders[result.device]
            self._mark_pool((result.device.driver, result.device.pool))

    def _mark_pool(self, pool: Pool) -> None:
        if pool in self._reached:
            self._mark_all()
        else:
            self._marked.update((node, None) for one in self._pools.get(pool, {}).values() for node in _nodes_of(one))

    def _mark_all(self) -> None:
        """Mark all nodes that have devices; and if several nodes reach some, all nodes that there are."""
        self._marked.update(dict.fromkeys(self._pools_of))
        if self._reached:
            self._marked.update(dict.fromkeys(self._nodes.nodes))
        self.changed.emit()


def _may_match(device: Device, found: DeviceClass) -> bool:
    """Whether the device may be of the class: an expression about anything but its driver is not evaluated."""
    drivers = (_DRIVER.fullmatch(selector) for selector in found.selectors)
    return all(match is None or match["driver"] == device.id.driver for match in drivers)


def _nodes_of(one: Slice) -> set[str]:
    """The nodes that the slice names."""
    scopes = [one.scope] if one.scope is not None else [device.scope for device in one.devices]
    return {scope.node for scope in scopes if scope is not None and scope.node}


def _may_reach(scope: NodeScope | None, node: str) -> bool:
    """Whether the node can use the devices; of a node selector that is not known here."""
    return scope is not None and (scope.node == node or scope.all_nodes or scope.terms is not None)


def _is_reached_by_several(one: Slice) -> bool:
    scopes = [one.scope] if one.scope is not None else [device.scope for device in one.devices]
    return any(scope is not None and (scope.all_nodes or scope.terms is not None) for scope in scopes)


def _newest(slices: Iterable[Slice]) -> list[Slice]:
    """The slices of a pool's newest generation; none while it is not complete.

    Source: k8s.io/dynamic-resource-allocation structured/internal (GatherPools).
    """
    found = list(slices)
    generation = max(one.generation for one in found)
    newest = [one for one in found if one.generation == generation]
    return newest if all(len(newest) == one.slices for one in newest) else []
