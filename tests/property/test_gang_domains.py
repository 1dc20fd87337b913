"""A gang continues in the domain in which it runs, whatever happens to nodes, and waits if that domain is unknown.

A cluster changes at random: nodes are deleted, come back, move to another rack or lose their label; pods end or are
collected and recreated. After each change every gang has its turn. An audit checks each assignment at once. It reads
only the raw objects and uses none of the code under test.
"""

import asyncio
import json
import random
import re
from collections import Counter
from time import monotonic, time
from typing import Any

import jsonpatch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import pods
from tests.builders.clusters import assuming, put
from tests.builders.nodes import node, nrt
from tests.builders.topologies import topology
from webhook.model.names import (
    DOMAIN,
    KAI_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
    MIN_MEMBER,
)
from webhook.placing.gang.gang_agreement import agree
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.gated_gang import GangAssigner
from webhook.placing.gang.kept_domain import KeptDomains
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.gated_pods import GatedPods
from webhook.placing.retry_delays import RetryDelays
from webhook.placing.waiting_unit import units_of
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules
from webhook.steps import result_of

ROW, RACK = "example.com/row", "example.com/rack"
# row-0 ── rack-0, rack-1      row-1 ── rack-2, rack-3      3 nodes a rack with 2 NUMA nodes of 8 CPUs: 6 pods
RACKS = [("row-0", "rack-0"), ("row-0", "rack-1"), ("row-1", "rack-2"), ("row-1", "rack-3")]
NODES = {f"n{number}": RACKS[number // 3] for number in range(12)}
GANGS = {"a": ("rack", 3), "b": ("rack", 2), "c": ("row", 4)}
STEPS = 60
SEEDS = range(40)


class RawCluster:
    """Nodes and pods as raw objects, and the cache that receives them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a fixed seed, no secret
        self.cache = ClusterCache()
        self.nodes: dict[str, tuple[str, str | None]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.audits = 0
        self.told: Counter[str] = Counter()
        put(self.cache, topology(name="dc", labels=(ROW, RACK)))
        for name, where in NODES.items():
            self.put_node(name, *where)
        self.placer = GangAssigner(
            self.cache, assuming(self.cache), Rules(), KeptDomains(self.cache, 0.0, float, monotonic, time)
        )
        self.gated = GatedPods(Rules(), RetryDelays(lambda seconds: None, monotonic))
        self._version = 0

    def put_node(self, name: str, row: str, rack: str | None) -> None:
        self.nodes[name] = row, rack
        labels = {ROW: row, **({RACK: rack} if rack else {})}
        put(self.cache, node(name=name, cpus=16, labels=labels), nrt(node=name, free=(8, 8), cpus=8))

    def drop_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cache.nodes.delete(name)
        self.cache.node_topologies.delete(name)

    def put_pod(self, raw: dict[str, Any]) -> None:
        self._version += 1
        raw["metadata"]["resourceVersion"] = str(self._version)
        self.pods[raw["metadata"]["name"]] = raw
        self.cache.pods.upsert(f"ns/{raw['metadata']['name']}", raw)

    def create(self, gang: str, number: int) -> None:
        level, minimum = GANGS[gang]
        annotations = {MIN_MEMBER: str(minimum), KAI_TOPOLOGY: "dc", KAI_REQUIRED_PLACEMENT: level}
        name, cpu = f"{gang}-{number}", self.random.choice([3, 7])
        uid = {"uid": f"{name}-{self._version}"}
        self.put_pod(pods.gated(name=name, namespace="ns", group=gang, cpu=cpu, annotations=annotations, metadata=uid))

    def drop_pod(self, name: str) -> None:
        del self.pods[name]
        self.cache.pods.delete(f"ns/{name}")

    def bind(self, name: str) -> None:
        raw = self.pods[name]
        node = self.allocated(raw)
        if node in self.nodes and not raw["spec"].get("nodeName"):
            self.put_pod({**raw, "spec": {**raw["spec"], "nodeName": node}})

    def allocated(self, raw: dict[str, Any]) -> str:
        assumed_pods = raw["spec"].get("affinity", {}).get("nodeAffinity", {})
        terms = assumed_pods.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
        return str(terms[0]["matchFields"][0]["values"][0]) if terms else ""

    def seats(self, gang: str) -> dict[str, str]:
        """Pod -> node of assigned and running pods."""
        return {name: node for name, raw in self.pods.items() if name[0] == gang and (node := self.allocated(raw))}

    def change(self) -> None:
        """Make one random change."""
        draw = self.random
        what = draw.choice(["create"] * 8 + ["end", "end", "bind", "bind", "drop", "drop", "back", "move", "unlabel"])
        gang, number = draw.choice(list(GANGS)), draw.randrange(4)
        if what == "create" and f"{gang}-{number}" not in self.pods:
            self.create(gang, number)
        elif what == "end" and self.pods:
            self.drop_pod(draw.choice(sorted(self.pods)))
        elif what == "bind" and self.pods:
            self.bind(draw.choice(sorted(self.pods)))
        elif what == "drop" and len(self.nodes) > 4:
            # As a rule one on which somebody runs.
            used = sorted({node for each in GANGS for node in self.seats(each).values()} & self.nodes.keys())
            self.drop_node(draw.choice(used or sorted(self.nodes)))
        elif what == "back" and (gone := sorted(NODES.keys() - self.nodes.keys())):
            for name in gone:
                self.put_node(name, *NODES[name])
        elif what == "move":
            self.put_node(draw.choice(sorted(self.nodes)), *draw.choice(RACKS))
        elif what == "unlabel":
            name = draw.choice(sorted(self.nodes))
            self.put_node(name, self.nodes[name][0], None)

    async def turn(self) -> None:
        """Give every gang its turn, as in a cycle of the controller."""
        result_of(self.gated.update(self.cache.gated_pods()))
        for unit in units_of(self.gated.in_order()):
            assert isinstance(unit, GatedGang)
            agreed = agree(unit, self.cache.gangs.assigned(unit.membership.group), self.cache.snapshot().topologies)
            found = await self.placer.assign(agreed.gang, agreed.minimum, agreed.assigned_members, (), never)
            if isinstance(found, NoAssignment):
                self.told[found.text] += 1
                continue
            self.audit(unit.membership.name, {gated.pod.name: place.allocation.node for gated, place, _ in found})
            for gated, place, _ in found:
                signed = place.signed(self.cache.sign(gated.pod.uid, place.allocation.to_json()))
                raw = jsonpatch.apply_patch(self.pods[gated.pod.name], list(signed.patch(gated.raw)))
                self.put_pod(raw)

    def audit(self, gang: str, assigned: dict[str, str]) -> None:
        """Check an assignment against the objects before it is written."""
        self.audits += 1
        level = GANGS[gang][0]
        (domain,) = {self.domain(node, level) for node in assigned.values()}
        assert domain is not None
        seats = self.seats(gang)
        running = Counter(where for node in seats.values() if (where := self.domain(node, level)) is not None)
        if running:
            assert running[domain] == max(running.values()), (gang, domain, running)
        elif seats:
            assert {self.record(name, level) for name in seats} == {domain}, (gang, domain, seats)

    def domain(self, node: str, level: str) -> tuple[str, ...] | None:
        row, rack = self.nodes.get(node, ("", None))
        if node not in self.nodes or (level == "rack" and rack is None):
            return None
        return (row,) if level == "row" or rack is None else (row, rack)

    def record(self, name: str, level: str) -> tuple[str, ...]:
        values = json.loads(self.pods[name]["metadata"]["annotations"][DOMAIN])
        return (values[ROW],) if level == "row" else (values[ROW], values.get(RACK))

    def assume(self, assumed_pod: AssumedPod) -> None:
        self.cache.assume(assumed_pod)


async def never() -> None:
    """No other task waits for a turn."""


async def run(cluster: RawCluster) -> None:
    for _ in range(STEPS):
        cluster.change()
        await cluster.turn()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_gang_never_goes_on_in_another_domain_than_its_members_run_in(seed: int) -> None:
    asyncio.run(run(RawCluster(seed)))


async def test_the_changes_meet_gangs_that_lose_nodes_and_gangs_that_wait_for_them() -> None:
    """Without these cases the audit would prove nothing."""
    audits, told = 0, Counter[str]()
    for seed in SEEDS:
        cluster = RawCluster(seed)
        await run(cluster)
        audits += cluster.audits
        told += cluster.told
    assert audits > 200
    for why in ("which has no nodes any more", "its running pods limit it to"):
        assert why in " ".join(told)
    # What is short is told of the domain that holds the group, not of another one.
    held = [re.search(r"limit it to (rack [^;]+); (.+) holds", text) for text in told]
    assert {one[1] == one[2] for one in held if one} == {True}
