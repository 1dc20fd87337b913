"""Gangs that change their size, lose members and get new ones, on the real control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cluster.audit import overcommitted
from tests.cluster.racked import RACKS, rack_of, racks, racks_of, webhook
from tests.integration.members import create_all, member
from tests.integration.workloads import SINGLE, job, jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.gated import Pods

__all__ = ["racks", "webhook"]  # fixtures

RANK = "topology-webhook.dev/rank"


def finish(pods: Pods, name: str, phase: str) -> None:
    """Write the status of a pod that has ended, as a kubelet does."""
    pods.plane.api.patch(f"{pods.path}/{name}/status", {"status": {"phase": phase}})


def ranks(pods: Pods) -> dict[str, str]:
    """Pod name -> rank, of bound pods that have not ended."""
    live = {name: raw for name, raw in pods.all().items() if raw["status"].get("phase") == "Pending"}
    return {name: raw["metadata"]["annotations"].get(RANK, "") for name, raw in live.items()}


def test_a_job_that_asks_for_less_while_it_waits_goes_at_once(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(2, 1)
    control_plane.api.create(jobs(pods), job("train", 20, {**RACKS, **SINGLE}))
    control_plane.wait_for("its pods", lambda: len(pods.gated()) == 20)
    control_plane.api.patch(f"{jobs(pods)}/train", {"spec": {"parallelism": 12}})
    control_plane.wait_for("those that are left to go", lambda: len(pods.bound()) == 12)
    assert len(racks_of(pods, "train")) == 1


def test_a_job_grows_and_shrinks_in_its_rack(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(3, 1)
    body: dict[str, Any] = job("train", 6, {**RACKS, **SINGLE})
    body["spec"]["completions"] = 16
    control_plane.api.create(jobs(pods), body)
    control_plane.wait_for("it to begin", lambda: len(pods.bound()) == 6)
    (rack,) = racks_of(pods, "train")
    control_plane.api.patch(f"{jobs(pods)}/train", {"spec": {"parallelism": 14}})
    control_plane.wait_for("it to grow", lambda: len(pods.bound()) == 14)
    control_plane.api.patch(f"{jobs(pods)}/train", {"spec": {"parallelism": 3}})
    control_plane.wait_for("it to shrink", lambda: len(pods.all()) == 3)
    control_plane.api.patch(f"{jobs(pods)}/train", {"spec": {"parallelism": 16}})
    control_plane.wait_for("it to grow anew", lambda: len(pods.bound()) == 16)
    assert racks_of(pods, "train") == {rack}
    assert sorted(map(int, ranks(pods).values())) == list(range(16))
    assert overcommitted(control_plane, pods.all().values()) == {}


def test_one_that_fails_is_made_again_in_the_groups_rack_with_its_rank_though_others_have_ended(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(3, 1)
    control_plane.api.create(jobs(pods), job("train", 4, {**RACKS, **SINGLE}))
    control_plane.wait_for("it to begin", lambda: len(pods.bound()) == 4)
    (rack,) = racks_of(pods, "train")
    by_rank = {rank: name for name, rank in ranks(pods).items()}
    finish(pods, by_rank["0"], "Succeeded")
    finish(pods, by_rank["2"], "Failed")

    def is_there(rank: str) -> str:
        """The bound pod that replaces another one with this rank."""
        fresh = [name for name, its in ranks(pods).items() if its == rank and name not in by_rank.values()]
        return next((name for name in fresh if name in pods.bound()), "")

    control_plane.wait_for("another in its place", lambda: is_there("2"))
    assert rack_of(pods, is_there("2")) == rack
    # now all but one have ended, and that one fails
    for rank in ("1", "3"):
        finish(pods, by_rank[rank], "Succeeded")
    second = is_there("2")
    finish(pods, second, "Failed")
    by_rank["2 anew"] = second
    control_plane.wait_for("another in its place", lambda: is_there("2"))


def test_a_group_by_hand_gets_late_members_and_its_deletion_at_any_moment_leaves_nothing_taken(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(1, 1)
    # the rack has room for 16: the first goes whole, half of it is deleted, and so is all of one that waits
    create_all(pods, "a", 12)
    create_all(pods, "b", 10)
    control_plane.wait_for("the first", lambda: len(pods.bound()) == 12 or len(pods.bound()) == 10)
    first = next(iter(pods.bound())).partition("-")[0]
    second = "b" if first == "a" else "a"
    pods.delete(*pods.gated())
    create_all(pods, second, 10)
    pods.delete(*sorted(name for name in pods.bound() if name.startswith(f"{first}-"))[:8])
    control_plane.wait_for("the other to go", lambda: sum(name.startswith(f"{second}-") for name in pods.bound()) >= 10)
    pods.create(member(first, 99, 2))
    pods.wait_until_bound(f"{first}-99")
    assert overcommitted(control_plane, pods.all().values()) == {}
