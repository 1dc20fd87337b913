"""The machine of `kubelet_machine`, with a leader that corrects allocations, and with unmanaged pods."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from jsonpatch import apply_patch

from tests.property.kubelet_machine import CPUS, Machine, weights_of
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.formats.kubernetes.resident import TERMINAL_PHASES
from webhook.model.names import NUMA_ALLOCATION, NUMA_TOPOLOGY_SPEC
from webhook.placing.pod.controller_patches import correcting

if TYPE_CHECKING:
    from collections.abc import Callable


class Allocated(Machine):
    """A machine whose pods' allocations are corrected."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)  # noqa: S311 - no secret
        super().__init__(draw, zones=draw.choice((2, 4)), fingerprint=draw.random() < 0.8)

    def bind_unmanaged(self) -> None:
        """An unmanaged pod comes and is bound."""
        if sum(map(self.cpus_of, self.given)) + 10 <= CPUS * len(self.free):
            self.is_written_bound(self.new_pod()["metadata"]["name"])

    def correct_allocations(self) -> None:
        """The leader corrects allocations."""
        for change in self.cache.allocation_changes():
            name = change.pod.partition("/")[2]
            raw = self.pods[name]
            is_it = (raw["metadata"]["uid"], raw["spec"].get("nodeName")) == (change.uid, change.node)
            if is_it and raw["status"]["phase"] not in TERMINAL_PHASES:
                self.pods[name] = apply_patch(raw, list(correcting(raw, change.node, change.allocation)))
                self.cache.allocation_written(change)
                self.tell(name)

    def tell_all(self) -> None:
        """Deliver all events, and write what follows from them."""
        self.hear_all()
        self.correct_allocations()
        self.hear_all()

    def allocated(self) -> dict[str, int | None]:
        """The NUMA node in the allocation of each of our live pods; None: no allocation."""
        found: dict[str, int | None] = {}
        for name in self.given:
            annotations = self.pods[name]["metadata"]["annotations"]
            if NUMA_TOPOLOGY_SPEC in annotations:
                allocation = (
                    NUMAAllocation.parse(annotations[NUMA_ALLOCATION]) if NUMA_ALLOCATION in annotations else None
                )
                found[name] = allocation.numa_nodes[0][0] if allocation is not None and allocation.certain else None
        return found

    def wrong(self) -> dict[str, tuple[int, int]]:
        """The wrong allocations, and what the kubelet gave."""
        return {
            name: (allocation, self.given[name])
            for name, allocation in self.allocated().items()
            if allocation is not None and allocation != self.given[name]
        }


def weights(machine: Allocated) -> dict[Callable[[], None], int]:
    return weights_of(machine) | {machine.correct_allocations: 4, machine.end: 3}


def take(machine: Allocated, steps: int, weights: dict[Callable[[], None], int]) -> None:
    for step in machine.random.choices(list(weights), list(weights.values()), k=steps):
        step()
