"""PriorityClasses, and pods of them, for tests of preemption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.cluster.gated import Pods, pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.control_plane import ControlPlane

CLASSES: Final[Mapping[str, int]] = {"low": 0, "middle": 50, "high": 100}
"""PriorityClass -> value. `polite` is as high as `high`, and never preempts."""
SLOW = "example.com/slow"
"""A finalizer: simulated kubelets end pods at once, so that else no end could be watched."""


@pytest.fixture(scope="module", autouse=True)
def priority_classes(control_plane: ControlPlane) -> Iterator[None]:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value in CLASSES.items():
        control_plane.api.create(path, {"metadata": {"name": name}, "value": value})
    polite = {"metadata": {"name": "polite"}, "value": CLASSES["high"], "preemptionPolicy": "Never"}
    control_plane.api.create(path, polite)
    yield
    for name in (*CLASSES, "polite"):
        control_plane.api.delete(f"{path}/{name}")


def of(name: str, priority: str, cpu: int = 8, *, on: str = "", grace: int = 2, **how: Any) -> dict[str, Any]:
    """A pod of a PriorityClass; of 8 CPUs it needs a NUMA node of its own. on: the only node that it may use."""
    selector = {"nodeSelector": {"kubernetes.io/hostname": on}} if on else {}
    return pod(name, cpu, priorityClassName=priority, terminationGracePeriodSeconds=grace, **selector, **how)


def fill(pods: Pods, *nodes: str, priority: str = "low", cpu: int = 8, slow: bool = False) -> list[str]:
    """Fill each NUMA node of these nodes with one pod. slow: whether these end only when the test says so."""
    names = [f"{priority}-{node}-{zone}" for node in nodes for zone in range(2)]
    for name in names:
        raw = of(name, priority, cpu, on=name.split("-")[1])
        raw["metadata"]["finalizers"] = [SLOW] if slow else []
        pods.create(raw)
    pods.wait_until_bound(*names)
    return names


def let_end(pods: Pods, *names: str) -> None:
    """Let slow pods end."""
    for name in names:
        pods.plane.api.patch(f"{pods.path}/{name}", {"metadata": {"finalizers": None}})
