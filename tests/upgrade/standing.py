"""Pods that exist before an upgrade: a gang that runs, singles without room, and a gang that waits for a member.

    full ── NUMA nodes [0 of 16 free] [0 of 16 free]
    rack-0 to rack-3 ── the nodes of tests/chaos/bed.py, where the load runs as well

A gang of which the nodes are assigned, but no pod is bound yet, is created while the scheduler is paused.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.chaos.load import RUN_LABEL, UNIT_LABEL
from tests.cluster.gated import NUMA, Pods, pod
from tests.cluster.mixed_load import POOL, RACKS
from tests.cluster.nodes import Machine, publish

if TYPE_CHECKING:
    from collections.abc import Mapping

FULL = Machine("full", free=(0, 0), labels={POOL: "full"})
SINGLES = ("single-0", "single-1")
MEMBERS = 4
CPU = 4


class StandingPods:
    """The pods of one namespace, with the label of a run so that the journal counts what they hold."""

    def __init__(self, pods: Pods, run: str) -> None:
        self._pods = pods
        self._run = run

    def create(self) -> None:
        """Create them, and wait until those that have room run and the others are gated."""
        self._create(*(self._member("runs", number) for number in range(MEMBERS)))
        self._create(*(pod(name, cpu=16, nodeSelector={POOL: "full"}) for name in SINGLES))
        self._create(*(self._member("incomplete", number) for number in range(MEMBERS - 1)))
        self._pods.wait_until_bound(*gang("runs"))
        assert self._pods.gated() == {*SINGLES, *gang("incomplete")[:-1]}

    def assign(self, name: str) -> Mapping[str, Any]:
        """Create a gang and wait until it has its nodes. The scheduler is paused. Returns the nodes."""
        self._create(*(self._member(name, number) for number in range(MEMBERS)))
        self._pods.plane.wait_for(f"the nodes of {name}", lambda: len(self._allocated(name)) == MEMBERS)
        assert not self._pods.bound().keys() & set(gang(name))
        return self.nodes(name)

    def nodes(self, name: str) -> Mapping[str, str]:
        """The nodes in the allocations of a gang's pods."""
        return {pod: self._pods.allocation(pod)[0] for pod in gang(name)}

    def bound_nodes(self, name: str) -> Mapping[str, str]:
        """The nodes of a gang's pods, as bound.

        Not the allocations', which may go at the binding. Not the NUMA nodes: if another pod ends before the binding,
        the kubelet takes others on the same node. The journal sees whether any is given twice.
        """
        bound = self._pods.bound()
        return {pod: bound[pod] for pod in gang(name)}

    def bound(self, name: str) -> bool:
        """Whether all pods of a gang are bound."""
        return set(gang(name)) <= self._pods.bound().keys()

    def as_they_are(self) -> Mapping[str, tuple[object, ...]]:
        """What of each pod must not change while nothing becomes free: its uid, its node and its gates.

        A bound pod's allocation may go: the next leader keeps only what it can prove, until an exporter shows the pod.
        """
        return {name: _kept(raw) for name, raw in self._pods.all().items()}

    def free_one_numa_node(self) -> None:
        """Make room for one of the singles, and wait until it is bound there and the other is gated."""
        publish(self._pods.plane.api, replace(FULL, free=(16, 0)))
        self._pods.plane.wait_for("one of the singles to be bound", lambda: self._pods.bound().keys() & set(SINGLES))
        (bound,) = self._pods.bound().keys() & set(SINGLES)
        assert self._pods.allocation(bound) == ("full", [0])
        assert self._pods.gated() & set(SINGLES) == {*SINGLES} - {bound}

    def complete_the_gang(self) -> None:
        """Create the member that the gang waits for, and wait until all of it is bound."""
        self._create(self._member("incomplete", MEMBERS - 1))
        self._pods.wait_until_bound(*gang("incomplete"))

    def _create(self, *raws: dict[str, Any]) -> None:
        self._pods.plane.api.in_parallel(partial(self._pods.create, raw) for raw in raws)

    def _member(self, name: str, number: int) -> dict[str, Any]:
        asked = {"pod-group-name": name, "topology-webhook.dev/min-member": str(MEMBERS), **RACKS}
        raw = pod(gang(name)[number], cpu=CPU, annotations=asked)
        raw["metadata"]["labels"] = {RUN_LABEL: self._run, UNIT_LABEL: f"standing-{name}"}
        return raw

    def _allocated(self, name: str) -> list[str]:
        raws, gated = self._pods.all(), self._pods.gated()
        return [pod for pod in gang(name) if pod not in gated and NUMA in raws[pod]["metadata"]["annotations"]]


def gang(name: str) -> list[str]:
    """The names of a gang's pods."""
    return [f"{name}-{number}" for number in range(MEMBERS)]


def _kept(raw: Mapping[str, Any]) -> tuple[object, ...]:
    metadata, spec = raw["metadata"], raw["spec"]
    return metadata["uid"], spec.get("nodeName"), spec.get("schedulingGates")
