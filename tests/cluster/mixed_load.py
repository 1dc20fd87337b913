"""Single pods, groups and a Job whose end state is known, in whatever order they are created.

Everything is created in random order, with retries: the API server may be down for a while. Of two groups that need the
same rack, the one that is bound first is deleted.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.cluster.gated import NUMA, SINGLE, Pods, is_gated, pod
from tests.cluster.nodes import NODES, NODES_PER_RACK, RACK_LABEL, ZONE_LABEL, Machine, machines
from tests.cluster.stubborn import done, stubbornly, until

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Container, Iterator, Mapping

    from tests.cluster.control_plane import ControlPlane

POOL = "example.com/pool"
TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"
RACKS = {"kai.scheduler/topology": "racks", "kai.scheduler/topology-required-placement": "rack"}
# main  ── rack-0, rack-1, rack-2 ── 16 nodes each ── 2 NUMA nodes of 16 CPUs: 32 a rack
# race  ── rack-3 ── 16 nodes                                                : 32
# tight ── rack-4 ──  4 nodes                                                :  8
#
# The 30 pods of 8 CPUs use 30 NUMA nodes at most. So the last of the groups of 12 finds 96 - 30 - 12 - 12 - 8 = 34
# free ones, more than 3 x 11, and the Job's pods find 30, more than 3 x 7: in any order there is a rack for them.
# No rack holds 33. Of the two groups of 20, one is bound first, and the other after it.
GROUPS = {"a": 12, "b": 12, "c": 12, "large": 33}
RACE = {"x": 20, "y": 20}
SINGLES = {"single": ("main", 30), "tight": ("tight", 40)}
JOB, JOB_PODS = "job", 8


class Became(NamedTuple):
    """The state of the pods of one name."""

    bound: int = 0
    waiting: int = 0
    neither: int = 0
    unallocated: int = 0
    """Pods bound without an allocation, or to another node than the allocation names, where that was certain."""
    racks: int = 0
    """The number of racks that have bound pods."""


EXPECTED: Mapping[str, Became] = {
    **{name: Became(bound=12, racks=1) for name in ("a", "b", "c")},
    JOB: Became(bound=JOB_PODS, racks=1),
    "large": Became(waiting=33),
    "second of the race": Became(bound=20, racks=1),
    "single": Became(bound=30),
    "tight": Became(bound=16, waiting=24),
}


@contextlib.contextmanager
def racks_known(plane: ControlPlane) -> Iterator[None]:
    """The topology that `RACKS` names exists within this context."""
    levels = [{"nodeLabel": ZONE_LABEL}, {"nodeLabel": RACK_LABEL}]
    topology = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "racks"}}
    plane.api.create(TOPOLOGIES, topology | {"spec": {"levels": levels}})
    try:
        yield
    finally:
        plane.api.delete(f"{TOPOLOGIES}/racks")


def fleet() -> list[Machine]:
    """The nodes, each with the label of its pool."""
    pools = ["main"] * 3 * NODES_PER_RACK + ["race"] * NODES_PER_RACK + ["tight"] * 4
    return [
        replace(machine, labels={**machine.labels, POOL: pool})
        for machine, pool in zip(machines(len(pools), 2, prefix="restart"), pools, strict=True)
    ]


class MixedLoad:
    """The objects that a user creates, and their state."""

    def __init__(self, pods: Pods, chance: random.Random) -> None:
        self.pods = pods
        self._chance = chance
        self._first = ""

    def create_all(self) -> None:
        """Create everything in random order."""
        wanted: list[Callable[[], Any]] = [
            partial(self.pods.create, self._member(group, number, size, pool))
            for groups, pool in ((GROUPS, "main"), (RACE, "race"))
            for group, size in groups.items()
            for number in range(size)
        ]
        for name, (pool, count) in SINGLES.items():
            wanted += [partial(self.pods.create, _of_pool(f"{name}-{number}", 8, pool)) for number in range(count)]
        wanted.append(self._create_job)
        self._chance.shuffle(wanted)
        self.pods.plane.api.in_parallel(partial(done, create) for create in wanted)

    def end_the_first_of_the_race(self) -> None:
        """Wait until all pods of one of the two groups are bound, then delete them."""
        self._first = until("one group of the race to go", self._whole_in_the_race)
        for number in range(RACE[self._first]):
            done(partial(self.pods.delete, f"{self._first}-{number}"))

    def became(self, uncertain: Container[str] = ()) -> Mapping[str, Became]:
        """The state of all pods, by name. uncertain: nodes without an exporter, where allocations may stay missing."""
        names = self._by_name(uncertain)
        if self._first in names:  # its pods are not gone yet
            return names
        return {"second of the race" if name in RACE else name: now for name, now in names.items()}

    def _whole_in_the_race(self) -> str:
        became = self._by_name()
        return next((name for name, size in RACE.items() if became[name].bound == size), "")

    def _by_name(self, uncertain: Container[str] = ()) -> dict[str, Became]:
        api = self.pods.plane.api
        raws = stubbornly(self.pods.all)
        nodes = stubbornly(partial(api.get, NODES))["items"]
        racks = {node["metadata"]["name"]: node["metadata"]["labels"][RACK_LABEL] for node in nodes}
        names: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for name, raw in raws.items():
            names[name.partition("-")[0]].append(raw)
        became = {name: _became(group, racks, uncertain) for name, group in names.items()}
        # The racks of the single pods are random.
        return became | {name: became[name]._replace(racks=0) for name in SINGLES if name in became}

    def _member(self, group: str, number: int, of: int, pool: str) -> dict[str, Any]:
        asked = {"pod-group-name": group, "topology-webhook.dev/min-member": str(of), **RACKS}
        return _of_pool(f"{group}-{number}", 16, pool, asked)

    def _create_job(self) -> None:
        raw = _of_pool("", 16, "main")
        template = {"metadata": {"annotations": {**SINGLE, **RACKS}}, "spec": {**raw["spec"], "restartPolicy": "Never"}}
        spec = {"parallelism": JOB_PODS, "completions": JOB_PODS, "completionMode": "Indexed", "template": template}
        path = f"/apis/batch/v1/namespaces/{self.pods.namespace}/jobs"
        self.pods.plane.api.create(path, {"metadata": {"name": JOB}, "spec": spec})


def _of_pool(name: str, cpu: int, pool: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    return pod(name, cpu=cpu, annotations=annotations, nodeSelector={POOL: pool})


def _became(raws: list[dict[str, Any]], racks: Mapping[str, str], uncertain: Container[str]) -> Became:
    bound = [raw for raw in raws if raw["spec"].get("nodeName")]
    waiting = [raw for raw in raws if is_gated(raw)]
    allocated = [
        raw
        for raw in bound
        if raw["spec"]["nodeName"] in uncertain
        or f'"node":"{raw["spec"]["nodeName"]}"' in raw["metadata"]["annotations"].get(NUMA, "")
    ]
    where = {racks[raw["spec"]["nodeName"]] for raw in bound}
    return Became(
        len(bound), len(waiting), len(raws) - len(bound) - len(waiting), len(bound) - len(allocated), len(where)
    )
