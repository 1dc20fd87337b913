"""Allocations compared with the kubelets' choices: a node agent that obeys a wrong one moves the pod off its memory.

An allocation is wrong if it names other NUMA nodes than those of the CPUs, the memory and the devices that the kubelet
gave the pod. The one that counts is what the pod has some seconds after the run, because the end of another pod is not
known at once. A pod without an allocation, or without anything of a NUMA node, misleads no agent.

If koordlet publishes the NodeResourceTopologies, nothing is compared. It runs a pod on the NUMA nodes of its resource
status, whatever its kubelet chose. Koordinator expects kubelets that align nothing, but the simulated ones do.
Source: koordinator pkg/koordlet/runtimehooks/hooks/cpuset/rule.go (getContainerCPUSet).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.cluster.kubelets import cpu_list
from webhook.formats.koordinator.numa_allocation import NUMAAllocation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.proof.observe import History

NUMAIds = frozenset[int]


@dataclass(frozen=True)
class ChosenNUMANodes:
    """The NUMA ids of one pod that asks for a placement and holds something of NUMA nodes."""

    pod: str
    node: str
    given: NUMAIds
    """By the kubelet."""
    allocation: NUMAIds | None
    """In its allocation; None: it has none."""
    first_allocation: NUMAIds | None
    """In the one that it was bound with, likewise."""

    @property
    def wrong(self) -> bool:
        """Whether the allocation names other NUMA nodes."""
        return self.allocation is not None and self.allocation != self.given


def choices(
    admissions: Iterable[Mapping[str, Any]], histories: Mapping[str, History], publisher: str = "rte"
) -> list[ChosenNUMANodes]:
    """Those of the admitted pods (events of the kubelets' journal); histories: by uid.

    publisher: whose form the machines' NodeResourceTopologies have.
    """
    found: list[ChosenNUMANodes] = []
    if publisher == "koordlet":
        return found
    for admission in admissions:
        given = _given(admission["containers"])
        history = histories.get(admission["uid"])
        if given and history is not None and history.asks:
            last, first = (_allocated(history.allocations[at][1]) for at in (-1, 0))
            found.append(ChosenNUMANodes(history.name, admission["node"], given, last, first))
    return found


def _given(containers: Iterable[Mapping[str, Any]]) -> NUMAIds:
    """The NUMA ids of CPUs, memory and devices. A memory block over several NUMA nodes counts for each of them.

    Of a real kubelet, these are the CPUs and blocks of its checkpoints, and `cpuset_mems` of its runtime besides.
    """
    ids: set[int] = set()
    for container in containers:
        ids.update(int(numa) for numa in container.get("cpusPerNuma", ()))
        for block in container.get("memory") or ():
            ids.update(block["numaAffinity"])
        ids.update(cpu_list(container.get("cpusetMems", "")))
        for places in (container.get("devices") or {}).values():
            ids.update(int(numa) for place in places if place != "none" for numa in place.split(","))
    return frozenset(ids)


def _allocated(text: str) -> NUMAIds | None:
    """None if there is no allocation, or if it is not certain yet."""
    return frozenset(numa for numa, _ in NUMAAllocation.parse(text).numa_nodes) or None if text else None
