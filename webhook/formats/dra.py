"""Dynamic Resource Allocation (`resource.k8s.io`): the devices that drivers offer, what claims request, what they have.

    ResourceSlice          some devices of one pool of one driver, and the nodes that can use them
    DeviceClass            selectors that a request inherits, and the extended resource that maps to it
    ResourceClaim          requests for devices, and once it is allocated, the devices
    ResourceClaimTemplate  the spec of the claims that are made for pods
    DeviceTaintRule        a taint that an administrator sets on devices

Version v1 is read; v1beta2 has the same fields. v1beta1 and the alphas have others and are not read.

Nothing raises here. The API server checks these objects, so what cannot be read is newer than this code. The record
says so in `fault`, and the answer of every decision on it is "cannot say", never yes or no. A claim or a slice is never
left out for it, because its devices would then seem free or missing.

Amounts of capacities and counters are exact integers in nano-units (webhook.model.quantity), without an upper bound.

Source: k8s.io/api v0.37.2 resource/v1/types.go (fields and limits), k8s.io/dynamic-resource-allocation v0.37.2
cel/compile.go and structured/internal (which domain a name without one belongs to).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from webhook.formats.kubernetes.node import Taint
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.model.errors import UserError
from webhook.model.fields import NO_FIELDS, mapping, mappings
from webhook.model.quantity import Quantity, QuantityError
from webhook.model.wording import counted, quoted
from webhook.records import record

GROUP: Final = "resource.k8s.io"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Every client that allocates a claim sets it."""
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that is made from a template: the entry of the pod's `spec.resourceClaims`."""
EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that kube-scheduler makes for extended resources that DeviceClasses map."""
CLASS_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""With the name of a DeviceClass: the extended resource that every class has."""

NUMA_ATTRIBUTES: Final = (
    "resource.kubernetes.io/numaNode",  # the standard; dra-driver-nvidia-gpu, dra-driver-cpu, dranet
    "dra.net/numaNode",  # dranet, dra-driver-sriov; dra-driver-cpu and dra-driver-memory beside their own
    "dra.cpu/numaNodeID",  # dra-driver-cpu
    "dra.cpu/numaNode",  # dra-driver-memory
    "dra.memory/numaNode",  # dra-driver-memory
    "gpu.amd.com/numaNode",  # k8s-gpu-dra-driver
    "gpu.nvidia.com/numaNode",  # dra-driver-nvidia-gpu before the standard
    "gpu.nvidia.com/numa",  # the same, for GPUs that are passed to virtual machines
)
"""The attributes that name a device's NUMA node as an integer; the first that a device has counts.

As a list (KEP-6072), the device's own NUMA node is the first, and nearest NUMA nodes of the same socket follow.
"""
PCIE_ROOT_ATTRIBUTES: Final = ("resource.kubernetes.io/pcieRoot",)
"""The attributes that name a device's PCIe root (`pci0000:00`), or, as a list, several; the first counts."""

MAX_NUMA_NODE: Final = 1023
"""The highest NUMA node that Linux knows (CONFIG_NODES_SHIFT=10)."""
MAX_RESULTS: Final = 32
"""Devices of one claim (AllocationResultsMaxSize), and its requests."""
MAX_EXPRESSION: Final = 10 * 1024
"""Bytes of a CEL expression (CELSelectorExpressionMaxLength)."""

# Limits of the API server. An object beyond them is none of its objects, or of a newer version.
_MAX_DEVICES: Final = 128
_MAX_NAMES: Final = 32  # attributes and capacities of a device; also constraints and selectors
_MAX_VALUES: Final = 48  # values of all attributes of a device
_MAX_TAINTS: Final = 16  # also tolerations
_MAX_COUNTER_SETS: Final = 8
_MAX_COUNTERS: Final = 32
_MAX_SUBREQUESTS: Final = 8
_MAX_CONSUMERS: Final = 256
_MAX_VALID_VALUES: Final = 10
# The longest names: a domain (63), a slash and an identifier (32); a pool (253); a string value (64 bytes).
_LONGEST: Final = 400

NO_AMOUNTS: Final[Mapping[str, int]] = MappingProxyType({})

_Many = TypeVar("_Many", Sequence[Any], Mapping[str, Any])


class DeviceId(NamedTuple):
    """What identifies a device in a cluster."""

    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


class Kind(StrEnum):
    """The type of an attribute's value."""

    INT = "int"
    BOOL = "bool"
    STRING = "string"
    VERSION = "version"


class Attribute(NamedTuple):
    """The value of an attribute. Values of different kinds are never equal, though Python's 1 and True are."""

    kind: Kind
    values: tuple[Any, ...]
    """One value, unless `listed`; never empty. int, bool, or str (strings and versions)."""
    listed: bool = False
    """Whether it is published as a list."""


class NodeScope(NamedTuple):
    """The nodes that can use the devices of a slice, or one device: at most one of the fields is set.

    Without any, no node can.
    """

    node: str = ""
    all_nodes: bool = False
    terms: tuple[Mapping[str, Any], ...] | None = None
    """nodeSelectorTerms, unparsed: any of them must hold."""


class RequestPolicy(NamedTuple):
    """In which amounts a capacity is consumed, in nano-units."""

    default: int | None = None
    valid: tuple[int, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    step: int | None = None


class Capacity(NamedTuple):
    """A capacity of a device."""

    nano: int
    policy: RequestPolicy | None = None


class CounterUse(NamedTuple):
    """What a device takes of one set of shared counters when it is allocated."""

    counter_set: str
    counters: Mapping[str, int]
    """Counter -> nano-units."""
    groups: tuple[str, ...] = ()
    """Compatibility groups: devices that use one counter set together must have one in common."""


@record
class Device:
    """A device as its slice publishes it."""

    id: DeviceId
    attributes: Mapping[str, Attribute]
    """By qualified name; a name without a domain gets its driver's."""
    capacity: Mapping[str, Capacity]
    """By the name as it is published, by which requests and allocations name it, too."""
    taints: tuple[Taint, ...] = ()
    scope: NodeScope | None = None
    """The nodes that can use it, if its slice leaves that to each device."""
    counters: tuple[CounterUse, ...] = ()
    shared: bool = False
    """allowMultipleAllocations: several claims may have it, as long as its capacity suffices."""
    binding_conditions: bool = False
    """Whether its driver must confirm an allocation before kube-scheduler binds the pod."""
    binds_to_node: bool = False
    maps_node_resources: bool = False
    """Whether it stands for CPUs or memory of its node (`nodeAllocatableResources`, alpha)."""
    fault: str = ""
    """What of it could not be read, as a sentence; then nothing is known about whether it can be allocated."""

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """Its NUMA node, then the nearest ones if they are published; empty if none is. See NUMA_ATTRIBUTES."""
        for name in NUMA_ATTRIBUTES:
            found = self.attributes.get(name)
            if found is not None and found.kind is Kind.INT:
                return tuple(value for value in found.values if 0 <= value <= MAX_NUMA_NODE)
        return ()

    @property
    def pcie_roots(self) -> tuple[str, ...]:
        """Its PCIe roots; empty if none is published. See PCIE_ROOT_ATTRIBUTES."""
        for name in PCIE_ROOT_ATTRIBUTES:
            found = self.attributes.get(name)
            if found is not None and found.kind is Kind.STRING:
                return found.values
        return ()


@record
class Slice:
    """A ResourceSlice: some devices of a pool, or its shared counters."""

    name: str
    driver: str
    pool: str
    generation: int
    slices: int
    """How many slices the pool has in this generation (`resourceSliceCount`)."""
    scope: NodeScope | None
    """The nodes that can use its devices; None: each device has its own scope."""
    devices: tuple[Device, ...] = ()
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: MappingProxyType({}))
    """Set of shared counters -> counter -> nano-units."""
    fault: str = ""
    """What could not be read, as a sentence; nothing is known about the pool then."""

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "Slice":
        """Read a ResourceSlice."""
        name, driver, pool, generation, count = _name_of(raw), "", "", 0, 0
        # Until its scope is read, it may be any node's.
        scope: NodeScope | None = NodeScope(all_nodes=True)
        try:
            spec = mapping(raw, "spec", "spec")
            driver = _text(spec, "driver", "spec.driver")
            about = mapping(spec, "pool", "spec.pool")
            pool = _text(about, "name", "spec.pool.name")
            generation = _integer(about, "generation", "spec.pool.generation")
            count = _integer(about, "resourceSliceCount", "spec.pool.resourceSliceCount")
            scope = None if spec.get("perDeviceNodeSelection") is True else _scope(spec, "spec")
            raws = _bounded(mappings(spec, "devices", "spec.devices"), _MAX_DEVICES, "spec.devices")
            devices = tuple(
                _device(one, DeviceId(driver, pool, intern(_cut(one.get("name")))), per_device=scope is None)
                for one in raws
            )
            counters = _counter_sets(spec)
        except UserError as error:
            scope = NodeScope(all_nodes=True) if scope is None else scope
            return cls(name, driver, pool, generation, count, scope, fault=f"ResourceSlice {name}: {error}")
        return cls(name, driver, pool, generation, count, scope, devices, counters)


class Toleration(NamedTuple):
    """A toleration of device taints. An empty key or effect covers all of them."""

    key: str = ""
    value: str | None = None
    """None: any value (operator Exists)."""
    effect: str = ""
    seconds: int | None = None
    """How long a taint that comes later is tolerated; None: without limit."""

    def covers(self, taint: Taint) -> bool:
        """Whether it tolerates the taint."""
        return self.effect in {"", taint.effect} and self.key in {"", taint.key} and self.value in {None, taint.value}


@record
class Request:
    """A request of a claim for devices: `exactly`, or one of `firstAvailable`."""

    name: str
    """A subrequest has the name of its request, too: `gpu/large`."""
    device_class: str = ""
    count: int | None = 1
    """None: all devices that match (allocationMode All), at least one."""
    selectors: tuple[str, ...] = ()
    """CEL expressions; all of them must hold, and those of the class."""
    admin: bool = False
    """adminAccess: it takes no device from other claims, and gets those that others have."""
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    """What a device must have at least: by the name that the device gives it, nano-units."""
    first_available: tuple["Request", ...] = ()
    """If it is not empty, the first of these that can be allocated counts, and the fields above are defaults."""
    fault: str = ""
    """What of it could not be read or evaluated, as a sentence."""


@record
class Constraint:
    """What the devices of some requests of a claim must have in common, or not in common."""

    attribute: str
    """The qualified name."""
    distinct: bool = False
    """False: matchAttribute, equal on all of them; True: distinctAttribute, different on each."""
    requests: frozenset[str] = frozenset()
    """Names of requests and subrequests (`gpu/large`); empty: all requests of the claim."""


@record
class ClaimSpec:
    """What a claim requests; equal for all claims of a template."""

    requests: tuple[Request, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    fault: str = ""
    """What of it could not be read, as a sentence."""
    config: tuple[str, ...] = ()
    """What drivers are told, an entry each as JSON: an allocation repeats it."""

    @classmethod
    def from_object(cls, spec: Mapping[str, Any], path: str = "spec") -> "ClaimSpec":
        """Read the `spec` of a claim."""
        try:
            devices = mapping(spec, "devices", f"{path}.devices")
            place = f"{path}.devices.requests"
            raws = _bounded(mappings(devices, "requests", place), MAX_RESULTS, place)
            requests = tuple(_request(one, f"{place}[{index}]") for index, one in enumerate(raws))
            place = f"{path}.devices.constraints"
            raws = _bounded(mappings(devices, "constraints", place), _MAX_NAMES, place)
            constraints = tuple(_constraint(one, f"{place}[{index}]") for index, one in enumerate(raws))
            config = _config(devices, f"{path}.devices.config")
        except UserError as error:
            return cls(fault=str(error))
        return cls(requests, constraints, config=config)


class Result(NamedTuple):
    """A device that a claim has."""

    request: str
    """Of a subrequest: `gpu/large`."""
    device: DeviceId
    admin: bool = False
    share: str = ""
    """shareID: which share of a device that several claims have; empty if it has the device alone."""
    consumed: Mapping[str, int] = NO_AMOUNTS
    """Capacity that the share takes, by the name that the device gives it, in nano-units."""


class Consumer(NamedTuple):
    """Who may use an allocated claim."""

    resource: str
    """`pods`, or with its group: `podgroups.scheduling.k8s.io`."""
    name: str
    uid: str


@record
class Allocation:
    """What a claim has."""

    results: tuple[Result, ...] = ()
    terms: tuple[Mapping[str, Any], ...] | None = None
    """nodeSelectorTerms of the nodes that can use it, unparsed: any of them must hold. None: all nodes can."""


@record
class Claim:
    """A ResourceClaim."""

    namespace: str
    name: str
    uid: str
    spec: ClaimSpec
    allocation: Allocation | None = None
    """None: it is not allocated."""
    reserved_for: tuple[Consumer, ...] = ()
    pod_claim_name: str = ""
    """The entry of its pod's `spec.resourceClaims` if it is made from a template."""
    owner_uid: str = ""
    """The uid of the pod (or PodGroup) that it is made for; empty if users made it."""
    owned_by_group: bool = False
    """Whether it is made for a PodGroup."""
    for_extended_resources: bool = False
    """Whether kube-scheduler made it for extended resources of its owner."""
    deleted: bool = False
    """Whether it is being deleted."""
    finalizers: tuple[str, ...] = ()
    resource_version: str = ""
    fault: str = ""
    """What of its allocation could not be read, as a sentence: it may have any device."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "Claim":
        """Read a ResourceClaim."""
        metadata = _fields(raw, "metadata")
        annotations = _fields(metadata, "annotations")
        allocation, fault = None, ""
        reserved: tuple[Consumer, ...] = ()
        try:
            status = mapping(raw, "status", "status")
            if status.get("allocation") is not None:
                allocation = _allocation(mapping(status, "allocation", "status.allocation"))
            reserved = _consumers(status)
        except UserError as error:
            fault = f"ResourceClaim {_cut(metadata.get('namespace'))}/{_name_of(raw)}: {error}"
        return cls(
            namespace=_cut(metadata.get("namespace")),
            name=_name_of(raw),
            uid=_cut(metadata.get("uid")),
            spec=ClaimSpec.from_object(_fields(raw, "spec")),
            allocation=allocation,
            reserved_for=reserved,
            pod_claim_name=_cut(annotations.get(POD_CLAIM_NAME)),
            owner_uid=_owner_uid(metadata),
            owned_by_group=any(one.get("kind") == "PodGroup" for one in _entries(metadata.get("ownerReferences"))),
            for_extended_resources=annotations.get(EXTENDED_RESOURCE_CLAIM) == "true",
            deleted=metadata.get("deletionTimestamp") is not None,
            finalizers=_finalizers(metadata),
            resource_version=_cut(metadata.get("resourceVersion")),
            fault=fault,
        )


@record
class ClaimTemplate:
    """A ResourceClaimTemplate."""

    namespace: str
    name: str
    spec: ClaimSpec

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "ClaimTemplate":
        """Read a ResourceClaimTemplate."""
        spec = ClaimSpec.from_object(_fields(_fields(raw, "spec"), "spec"), "spec.spec")
        return cls(_cut(_fields(raw, "metadata").get("namespace")), _name_of(raw), spec)


@record
class DeviceClass:
    """A DeviceClass."""

    name: str
    selectors: tuple[str, ...] = ()
    """CEL expressions; all of them must hold."""
    extended_resource: str = ""
    """`spec.extendedResourceName`; empty without one."""
    created: int = 0
    """In seconds since the epoch. Of several classes with one extended resource the newest counts."""
    fault: str = ""
    """What of it could not be read, as a sentence."""
    config: tuple[str, ...] = ()
    """What drivers are told, an entry each as JSON."""

    @property
    def implicit_resource(self) -> str:
        """The extended resource that the class has in any case."""
        return CLASS_RESOURCE_PREFIX + self.name

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "DeviceClass":
        """Read a DeviceClass."""
        metadata = _fields(raw, "metadata")
        name, created, resource = _name_of(raw), epoch_seconds(metadata.get("creationTimestamp")) or 0, ""
        try:
            spec = mapping(raw, "spec", "spec")
            resource = _cut(spec.get("extendedResourceName"))
            return cls(name, _selectors(spec, "spec"), resource, created, config=_config(spec, "spec.config"))
        except UserError as error:
            return cls(name, (), resource, created, f"DeviceClass {name}: {error}")


def mapped_resources(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Extended resource -> the DeviceClass that serves it.

    Of several with one `extendedResourceName` it is the newest, then the first by name.
    Source: k8s.io/dynamic-resource-allocation deviceclass/extendedresourcecache. (There it also depends on the order
    in which the classes were seen, if one of them is changed or deleted.)
    """
    ordered = sorted(classes, key=lambda one: (-one.created, one.name))
    found = {one.implicit_resource: one for one in ordered}
    for one in ordered:
        if one.extended_resource:
            found.setdefault(one.extended_resource, one)
    return found


@record
class TaintRule:
    """A DeviceTaintRule: a taint on the devices that it selects."""

    name: str
    taint: Taint
    driver: str | None = None
    """None: any."""
    pool: str | None = None
    device: str | None = None
    none: bool = False
    """Whether it selects no device."""
    fault: str = ""
    """What of it could not be read, as a sentence: it may taint any device that the fields above select."""

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "TaintRule":
        """Read a DeviceTaintRule."""
        name = _name_of(raw)
        try:
            spec = mapping(raw, "spec", "spec")
            taint = _taint(mapping(spec, "taint", "spec.taint"), "spec.taint")
            if spec.get("deviceSelector") is None:
                return cls(name, taint, none=True)
            selector = mapping(spec, "deviceSelector", "spec.deviceSelector")
            known = {
                key: _optional(selector, key, f"spec.deviceSelector.{key}") for key in ("driver", "pool", "device")
            }
        except UserError as error:
            return cls(name, Taint("", "", ""), fault=f"DeviceTaintRule {name}: {error}")
        # The fields of v1alpha3, deviceClassName and selectors, narrow it further.
        others = sorted(key for key in selector if key not in known and selector[key])
        fault = f"DeviceTaintRule {name}: spec.deviceSelector.{_cut(others[0])} is not read." if others else ""
        return cls(name, taint, known["driver"], known["pool"], known["device"], fault=fault)

    def selects(self, device: DeviceId) -> bool:
        """Whether the taint is on this device."""
        return not self.none and (
            self.driver in {None, device.driver}
            and self.pool in {None, device.pool}
            and self.device in {None, device.name}
        )


def written_allocation(
    spec: ClaimSpec, results: Sequence[Result], classes: Mapping[str, DeviceClass], node: str
) -> dict[str, Any]:
    """The `status.allocation` of a claim of `exactly` requests whose devices are used on this node alone.

    Source: k8s.io/dynamic-resource-allocation v0.37.2 structured/internal/incubating (Allocate, createNodeSelector).
    """
    requests = {one.name: one for one in spec.requests}
    devices = []
    for one in results:
        device = {"request": one.request, "driver": one.device.driver, "pool": one.device.pool}
        device["device"] = one.device.name
        tolerations = [_written_toleration(toleration) for toleration in requests[one.request].tolerations]
        devices.append({**device, **({"tolerations": tolerations} if tolerations else {})})
    config = [
        {"source": "FromClass", **json.loads(entry), **_some_of(requests, names)}
        for name, names in _by_class(spec).items()
        if name in classes
        for entry in classes[name].config
    ]
    for entry in map(json.loads, spec.config):
        names = frozenset(entry.pop("requests", None) or ())
        if not names or not names.isdisjoint(requests):
            config.append({"source": "FromClaim", **entry, **_some_of(requests, names)})
    named = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": devices, **({"config": config} if config else {})},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [named]}]},
    }


def _by_class(spec: ClaimSpec) -> dict[str, frozenset[str]]:
    """The names of the requests of each class."""
    found: dict[str, frozenset[str]] = {}
    for one in spec.requests:
        found[one.device_class] = found.get(one.device_class, frozenset()) | {one.name}
    return found


def _some_of(requests: Mapping[str, Request], names: frozenset[str]) -> dict[str, list[str]]:
    """The field `requests` of a configuration, in the order of the claim; without it, it is for all of them."""
    if not names or names >= requests.keys():
        return {}
    return {"requests": [name for name in requests if name in names]}


def _written_toleration(one: Toleration) -> dict[str, Any]:
    texts = {"key": one.key, "operator": "Exists" if one.value is None else "Equal", "value": one.value or ""}
    lasts = {} if one.seconds is None else {"tolerationSeconds": one.seconds}
    return {**{name: text for name, text in {**texts, "effect": one.effect}.items() if text}, **lasts}


class PodClaim(NamedTuple):
    """An entry of a pod's `spec.resourceClaims`."""

    name: str
    claim: str
    """The ResourceClaim; of a template, the one that was made, and empty until it is."""
    template: str
    """The ResourceClaimTemplate; empty if the pod names a claim."""
    skipped: bool = False
    """Whether the pod needs no claim for it: its status says so."""
    of_group: bool = False
    """Whether the claim is its PodGroup's, which all pods of the group share."""


_COMPUTE_DOMAIN_DRIVER: Final = "compute-domain.nvidia.com"
_CHANNEL: Final = "ComputeDomainChannelConfig"


def is_channel(spec: ClaimSpec) -> bool:
    """Whether the claim makes its pod a member of a ComputeDomain: the nodes of a multi-node NVLink job.

    Source: NVIDIA/k8s-dra-driver-gpu templates/compute-domain-workload-claim-template.tmpl.yaml.
    """
    return _is_channel(spec.config)


@lru_cache(maxsize=4096)
def _is_channel(config: tuple[str, ...]) -> bool:
    for opaque in (_fields(json.loads(text), "opaque") for text in config if _CHANNEL in text):
        if opaque.get("driver") == _COMPUTE_DOMAIN_DRIVER and _fields(opaque, "parameters").get("kind") == _CHANNEL:
            return True
    return False


def pod_claims(pod: Mapping[str, Any]) -> tuple[PodClaim, ...]:
    """The claims that a pod names, in their order."""
    spec, status = _fields(pod, "spec"), _fields(pod, "status")
    made = {
        _cut(one.get("name")): _cut(one.get("resourceClaimName"))
        for one in _entries(status.get("resourceClaimStatuses"))
    }
    found = []
    for one in _entries(spec.get("resourceClaims")):
        name, template = _cut(one.get("name")), _cut(one.get("resourceClaimTemplateName"))
        claim = made.get(name, "") if template else _cut(one.get("resourceClaimName"))
        found.append(PodClaim(name, claim, template, bool(template) and name in made and not claim))
    return tuple(found)


def claim_templates(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The templates (namespace/name) that a pod object names."""
    namespace = _cut(_fields(pod, "metadata").get("namespace"))
    return tuple(intern(f"{namespace}/{one.template}") for one in pod_claims(pod) if one.template)


# ---- devices


def _device(raw: Mapping[str, Any], device: DeviceId, *, per_device: bool) -> Device:
    """A device; its own faults stay its own, so that one odd device does not close a pool."""
    scope = None
    fault = ""
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}
    taints: tuple[Taint, ...] = ()
    counters: tuple[CounterUse, ...] = ()
    try:
        scope = _scope(raw, "") if per_device else None
        attributes = _attributes(mapping(raw, "attributes", "attributes"), device.driver)
        capacity = _capacities(mapping(raw, "capacity", "capacity"), device.driver)
        raws = _bounded(mappings(raw, "taints", "taints"), _MAX_TAINTS, "taints")
        taints = tuple(_taint(one, "taints") for one in raws)
        counters = _counter_uses(raw)
    except UserError as error:
        fault = f"device {device}: {error}"
        if per_device and scope is None:
            scope = NodeScope(all_nodes=True)  # it may be any node's
    return Device(
        device,
        attributes,
        capacity,
        taints,
        scope,
        counters,
        shared=raw.get("allowMultipleAllocations") is True,
        binding_conditions=bool(raw.get("bindingConditions")),
        binds_to_node=raw.get("bindsToNode") is True,
        maps_node_resources=bool(raw.get("nodeAllocatableResources")),
        fault=fault,
    )


def _scope(raw: Mapping[str, Any], path: str) -> NodeScope:
    """The scope of a slice or device; raises UserError."""
    if node := raw.get("nodeName"):
        return NodeScope(node=intern(_text(raw, "nodeName", f"{path}.nodeName")) if isinstance(node, str) else "")
    if raw.get("allNodes") is True:
        return NodeScope(all_nodes=True)
    if raw.get("nodeSelector") is not None:
        return NodeScope(terms=_terms(mapping(raw, "nodeSelector", f"{path}.nodeSelector")))
    return NodeScope()


def _terms(selector: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    return tuple(mappings(selector, "nodeSelectorTerms", "nodeSelectorTerms"))


_KINDS: Final = {
    "int": (Kind.INT, int, False),
    "bool": (Kind.BOOL, bool, False),
    "string": (Kind.STRING, str, False),
    "version": (Kind.VERSION, str, False),
    "ints": (Kind.INT, int, True),
    "bools": (Kind.BOOL, bool, True),
    "strings": (Kind.STRING, str, True),
    "versions": (Kind.VERSION, str, True),
}


def _attributes(raw: Mapping[str, Any], driver: str) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    values = 0
    for name, value in _bounded(raw, _MAX_NAMES, "attributes").items():
        attribute = _attribute(value, f"attributes[{_cut(name)}]")
        values += len(attribute.values)
        full = qualified(name, driver)
        # Upstream, one of the two counts, now the one and now the other.
        if full in found:
            raise UserError(
                f"attributes[{_cut(name)}]", f"{full} is there twice, with and without the driver's domain."
            )
        found[full] = attribute
    if values > _MAX_VALUES:
        raise UserError("attributes", f"There are {values} values. A device has {_MAX_VALUES} at most.")
    return found


def _attribute(raw: object, path: str) -> Attribute:
    # A field that is unset may be there as null.
    given = [(key, value) for key, value in raw.items() if value is not None] if isinstance(raw, dict) else []
    if len(given) != 1 or given[0][0] not in _KINDS:
        raise UserError(path, f"This must have exactly one of {', '.join(_KINDS)}, not {quoted(raw)}.")
    key, value = given[0]
    kind, wanted, listed = _KINDS[key]
    values = tuple(value) if listed and isinstance(value, list) else (value,)
    if not values or len(values) > _MAX_VALUES or any(type(one) is not wanted for one in values):
        raise UserError(f"{path}.{key}", f"This must be {'a list of ' if listed else ''}{key}, not {quoted(value)}.")
    if wanted is str and any(len(one) > _LONGEST for one in values):
        raise UserError(f"{path}.{key}", f"This is longer than {_LONGEST} characters.")
    return _shared_attribute(key, values, kind, listed)


# A driver publishes the same few values on every node. `key` keeps 1 and True apart, which are equal keys.
@lru_cache(maxsize=16384)
def _shared_attribute(_key: str, values: tuple[Any, ...], kind: Kind, listed: bool) -> Attribute:
    return Attribute(kind, values, listed)


def _capacities(raw: Mapping[str, Any], driver: str) -> dict[str, Capacity]:
    found: dict[str, Capacity] = {}
    for name in _bounded(raw, _MAX_NAMES, "capacity"):
        path = f"capacity[{_cut(name)}]"
        value = mapping(raw, name, path)
        policy = mapping(value, "requestPolicy", f"{path}.requestPolicy")
        nano = _nano(value.get("value"), f"{path}.value")
        if nano < 0:
            raise UserError(path, "This must not be negative.")
        found[intern(_cut(name))] = Capacity(nano, _policy(policy, path) if policy else None)
    if len({qualified(name, driver) for name in found}) < len(found):
        raise UserError("capacity", "One is there twice, with and without the driver's domain.")
    return found


def _policy(raw: Mapping[str, Any], path: str) -> RequestPolicy:
    path = f"{path}.requestPolicy"
    ranged = mapping(raw, "validRange", f"{path}.validRange")
    valid = raw.get("validValues") or ()
    if not isinstance(valid, list | tuple) or len(valid) > _MAX_VALID_VALUES:
        raise UserError(f"{path}.validValues", f"This must be a list of at most {_MAX_VALID_VALUES}.")
    return RequestPolicy(
        _optional_nano(raw, "default", path),
        tuple(_nano(one, f"{path}.validValues") for one in valid),
        _optional_nano(ranged, "min", f"{path}.validRange"),
        _optional_nano(ranged, "max", f"{path}.validRange"),
        _optional_nano(ranged, "step", f"{path}.validRange"),
    )


def qualified(name: str, driver: str) -> str:
    """The name of an attribute or capacity with its domain, which is the driver's if it has none."""
    return intern(_cut(name if "/" in name else f"{driver}/{name}"))


def _taint(raw: Mapping[str, Any], path: str) -> Taint:
    key, value = _text(raw, "key", f"{path}.key"), _optional(raw, "value", f"{path}.value") or ""
    return _shared_taint(key, value, _text(raw, "effect", f"{path}.effect"))


@lru_cache(maxsize=1024)
def _shared_taint(key: str, value: str, effect: str) -> Taint:
    return Taint(key, value, effect)


def _counter_uses(raw: Mapping[str, Any]) -> tuple[CounterUse, ...]:
    raws = _bounded(mappings(raw, "consumesCounters", "consumesCounters"), _MAX_COUNTER_SETS, "consumesCounters")
    found = []
    for one in raws:
        counter_set = _text(one, "counterSet", "consumesCounters.counterSet")
        groups = one.get("compatibilityGroups") or ()
        if not isinstance(groups, list | tuple) or len(groups) > _MAX_NAMES:
            raise UserError("consumesCounters.compatibilityGroups", "This must be a short list of names.")
        found.append(CounterUse(counter_set, _counters(one, "consumesCounters"), tuple(map(_cut, groups))))
    return tuple(found)


def _counter_sets(spec: Mapping[str, Any]) -> Mapping[str, Mapping[str, int]]:
    path = "spec.sharedCounters"
    found: dict[str, Mapping[str, int]] = {}
    for one in _bounded(mappings(spec, "sharedCounters", path), _MAX_COUNTER_SETS, path):
        name = _text(one, "name", f"{path}.name")
        if name in found:
            raise UserError(path, f"{quoted(name)} is there twice.")
        found[name] = _counters(one, path)
    return MappingProxyType(found)


def _counters(raw: Mapping[str, Any], path: str) -> Mapping[str, int]:
    counters = _bounded(mapping(raw, "counters", f"{path}.counters"), _MAX_COUNTERS, f"{path}.counters")
    return MappingProxyType(
        {
            intern(_cut(name)): _nano(mapping(counters, name, path).get("value"), f"{path}.counters[{_cut(name)}]")
            for name in counters
        }
    )


# ---- claims


def _request(raw: Mapping[str, Any], path: str) -> Request:
    """A request; its fault stays its own, so that the others of its claim are known."""
    name = _cut(raw.get("name"))
    try:
        exactly = mapping(raw, "exactly", f"{path}.exactly")
        place = f"{path}.firstAvailable"
        alternatives = _bounded(mappings(raw, "firstAvailable", place), _MAX_SUBREQUESTS, place)
        if bool(exactly) == bool(alternatives):
            return Request(name, fault=f"{path}: This must have one of exactly and firstAvailable.")
        if exactly:
            return _exactly(exactly, name, f"{path}.exactly")
        subrequests = tuple(
            _exactly(one, f"{name}/{_cut(one.get('name'))}", f"{place}[{index}]")
            for index, one in enumerate(alternatives)
        )
        return Request(name, first_available=subrequests)
    except UserError as error:
        return Request(name, fault=str(error))


_READ_OF_REQUEST: Final = frozenset(
    {
        "name",
        "deviceClassName",
        "selectors",
        "allocationMode",
        "count",
        "adminAccess",
        "tolerations",
        "capacity",
    }
)


def _exactly(raw: Mapping[str, Any], name: str, path: str) -> Request:
    device_class = _text(raw, "deviceClassName", f"{path}.deviceClassName")
    mode = raw.get("allocationMode") or "ExactCount"
    if mode not in {"ExactCount", "All"}:
        raise UserError(f"{path}.allocationMode", f"{quoted(mode)} is not known.")
    count = raw.get("count") or 1
    if type(count) is not int or count < 1:
        raise UserError(f"{path}.count", f"This must be a positive number, not {quoted(count)}.")
    if unread := sorted(_cut(key) for key, value in raw.items() if value and key not in _READ_OF_REQUEST):
        raise UserError(f"{path}.{unread[0]}", "This field is not read.")
    tolerations = _bounded(mappings(raw, "tolerations", f"{path}.tolerations"), _MAX_TAINTS, f"{path}.tolerations")
    wanted = mapping(mapping(raw, "capacity", f"{path}.capacity"), "requests", f"{path}.capacity.requests")
    return Request(
        name,
        intern(device_class),
        count if mode == "ExactCount" else None,
        _selectors(raw, path),
        raw.get("adminAccess") is True,
        tuple(_toleration(one, f"{path}.tolerations") for one in tolerations),
        tuple(
            (_cut(key), _nano(value, f"{path}.capacity.requests[{_cut(key)}]"))
            for key, value in _bounded(wanted, _MAX_NAMES, f"{path}.capacity.requests").items()
        ),
    )


def _toleration(raw: Mapping[str, Any], path: str) -> Toleration:
    operator = raw.get("operator") or "Equal"
    if operator not in {"Exists", "Equal"}:
        raise UserError(f"{path}.operator", f"{quoted(operator)} is not known.")
    value = None if operator == "Exists" else _optional(raw, "value", f"{path}.value") or ""
    key, effect = _optional(raw, "key", f"{path}.key") or "", _optional(raw, "effect", f"{path}.effect") or ""
    seconds = None if raw.get("tolerationSeconds") is None else _integer(raw, "tolerationSeconds", path)
    return Toleration(key, value, effect, seconds)


def _selectors(raw: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """The CEL expressions of a class or request; raises UserError."""
    path = f"{path}.selectors"
    found = []
    for one in _bounded(mappings(raw, "selectors", path), _MAX_NAMES, path):
        expression = mapping(one, "cel", f"{path}.cel").get("expression")
        if not isinstance(expression, str) or len(expression) > MAX_EXPRESSION:
            raise UserError(f"{path}.cel.expression", f"This must be text of at most {MAX_EXPRESSION} bytes.")
        found.append(intern(expression))
    return tuple(found)


def _config(raw: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """The configuration of a class or claim; raises UserError. Equal entries of many claims are one text."""
    raws = _bounded(mappings(raw, "config", path), _MAX_NAMES, path)
    return tuple(intern(json.dumps(one, sort_keys=True)) for one in raws)


def _constraint(raw: Mapping[str, Any], path: str) -> Constraint:
    match, distinct = raw.get("matchAttribute"), raw.get("distinctAttribute")
    attribute = match or distinct
    if not isinstance(attribute, str) or (match and distinct):
        raise UserError(path, "This must have one of matchAttribute and distinctAttribute.")
    requests = raw.get("requests") or ()
    if not isinstance(requests, list | tuple) or len(requests) > MAX_RESULTS * (1 + _MAX_SUBREQUESTS):
        raise UserError(f"{path}.requests", "This must be a list of names of requests.")
    return Constraint(intern(_cut(attribute)), match is None, frozenset(map(_cut, requests)))


def _allocation(raw: Mapping[str, Any]) -> Allocation:
    path = "status.allocation.devices.results"
    devices = mapping(raw, "devices", "status.allocation.devices")
    results = _bounded(mappings(devices, "results", path), MAX_RESULTS, path)
    selector = mapping(raw, "nodeSelector", "status.allocation.nodeSelector")
    return Allocation(tuple(_result(one, path) for one in results), _terms(selector) if selector else None)


def _result(raw: Mapping[str, Any], path: str) -> Result:
    driver = intern(_text(raw, "driver", f"{path}.driver"))
    device = DeviceId(
        driver, intern(_text(raw, "pool", f"{path}.pool")), intern(_text(raw, "device", f"{path}.device"))
    )
    consumed = mapping(raw, "consumedCapacity", f"{path}.consumedCapacity")
    return Result(
        _cut(raw.get("request")),
        device,
        raw.get("adminAccess") is True,
        _cut(raw.get("shareID")),
        {
            _cut(key): _nano(value, f"{path}.consumedCapacity")
            for key, value in _bounded(consumed, _MAX_NAMES, f"{path}.consumedCapacity").items()
        }
        if consumed
        else NO_AMOUNTS,
    )


def _consumers(status: Mapping[str, Any]) -> tuple[Consumer, ...]:
    path = "status.reservedFor"
    found = []
    for one in _bounded(mappings(status, "reservedFor", path), _MAX_CONSUMERS, path):
        resource, group = _cut(one.get("resource")), _cut(one.get("apiGroup"))
        found.append(
            Consumer(intern(f"{resource}.{group}" if group else resource), _cut(one.get("name")), _cut(one.get("uid")))
        )
    return tuple(found)


def _finalizers(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    found = metadata.get("finalizers")
    return tuple(intern(one) for one in found if type(one) is str) if isinstance(found, list) else ()


def _owner_uid(metadata: Mapping[str, Any]) -> str:
    """The uid of the controller of a claim."""
    for one in _entries(metadata.get("ownerReferences")):
        if one.get("controller") is True:
            return _cut(one.get("uid"))
    return ""


# ---- fields


def _fields(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object in field `name`; empty if it is none."""
    value = raw.get(name)
    return value if isinstance(value, dict) else NO_FIELDS


def _entries(raw: object) -> Sequence[Mapping[str, Any]]:
    return [one for one in raw if isinstance(one, dict)] if isinstance(raw, list) else ()


def _name_of(raw: Mapping[str, Any]) -> str:
    return _cut(_fields(raw, "metadata").get("name"))


def _cut(value: object) -> str:
    """The text, truncated if it is longer than any name; empty if it is none."""
    return value[:_LONGEST] if isinstance(value, str) else ""


def _text(raw: Mapping[str, Any], name: str, path: str) -> str:
    """The text in field `name`, which must be there; raises UserError."""
    value = raw.get(name)
    if not isinstance(value, str) or not value or len(value) > _LONGEST:
        raise UserError(path, f"This must be a name, not {quoted(value)}.")
    return intern(value)


def _optional(raw: Mapping[str, Any], name: str, path: str) -> str | None:
    return None if raw.get(name) is None else (_text(raw, name, path) if raw[name] != "" else "")


def _integer(raw: Mapping[str, Any], name: str, path: str) -> int:
    value = raw.get(name, 0)
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise UserError(path, f"This must be a number, not {quoted(value)}.")
    return value


def _nano(value: object, path: str) -> int:
    """The quantity in nano-units; raises UserError."""
    try:
        return Quantity.from_json(value).nano
    except QuantityError as error:
        raise UserError(path, f"{quoted(value)}: {error}.") from None


def _optional_nano(raw: Mapping[str, Any], name: str, path: str) -> int | None:
    return None if raw.get(name) is None else _nano(raw[name], f"{path}.{name}")


def _bounded(raw: _Many, most: int, path: str) -> _Many:
    """The list or object if it is not longer than the API server allows; raises UserError."""
    if len(raw) > most:
        raise UserError(path, f"There are {counted(len(raw), 'entry', 'entries')}. There may be {most} at most.")
    return raw
