"""Gangs behind the gate on the real control plane: all pods in one rack or none, despite competing pods."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tests.cluster.audit import overcommitted
from tests.cluster.gated import SPEC, Pods, pod
from tests.cluster.nodes import RACK_LABEL, machines
from tests.cluster.racked import RACKS, racks, racks_of, webhook
from tests.integration.members import create_all, member

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane

__all__ = ["racks", "webhook"]  # fixtures


def test_a_group_of_64_goes_to_one_rack_and_each_pod_has_its_own_numa_node(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    # two racks of 16 nodes with 4 NUMA nodes each: 64 NUMA nodes a rack
    racks(2, 4)
    create_all(pods, "g", 64)
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 64)
    assert len(racks_of(pods, "g")) == 1
    raws = pods.all()
    assert overcommitted(control_plane, raws.values()) == {}
    annotations = raws["g-7"]["metadata"]["annotations"]
    assert annotations["topology-webhook.dev/rank"] == "7"
    assert json.loads(annotations["topology-webhook.dev/domain"])[RACK_LABEL] in racks_of(pods, "g")


def test_of_two_groups_that_race_for_one_rack_one_goes_whole_and_the_other_when_it_ends(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    # one rack of 16 nodes with 2 NUMA nodes: 32; each group needs 20
    racks(1, 2)
    mixed = [member(group, number, 20) for number in range(20) for group in ("a", "b")]
    control_plane.api.in_parallel(partial(pods.create, raw) for raw in mixed)
    control_plane.wait_for("one of them to go", lambda: len(pods.bound()) >= 20)
    first = next(iter(pods.bound())).partition("-")[0]
    second = "b" if first == "a" else "a"
    assert {name.partition("-")[0] for name in pods.bound()} == {first}
    assert pods.gated() == {f"{second}-{number}" for number in range(20)}
    pods.wait_until_says(f"{second}-0", "waiting: gang")
    pods.delete(*(f"{first}-{number}" for number in range(20)))
    control_plane.wait_for("the other to be bound", lambda: len(pods.bound()) == 20)
    assert overcommitted(control_plane, pods.all().values()) == {}


def test_a_group_waits_for_its_members_and_a_new_one_joins_the_others_rack(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(3, 2)
    for number in range(3):
        pods.create(member("g", number, 4))
    pods.create(pod("single", cpu=1))
    pods.wait_until_bound("single")
    pods.wait_until_told("g-0", "WaitingForPlacement", "3 of the 4 pods that must start together are there")
    assert pods.gated() == {"g-0", "g-1", "g-2"}
    pods.create(member("g", 3, 4))
    pods.wait_until_bound("g-0", "g-1", "g-2", "g-3")
    pods.delete("g-1")
    pods.create(member("g", 1, 4))
    pods.create(member("g", 4, 4))
    pods.wait_until_bound("g-1", "g-4")
    assert len(racks_of(pods, "g")) == 1


def test_what_a_group_leaves_goes_to_a_pod_that_waits_before_the_group_is_made_again(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    # one rack of 16 nodes with a NUMA node each, and nothing kept (--reserve-after-seconds)
    racks(1, 1)
    create_all(pods, "g", 16)
    control_plane.wait_for("the group to be bound", lambda: len(pods.bound()) == 16)
    pods.create(pod("single", cpu=16))
    pods.wait_until_told("single", "WaitingForPlacement")
    pods.delete(*(f"g-{number}" for number in range(16)))
    pods.wait_until_bound("single")
    create_all(pods, "g", 16)
    pods.wait_until_told("g-0", "WaitingForPlacement")
    assert set(pods.bound()) == {"single"}


def test_a_jobs_pods_start_together_by_its_parallelism(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(2, 2)
    raw = pod("", cpu=16)
    template = {
        "metadata": {"annotations": {SPEC: raw["metadata"]["annotations"][SPEC], **RACKS}},
        "spec": {**raw["spec"], "restartPolicy": "Never"},
    }
    spec = {"parallelism": 33, "completions": 33, "completionMode": "Indexed", "template": template}
    path = f"/apis/batch/v1/namespaces/{pods.namespace}/jobs"
    control_plane.api.create(path, {"metadata": {"name": "large"}, "spec": spec})
    control_plane.wait_for("its pods", lambda: len(pods.gated()) == 33)
    pods.wait_until_told("large", "WaitingForPlacement")
    fits = {**spec, "parallelism": 32, "completions": 32}
    control_plane.api.create(path, {"metadata": {"name": "fits"}, "spec": fits})
    control_plane.wait_for("the smaller one to go", lambda: len(pods.bound()) == 32)
    assert {name.partition("-")[0] for name in pods.bound()} == {"fits"}
    assert len(racks_of(pods, "fits")) == 1


# rack-0, rack-1, rack-2: each of 16 equal idle nodes
def test_of_equal_racks_a_group_goes_to_the_one_its_pods_prefer(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(3, 1)
    there = {"matchExpressions": [{"key": RACK_LABEL, "operator": "In", "values": ["rack-2"]}]}
    terms = [{"weight": 1, "preference": there}]
    prefers = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    for number in range(8):
        raw = member("g", number, 8)
        pods.create({**raw, "spec": {**raw["spec"], "affinity": prefers}})
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 8)
    assert racks_of(pods, "g") == {"rack-2"}


def test_of_equal_racks_a_group_avoids_those_with_soft_taints(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    fleet = machines(48, 1, prefix="gang")
    soft = dict.fromkeys(("rack-0", "rack-2"), ("example.com/old",))
    known(*(replace(one, soft_taints=soft.get(one.labels[RACK_LABEL], ())) for one in fleet))
    create_all(pods, "g", 8)
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 8)
    assert racks_of(pods, "g") == {"rack-1"}
