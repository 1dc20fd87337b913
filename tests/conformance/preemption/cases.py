"""Clusters on which a pod fits nowhere, with the victims that kube-scheduler's own code chooses for it.

`python -m tests.conformance.preemption.cases PROGRAM` rewrites the golden file. PROGRAM is `main.go` of this folder,
built with `go build`. The clusters have no NUMA nodes: only sums count, as for kube-scheduler.
"""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any, Final

GOLDEN: Final = Path(__file__).with_name("golden.jsonl.gz")
_CASES: Final = 1_000
_CPUS: Final = 16
_PODS: Final = 110


def golden() -> list[dict[str, Any]]:
    """The cases with the answers."""
    with gzip.open(GOLDEN, "rt") as file:
        return [json.loads(line) for line in file]


def _cluster(random: Random) -> dict[str, Any] | None:
    """A cluster; None if its pod fits now."""
    pods: list[dict[str, Any]] = []
    wanted, most = random.randint(4, _CPUS), 0
    names = [f"n{number}" for number in range(random.randint(1, 6))]
    for name in names:
        free = _CPUS
        for _ in range(random.randint(2, 9)):
            cpus = random.randint(1, 6)
            if cpus > free:
                continue
            free -= cpus
            pod = {
                "name": f"p{len(pods)}",
                "node": name,
                "cpu": cpus,
                "priority": random.choice((-5, 0, 0, 1, 10, 100)),
            }
            pods.append({**pod, "app": random.choice(("", "a", "b", "c")), "start": random.randint(0, 50)})
        most = max(most, free)
    budgets = {app: random.randint(0, 2) for app in "abc" if random.random() < 0.4}
    nodes = [{"name": name, "cpu": _CPUS, "pods": _PODS} for name in names]
    preemptor = {"cpu": wanted, "priority": random.choice((5, 50))}
    return None if most >= wanted else {"nodes": nodes, "pods": pods, "budgets": budgets, "pod": preemptor}


def _write(program: str) -> None:
    random = Random(1)  # noqa: S311 - reproducible, not secret
    cases: list[dict[str, Any]] = []
    while len(cases) < _CASES:
        if (cluster := _cluster(random)) is not None:
            cases.append(cluster)
    lines = "\n".join(map(json.dumps, cases))
    answers = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    with GOLDEN.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        for case, answer in zip(cases, answers, strict=True):
            file.write(f"{json.dumps({**case, 'expect': json.loads(answer)})}\n".encode())


if __name__ == "__main__":
    _write(sys.argv[1])
