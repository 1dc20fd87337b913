"""Machines of several NUMA nodes, and pods of several containers with both kinds of memory: what makes memory groups.

`odd/kubelet_memory_groups.jsonl.gz` has 400 of them, each with the answers of the kubelet's own code as `expect`:

    python -m tests.conformance.memory_sequences 400 | KUBELETS replay

KUBELETS is the program of the test bed with simulated kubelets (`tests/cluster/controlplane/kubelets`).
"""

import json
import sys
from random import Random
from typing import Any, Final

from tests.builders import pods

HUGEPAGES: Final = "hugepages-2Mi"
POLICIES: Final = ("restricted", "restricted", "best-effort", "single-numa-node", "none")


def sequence(random: Random, *, leave: bool = True, zones: int = 4) -> dict[str, Any]:
    """A machine of up to so many NUMA nodes and pods for it. leave: some leave before others come."""
    z, alike, common = random.randint(2, zones), random.random() < 0.5, _numa(random)
    described = [common if alike else _numa(random) for _ in range(z)]
    asked = [_pod(random, f"p{number}") for number in range(random.randint(2, 6))]
    gone: dict[str, list[str]] = {}
    for number, pod in enumerate(asked):
        earlier = {other["metadata"]["name"] for other in asked[:number]} - {
            name for all_ in gone.values() for name in all_
        }
        if leave and earlier and random.random() < 0.3:
            gone[pod["metadata"]["name"]] = [random.choice(sorted(earlier))]
    return {
        "machine": {
            "policy": random.choice(POLICIES),
            "scope": random.choice(("container", "container", "pod")),
            "cpuPolicy": "static",
            "memoryPolicy": "Static",
            "numa": described,
            "distances": [[10 if one == other else 20 for other in range(z)] for one in range(z)],
            "devices": {},
            "options": {},
        },
        "pods": asked,
        "remove": gone,
    }


def _numa(random: Random) -> dict[str, Any]:
    pages = {HUGEPAGES: f"{random.randint(1, 4)}Gi"}
    return {"cpus": random.randint(2, 8), "memory": f"{random.randint(2, 8)}Gi", "hugepages": pages}


def _pod(random: Random, name: str) -> dict[str, Any]:
    cpus = random.choice((("500m",), ("500m", "1", "2"), ("1", "2", "3", "5")))
    inits = [_container(random, f"init-{number}", cpus) for number in range(random.choice((0, 0, 0, 1)))]
    if inits and random.random() < 0.5:
        inits[0]["restartPolicy"] = "Always"
    apps = [_container(random, f"app-{number}", cpus) for number in range(random.choice((1, 1, 2, 2, 3)))]
    return pods.created(name=name, namespace="test", numa=None, initContainers=inits, containers=apps)


def _container(random: Random, name: str, cpus: tuple[str, ...]) -> dict[str, Any]:
    amounts = {"cpu": random.choice(cpus), "memory": f"{random.choice((1, 1, 2, 3, 5, 9, 12))}Gi"}
    if random.random() < 0.5:
        amounts[HUGEPAGES] = random.choice(("1Gi", "2Gi", "3Gi", "5Gi"))
    return pods.container(name=name, requests=amounts, limits=amounts)


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        case = {"id": f"mg-{number:05}", **sequence(Random(number))}  # noqa: S311 - to be repeatable
        sys.stdout.write(json.dumps(case) + "\n")
