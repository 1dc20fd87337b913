"""Gangs through `review -o json` on random clusters: an assignment is valid, and a rejected gang fits nowhere."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.nodes import node, nrt
from tests.builders.pods import SINGLE, bound, container
from tests.builders.topologies import topology
from tests.builders.workloads import template, workload
from webhook.cli.commands.review import judge_all
from webhook.cli.input.documents import Item, Source
from webhook.cli.input.offline_cluster import cluster_of
from webhook.cli.offline.judgement_context import JudgementContext, Owners
from webhook.cli.render.judgement_json import render_json
from webhook.model.names import NUMA_TOPOLOGY_SPEC
from webhook.placing.planner import Planner
from webhook.state.rules import Rules

LEVELS = ("example.com/zone", "example.com/rack", "kubernetes.io/hostname")


@dataclass(frozen=True)
class Machine:
    """A node: its labels, the free CPUs of its two NUMA nodes, and the CPUs held by pods without NUMA nodes."""

    name: str
    zone: str | None
    rack: str | None
    free: tuple[int, int]
    held: int

    @property
    def path(self) -> tuple[str | None, ...]:
        return self.zone, self.rack, self.name

    def domain(self, level: int) -> tuple[str | None, ...] | None:
        """The path at a level (0 = zone); None if a label above it is missing."""
        path = self.path[: level + 1]
        return None if None in path else path


@dataclass(frozen=True)
class Training:
    """A PyTorchJob with a master and workers of these CPUs."""

    master: int
    workers: int
    worker: int
    required: int | None
    preferred: int | None
    numa: bool
    """Whether the nodes align pods to one NUMA node, which they publish."""
    asks: bool
    """Whether the pods ask for that themselves."""

    @property
    def sizes(self) -> dict[str, int]:
        return {"t-master-0": self.master} | {f"t-worker-{index}": self.worker for index in range(self.workers)}


machines = st.lists(
    st.tuples(
        st.sampled_from(["a", "a", "b", None]),
        st.sampled_from(["r1", "r1", "r2", None]),
        st.tuples(st.integers(0, 4), st.integers(0, 4)),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=5,
).map(lambda drawn: [Machine(f"n{index}", *one) for index, one in enumerate(drawn)])


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    required = draw(st.sampled_from([None, 0, 1, 1, 2]))
    preferred = draw(st.sampled_from([None, *range(required or 0, 3)]))
    sizes = draw(st.integers(1, 4)), draw(st.integers(0, 5)), draw(st.integers(1, 3))
    numa = draw(st.booleans())
    return Training(*sizes, required, preferred, numa, numa and draw(st.booleans()))


@settings(max_examples=300, deadline=None)
@given(machines, trainings())
def test_a_placed_group_holds_and_a_refused_one_has_no_place(cluster: list[Machine], training: Training) -> None:
    entry = _review(cluster, training)
    group = entry["group"]
    assert entry["verdict"] == ("allow" if group["placed"] else "wait")
    if group["placed"]:
        _check(group, cluster, training)
    else:
        assert group["exhaustive"]
        assert group["why"]
        assert all(short["holds"] < short["needed"] for short in group["why"])
        assert not any(_fits(tuple(each), training) for each in _candidates(cluster, training.required))


def _check(group: Mapping[str, Any], cluster: Sequence[Machine], training: Training) -> None:
    """Every pod is assigned once, all within the domain, and no node or NUMA node is over-committed."""
    by_name = {machine.name: machine for machine in cluster}
    assert sorted(pod["name"] for pod in group["pods"]) == sorted(training.sizes)
    taken: dict[tuple[str, int | None], int] = {}
    for pod in group["pods"]:
        size, machine = training.sizes[pod["name"]], by_name[pod["node"]]
        assert pod["domain"][: len(group["domain"] or ())] == (group["domain"] or [])
        assert [value for _, value in pod["domain"]] == list(_labelled(machine))
        taken[machine.name, None] = taken.get((machine.name, None), 0) + size
        if training.numa:
            (numa_node,) = pod["numaNodes"]
            taken[machine.name, numa_node] = taken.get((machine.name, numa_node), 0) + size
    for (name, numa_node), amount in taken.items():
        free = by_name[name].free
        assert amount <= (sum(free) - by_name[name].held if numa_node is None else free[numa_node])
    if training.required is not None:
        used = {by_name[pod["node"]].domain(training.required) for pod in group["pods"]}
        assert len(used) == 1
        assert None not in used


def _labelled(machine: Machine) -> Iterator[str]:
    for value in machine.path:
        if value is None:
            return
        yield value


def _candidates(cluster: Sequence[Machine], required: int | None) -> Iterator[list[Machine]]:
    """The machines of each domain that may hold the group."""
    if required is None:
        yield list(cluster)
        return
    for domain in {machine.domain(required) for machine in cluster} - {None}:
        yield [machine for machine in cluster if machine.domain(required) == domain]


def _fits(cluster: tuple[Machine, ...], training: Training) -> bool:
    """Whether any assignment exists: every pod is tried everywhere."""

    @cache
    def search(sizes: tuple[int, ...], rooms: tuple[tuple[int, ...], ...]) -> bool:
        """rooms: for each machine the free amount in total, then of each NUMA node."""
        if not sizes:
            return True
        size, *others = sizes
        for index, (whole, *parts) in enumerate(rooms):
            if whole < size:
                continue
            for part, room in enumerate(parts):
                if room >= size or not training.numa:
                    left = [*parts[:part], room - size, *parts[part + 1 :]] if training.numa else parts
                    after = (*rooms[:index], (whole - size, *left), *rooms[index + 1 :])
                    if search(tuple(others), after):
                        return True
        return False

    sizes = tuple(sorted(training.sizes.values(), reverse=True))
    return search(sizes, tuple((sum(one.free) - one.held, *one.free) for one in cluster))


def _review(cluster: Sequence[Machine], training: Training) -> Any:
    """The answer of `review -o json` for the job."""
    raws = [topology(labels=LEVELS), *(raw for machine in cluster for raw in _objects(machine, numa=training.numa))]
    offline = cluster_of(map(_item, raws))
    item = _item(_job(training))
    around = JudgementContext(Planner(offline.cache, Rules()), Owners(), offline.running)
    (entry,) = json.loads(render_json(judge_all([item], [offline.cluster_snapshot()], around), all_nodes=False))
    return entry


def _item(raw: dict[str, Any]) -> Item:
    return Item(Source("test", ""), 1, 1, "", raw)


def _objects(machine: Machine, *, numa: bool) -> Iterator[dict[str, Any]]:
    labels = {label: value for label, value in zip(LEVELS, machine.path, strict=True) if value is not None}
    yield node(name=machine.name, cpus=sum(machine.free), memory="64Gi", labels=labels)
    if machine.held:
        asks = [container(requests={"cpu": str(machine.held)})]
        yield bound(node=machine.name, name=f"held-{machine.name}", namespace="other", numa=None, containers=asks)
    if numa:
        yield nrt(node=machine.name, free=machine.free, cpus=4, memory="32Gi")


def _job(training: Training) -> dict[str, Any]:
    wishes = {"required": training.required, "preferred": training.preferred}
    annotations = {"kai.scheduler/topology": "network"} | {
        f"kai.scheduler/topology-{wish}-placement": LEVELS[level] for wish, level in wishes.items() if level is not None
    }
    specs = {
        "Master": {"replicas": 1, "template": _template(training.master, asks=training.asks)},
        "Worker": {"replicas": training.workers, "template": _template(training.worker, asks=training.asks)},
    }
    return workload(kind="PyTorchJob", name="t", annotations=annotations, spec={"pytorchReplicaSpecs": specs})


def _template(cpus: int, *, asks: bool) -> dict[str, Any]:
    annotations = {NUMA_TOPOLOGY_SPEC: SINGLE} if asks else {}
    return template(cpu=cpus, memory="1Mi", annotations=annotations)
