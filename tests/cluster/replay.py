"""Compares the simulated kubelet with recorded admissions: a machine, pods in order, and a real kubelet's answers.

1. `kubelets replay` runs the kubelet's own code on every sequence.
2. The result for each pod must equal the recording: verdict, reason, message, and per container the NUMA affinity,
   exclusive CPUs, memory blocks and devices; also the NodeResourceTopology before each pod and at the end. What the
   kubelet decides at random is not recorded and not compared.
"""

from __future__ import annotations

import gzip
import json
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@dataclass
class ReplayResult:
    """The result of a replay."""

    sequences: int = 0
    pods: int = 0
    differences: list[str] = field(default_factory=list)
    """Each names what differs: `ka-00007 p3 admit: recorded true, replayed false`."""


def replay(program: Path, recordings: Path) -> ReplayResult:
    """Replay the sequences of a .jsonl or .jsonl.gz file. `program` is the `kubelets` of the control plane."""
    text = recordings.read_bytes()
    if recordings.suffix == ".gz":
        text = gzip.decompress(text)
    found = ReplayResult()
    for recorded, answer in zip(text.splitlines(), answers(program, text), strict=True):
        sequence = json.loads(recorded)
        found.sequences += 1
        found.pods += len(sequence["expect"]["pods"])
        found.differences += differences(sequence["id"], sequence["expect"], answer)
    return found


def answers(program: Path, sequences: bytes) -> list[Any]:
    """What the simulated kubelet answers to sequences, one JSON object a line."""
    done = subprocess.run([program, "replay"], input=sequences, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def differences(where: str, recorded: object, replayed: object) -> Iterator[str]:
    """The parts of a recorded value that differ in the replay."""
    if isinstance(recorded, dict) and isinstance(replayed, dict):
        for name, value in recorded.items():
            if name != "devices":
                yield from differences(f"{where} {name}", value, replayed.get(name))
            else:
                yield from _device_differences(where, value, replayed.get(name) or {})
    elif isinstance(recorded, list) and isinstance(replayed, list) and len(recorded) == len(replayed):
        for place, (one, other) in enumerate(zip(_sorted(recorded), _sorted(replayed), strict=True)):
            name = one.get("pod", one.get("name", place)) if isinstance(one, dict) else place
            yield from differences(f"{where} {name}", one, other)
    elif recorded != replayed:
        yield f"{where}: recorded {json.dumps(recorded)}, replayed {json.dumps(replayed)}"


def _sorted(values: Sequence[Any]) -> Sequence[Any]:
    """Attributes, resources and memory blocks have no order; pods, containers, zones and ids keep theirs."""
    for key in ("name", "type"):
        if all(isinstance(value, dict) and key in value for value in values):
            return sorted(values, key=lambda value: str(value[key]))
    return values


def _device_differences(where: str, recorded: dict[str, Any], replayed: dict[str, Any]) -> Iterator[str]:
    """Devices by resource; null where even their split over NUMA nodes is random."""
    for resource, split in recorded.items():
        if split is not None:
            yield from differences(f"{where} {resource}", split, replayed.get(resource))
