"""Bare pods that form a gang by name."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.cluster.gated import Pods, pod
from tests.cluster.racked import RACKS


def member(group: str, number: int, of: int, cpu: int = 16, **annotations: str) -> dict[str, Any]:
    asked = {"pod-group-name": group, "topology-webhook.dev/min-member": str(of), **RACKS, **annotations}
    return pod(f"{group}-{number}", cpu=cpu, annotations=asked)


def create_all(pods: Pods, group: str, size: int, **how: Any) -> None:
    pods.plane.api.in_parallel(partial(pods.create, member(group, number, size, **how)) for number in range(size))
