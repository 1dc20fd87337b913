"""PodGroups in step with groups, against a cluster that is as the test says."""

import asyncio
import json
from typing import Any

from tests.builders.clusters import cluster_cache, put
from tests.builders.nodes import node
from tests.builders.pods import gated
from tests.builders.workloads import job
from webhook.controllers import pod_groups
from webhook.controllers.pod_groups import PodGroupKeeper
from webhook.formats.topology import TopologySource
from webhook.kube.pod_group_client import PodGroups
from webhook.kube.write import Outcome, Write
from webhook.model.names import DOMAIN, KAI_PREFERRED_PLACEMENT, KAI_TOPOLOGY, PLACEMENT, POD_GROUP_NAME
from webhook.model.raw import Raw
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import units_of

NAME = "default/pg-w-uid-Job"
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": "uid-Job", "controller": True}


def member(**annotations: str) -> dict[str, Any]:
    raw = gated(name="w-0-abcde")
    raw["metadata"] |= {"namespace": "default", "ownerReferences": [OWNER], "annotations": annotations}
    return raw


class FakeCluster(PodGroups):
    """Groups and pods that wait, and the PodGroups that were applied."""

    def __init__(self) -> None:
        self.known: dict[str, Raw] = {}
        self.cache = cluster_cache(node(name="n0"))
        self.owner = job(**{KAI_TOPOLOGY: "t"})
        self.takes = True
        self.applied = 0
        self.leads = self.serves = True

    async def apply(self, body: Raw) -> Write:
        self.applied += 1
        if self.takes:
            self.known[f"{body['metadata']['namespace']}/{body['metadata']['name']}"] = body
        return Write(Outcome.WRITTEN if self.takes else Outcome.REFUSED)

    async def read_owner(self, *_: object) -> Raw | None:
        return self.owner

    async def read_pod(self, key: str) -> Raw | None:
        assert key == "default/w-0-abcde"
        return member(**{POD_GROUP_NAME: "pg-w-uid-Job"})

    def keeper(self) -> PodGroupKeeper:
        return PodGroupKeeper(self.cache, self, self.read_owner, self.read_pod, lambda: self.leads, lambda: self.serves)

    def status(self) -> str:
        return str(self.known[NAME]["metadata"]["annotations"][PLACEMENT])

    def assign(self) -> None:
        self.bind(member(**{POD_GROUP_NAME: "pg-w-uid-Job"}), "n0")

    def bind(self, raw: dict[str, Any], node: str) -> None:
        spec = {**raw["spec"], "nodeName": node, "schedulingGates": []}
        put(self.cache, {**raw, "spec": spec})


def gang_of(cluster: FakeCluster) -> GatedGang:
    raw = member(**{POD_GROUP_NAME: "pg-w-uid-Job"})
    put(cluster.cache, raw)
    (gang,) = units_of([GatedPod.from_object(raw)])
    assert isinstance(gang, GatedGang)
    return gang


async def settle(keeper: PodGroupKeeper) -> None:
    """One comparison, and another one when the owners are read."""
    await keeper.sweep(0)
    reading = asyncio.create_task(keeper._owner_chains.run())
    while any(not entry.owner_chain for entry in keeper._owner_chains._entries.values()):  # noqa: ASYNC110 # no event tells
        await asyncio.sleep(0)
    reading.cancel()
    await keeper.sweep(0)


async def test_a_group_that_was_placed_before_we_led_gets_its_pod_group_from_the_leader() -> None:
    cluster = FakeCluster()
    cluster.assign()
    cluster.leads = False
    await settle(cluster.keeper())
    assert cluster.applied == 0
    cluster.leads = True
    await settle(cluster.keeper())
    assert cluster.status() == "placed: 1 pod on 1 node"


async def test_a_preferred_level_that_it_misses_is_said_with_the_place() -> None:
    cluster = FakeCluster()
    levels = {"levels": [{"nodeLabel": "example.com/rack"}]}
    cluster.cache.topologies[TopologySource.KAI].upsert(
        "t", {"apiVersion": "kai.scheduler/v1alpha1", "metadata": {"name": "t"}, "spec": levels}
    )
    for rank in range(2):
        own = {KAI_TOPOLOGY: "t", KAI_PREFERRED_PLACEMENT: "rack", DOMAIN: f'{{"example.com/rack": "r{rank}"}}'}
        raw = member(**{POD_GROUP_NAME: "pg-w-uid-Job"}, **own)
        raw["metadata"] |= {"name": f"w-{rank}-abcde", "uid": str(rank)}
        cluster.bind(raw, f"n{rank}")
    await settle(cluster.keeper())
    assert cluster.status() == "placed: 2 pods on 2 nodes\npreferred rack missed: in 2 racks (r0, r1)"


async def test_the_words_name_the_finest_domain_that_holds_all_pods() -> None:
    # z0 ── r7 ── n0 n1
    cluster = FakeCluster()
    for rank in range(3):
        domain = {"example.com/zone": "z0", "example.com/rack": "r7", "kubernetes.io/hostname": f"n{rank % 2}"}
        raw = member(**{POD_GROUP_NAME: "pg-w-uid-Job", DOMAIN: json.dumps(domain)})
        raw["metadata"] |= {"name": f"w-{rank}-abcde", "uid": str(rank)}
        cluster.bind(raw, f"n{rank % 2}")
    await settle(cluster.keeper())
    assert cluster.status() == "placed in r7: 3 pods on 2 nodes"


async def test_why_a_group_waits_is_said_until_it_does_no_more(monkeypatch: Any) -> None:
    monkeypatch.setattr(pod_groups, "_WRITTEN_SECONDS", 0.0)
    cluster = FakeCluster()
    keeper = cluster.keeper()
    gang = gang_of(cluster)
    keeper.saw(gang, "waiting: no room")
    for _ in range(3):
        await settle(keeper)
    assert (cluster.status(), cluster.applied) == ("waiting: no room", 1)
    cluster.assign()
    keeper.saw(gang, "")
    await settle(keeper)
    assert cluster.status() == "placed: 1 pod on 1 node"
    cluster.cache.pods.delete("default/w-0-abcde")
    await settle(keeper)
    assert (cluster.status(), cluster.applied) == ("no pods", 3)


async def test_what_somebody_takes_away_comes_back_and_what_is_refused_is_left_for_a_while(monkeypatch: Any) -> None:
    monkeypatch.setattr(pod_groups, "_WRITTEN_SECONDS", 0.0)
    cluster = FakeCluster()
    cluster.assign()
    keeper = cluster.keeper()
    await settle(keeper)
    cluster.known[NAME] = {**cluster.known[NAME], "spec": {}}
    await settle(keeper)
    assert (cluster.applied, cluster.known[NAME]["spec"]["minMember"]) == (2, 1)
    cluster.known.clear()
    cluster.takes = False
    for _ in range(3):
        await settle(keeper)
    assert cluster.applied == 3
