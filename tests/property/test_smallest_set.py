"""The pods named for a waiting pod: their end makes the engine place it, and no smaller set on one node would.

Small random clusters. The truth is the service's own cache, filled with the cluster that is left when pods have ended
and their exporter has written that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt, resource, zone
from tests.builders.pods import SINGLE, bound, created, gated, plain
from tests.unit.views.one_node import WRITTEN_AT, bound_at
from tests.unit.views.racks import WRITTEN
from webhook.engine import freeing as module
from webhook.engine.decide import decide
from webhook.engine.freeing import NoSet, SmallestSet, smallest_set
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.koordinator.numa_allocation import UnverifiedAllocations
from webhook.formats.kubernetes.pod import Pod
from webhook.model.names import MANAGED_BY_KOORDINATOR, MANAGED_BY_LABEL
from webhook.model.options import Options
from webhook.placing.node_holdings import Holdings
from webhook.state.cluster_cache import ClusterCache

CPUS = 8
"""Of each of two NUMA nodes."""

SHARED = '{"numaTopologyPolicy": "SingleNUMANode", "singleNUMANodeExclusive": "Preferred"}'


@dataclass(frozen=True)
class Held:
    """A pod of 1Gi on a node. hour: when it was bound; NRTs were written at 2."""

    name: str
    numa: int | None
    cpus: int
    hour: int
    node: str

    def raw(self) -> dict[str, Any]:
        if self.numa is None:
            return plain_pod(self)
        amounts = f'{{"cpu":"{self.cpus}","memory":"1Gi"}}'
        allocation = f'{{"node":"{self.node}","numaNodeResources":[{{"node":{self.numa},"resources":{amounts}}}]}}'
        annotations = {"topology-webhook.dev/numa": allocation}
        if self.hour > 3:  # assigned, and not bound yet
            return created(name=self.name, cpu=self.cpus, annotations=annotations)
        return bound(name=self.name, node=self.node, cpu=self.cpus, annotations=annotations, status=bound_at(self.hour))


def plain_pod(held: Held) -> dict[str, Any]:
    """A Burstable pod, which holds no NUMA node."""
    spec = plain(cpu=held.cpus)["spec"]["containers"][0]
    spec["resources"] = {"requests": {"cpu": str(held.cpus)}}
    return bound(name=held.name, node=held.node, numa=None, containers=[spec], status=bound_at(held.hour))


@dataclass(frozen=True)
class Machine:
    name: str
    policy: str
    koordlet: bool
    pods: tuple[Held, ...]

    def objects(self, ended: Sequence[str] = ()) -> list[dict[str, Any]]:
        left = [pod for pod in self.pods if f"default/{pod.name}" not in ended]
        zones = []
        for numa in (0, 1):
            shown = [pod for pod in left if pod.numa == numa and pod.hour < 2 and not self.koordlet]
            cpu = resource(name="cpu", capacity=CPUS, available=CPUS - sum(pod.cpus for pod in shown))
            memory = resource(name="memory", capacity="64Gi", available=f"{64 - len(shown)}Gi")
            zones.append(zone(numa_id=numa, resources=[cpu, memory]))
        labels = {MANAGED_BY_LABEL: MANAGED_BY_KOORDINATOR} if self.koordlet else {}
        metadata = {**WRITTEN, "labels": labels}
        return [
            node(name=self.name, cpus=2 * CPUS),
            nrt(node=self.name, zones=zones, policy=self.policy, metadata=metadata),
            *(pod.raw() for pod in left),
        ]


def cache_of(machines: Sequence[Machine], ended: Sequence[str] = ()) -> ClusterCache:
    cache = ClusterCache(clock=lambda: WRITTEN_AT + 4_000)
    cache.use_allocation_key(UnverifiedAllocations(b""))
    put(cache, *(raw for machine in machines for raw in machine.objects(ended)))
    return cache


def random_machine(random: Random, name: str) -> Machine:
    free = [CPUS, CPUS]
    pods: list[Held] = []
    for number in range(random.randint(4, 8)):
        numa = random.choice((0, 0, 1, 1, None))
        cpus = random.randint(1, 4)
        if numa is not None and free[numa] < cpus:
            continue
        if sum(pod.cpus for pod in pods) + cpus > 2 * CPUS:
            continue
        if numa is not None:
            free[numa] -= cpus
        pods.append(Held(f"{name}-{number}", numa, cpus, random.choice((1, 1, 1, 3, 4)), name))
    policy = random.choice(("single-numa-node", "single-numa-node", "restricted", "best-effort", "none"))
    return Machine(name, policy, policy == "none" and random.random() < 0.5, tuple(pods))


def waiting_pod(random: Random) -> dict[str, Any]:
    numa = random.choice(
        (None, SINGLE, '{"numaTopologyPolicy": "SingleNUMANode", "singleNUMANodeExclusive": "Preferred"}')
    )
    return gated(name="waits", cpu=random.randint(4, 8 if numa else 14), numa=numa)


def found_in(cache: ClusterCache, raw: dict[str, Any]) -> SmallestSet | None:
    """The set; None if none exists."""
    pod = Pod.from_object(raw)
    intent = parse_numa_intent(pod.annotations)[0]
    holdings = Holdings(cache)
    found = smallest_set(cache.snapshot().nodes, pod, intent, Options(), holdings.on, holdings.requests_on)
    if isinstance(found, NoSet):
        assert found.certain
        return None
    return found


def fits(machine: Machine, ended: Sequence[str], raw: dict[str, Any]) -> bool:
    pod = Pod.from_object(raw)
    snapshot = cache_of([machine], ended).snapshot().nodes
    return decide(snapshot, pod, parse_numa_intent(pod.annotations)[0], Options()).fit_count > 0


def least(machine: Machine, raw: dict[str, Any], up_to: int) -> int | None:
    """The size of the smallest set on a machine, by trying all sets."""
    names = [f"default/{pod.name}" for pod in machine.pods]
    for size in range(min(up_to, len(names)) + 1):
        if any(fits(machine, ended, raw) for ended in combinations(names, size)):
            return size
    return None


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_set_is_enough_and_the_smallest(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    machines = [random_machine(random, f"n{number}") for number in range(2)]
    raw = waiting_pod(random)
    found = found_in(cache_of(machines), raw)
    sizes = [size for machine in machines if (size := least(machine, raw, len(machine.pods))) is not None]
    if found is None:
        assert not sizes
        return
    (machine,) = (each for each in machines if each.name == found.node)
    assert fits(machine, found.pods, raw)
    assert found.at_least <= min(sizes) <= len(found.pods)
    if len(found.pods) <= module.LARGEST_EXACT:
        assert len(found.pods) == min(sizes) == found.at_least


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_greedy_set_is_enough_and_none_of_it_can_stay(seed: int) -> None:
    random = Random(1_000 + seed)  # noqa: S311 - reproducible, not secret
    machines = [random_machine(random, f"n{number}") for number in range(2)]
    raw = waiting_pod(random)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "MOST_TRIALS", 0)
        found = found_in(cache_of(machines), raw)
    if found is None or not found.pods:
        return
    (machine,) = (each for each in machines if each.name == found.node)
    assert fits(machine, found.pods, raw)
    assert not any(fits(machine, less, raw) for less in combinations(found.pods, len(found.pods) - 1))
    assert found.at_least <= len(found.pods)
