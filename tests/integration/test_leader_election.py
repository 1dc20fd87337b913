"""Candidates for a Lease on a real API server. Each has a network that can be delayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.api import ApiError
from tests.integration.candidates import QUICK, LeaseCandidates
from webhook.kube.election import RELEASED_ANNOTATION, Release, Timing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

# For leaders that renew often and are to last, however busy the machine is.
STEADY = Timing(lease_duration=60, renew_deadline=40, retry_period=0.3)
# With these, nothing that happens within the time of a test is owed to a clock.
SLOW = Timing(lease_duration=900, renew_deadline=600, retry_period=300)


@pytest.fixture
def cluster(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> LeaseCandidates:
    return LeaseCandidates(control_plane, namespace, tmp_path)


async def test_of_many_that_start_at_once_one_leads(cluster: LeaseCandidates) -> None:
    async with (
        cluster.candidate(SLOW) as a,
        cluster.candidate(SLOW) as b,
        cluster.candidate(SLOW) as c,
        cluster.candidate(SLOW) as d,
    ):
        everybody = [a, b, c, d]
        await cluster.until(lambda: cluster.leaders() and all(each.election.holder for each in everybody))
        (leader,) = cluster.leaders()
        assert {each.election.holder for each in everybody} == {cluster.lease["spec"]["holderIdentity"]}
        assert leader.events == [leader.election.term]
        assert [each.events for each in everybody if each is not leader] == [[], [], []]


async def test_a_lease_that_is_given_back_is_taken_at_once(cluster: LeaseCandidates) -> None:
    async with cluster.candidate(SLOW) as first:
        await cluster.until(first.leads)
        async with cluster.candidate(SLOW) as second:
            await cluster.until(lambda: second.election.holder)
            assert await first.election.release(Release.SETTLED, within=10)
            assert (first.leads(), first.events[-1]) == (False, None)
            await cluster.until(second.leads)
            assert second.election.term is not None
            assert second.election.term.alone_since < 0
            assert cluster.lease["spec"]["leaseTransitions"] == 2
            assert RELEASED_ANNOTATION not in cluster.lease["metadata"].get("annotations", {})


async def test_one_that_leaves_in_a_hurry_says_so(cluster: LeaseCandidates) -> None:
    async with cluster.candidate(SLOW) as first:
        await cluster.until(first.leads)
        assert await first.election.release(Release.UNSETTLED, within=10)
        assert cluster.lease["metadata"]["annotations"] == {RELEASED_ANNOTATION: "unsettled"}
        async with cluster.candidate(SLOW) as second:
            await cluster.until(second.leads)
            assert second.election.term is not None
            assert second.election.term.alone_since > 0


async def test_a_dead_leader_is_replaced_when_its_lease_has_run_out(cluster: LeaseCandidates) -> None:
    async with cluster.candidate(QUICK) as first, cluster.candidate(QUICK) as second:
        await cluster.until(cluster.leaders)
        leader, other = (first, second) if first.leads() else (second, first)
        await leader.kill()
        await cluster.until(other.leads)
        assert not leader.leads()


async def test_a_leader_whose_calls_hang_stops_by_its_deadline_and_follows_when_they_go_through(
    cluster: LeaseCandidates,
) -> None:
    async with cluster.candidate(QUICK) as first, cluster.candidate(QUICK) as second:
        await cluster.until(cluster.leaders)
        leader, other = (first, second) if first.leads() else (second, first)
        await cluster.until(lambda: other.election.holder)
        leader.network.open.clear()
        await cluster.until(lambda: leader.events[-1] is None)
        assert not other.leads()  # it was told before another could lead
        await cluster.until(other.leads)
        leader.network.open.set()
        holder = cluster.lease["spec"]["holderIdentity"]
        await cluster.until(lambda: not leader.election.error and leader.election.holder == holder)
        assert cluster.leaders() == [other]


async def test_a_leader_that_is_alone_leads_again_after_an_outage_with_a_new_epoch(cluster: LeaseCandidates) -> None:
    async with cluster.candidate(QUICK) as only:
        await cluster.until(only.leads)
        only.network.open.clear()
        await cluster.until(lambda: not only.leads())
        assert "no answer within" in only.election.error
        only.network.open.set()
        await cluster.until(only.leads)
        first, stopped, second = only.events
        assert stopped is None
        assert first is not None
        assert second is not None
        assert second.epoch == first.epoch + 1


async def test_a_leader_whose_lease_is_deleted_goes_on_leading(cluster: LeaseCandidates) -> None:
    async with cluster.candidate(STEADY) as leader:
        await cluster.until(leader.leads)
        term = leader.election.term
        async with cluster.candidate(STEADY) as other:
            await cluster.until(lambda: other.election.holder)
            cluster.api.delete(cluster.path)

            def is_back() -> bool:
                try:
                    return bool(cluster.lease["spec"]["holderIdentity"])
                except ApiError as error:
                    if error.status != 404:
                        raise
                    return False

            await cluster.until(is_back)
            assert cluster.leaders() == [leader]
            assert leader.election.term == term


async def test_what_others_write_into_the_lease_is_kept(cluster: LeaseCandidates) -> None:
    async with cluster.candidate(STEADY) as leader:
        await cluster.until(leader.leads)
        labelled = cluster.api.patch(cluster.path, {"metadata": {"labels": {"team": "a"}}})
        renewed = labelled["spec"]["renewTime"]
        await cluster.until(lambda: cluster.lease["spec"]["renewTime"] > renewed)
        assert cluster.lease["metadata"]["labels"] == {"team": "a"}
        assert len(leader.events) == 1


async def test_an_absurd_lease_of_a_holder_that_does_not_live_is_replaced(
    cluster: LeaseCandidates, namespace: str
) -> None:
    spec = {
        "holderIdentity": "somebody",
        "leaseDurationSeconds": 2**31 - 1,
        "leaseTransitions": 2**31 - 1,
        "renewTime": "9999-12-31T23:59:59.000000Z",
        "acquireTime": "0001-01-01T00:00:01.000000Z",
    }
    body = {"metadata": {"name": "leader", "namespace": namespace}, "spec": spec}
    cluster.api.create(cluster.path.rpartition("/")[0], body)
    async with cluster.candidate(QUICK) as one, cluster.candidate(QUICK) as other:
        await cluster.until(cluster.leaders)
        assert cluster.lease["spec"]["leaseTransitions"] == 1
        # While it lasts, and again of a leader that dies.
        leader, next_one = (one, other) if one.leads() else (other, one)
        await leader.kill()
        cluster.api.patch(cluster.path, {"spec": spec | {"holderIdentity": leader.election.holder}})
        await cluster.until(next_one.leads)
