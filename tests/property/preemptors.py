"""Random clusters for preemption: nodes with or without NUMA nodes, pods of several priorities, gangs, budgets."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt, resource, zone
from tests.builders.pods import bound, created
from tests.unit.views.one_node import WRITTEN_AT, bound_at
from tests.unit.views.racks import WRITTEN
from webhook.formats.koordinator.numa_allocation import UnverifiedAllocations
from webhook.model.names import MIN_MEMBER, POD_GROUP_NAME
from webhook.state.cluster_cache import ClusterCache

CPUS = 8
"""Of each of two NUMA nodes."""


@dataclass(frozen=True)
class Holder:
    """A pod of 1Gi on a node. numa: its NUMA node; None: a Burstable pod, which holds none."""

    name: str
    node: str
    cpus: int
    priority: int
    numa: int | None = None
    app: str = ""
    gang: str = ""
    minimum: int = 0
    start: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of its metadata."""

    @property
    def key(self) -> str:
        return f"default/{self.name}"

    def raw(self) -> dict[str, Any]:
        annotations: dict[str, str] = {}
        if self.gang:
            annotations |= {POD_GROUP_NAME: self.gang, MIN_MEMBER: str(self.minimum)}
        if self.numa is not None:
            amounts = {"cpu": str(self.cpus), "memory": "1Gi"}
            allocation = {"node": self.node, "numaNodeResources": [{"node": self.numa, "resources": amounts}]}
            annotations["topology-webhook.dev/numa"] = json.dumps(allocation)
        how: dict[str, Any] = {"cpu": self.cpus} if self.numa is not None else {"numa": None}
        if self.numa is None:
            requests = {"cpu": str(self.cpus), "memory": "1Gi"}
            how["containers"] = [{"name": "main", "image": "none", "resources": {"requests": requests}}]
        status = {**bound_at(1), "startTime": f"2030-01-01T00:00:{self.start:02}Z"}
        metadata = {"labels": {"app": self.app}} if self.app else {}
        annotations |= self.fields.get("annotations", {})
        metadata |= {name: value for name, value in self.fields.items() if name != "annotations"}
        return bound(
            name=self.name,
            node=self.node,
            annotations=annotations,
            priority=self.priority,
            status=status,
            metadata=metadata,
            **how,
        )


@dataclass(frozen=True)
class FullCluster:
    """Nodes that are full of pods. has_numa: whether they have two NUMA nodes; else only sums count."""

    nodes: tuple[str, ...]
    pods: tuple[Holder, ...]
    allowed: Mapping[str, int] = field(default_factory=dict)
    """app -> the disruptions that its PodDisruptionBudget allows."""
    has_numa: bool = True
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of nodes."""
    topology: Mapping[str, Any] | None = None

    def cache(self, ended: Sequence[str] = ()) -> ClusterCache:
        """The cluster without these pods, as its exporters would show it."""
        left = [pod for pod in self.pods if pod.key not in ended]
        cache = ClusterCache(clock=lambda: WRITTEN_AT + 4_000, preempts=True)
        cache.use_allocation_key(UnverifiedAllocations(b""))
        for name in self.nodes:
            put(cache, node(name=name, cpus=2 * CPUS, labels=self.labels.get(name)))
            if self.has_numa:
                put(cache, self.nrt(name, left))
        if self.topology is not None:
            put(cache, self.topology)
        put(cache, *(pod.raw() for pod in left))
        for app, allowed in self.allowed.items():
            cache.disruption_budgets.feed.upsert(f"default/{app}", budget(app, allowed))
        return cache

    def nrt(self, name: str, left: Sequence[Holder]) -> dict[str, Any]:
        """The NodeResourceTopology of a node, with these pods."""
        zones = []
        for numa in (0, 1):
            shown = [pod for pod in left if pod.node == name and pod.numa == numa]
            cpu = resource(name="cpu", capacity=CPUS, available=CPUS - sum(pod.cpus for pod in shown))
            memory = resource(name="memory", capacity="64Gi", available=f"{64 - len(shown)}Gi")
            zones.append(zone(numa_id=numa, resources=[cpu, memory]))
        return nrt(node=name, zones=zones, policy="single-numa-node", metadata=WRITTEN)


def budget(app: str, allowed: int) -> dict[str, Any]:
    """A PodDisruptionBudget."""
    return {
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def random_cluster(random: Random, *, nodes: int, has_numa: bool = True, with_gangs: bool = True) -> FullCluster:
    """Nodes full of small pods."""
    names = tuple(f"n{number}" for number in range(nodes))
    gangs = {f"g{number}": random.randint(1, 3) for number in range(2)} if with_gangs else {}
    pods: list[Holder] = []
    for name in names:
        free = [CPUS, CPUS]
        for _ in range(random.randint(5, 9)):
            numa, cpus = random.choice((0, 1)), random.randint(1, 5)
            if free[numa] < cpus:
                continue
            free[numa] -= cpus
            gang = random.choice(["", "", *gangs]) if gangs else ""
            pods.append(
                Holder(
                    name=f"{name}-{len(pods)}",
                    node=name,
                    cpus=cpus,
                    priority=random.choice((0, 0, 5, 10, 100)),
                    numa=numa if has_numa else None,
                    app=random.choice(("", "a", "b")),
                    gang=gang,
                    minimum=gangs.get(gang, 0),
                    start=random.randint(0, 50),
                )
            )
    allowed = {app: random.randint(0, 2) for app in ("a", "b") if random.random() < 0.6}
    return FullCluster(names, tuple(pods), allowed, has_numa)


def preemptor(*, cpus: int, priority: int, numa: str | None) -> dict[str, Any]:
    """A pod that waits."""
    return created(name="waits", cpu=cpus, numa=numa, priority=priority)
