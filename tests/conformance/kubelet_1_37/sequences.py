"""What the kubelet's admission code of 1.37 answers: the second golden set, of other machines and pods than the first.

- `golden/kubelet_admission_1_37.jsonl.gz`: machines and pods in the form of the first set.
- `restarts.jsonl.gz` in this folder: whole kubelets with full-pcpus-only that start again, in which 1.36 and 1.37
  differ (docs/compatibility.md).

To regenerate both with the simulated kubelet of that version (KUBELETS):

    cd tests/conformance/kubelet_1_37 && go build -tags=kubelet_1_37 -o KUBELETS .
    python -m tests.conformance.kubelet_1_37.sequences KUBELETS
"""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.replay import answers
from tests.conformance.random_machines import Play, plays

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubelets import SimulatedMachine

ADMISSIONS: Final = Path(__file__).parents[1] / "golden" / "kubelet_admission_1_37.jsonl.gz"
RESTARTS: Final = Path(__file__).parent / "restarts.jsonl.gz"
EMPTY: Final[dict[str, Any]] = {}
"""`spec.resources` that names nothing: the QoS class is then that of the containers, up to 1.36 it was BestEffort."""

_VERSION = (1, 37)
_SEEDS = range(137, 152)
_RESTART_SEEDS = range(100, 140)


def admissions() -> Iterator[dict[str, Any]]:
    """Machines and pods in the form of the first golden set: their managers alone, with the options that it has."""
    for seed in _SEEDS:
        for play in plays(seed, 8, 8, _VERSION):
            random = Random(f"{seed} {play.machine.name}")  # noqa: S311 - to be repeatable
            # The static managers are those that decide; with other options they decide as in recordings of real ones.
            machine = replace(play.machine, cpu_manager="static", cpu_options={}, memory_manager="Static")
            if machine.numa_nodes > (8 if machine.policy == "single-numa-node" else 5):
                continue  # with 10 an option must say so; elsewhere all sets of 8, merged with each other, take seconds
            sequence = _sequence(f"{seed}-{machine.name}", machine, play, random)
            del sequence["restart"]
            yield sequence


def restarts() -> Iterator[dict[str, Any]]:
    """Whole kubelets with full-pcpus-only that start again."""
    for seed in _RESTART_SEEDS:
        for play in plays(seed, 8, 14, _VERSION):
            options = play.machine.cpu_options
            if "full-pcpus-only" not in options or "strict-cpu-reservation" in options:
                continue
            # Draws for real kubelets of this version leave it out, because the simulated one beside them is older.
            steps = [
                replace(step, restart="SIGKILL" if index % 4 == 3 else "") for index, step in enumerate(play.steps)
            ]
            sequence = _sequence(f"{seed}-{play.machine.name}", play.machine, Play(play.machine, steps))
            yield {**sequence, "wholeKubelet": True}


def _sequence(name: str, machine: SimulatedMachine, play: Play, random: Random | None = None) -> dict[str, Any]:
    pods, remove, restart = [], {}, {}
    for step in play.steps:
        spec, pod = dict(step.pod["spec"]), step.pod["metadata"]["name"]
        if random and "resources" not in spec and random.random() < 0.05:
            spec["resources"] = EMPTY
        pods.append({"metadata": {"name": pod, "namespace": "test", "uid": f"uid-{pod}"}, "spec": spec})
        if step.remove:
            remove[pod] = [step.remove]
        if step.restart:
            restart[pod] = step.restart
    return {"id": name, "machine": machine.description(), "pods": pods, "remove": remove, "restart": restart}


def answered(program: Path, sequences: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sequences with what the program answers, each up to the first pod whose devices a kubelet takes at random."""
    text = "".join(json.dumps(sequence) + "\n" for sequence in sequences).encode()
    found = []
    for sequence, answer in zip(sequences, answers(program, text), strict=True):
        known = next(
            (number for number, pod in enumerate(answer["pods"]) if _is_random(sequence["machine"], pod)),
            len(answer["pods"]),
        )
        told = [{name: value for name, value in pod.items() if name != "stateBefore"} for pod in answer["pods"][:known]]
        for pod in told:
            if "wholeKubelet" in sequence:
                del pod["nrtBefore"]
            for container in pod.get("containers", ()):
                container.pop("cpuList", None)
        expected: dict[str, Any] = {"pods": told}
        if known == len(answer["pods"]) and "wholeKubelet" not in sequence:
            expected["nrtAfter"] = answer["nrtAfter"]
        found.append({**sequence, "pods": sequence["pods"][:known], "expect": expected})
    return [case for case in found if case["pods"]]


def _is_random(machine: dict[str, Any], pod: dict[str, Any]) -> bool:
    """Whether a container's devices are near several NUMA nodes as far as its hint says."""
    return any(
        any(machine["devices"][resource].values()) and len(container["affinity"] or (0, 1)) > 1
        for container in pod.get("containers", ())
        for resource in container.get("devices") or ()
    )


def _write(path: Path, cases: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(case, separators=(",", ":")) + "\n" for case in cases)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    sys.stderr.write(f"{path}: {len(cases)} machines, {sum(len(case['pods']) for case in cases)} pods\n")


if __name__ == "__main__":
    _write(ADMISSIONS, answered(Path(sys.argv[1]), list(admissions())))
    _write(RESTARTS, answered(Path(sys.argv[1]), list(restarts())))
