"""The CPUs of a machine as koordlet publishes them on its NodeResourceTopology: cores, threads, and who has which CPU.

    node.koordinator.sh/cpu-topology           {"detail":[{"id":0,"core":0,"socket":0,"node":0}, ...]}
    kubelet.koordinator.sh/cpu-manager-policy  {"policy":"static","options":{"full-pcpus-only":"true"},
                                                "reservedCPUs":"0-1"}
    node.koordinator.sh/pod-cpu-allocs         [{"namespace":"a","name":"b","uid":"..","cpuset":"2-5",
                                                "managedByKubelet":true}, ...]
    node.koordinator.sh/reservation            {"reservedCPUs":"0-1"}
    node.koordinator.sh/system-qos-resource    {"cpuset":"0-1","cpusetExclusive":true}

Unreadable values are left out and named in `problems`.
Source: koordinator apis/extension (numa_aware.go, node_reservation.go, system_qos.go),
pkg/scheduler/plugins/nodenumaresource (topology_options.go, cpu_topology.go).
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from webhook.model.names import (
    KOORDINATOR_NODE_RESERVATION,
    KOORDLET_CPU_ALLOCS,
    KOORDLET_CPU_TOPOLOGY,
    KOORDLET_KUBELET_CPU_POLICY,
    KOORDLET_SYSTEM_QOS,
)
from webhook.model.wording import quoted

# CONFIG_NR_CPUS of distributions' kernels.
MAX_CPUS: Final = 8192
# A CPU takes some 45 characters in the topology.
_LONGEST_TOPOLOGY: Final = 48 * MAX_CPUS
# A pod in pod-cpu-allocs has about 500 characters, and a node at most 110 pods by default.
_LONGEST: Final = 512 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class CPUTopology:
    """The CPUs of a machine. Machines of one pool share one object, so it is compared by identity."""

    cores: Mapping[int, tuple[int, int]]
    """CPU -> (its physical core, its NUMA node)."""
    threads: int
    """CPUs of each physical core."""

    def per_zone(self, cpus: Iterable[int]) -> dict[int, int]:
        """NUMA node -> how many of these CPUs it has; unknown CPUs are ignored."""
        counts: dict[int, int] = {}
        for cpu in cpus:
            if cpu in self.cores:
                zone = self.cores[cpu][1]
                counts[zone] = counts.get(zone, 0) + 1
        return counts


class FreeCores(NamedTuple):
    """The physical cores of one NUMA node."""

    whole: int
    """Those with no taken CPU."""
    some: int
    """Those with a free CPU."""


# A node's state is written with each change of a pod or NRT; few of them concern its cores.
@lru_cache(maxsize=4096)
def free_cores(topology: CPUTopology, taken: frozenset[int]) -> Mapping[int, FreeCores]:
    """NUMA node -> its free cores."""
    free: dict[tuple[int, int], int] = {}
    for cpu, core in topology.cores.items():
        free[core] = free.get(core, 0) + (cpu not in taken)
    counts: dict[int, FreeCores] = {}
    for (_, zone), cpus in free.items():
        known = counts.get(zone, FreeCores(0, 0))
        counts[zone] = FreeCores(known.whole + (cpus == topology.threads), known.some + (cpus > 0))
    return counts


@dataclass(frozen=True, slots=True)
class NodeCPUs:
    """The CPUs of one node."""

    topology: CPUTopology
    reserved: frozenset[int] = frozenset()
    """CPUs that no pod gets: reserved in the kubelet or on the node, or kept for system pods."""
    given: tuple[tuple[str, frozenset[int]], ...] = ()
    """The CPUs that the kubelet gave to pods: (namespace/name, CPUs)."""
    kubelet_policy: str = ""
    """The kubelet's CPU manager policy; empty if it is not known."""
    full_cores_only: bool = False
    """The kubelet gives whole physical cores only (full-pcpus-only)."""

    @classmethod
    def read(cls, annotations: Mapping[str, str], problems: list[str]) -> "NodeCPUs | None":
        """The CPUs by the annotations of an NRT; None if they do not say which CPU belongs to which core."""
        text: object = annotations.get(KOORDLET_CPU_TOPOLOGY)
        if text is None:
            return None
        try:
            topology = _topology(text) if isinstance(text, str) and len(text) <= _LONGEST_TOPOLOGY else None
        except (ValueError, RecursionError):
            problems.append(f"annotation {KOORDLET_CPU_TOPOLOGY} is ignored: {quoted(text)} is no list of CPUs")
            return None
        if topology is None:
            return None
        kubelet = _object(annotations, KOORDLET_KUBELET_CPU_POLICY, problems)
        system = _object(annotations, KOORDLET_SYSTEM_QOS, problems)
        reservation = _object(annotations, KOORDINATOR_NODE_RESERVATION, problems)
        reserved = _cpus(kubelet.get("reservedCPUs"), KOORDLET_KUBELET_CPU_POLICY, problems)
        reserved |= _cpus(reservation.get("reservedCPUs"), KOORDINATOR_NODE_RESERVATION, problems)
        if system.get("cpusetExclusive") is not False:
            reserved |= _cpus(system.get("cpuset"), KOORDLET_SYSTEM_QOS, problems)
        options = kubelet.get("options")
        full = isinstance(options, dict) and options.get("full-pcpus-only") == "true"
        policy = next((known for known in ("static", "none") if known == kubelet.get("policy")), "")
        return cls(topology, reserved, _given(annotations, problems), policy, full and policy == "static")


def read_cpu_list(text: object) -> frozenset[int] | None:
    """The CPUs of a list such as `0-3,8`, as Linux writes it; None if it is unreadable."""
    return _cpu_list(text) if isinstance(text, str) and len(text) <= _LONGEST else None


@lru_cache(maxsize=4096)
def _cpu_list(text: str) -> frozenset[int] | None:
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        if not _is_cpu(first) or (dash and not _is_cpu(last)):
            return None
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def _is_cpu(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4 and int(text) < MAX_CPUS


# A pool's machines have the same topology; a text of 256 CPUs takes 11 KiB, its topology 40.
@lru_cache(maxsize=256)
def _topology(text: str) -> CPUTopology | None:
    """None without any CPU; raises ValueError or RecursionError."""
    raw = json.loads(text)
    detail = (raw.get("detail") if isinstance(raw, dict) else raw) or []
    if not isinstance(detail, list) or len(detail) > MAX_CPUS:
        raise ValueError
    cores: dict[int, tuple[int, int]] = {}
    seen: set[tuple[int, int, int]] = set()
    number: dict[tuple[int, int], int] = {}
    for cpu, core, socket, zone in map(_ids, detail):
        # Cores of different sockets may have the same number.
        cores[cpu] = number.setdefault((socket, core), len(number)), zone
        seen.add((socket, zone, core))
    return CPUTopology(cores, len(cores) // len(seen)) if cores else None


def _ids(entry: object) -> list[int]:
    """CPU, core, socket and NUMA node."""
    ids = [entry.get(field) for field in ("id", "core", "socket", "node")] if isinstance(entry, dict) else [None]
    if not all(type(value) is int and 0 <= value < MAX_CPUS for value in ids):
        raise ValueError
    return list(map(int, ids))  # type: ignore[arg-type]  # checked above


def _object(annotations: Mapping[str, str], name: str, problems: list[str]) -> Mapping[str, Any]:
    value = _json(annotations, name, problems)
    if value is not None and not isinstance(value, dict):
        problems.append(f"annotation {name} is ignored: it is not a JSON object")
    return value if isinstance(value, dict) else {}


def _json(annotations: Mapping[str, str], name: str, problems: list[str]) -> Any:
    text: object = annotations.get(name)
    if not text:
        return None
    if isinstance(text, str) and len(text) <= _LONGEST:
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    problems.append(f"annotation {name} is ignored: it is not JSON, or too long")
    return None


def _cpus(text: object, name: str, problems: list[str]) -> frozenset[int]:
    cpus = read_cpu_list(text or "")
    if cpus is None:
        problems.append(f"annotation {name}: {quoted(text)} is no list of CPUs")
    return cpus or frozenset()


def _given(annotations: Mapping[str, str], problems: list[str]) -> tuple[tuple[str, frozenset[int]], ...]:
    value = _json(annotations, KOORDLET_CPU_ALLOCS, problems)
    entries = value if isinstance(value, list) else ()
    return tuple(
        (f"{entry.get('namespace', '')}/{entry.get('name', '')}", cpus)
        for entry in entries
        if isinstance(entry, dict) and entry.get("managedByKubelet") is True
        if (cpus := _cpus(entry.get("cpuset"), KOORDLET_CPU_ALLOCS, problems))
    )
