"""Adds up what pods hold by their allocations, per NUMA node, and compares it with the NodeResourceTopologies.

It checks the two guarantees of the project: no NUMA node is assigned twice, and no pod waits although it would fit.
It reads only objects, with the Kubernetes client's arithmetic, so that no code under test judges itself. The nodes are
those without a kubelet (nodes.py): their `available` never changes, whatever is bound there.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from kubernetes.utils.quantity import parse_quantity

from tests.cluster.gated import NUMA, PLACEMENT, is_gated
from tests.cluster.nodes import NODES, RACK_LABEL, TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tests.cluster.control_plane import ControlPlane
    from webhook.model.raw import Draft
DOMAIN_RACK = "topology-webhook.dev/domain-rack"
# The scheduler retries a pod that it could not schedule after 1 to 10 s.
STILL_SECONDS = 25.0
POLL_SECONDS = 0.5


class Slot(NamedTuple):
    """One resource of one NUMA node."""

    node: str
    numa: int
    resource: str


def overcommitted(plane: ControlPlane, raws: Iterable[Draft]) -> dict[Slot, Decimal]:
    """By how much the allocations of these pods exceed what the NodeResourceTopologies have available."""
    return {slot: -amount for slot, amount in left(plane, raws).items() if amount < 0}


def left(plane: ControlPlane, raws: Iterable[Draft]) -> dict[Slot, Decimal]:
    """What these pods leave of each NUMA node; negative if they hold more than it has."""
    room = {
        Slot(topology["metadata"]["name"], int(zone["name"].removeprefix("node-")), resource["name"]): Decimal(
            parse_quantity(resource["available"])
        )
        for topology in plane.api.get(TOPOLOGIES)["items"]
        for zone in topology["zones"]
        for resource in zone["resources"]
    }
    for slot, amount in held(raws).items():
        room[slot] = room.get(slot, Decimal(0)) - amount
    return room


def held(raws: Iterable[Draft]) -> Mapping[Slot, Decimal]:
    """What these pods hold by their allocations."""
    taken: defaultdict[Slot, Decimal] = defaultdict(Decimal)
    for raw in raws:
        allocation = json.loads(raw["metadata"].get("annotations", {}).get(NUMA, "{}"))
        for entry in allocation.get("numaNodeResources", ()):
            for resource, amount in entry["resources"].items():
                taken[Slot(allocation["node"], entry["node"], resource)] += Decimal(parse_quantity(amount))
    return taken


def racks_at_odds(plane: ControlPlane, raws: Iterable[Draft]) -> Mapping[str, set[str]]:
    """Group -> racks, for groups that have to be in one rack and are in several.

    The rack is the label of the pod's node; if the node is gone, the pod's own label.
    """
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in plane.api.get(NODES)["items"]}
    racks: defaultdict[str, set[str]] = defaultdict(set)
    for raw in raws:
        asked, node = _annotations(raw), raw["spec"].get("nodeName") or _allocated_node(raw)
        if node and asked.get("kai.scheduler/topology-required-placement") in {"rack", RACK_LABEL}:
            known = labels.get(node, {}).get(RACK_LABEL) or raw["metadata"]["labels"].get(DOMAIN_RACK, "")
            racks[asked.get("pod-group-name", "")].add(known)
    return {group: found for group, found in racks.items() if len(found) > 1}


class EndState(NamedTuple):
    """The state of pods with one container each, all of which request one NUMA node."""

    bound: frozenset[str]
    waiting: frozenset[str]
    """Pods with our gate."""
    unbound: frozenset[str]
    """Pods without a gate and without a node."""
    unallocated: frozenset[str]
    """Bound pods without an allocation that names their node."""
    unexplained: frozenset[str]
    """Waiting pods that show no reason."""
    could_go: frozenset[str]
    """Waiting or unbound pods that would fit on one NUMA node, and on its node."""
    overcommitted: Mapping[Slot, Decimal]

    def __str__(self) -> str:
        return (
            f"{len(self.bound)} bound ({len(self.unallocated)} without an allocation), {len(self.waiting)} waiting "
            f"({len(self.unexplained)} without a reason), {len(self.unbound)} neither, {len(self.could_go)} that could "
            f"go, {len(self.overcommitted)} NUMA resources over-committed"
        )


def when_settled(plane: ControlPlane, pods: Callable[[], Mapping[str, Draft]]) -> EndState:
    """The state once every ungated pod is bound and no other would fit, or when nothing changed for `STILL_SECONDS`."""
    last, moved = None, time.monotonic()
    while True:
        now = end_state(plane, pods())
        if now != last:
            last, moved = now, time.monotonic()
        if not now.unbound | now.could_go or time.monotonic() - moved > STILL_SECONDS:
            return now
        time.sleep(POLL_SECONDS)


def end_state(plane: ControlPlane, raws: Mapping[str, Draft]) -> EndState:
    """Check these pods, by name. The nodes must have no other pods."""
    bound = {name for name, raw in raws.items() if raw["spec"].get("nodeName")}
    waiting = {name for name, raw in raws.items() if is_gated(raw)}
    room = left(plane, raws.values())
    free = _free(room, [raws[name] for name in bound if not _allocated_node(raws[name])])
    return EndState(
        bound=frozenset(bound),
        waiting=frozenset(waiting),
        unbound=frozenset(raws.keys() - bound - waiting),
        unallocated=frozenset(name for name in bound if _allocated_node(raws[name]) != raws[name]["spec"]["nodeName"]),
        unexplained=frozenset(name for name in waiting if not _annotations(raws[name]).get(PLACEMENT)),
        could_go=frozenset(
            name
            for name in raws.keys() - bound
            if not _allocated_node(raws[name]) and any(_fits(raws[name], amounts) for amounts in free)
        ),
        overcommitted={slot: -amount for slot, amount in room.items() if amount < 0},
    )


def _free(room: Mapping[Slot, Decimal], unallocated: Iterable[Draft]) -> list[dict[str, Decimal]]:
    """What can be assigned of each NUMA node.

    Nodes with an pod without an allocation are left out: until an NRT has reported it, its total is reserved on every
    NUMA node, and
    so are those of other pods there whose allocations it may have made wrong.
    """
    in_doubt = {raw["spec"]["nodeName"] for raw in unallocated}
    zones: defaultdict[tuple[str, int], dict[str, Decimal]] = defaultdict(dict)
    for slot, amount in room.items():
        if slot.node not in in_doubt:
            zones[slot.node, slot.numa][slot.resource] = amount
    return list(zones.values())


def _fits(raw: Draft, free: Mapping[str, Decimal]) -> bool:
    return all(parse_quantity(amount) <= free.get(resource, Decimal(0)) for resource, amount in _requests(raw).items())


def _requests(raw: Draft) -> Mapping[str, str]:
    (container,) = raw["spec"]["containers"]
    requests: Mapping[str, str] = container["resources"]["requests"]
    return requests


def _allocated_node(raw: Draft) -> str:
    return str(json.loads(_annotations(raw).get(NUMA, "{}")).get("node", ""))


def _annotations(raw: Draft) -> Mapping[str, str]:
    return raw["metadata"].get("annotations") or {}
