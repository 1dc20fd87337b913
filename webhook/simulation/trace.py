"""A recorded cluster: the lines of a node list and a pod list in the columns of Alibaba's cluster-trace-gpu-v2023.

    nodes: sn, cpu_milli, memory_mib, gpu
    pods:  name, cpu_milli, memory_mib, num_gpu, qos, creation_time, deletion_time, scheduled_time

Other columns are ignored. The trace has no NUMA nodes: each node gets two, large ones without GPUs eight, with CPUs,
memory and GPUs shared out evenly. Eight NUMA nodes with GPUs are beyond a kubelet's own means: it merges the hints for
CPUs, memory and GPUs one with each other, 255^3 combinations or several seconds a pod.

Latency-sensitive pods (qos LS or Guaranteed) are Guaranteed with whole CPUs; best-effort ones (BE, Burstable) are not.
A share of a GPU takes a whole one, since device plugins give no less.
Source: Weng et al., USENIX ATC '23; github.com/alibaba/clusterdata, cluster-trace-gpu-v2023.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from webhook.model.wording import quoted

LARGE_CPUS: Final = 64
"""Machines of fewer CPUs have two NUMA nodes in any case."""
MOST_LINES: Final = 200_000
"""More nodes or pods than any cluster has."""
_MIB_PER_GIB: Final = 1024
_QOS: Final = ("LS", "Guaranteed", "BE", "Burstable")
_BEST_EFFORT: Final = frozenset({"BE", "Burstable"})
# As large as the machines of today, a thousand times over: nothing that is computed of these overflows.
_MOST_MILLICORES: Final = 10**9
_MOST_MIB: Final = 2**40
_MOST_GPUS: Final = 1024
_MOST_SECONDS: Final = 10**10
# A CSV file without line ends would else be read as one field.
_LONGEST_LINE: Final = 10_000
_LONGEST_NAME: Final = 253

Record = TypeVar("Record")


class TraceError(Exception):
    """A list of nodes or pods cannot be read. The message names the line, the column, the value and what is allowed."""


@dataclass(frozen=True, slots=True)
class RecordedNode:
    """A line of the node list."""

    name: str
    cpus: int
    memory_gib: int
    gpus: int

    @property
    def numa_nodes(self) -> int:
        """The number of its NUMA nodes."""
        return 8 if self.cpus >= LARGE_CPUS and not self.gpus else 2

    def gpus_near(self) -> list[int]:
        """The number of GPUs near each NUMA node."""
        zones = self.numa_nodes
        return [self.gpus // zones + (zone < self.gpus % zones) for zone in range(zones)]


@dataclass(frozen=True, slots=True)
class RecordedPod:
    """A line of the pod list."""

    name: str
    millicores: int
    memory_mib: int
    gpus: int
    best_effort: bool
    created: int
    """Seconds after the start of the trace."""
    run_seconds: int
    """From its start, or its creation if it never started, to its deletion."""

    @property
    def cpu(self) -> str:
        """The request: whole CPUs unless the pod is best-effort."""
        return f"{self.millicores}m" if self.best_effort else str(math.ceil(self.millicores / 1000))


def read_nodes(lines: Iterable[str], name: str) -> list[RecordedNode]:
    """The node list; name: that of the file, for messages. Raises TraceError."""
    nodes = []
    seen: set[str] = set()
    for line in _lines(lines, name, ("sn", "cpu_milli", "memory_mib", "gpu")):
        cpus = line.number("cpu_milli", _MOST_MILLICORES) // 1000
        memory = line.number("memory_mib", _MOST_MIB) // _MIB_PER_GIB
        node = RecordedNode(line.name("sn"), cpus, memory, line.number("gpu", _MOST_GPUS))
        if node.name in seen:
            raise line.fault("sn", "a name that no line above has")
        seen.add(node.name)
        nodes.append(node)
    return nodes


def read_pods(lines: Iterable[str], name: str) -> list[RecordedPod]:
    """The pod list, in order of creation. Raises TraceError."""
    amounts = ("name", "cpu_milli", "memory_mib", "num_gpu", "qos")
    pods = []
    for line in _lines(lines, name, (*amounts, "creation_time", "deletion_time", "scheduled_time")):
        created = line.number("creation_time", _MOST_SECONDS)
        deleted = line.number("deletion_time", _MOST_SECONDS)
        started = max(created, line.number("scheduled_time", _MOST_SECONDS, blank=created))
        if deleted < created:
            raise line.fault("deletion_time", f"a time from creation_time on, which is {created}")
        pods.append(
            RecordedPod(
                line.name("name"),
                line.number("cpu_milli", _MOST_MILLICORES),
                line.number("memory_mib", _MOST_MIB),
                line.number("num_gpu", _MOST_GPUS),
                line.one_of("qos", _QOS) in _BEST_EFFORT,
                created,
                max(deleted - started, 0),
            )
        )
    return sorted(pods, key=lambda pod: pod.created)


@dataclass(frozen=True, slots=True)
class _Line:
    """One line, with its place."""

    file: str
    number_in_file: int
    values: Mapping[str, str | None]

    def number(self, column: str, most: int, blank: int | None = None) -> int:
        """A whole number. blank: its value where the column is empty; None: it must not be."""
        text = (self.values[column] or "").strip()
        if not text and blank is not None:
            return blank
        # isdecimal() alone accepts other scripts; the length bounds int().
        if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most))) or int(text) > most:
            raise self.fault(column, f"a whole number from 0 to {most}")
        return int(text)

    def name(self, column: str) -> str:
        """A name of an object."""
        text = (self.values[column] or "").strip()
        if not text or len(text) > _LONGEST_NAME or not text.isprintable():
            raise self.fault(column, f"a name of 1 to {_LONGEST_NAME} printable characters")
        return text

    def one_of(self, column: str, allowed: Sequence[str]) -> str:
        """One of some words."""
        text = (self.values[column] or "").strip()
        if text not in allowed:
            raise self.fault(column, f"one of {', '.join(allowed)}")
        return text

    def fault(self, column: str, allowed: str) -> TraceError:
        """An error about a value of the line."""
        value = self.values[column]
        found = "nothing" if value is None else quoted(value)
        return TraceError(f"{self.file}: line {self.number_in_file}: {column} is {found}. Write {allowed}.")


def _lines(lines: Iterable[str], name: str, columns: Sequence[str]) -> Iterator[_Line]:
    """The lines below the header."""
    reader = csv.DictReader(_short(lines, name), strict=True)
    try:
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise TraceError(
                f"{name}: line 1: the columns {', '.join(missing)} are missing. Needed are: {', '.join(columns)}."
            )
        count = 0
        for count, values in enumerate(reader, start=1):
            if count > MOST_LINES:
                raise TraceError(f"{name}: line {reader.line_num}: there are more than {MOST_LINES} lines.")
            yield _Line(name, reader.line_num, values)
    except csv.Error as error:
        raise TraceError(f"{name}: line {reader.line_num + 1}: not CSV: {error}") from error
    if not count:
        raise TraceError(f"{name}: there is no line below the header.")


def _short(lines: Iterable[str], name: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if len(line) > _LONGEST_LINE:
            raise TraceError(f"{name}: line {number} has more than {_LONGEST_LINE} characters.")
        yield line
