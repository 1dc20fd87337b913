"""Replicas as processes behind the chart's Service: one of them leads, and all answer, whatever fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.nodes import Machine
from tests.cluster.two_replicas import QUICK, SLOW, TwoReplicas, says_it_leads, two_replicas
from tests.cluster.webhook_process import RELEASE

if TYPE_CHECKING:
    from tests.cluster.control_plane import ControlPlane

Start = Callable[[Mapping[str, Any]], AbstractContextManager[TwoReplicas]]


@pytest.fixture
def start(control_plane: ControlPlane, namespace: str, create_machines: Callable[..., None]) -> Start:
    """A function that starts two replicas with these settings."""
    # n0 ── NUMA 0 [8]  NUMA 1 [8]      [free cpus of 16]
    create_machines(Machine("n0", free=(8, 8)))
    return partial(two_replicas, control_plane, namespace)


def test_one_replica_leads_and_others_ask_it_what_only_it_can_answer(start: Start) -> None:
    with start(SLOW) as cluster:
        (leader,) = cluster.leading()
        cluster.wait_until_found(leader)
        services, ports = cluster.webhook.services, [each.backend.port for each in cluster.webhook.replicas]
        cluster.plane.wait_for("both replicas", lambda: sorted(services.endpoints(RELEASE)) == sorted(ports))
        assert cluster.lease()["holderIdentity"].startswith(f"{leader.name}_")
        cluster.create_pod("a")
        assert cluster.bind("a")
        assert cluster.ask_directly(cluster.other(leader), "b") == "allowed"  # no such pod, so none of its affair
        cluster.create_pod("b")
        assert cluster.ask_directly(cluster.other(leader), "b") == "allowed"
        assert "forwarded" in str(cluster.other(leader).metrics().keys())


def test_a_leader_that_is_asked_to_end_hands_over_at_once_and_nothing_stays_unsettled(start: Start) -> None:
    with start(SLOW) as cluster:
        (leader,) = cluster.leading()
        follower = cluster.other(leader)
        cluster.create_pod("a")
        cluster.create_pod("b")
        assert cluster.bind("a")
        leader.process.ask_to_stop()
        cluster.wait_until_found(follower)
        assert cluster.leading() == [follower]
        assert cluster.lease()["leaseTransitions"] == 2
        # The API server may still have a connection to the old one, which asks the new one.
        cluster.plane.wait_for("b on its node", lambda: bound(cluster, "b", "only the leader"))
        leader.process.stop()
        told = [line for line in leader.process.log.read_text().splitlines() if "leader.handed_over" in line]
        assert {"settled": True, "released": True}.items() <= json.loads(told[-1]).items()


def test_a_leader_that_is_killed_is_replaced(start: Start) -> None:
    with start(QUICK) as cluster:
        (leader,) = cluster.leading()
        follower = cluster.other(leader)
        cluster.create_pod("a")
        leader.process.kill()
        cluster.wait_until_found(follower)
        # What the dead one has allowed may not be visible yet.
        with pytest.raises(ApiError, match="leader has just changed"):
            cluster.bind("a")
        leader.start_again()
        assert cluster.is_found(follower)
        assert cluster.leading() == [follower]
        cluster.plane.wait_for("the horizon to pass", lambda: bound(cluster, "a", "leader has just changed"))


def bound(cluster: TwoReplicas, name: str, refusal: str) -> bool:
    """Whether the guarded pod is bound now. False if its binding was refused for this reason."""
    try:
        assert cluster.bind(name)
    except ApiError as error:
        if refusal not in error.message:
            raise
        return False
    return True


def test_a_leader_that_was_stopped_answers_no_binding_when_it_goes_on(start: Start) -> None:
    with start(QUICK) as cluster, ThreadPoolExecutor() as threads:
        (leader,) = cluster.leading()
        follower = cluster.other(leader)
        cluster.create_pod("a")
        assert cluster.ask_directly(leader, "a") == "allowed"
        leader.process.pause()
        cluster.wait_until_found(follower)
        # This one is waiting when it goes on, so it is the first thing that it does.
        answer = threads.submit(cluster.ask_directly, leader, "a")
        leader.process.resume()
        # The latter two once it has read who leads now, and if that one can be asked in time.
        assert answer.result() in {"503", "NotLeader", "LeaderChanged"}
        assert not says_it_leads(leader)
        cluster.plane.wait_for("it to be ready again", leader.is_ready)
        assert cluster.is_found(follower)


def test_while_the_api_server_does_not_answer_nobody_leads(start: Start) -> None:
    with start(QUICK) as cluster:
        (api_server,) = (each for each in cluster.plane.processes if each.name == "kube-apiserver")
        api_server.pause()
        try:
            cluster.plane.wait_for("the leader to step down", lambda: not cluster.leading())
        finally:
            api_server.resume()
        cluster.plane.wait_for("a leader", cluster.leading)
        (leader,) = cluster.leading()
        cluster.wait_until_found(leader)
