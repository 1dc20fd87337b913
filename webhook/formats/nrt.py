"""NUMA topology of a node, read from NodeResourceTopology: v1alpha1, v1alpha2 and the first proposal's `cells`.

It also says how the node's kubelet aligns pods (`TopologyManagerConfig`), and which pods the exporter counted.

Nothing raises here: one exporter's odd object must not stop a cluster. Unusable values are left out and named in
`problems`.
Source: noderesourcetopology-api pkg/apis/topology, scheduler-plugins pkg/noderesourcetopology/nodeconfig (which
configuration wins, limits), resource-topology-exporter, node-feature-discovery and koordlet (what they publish),
k8stopologyawareschedwg/podfingerprint (methods).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from enum import Enum, StrEnum
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from sys import intern
from typing import Any, Final, NamedTuple

from webhook.formats.koordinator.cpu_topology import NodeCPUs
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.formats.managers import UNKNOWN_MANAGERS, Managers, infer, of_koordlet
from webhook.model import names
from webhook.model.fields import NO_FIELDS
from webhook.model.policy import NUMAPolicy, Scope, read_policy, read_policy_as_plugin, read_scope
from webhook.model.quantity import QuantityError
from webhook.model.resources import CPU, NO_RESOURCES, amount
from webhook.model.wording import MAX_NODE_RESOURCES, MAX_ZONES, counted, quoted, told
from webhook.records import record

DEFAULT_MAX_NUMA_NODES: Final = 8
"""The kubelet's own default of max-allowable-numa-nodes."""
MAX_NUMA_NODES: Final = 1024
"""The most NUMA nodes that Linux supports (CONFIG_NODES_SHIFT=10); upstream has the same limit."""


_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)


class FingerprintMethod(StrEnum):
    """Which pods of a node an exporter's pod fingerprint counts."""

    ALL = "all"
    WITH_EXCLUSIVE_RESOURCES = "with-exclusive-resources"
    """Pods with exclusive CPUs, NUMA memory or NUMA devices: resource-topology-exporter's default."""
    EXCLUDE_TERMINAL = "exclude-terminal"


class PluginConfig(NamedTuple):
    """Policy and scope as the plugin NodeResourceTopologyMatch reads them: only exact spellings count."""

    policy: NUMAPolicy = NUMAPolicy.NONE
    scope: Scope = Scope.CONTAINER

    @classmethod
    def read(cls, policies: object, attributes: Iterable[Mapping[str, Any]]) -> "PluginConfig":
        """Read `topologyPolicies` and the top-level attributes."""
        first = policies[0] if isinstance(policies, list) and policies else None
        policy, scope = (read_policy_as_plugin(first) if isinstance(first, str) else None) or cls()
        for attribute in attributes:
            name, value = attribute.get("name"), attribute.get("value")
            if not isinstance(value, str):
                continue
            if name == names.ATTRIBUTE_POLICY:
                found = NUMAPolicy.from_kubelet(value)
                policy = policy if found is None else found
            elif name == names.ATTRIBUTE_SCOPE:
                given = Scope.from_kubelet(value)
                scope = scope if given is None else given
        return cls(policy, scope)


class TopologyManagerConfig:
    """The topology manager's configuration, read field by field; of duplicates the last valid one wins.

    1. Defaults. 2. The first of `topologyPolicies` (deprecated). 3. The top-level attributes in their order.

    An unreadable policy must not count as none, which admits every pod. It is `unknown_policy`, even if the other
    source names a policy: that one is older, or says None because its publisher has no name for the policy.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        self.policy = NUMAPolicy.NONE
        self.unknown_policy = ""
        """The field with an unreadable policy, and its value; empty if it is readable. `policy` is then NONE."""
        self.scope = Scope.CONTAINER
        self.max_numa_nodes = DEFAULT_MAX_NUMA_NODES
        self.prefer_closest = False
        self.fingerprint: str | None = None
        self.fingerprint_method = FingerprintMethod.ALL
        self._in_attributes = False

    def read_topology_policies(self, policies: object) -> None:
        """Apply the first entry of the deprecated list."""
        if isinstance(policies, list) and policies:
            self._read_policy("topologyPolicies[0]", policies[0])

    def read_attributes(self, attributes: Iterable[Mapping[str, Any]]) -> None:
        """Apply the top-level attributes in their order."""
        for attribute in attributes:
            name, value = attribute.get("name"), attribute.get("value")
            if name == names.ATTRIBUTE_POLICY:
                if self._read_policy(names.ATTRIBUTE_POLICY, value, known=self._in_attributes):
                    self._in_attributes = True
            elif not self._read(name, str(value)):
                self.problems.append(f"attribute {name} is ignored: its value {quoted(str(value))} is not valid")

    def _read_policy(self, source: str, value: object, *, known: bool = False) -> bool:
        """Whether the value names a policy, which is then applied. known: the same source has named one before."""
        if value is None or value == "":
            return False  # exporters copy a kubelet's file, which may omit it
        found = read_policy(value) if isinstance(value, str) else None
        if found is not None:
            self.policy, scope = found
            self.scope = self.scope if scope is None else scope
            self.unknown_policy = ""
            return True
        text = f"{source} {quoted(value)}"
        if known:
            self.problems.append(f"{text} is ignored: no known policy")
        else:
            self.policy, self.unknown_policy = NUMAPolicy.NONE, text
            self.problems.append(f"{text} is no known policy: pods that its kubelet might reject stay away")
        return False

    def _read(self, name: object, value: str) -> bool:
        """Whether the attribute was read, or is not one of ours."""
        match name:
            case names.ATTRIBUTE_SCOPE:
                if (scope := read_scope(value)) is None:
                    return False
                self.scope = scope
            case names.ATTRIBUTE_MAX_NUMA_NODES:
                # Upstream's score divides by it, so its minimum there is 2.
                if not _INTEGER.fullmatch(value) or (limit := int(value)) < 2:
                    return False
                self.max_numa_nodes = min(limit, MAX_NUMA_NODES)
            case names.ATTRIBUTE_POLICY_OPTIONS:
                self.prefer_closest = "prefer-closest-numa-nodes=true" in value.replace(" ", "").split(",")
            case names.ATTRIBUTE_PODS_FINGERPRINT:
                self.fingerprint = value
            case names.ATTRIBUTE_PODS_FINGERPRINT_METHOD:
                if value not in set(FingerprintMethod):
                    return False
                self.fingerprint_method = FingerprintMethod(value)
        return True


_MAX_COST = 2**15 - 1  # distances are packed as int16; ACPI's own are bytes
# Keys of metadata.managedFields[].fieldsV1.
_ZONE_FIELDS = frozenset({"f:zones", "f:cells"})
# Longer than any name in use; a longer text is not the name of a NUMA node or resource.
_LONGEST_NAME = 400
_LONGEST_NUMA_NAME = len("numa-node-0000")
# Types of zones in a message.
_MOST_TYPES = 3
# The kubelet's masks have 64 bits. The costs of more NUMA nodes are read one by one.
_MOST_COSTS = 64
_LONGEST_NUMA_NAMES = _MOST_COSTS * (_LONGEST_NUMA_NAME + 1)
_ZONE_NAME = re.compile(r"(?:numa-)?(?:node-)?(\d{1,4})", re.ASCII)


__all__ = ["FingerprintMethod", "NodeTopology", "PluginConfig", "Publisher", "Zone", "ZoneResource", "numa_id_of"]


class Publisher(Enum):
    """What `available` means in an NRT."""

    SUBTRACTS = "subtracts"
    """Exclusive allocations are already subtracted (resource-topology-exporter, node-feature-discovery)."""
    TOTAL = "total"
    """It equals allocatable; bound pods must still be subtracted (koordlet)."""


class ZoneResource(NamedTuple):
    """Amounts of one resource in one zone, in engine units."""

    capacity: int
    allocatable: int
    available: int


@record
class Zone:
    """One NUMA node."""

    id: int
    name: str
    costs: Mapping[int, int]
    """Distance to each NUMA node by id, as in ACPI's SLIT (10 = local); unpublished distances are missing."""
    resources: Mapping[str, ZoneResource]
    unmanaged: Mapping[str, int] = field(default_factory=lambda: NO_RESOURCES)
    """Resource -> capacity of those that are listed here and that no manager of the kubelet allocates."""


@record
class NodeTopology:
    """The NUMA nodes of one node and how its kubelet aligns pods to them."""

    node: str
    policy: NUMAPolicy = NUMAPolicy.NONE
    """NONE also if it is unknown."""
    unknown_policy: str = ""
    """The field with an unreadable policy, and its value; empty if there is none."""
    scope: Scope = Scope.CONTAINER
    plugin: PluginConfig | None = None
    """Policy and scope as the scheduler plugin reads them, if it reads other values; None: the same."""
    max_numa_nodes: int = DEFAULT_MAX_NUMA_NODES
    prefer_closest: bool = False
    zones: tuple[Zone, ...] = ()
    """Ascending by id. Ids may have gaps, so a position in this tuple is not a NUMA id. NUMA nodes that have nothing
    are left out if others have something: no pod gets anything there.
    """
    without_resources: int = 0
    """How many are left out: of NVIDIA's GB200 it is most, one for each partition of a GPU's memory."""
    managers: Managers = UNKNOWN_MANAGERS
    """Which of the kubelet's managers are on; the zones list what these allocate."""
    fingerprint: str | None = None
    fingerprint_method: FingerprintMethod = FingerprintMethod.ALL
    publisher: Publisher = Publisher.SUBTRACTS
    written_at: int | None = None
    """When its zones last changed, in seconds since the epoch by the API server's clock; None = not known."""
    written_by: str = ""
    """The field manager that wrote the zones then; empty = not known."""
    cpus: NodeCPUs | None = None
    """Its cores and threads, and who has which CPU; None if they are not known. Only koordlet publishes them."""
    problems: tuple[str, ...] = ()
    """What was left out and why, as sentences for a log."""

    @classmethod
    def from_object(cls, raw: Mapping[str, Any], known: "NodeTopology | None" = None) -> "NodeTopology":
        """Read a NodeResourceTopology object of any version.

        known: an earlier state without problems, whose zones the object has, too; then they need not be in it.
        """
        metadata: Mapping[str, Any] = raw.get("metadata") or NO_FIELDS
        problems: list[str] = []
        config = TopologyManagerConfig(problems)
        policies, attributes = raw.get("topologyPolicies"), tuple(_entries(raw.get("attributes"), "value", problems))
        config.read_topology_policies(policies)
        config.read_attributes(attributes)
        plugin = PluginConfig.read(policies, attributes)
        annotations: Mapping[str, str] = metadata.get("annotations") or NO_FIELDS
        written_at, written_by = _written(metadata.get("managedFields"))
        publisher = _publisher(metadata.get("labels") or NO_FIELDS, annotations)
        zones, without = _zones(raw, problems) if known is None else (known.zones, known.without_resources)
        # Exporters list what kubelets can give: they were told to leave the CPUs out, unless nothing is aligned anyway.
        listed = [zone.resources for zone in zones if zone.resources]
        if listed and not any(CPU in resources for resources in listed) and config.policy is not NUMAPolicy.NONE:
            problems.append(_WITHOUT_CPUS)
        cpus = NodeCPUs.read(annotations, problems)
        managers = _managers(zones, publisher, cpus)
        return cls(
            node=metadata.get("name", ""),
            policy=config.policy,
            unknown_policy=config.unknown_policy,
            scope=config.scope,
            plugin=None if plugin == (config.policy, config.scope) else plugin,
            max_numa_nodes=config.max_numa_nodes,
            prefer_closest=config.prefer_closest,
            zones=tuple(_allocated(zone, managers) for zone in zones),
            without_resources=without,
            managers=managers,
            fingerprint=config.fingerprint or annotations.get(names.PODS_FINGERPRINT_ANNOTATION),
            fingerprint_method=config.fingerprint_method,
            publisher=publisher,
            written_at=written_at,
            written_by=written_by,
            cpus=cpus,
            problems=told(problems),
        )

    @property
    def numa_nodes(self) -> int:
        """How many NUMA nodes the machine has, as its kubelet counts them."""
        return len(self.zones) + self.without_resources

    def is_rewritten(self, known: "NodeTopology") -> bool:
        """Whether nothing has changed since `known` but who wrote the zones, and when."""
        return _content(self) == _content(known)


_content = attrgetter(*(each.name for each in fields(NodeTopology) if not each.name.startswith("written_")))
"""Everything but who wrote the zones, and when."""


def _publisher(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Publisher:
    """Koordlet marks its objects: a label on those it creates, the CPU topology on those it updates."""
    if labels.get(names.MANAGED_BY_LABEL) == names.MANAGED_BY_KOORDINATOR or names.KOORDLET_CPU_TOPOLOGY in annotations:
        return Publisher.TOTAL
    return Publisher.SUBTRACTS


def _managers(zones: Sequence[Zone], publisher: Publisher, cpus: NodeCPUs | None) -> Managers:
    if publisher is Publisher.TOTAL:
        return of_koordlet("" if cpus is None else cpus.kubelet_policy)
    return infer([_listed(zone) for zone in zones])


def _listed(zone: Zone) -> Mapping[str, ZoneResource]:
    """All resources of a NUMA node as published: nothing is allocatable of those without a manager."""
    if not zone.unmanaged:
        return zone.resources
    return {**zone.resources, **{name: ZoneResource(capacity, 0, 0) for name, capacity in zone.unmanaged.items()}}


def _allocated(zone: Zone, managers: Managers) -> Zone:
    """The NUMA node with the resources that these managers allocate."""
    listed = _listed(zone)
    unmanaged = {name: amounts.capacity for name, amounts in listed.items() if not managers.align(name)}
    if not unmanaged and not zone.unmanaged:
        return zone
    managed = {name: amounts for name, amounts in listed.items() if name not in unmanaged}
    return Zone(zone.id, zone.name, zone.costs, managed, unmanaged)


def _written(managed_fields: object) -> tuple[int | None, str]:
    """The last time at which any manager changed the zones, and that manager; changes of labels do not count."""
    times = [
        (time, str(entry.get("manager") or "")[:_LONGEST_NAME])
        for entry in (managed_fields if isinstance(managed_fields, list) else ())
        if isinstance(entry, dict) and not _ZONE_FIELDS.isdisjoint(entry.get("fieldsV1") or ())
        if (time := epoch_seconds(entry.get("time"))) is not None
    ]
    time, manager = max(times, default=(None, ""))
    return time, intern(manager)


_WITHOUT_CPUS = (
    "no NUMA node lists cpu: CPUs count as not aligned there, and a kubelet that aligns them may reject pods"
)


def _zones(raw: Mapping[str, Any], problems: list[str]) -> tuple[tuple[Zone, ...], int]:
    """The NUMA nodes, and how many more there are that have nothing."""
    zones: dict[int, Zone] = {}
    empty: dict[int, Zone] = {}
    others: Counter[str] = Counter()
    for entry in _entries(raw.get("zones") or raw.get("cells"), "type", problems):
        # Exporters may list sockets, dies and cores, too; a cell has no type and is a NUMA node.
        if (kind := entry.get("type", "Node")) != "Node":
            others[quoted(kind)] += 1
            continue
        name = str(entry.get("name", ""))[:_LONGEST_NAME]
        numa_id = numa_id_of(name)
        if numa_id is None:
            problems.append(
                f"zone {quoted(name)} is ignored: its name must be node-N with N from 0 to {MAX_NUMA_NODES - 1}"
            )
        elif (before := zones.get(numa_id) or empty.get(numa_id)) is not None:
            problems.append(
                f"zone {quoted(name)} is ignored: NUMA node {numa_id} is listed before as {quoted(before.name)}"
            )
        else:
            resources = _resources(name, entry, problems)
            has_any = any(map(any, resources.values()))
            if has_any and len(zones) == MAX_ZONES:
                # Only some of a machine's NUMA nodes would describe a machine that does not exist.
                problems.append(
                    f"there are more than {MAX_ZONES} NUMA nodes with CPUs, memory or devices: "
                    "they are ignored, as if none were published"
                )
                return (), 0
            zone = Zone(numa_id, intern(name), _costs(name, entry, problems), resources)
            (zones if has_any else empty)[numa_id] = zone
    if others:
        named = ", ".join(f"{count} of type {kind}" for kind, count in islice(others.items(), _MOST_TYPES))
        more = ", ..." if len(others) > _MOST_TYPES else ""
        ignored = counted(others.total(), "zone is", "zones are")
        problems.append(f"{ignored} ignored, because only zones of type 'Node' are NUMA nodes: {named}{more}")
    kept = zones or (empty if len(empty) <= MAX_ZONES else {})
    return tuple(kept[numa_id] for numa_id in sorted(kept)), len(zones) + len(empty) - len(kept)


def _costs(zone: str, entry: Mapping[str, Any], problems: list[str]) -> Mapping[int, int]:
    raw = entry.get("costs")
    if (usual := _usual_costs(raw)) is not None:
        return usual
    costs = {}
    for cost in _entries(raw, "value", problems):
        name, value = cost.get("name", ""), cost.get("value")
        to = numa_id_of(str(name))
        if to is None or type(value) is not int or not 0 <= value <= _MAX_COST:
            problems.append(f"zone {quoted(zone)}: cost {quoted(value)} to {quoted(name)} is ignored")
        else:
            costs[to] = value
    return costs


def _usual_costs(raw: object) -> Mapping[int, int] | None:
    """The costs if all are valid and there are not too many; else None."""
    if type(raw) is not list or len(raw) > _MOST_COSTS:
        return None
    try:
        names, values = "\0".join([cost["name"] for cost in raw]), tuple([cost["value"] for cost in raw])
    except (KeyError, TypeError):
        return None
    # Equal keys of the cache below must have equal types: True is the same key as 1, but not a cost.
    if len(names) > _LONGEST_NUMA_NAMES or not set(map(type, values)) <= {int}:
        return None
    return _valid_costs(names, values)


# Machines of one pool have the same distances: 50,000 nodes with 8 NUMA nodes share eight mappings.
@lru_cache(maxsize=4096)
def _valid_costs(joined: str, values: tuple[int, ...]) -> Mapping[int, int] | None:
    """The costs; None if some are invalid. joined: the names, separated by null characters."""
    costs = {}
    names = joined.split("\0") if values else []
    if len(names) != len(values):
        return None  # a name has a null character
    for name, value in zip(names, values, strict=True):
        numa_id = numa_id_of(name)
        if numa_id is None or not 0 <= value <= _MAX_COST:
            return None
        costs[numa_id] = value
    return costs


def _resources(zone: str, entry: Mapping[str, Any], problems: list[str]) -> Mapping[str, ZoneResource]:
    resources: dict[str, ZoneResource] = {}
    for raw in _entries(entry.get("resources"), "capacity", problems):
        name = str(raw.get("name", ""))
        if len(resources) >= MAX_NODE_RESOURCES or len(name) > _LONGEST_NAME:
            problems.append(f"zone {quoted(zone)}: {quoted(name)} is ignored: too many, or too long")
            continue
        # The oldest form has no `available`, and other publishers beside koordlet may omit a field.
        capacity, allocatable, available = (raw.get(key) for key in ("capacity", "allocatable", "available"))
        if allocatable is None:
            allocatable = available if capacity is None else capacity
        capacity = allocatable if capacity is None else capacity
        available = allocatable if available is None else available
        try:
            resources[intern(name)] = _zone_resource(name, capacity, allocatable, available)
        except (QuantityError, TypeError):
            problems.append(
                f"zone {quoted(zone)}: {name} is ignored: "
                f"{quoted(capacity)}, {quoted(allocatable)} or {quoted(available)} is not an amount"
            )
    return resources


# Machines of one pool have equal NUMA nodes, except for what is available.
@lru_cache(maxsize=8192, typed=True)
def _zone_resource(name: str, capacity: object, allocatable: object, available: object) -> ZoneResource:
    if capacity is None:
        raise QuantityError("no amount at all")
    amounts = ZoneResource(amount(name, capacity), amount(name, allocatable), amount(name, available))
    if min(amounts) < 0:
        raise QuantityError("negative")
    return amounts


def _entries(raw: object, plain: str, problems: list[str]) -> Iterator[Mapping[str, Any]]:
    """The named objects of a list, or of the older form: a map from name to object, or to a value of field `plain`."""
    if isinstance(raw, dict):
        for name, value in raw.items():
            yield {"name": name, **(value if isinstance(value, dict) else {plain: value})}
        return
    for entry in raw if isinstance(raw, list) else (raw,):
        if isinstance(entry, dict):
            yield entry
        elif entry is not None:
            problems.append(f"{quoted(entry)} is ignored: it is not an object")


def numa_id_of(name: str) -> int | None:
    """The id of the NUMA node with this name of a zone; None if the name is not like `node-0`."""
    return _remembered_id(name) if len(name) <= _LONGEST_NUMA_NAME else None


# "node-0" is looked up in every zone and every cost of every node.
@lru_cache(maxsize=4096)
def _remembered_id(name: str) -> int | None:
    match = _ZONE_NAME.fullmatch(name)
    return int(match[1]) if match and int(match[1]) < MAX_NUMA_NODES else None
