"""What a replica does around the election, on a real API server: runnables, its address, the way out."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.integration.candidates import QUICK, LeaseCandidates
from webhook.app.leader_elector import LeaderElector, leadership_of
from webhook.app.settings import Settings
from webhook.kube.client import Client
from webhook.kube.election import ADDRESS_ANNOTATION, RELEASED_ANNOTATION
from webhook.model.shards import DEFAULT_SHARD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from webhook.kube.election import Term

POD = "replica-0"


class Placing:
    """A duty that tells what it was told. Its promises are never visible before `visible` is set."""

    def __init__(self) -> None:
        self.visible = asyncio.Event()
        self.told: list[Term | str] = []

    def started(self, term: Term, shard: str = DEFAULT_SHARD) -> None:
        self.told.append(term)

    def stopped(self, shard: str = DEFAULT_SHARD) -> None:
        self.told.append("stopped")

    async def settle(self, _shard: str | None = None) -> None:
        self.told.append("asked to settle")
        await self.visible.wait()


class Replica:
    """One replica without its ports."""

    def __init__(self, plane: ControlPlane, namespace: str, client: Client) -> None:
        self.ready = self.follows = True
        self.leader_state = Placing()
        self.settings = Settings(
            namespace=namespace,
            pod_name=POD,
            name="leader",
            lease_duration_seconds=3,
        )
        self.leadership = leadership_of(self.settings, client, lambda: self.follows, lambda: "10.0.0.7:8445")
        self.elector = LeaderElector(self.leadership, self.settings, lambda: self.ready, [self.leader_state])
        self._lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/leader"
        self._api = plane.api

    def is_found(self) -> bool:
        """Whether other replicas read in the Lease where it answers them."""
        try:
            annotations: dict[str, Any] = self._api.get(self._lease)["metadata"].get("annotations") or {}
        except ApiError:  # nobody has claimed it yet
            return False
        return annotations.get(ADDRESS_ANNOTATION) == "10.0.0.7:8445"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.elector.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


@pytest.fixture
async def replica(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Replica]:
    spec = {"schedulerName": "not-running", "containers": [{"name": "main", "image": "none"}]}
    control_plane.api.create(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": POD}, "spec": spec})
    async with await Client.connect(control_plane.kubeconfig) as client:
        yield Replica(control_plane, namespace, client)


@pytest.fixture
def cluster(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> LeaseCandidates:
    return LeaseCandidates(control_plane, namespace, tmp_path)


async def test_a_replica_that_is_not_ready_does_not_take_part(replica: Replica, cluster: LeaseCandidates) -> None:
    replica.ready = False
    async with replica.running(), cluster.candidate(QUICK) as other:
        await cluster.until(other.leads)
        await other.kill()
        await asyncio.sleep(2 * QUICK.lease_duration)
        assert not replica.leadership.is_leader()
        replica.ready = True
        await cluster.until(replica.leadership.is_leader)


async def test_the_first_leader_of_all_has_nothing_to_wait_for(replica: Replica, cluster: LeaseCandidates) -> None:
    async with replica.running():
        await cluster.until(replica.is_found)
        await cluster.until(lambda: bool(replica.leader_state.told))
        assert replica.leadership.seconds_until_settled() == 0
        assert replica.leader_state.told == [replica.leadership.term()]
        assert "epoch 1" in replica.elector.check().detail


async def test_who_leads_after_an_outage_is_not_settled_before_it_sees_pods_again_and_then_is_for_its_term(
    replica: Replica, cluster: LeaseCandidates
) -> None:
    replica.follows = False
    async with replica.running():
        await cluster.until(replica.leadership.is_leader)
        assert replica.leadership.seconds_until_settled() > 0
        replica.follows = True
        assert replica.leadership.seconds_until_settled() == 0
        replica.follows = False
        assert replica.leadership.seconds_until_settled() == 0


async def test_who_follows_a_dead_leader_waits_until_what_that_one_assumed_must_be_visible(
    replica: Replica, cluster: LeaseCandidates
) -> None:
    async with cluster.candidate(QUICK) as dead:
        await cluster.until(dead.leads)
        await dead.kill()
    async with replica.running():
        await cluster.until(replica.leadership.is_leader)
        assume_ttl = replica.settings.assume_ttl
        assert assume_ttl - 10 < replica.leadership.seconds_until_settled() <= assume_ttl


async def test_on_the_way_out_runnables_stop_and_assumed_pods_are_waited_for(
    replica: Replica, cluster: LeaseCandidates
) -> None:
    async with replica.running():
        await cluster.until(replica.is_found)
        await cluster.until(lambda: bool(replica.leader_state.told))
        ending = asyncio.create_task(replica.elector.hand_over(within=20))
        await cluster.until(lambda: "asked to settle" in replica.leader_state.told)
        assert replica.leader_state.told[1:] == ["stopped", "asked to settle"]
        assert not replica.leadership.is_leader()
        assert replica.leadership.is_elsewhere()
        assert cluster.lease["spec"]["holderIdentity"] == replica.leadership.identity
        replica.leader_state.visible.set()
        await ending
        assert cluster.lease["spec"]["holderIdentity"] == ""
        assert cluster.lease["metadata"]["annotations"] == {RELEASED_ANNOTATION: "settled"}


async def test_assumed_pods_that_stay_invisible_are_told_to_the_next_leader(
    replica: Replica, cluster: LeaseCandidates
) -> None:
    async with replica.running():
        await cluster.until(replica.is_found)
        await replica.elector.hand_over(within=0.1)
        assert cluster.lease["metadata"]["annotations"] == {RELEASED_ANNOTATION: "unsettled"}


async def test_one_that_never_took_part_is_gone_at_once(replica: Replica) -> None:
    replica.ready = False
    async with replica.running(), asyncio.timeout(20):
        await replica.elector.hand_over(within=60)
        assert replica.leader_state.told == []
