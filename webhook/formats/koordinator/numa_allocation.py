"""The NUMA nodes of a pod: our own allocation, and the status that Koordinator's node agent obeys.

    topology-webhook.dev/numa                  {"node":"n1","numaNodeResources":[{"node":0,"resources":{"cpu":"8"}}]}
    scheduling.koordinator.sh/resource-status  {"numaNodeResources":[{"node":0,"resources":{"cpu":"8"}}]}

An allocation has a signature, which proves that it is ours (`AllocationKey`).

An assignment adds `"reviewed":false` to its allocation, and the Binding of a reviewed pod writes the allocation without
that. So a
bound pod that still has it was bound without a review, and its kubelet may have chosen other NUMA nodes. Allocations of
releases that did not write it say nothing of this.

A pod that has a node but cannot be bound keeps the node without its resources: `{"node":"n1","reserved":false}`.
A bound pod whose NUMA nodes are uncertain has `{"node":"n1","certain":false}` until that is removed.

Source: koordinator apis/extension/numa_aware.go (ResourceStatus).
"""

import hmac
import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from secrets import token_bytes
from typing import Any, Final, Self

from webhook.codec import loads
from webhook.formats.koordinator.cpu_topology import read_cpu_list
from webhook.model.errors import UserError
from webhook.model.names import NUMA_ALLOCATION, NUMA_SIGNATURE, RESOURCE_STATUS
from webhook.model.resources import format_amount, parse_list
from webhook.model.wording import counted, quoted

SEAL: Final = "topology-webhook.dev/seal"
"""The annotation with the proof that we made an object other than a pod."""

_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 16
# The key's name in the Secret's data.
_ENTRY: Final = "hint.key"


@dataclass(frozen=True, slots=True)
class AllocationKey:
    """A key that signs allocations and verifies them.

    The signature is a message authentication code (HMAC) over the pod's uid and the allocation. An allocation on a pod
    that is not
    bound reserves NUMA nodes, so it is trusted only with this proof. The API server chooses the uid, so the signature
    of one pod is invalid on a copy of it. The key is in a Secret that all replicas share, so a replica that restarts
    can verify older allocations.

    Rejected alternatives:
    - the admission policy alone: it may be off, or absent, or installed after the forgery;
    - the node in the pod's affinity, the missing gate, `managedFields`: the pod's creator can write all of them;
    - a condition in the status, which tenants cannot write: one more write for each assigned pod;
    - the leader's memory: the next leader would trust no allocation, and split gangs that are half bound.

    Source: RFC 2104; NIST SP 800-107 (a code of 128 bits suffices, a key as long as the hash).
    """

    secret: bytes = field(repr=False)

    @classmethod
    def create(cls) -> Self:
        """Generate a key."""
        return cls(token_bytes(_KEY_BYTES))

    @classmethod
    def from_secret_data(cls, data: Mapping[str, str]) -> Self | None:
        """The key in the `data` of a Secret; None if it is missing or invalid."""
        try:
            secret = b64decode(data.get(_ENTRY, ""), validate=True)
        except ValueError:
            return None
        return cls(secret) if len(secret) == _KEY_BYTES else None

    def to_secret_data(self) -> dict[str, str]:
        """The `data` of a Secret with this key."""
        return {_ENTRY: b64encode(self.secret).decode()}

    def sign(self, uid: str, allocation: str) -> str:
        """The signature of an allocation, given as its annotation's value, for the pod with this uid."""
        return self._code(f"{NUMA_ALLOCATION}\0{uid}\0{allocation}".encode(errors="surrogatepass"))

    def seal(self, *parts: str) -> str:
        """The proof that we made an object with these parts: its kind, its name, and what it asks for.

        A copy of the object in the same place is equal to it. The proof is invalid for any other object.
        """
        return self._code(json.dumps([SEAL, *parts]).encode())

    def _code(self, message: bytes) -> str:
        return urlsafe_b64encode(hmac.digest(self.secret, message, "sha256")[:_SIGNATURE_BYTES]).decode().rstrip("=")

    def has_sealed(self, seal: object, *parts: str) -> bool:
        """Whether this is the seal of an object with these parts."""
        return isinstance(seal, str) and hmac.compare_digest(
            self.seal(*parts).encode(), seal.encode(errors="surrogatepass")
        )

    def believed(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The pod, without its allocation if the pod is unbound and the allocation has no valid signature.

        The argument is not modified.
        """
        metadata: Mapping[str, Any] = raw["metadata"]
        annotations: Mapping[str, str] = metadata.get("annotations") or {}
        allocation = annotations.get(NUMA_ALLOCATION)
        if allocation is None or (raw.get("spec") or {}).get("nodeName") or self._has_signed(metadata, allocation):
            return raw
        rest = {name: text for name, text in annotations.items() if name != NUMA_ALLOCATION}
        return {**raw, "metadata": {**metadata, "annotations": rest}}

    def _has_signed(self, metadata: Mapping[str, Any], allocation: str) -> bool:
        uid, signature = metadata.get("uid"), metadata["annotations"].get(NUMA_SIGNATURE)
        if not uid or signature is None:
            return False
        expected = self.sign(uid, allocation).encode()
        return hmac.compare_digest(expected, signature.encode(errors="surrogatepass"))


class UnverifiedAllocations(AllocationKey):
    """Stands in for the key where it cannot be read: allocations of unbound pods count without a signature.

    For commands, which only read. In a cluster with the service, other users cannot write allocations.
    """

    def believed(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The pod as it is."""
        return raw


NUMANodeAmounts = tuple[tuple[int, Mapping[str, int]], ...]
"""(NUMA id, {resource: amount in engine units}) for each NUMA node used."""

# The length of an allocation with 64 NUMA nodes, each with 16 resources of 64 characters. We write no longer
# allocations. Parsing a
# longer one would block all other requests for milliseconds.
_LONGEST: Final = 64 * 16 * 64
_NO_CPUS: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class NUMAAllocation:
    """The NUMA nodes that a pod has on one node, and the amounts on each."""

    node: str
    numa_nodes: NUMANodeAmounts
    reserved: bool = True
    """Whether the pod's resources are reserved on the node. False after the scheduler could not bind the pod there."""
    certain: bool = True
    """Whether the NUMA nodes are known."""
    reviewed: bool = True
    """False in the allocation of an assignment, which says what the pod is to get before its binding is reviewed."""

    @classmethod
    def parse(cls, text: str) -> "NUMAAllocation":
        """Read the annotation `topology-webhook.dev/numa`; raises UserError."""
        return _remembered_allocation(text) if len(text) <= _REMEMBERED_CHARACTERS else _allocation(text)

    @classmethod
    def without_reservation(cls, node: str) -> "NUMAAllocation":
        """The allocation of a pod that is still pinned to the node, after its reservation has ended."""
        return cls(node, (), reserved=False)

    @classmethod
    def without_numa_nodes(cls, node: str) -> "NUMAAllocation":
        """The allocation that a Binding writes if the pod's NUMA nodes are uncertain."""
        return cls(node, (), certain=False)

    def to_json(self) -> str:
        """The annotation's value."""
        if not self.certain:
            return _compact({"node": self.node, "certain": False})
        if not self.reserved:
            return _compact({"node": self.node, "reserved": False})
        allocation = {"node": self.node, "numaNodeResources": _to_objects(self.numa_nodes)}
        # Without NUMA nodes a review changes nothing, and the Binding writes no allocation.
        return _compact(allocation if self.reviewed or not self.numa_nodes else {**allocation, "reviewed": False})


def parse_resource_status(text: str) -> NUMANodeAmounts:
    """The NUMA nodes in the annotation `scheduling.koordinator.sh/resource-status`; raises UserError."""
    path = f"metadata.annotations[{RESOURCE_STATUS}]"
    return _numa_nodes(_object(text, path), path)


def parse_cpuset(text: str) -> frozenset[int]:
    """The CPUs that Koordinator's scheduler gave to a pod, by the same annotation; none if they are unreadable."""
    if '"cpuset"' not in text:
        return _NO_CPUS
    try:
        return read_cpu_list(_object(text, RESOURCE_STATUS).get("cpuset") or "") or _NO_CPUS
    except UserError:
        return _NO_CPUS


def resource_status_to_json(numa_nodes: NUMANodeAmounts) -> str:
    """The value of `scheduling.koordinator.sh/resource-status` that keeps a pod in these NUMA nodes' shared pools."""
    return _compact({"numaNodeResources": _to_objects(numa_nodes)})


def names_numa_nodes_only(text: str) -> bool:
    """Whether a resource status is one that we write (NUMA nodes and nothing else), or unreadable."""
    try:
        return _object(text, RESOURCE_STATUS).keys() <= {"numaNodeResources"}
    except UserError:
        return True


def up_to(numa_nodes: NUMANodeAmounts, requests: Mapping[str, int]) -> NUMANodeAmounts:
    """The allocation limited to the pod's requests, which may have shrunk since the allocation was written.

    NUMA nodes are filled in the allocation's order. Those with nothing left are dropped.
    """
    left = dict(requests)
    believed: list[tuple[int, Mapping[str, int]]] = []
    for numa_id, amounts in numa_nodes:
        part = {name: min(amount, left.get(name, 0)) for name, amount in amounts.items()}
        for name, amount in part.items():
            left[name] = left.get(name, 0) - amount
        if part == amounts:
            believed.append((numa_id, amounts))  # as a rule; equal pods share their mappings
        elif part := {name: amount for name, amount in part.items() if amount}:
            believed.append((numa_id, part))
    return tuple(believed)


def _allocation(text: str) -> NUMAAllocation:
    path = f"metadata.annotations[{NUMA_ALLOCATION}]"
    raw = _object(text, path)
    node = raw.get("node")
    if not isinstance(node, str):
        raise UserError(
            path, f"The NUMA allocation names no node: {quoted(text)}. It is written by this webhook; remove it."
        )
    if raw.get("reserved") is False:
        return NUMAAllocation.without_reservation(node)
    if raw.get("certain") is False:
        return NUMAAllocation.without_numa_nodes(node)
    return NUMAAllocation(node, _numa_nodes(raw, path), reviewed=raw.get("reviewed") is not False)


# An allocation is read at each event of its pod and by each check of its binding. Each takes up to 2 KiB.
_REMEMBERED_CHARACTERS: Final = 512
_remembered_allocation = lru_cache(maxsize=4096)(_allocation)


def _object(text: str, path: str) -> Mapping[str, Any]:
    if len(text) > _LONGEST:
        raise UserError(
            path, f"The value has {counted(len(text), 'character')}; at most {_LONGEST} are read. Remove it."
        )
    try:
        raw = loads(text.encode())
    except ValueError:
        raw = None
    if not isinstance(raw, dict):
        raise UserError(
            path,
            f"The value is not a JSON object: {quoted(text)}. It is written by schedulers and webhooks; remove it.",
        )
    return raw


def _numa_nodes(raw: Mapping[str, Any], path: str) -> NUMANodeAmounts:
    numa_nodes = []
    entries = raw.get("numaNodeResources") or []
    for index, entry in enumerate(entries if isinstance(entries, list) else [entries]):
        place = f"{path}.numaNodeResources[{index}]"
        numa_id = entry.get("node", 0) if isinstance(entry, dict) else None
        if type(numa_id) is not int or numa_id < 0:
            raise UserError(place, f"{quoted(entry)} is not a NUMA node.")
        numa_nodes.append((numa_id, parse_list(entry.get("resources"), f"{place}.resources")))
    return tuple(numa_nodes)


def _to_objects(numa_nodes: NUMANodeAmounts) -> list[dict[str, Any]]:
    return [
        {"node": numa_id, "resources": {name: format_amount(name, amount) for name, amount in amounts.items()}}
        for numa_id, amounts in numa_nodes
    ]


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
