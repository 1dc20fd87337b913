"""PodGroups of Kubernetes itself, where the API server serves them, with the scheduler's gang plugin on and off."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.native_pod_groups import native_pod_group
from tests.cluster.answers import reviewed
from tests.cluster.assets import wanted_version
from tests.cluster.audit import overcommitted
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gated import SINGLE, Pods, pod
from tests.cluster.nodes import RACK_LABEL
from tests.cluster.racked import racks, racks_of, topology_of_racks
from tests.cluster.webhook_process import local_webhook
from webhook.formats.kubernetes.native_pod_group import CONDITION_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = ["racks"]  # a fixture

# Kubernetes -> the version of the API, and the feature gate of the scheduler's gang plugin, in 1.37 without its own.
FORMS = {"1.36": ("v1alpha2", "GangScheduling"), "1.37": ("v1beta1", "GenericWorkload")}
KUBERNETES = wanted_version()
VERSION, PLUGIN = FORMS.get(KUBERNETES, ("", ""))

pytestmark = pytest.mark.skipif(not VERSION, reason=f"Kubernetes {KUBERNETES} has no PodGroups")


def gates(*, plugin: bool) -> str:
    on = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True} | {PLUGIN: plugin}
    if not on["GenericWorkload"]:
        on["TopologyAwareWorkloadScheduling"] = False  # it depends on the other
    return "--feature-gates=" + ",".join(f"{name}={str(value).lower()}" for name, value in on.items())


@pytest.fixture(scope="module")
def control_plane(programs: Mapping[str, Path]) -> Iterator[ControlPlane]:
    """A control plane of this file alone. The scheduler's gang plugin is on."""
    api = [gates(plugin=True), f"--runtime-config=scheduling.k8s.io/{VERSION}=true"]
    flags = {"kube-apiserver": api, "kube-scheduler": [gates(plugin=True)]}
    with ControlPlane.start(programs, flags) as plane:
        plane.install_crds()
        yield plane


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[None]:
    with topology_of_racks(control_plane), local_webhook(control_plane):
        yield


@pytest.fixture
def no_plugin(control_plane: ControlPlane) -> Iterator[None]:
    """The scheduler's gang plugin is off."""
    for on in (False, True):
        control_plane.restart("kube-scheduler", flags=[gates(plugin=on)])
        control_plane.wait_until_ready("kube-scheduler")
        if not on:
            yield


class Groups:
    """The PodGroups of one namespace."""

    def __init__(self, pods: Pods) -> None:
        self.plane = pods.plane
        self.path = f"/apis/scheduling.k8s.io/{VERSION}/namespaces/{pods.namespace}/podgroups"

    def create(self, name: str, minimum: int, key: str = RACK_LABEL, **spec: Any) -> None:
        constraints = {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}
        policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        self.plane.api.create(self.path, {"metadata": {"name": name}, "spec": {**policy, **constraints, **spec}})

    def condition(self, name: str) -> dict[str, Any]:
        """Its condition of the type that its version has; empty without one."""
        status = self.plane.api.get(f"{self.path}/{name}").get("status") or {}
        found = [one for one in status.get("conditions", ()) if one["type"] == CONDITION_TYPES[VERSION]]
        return dict(found[0]) if found else {}

    def says(self, name: str, status: str, text: str) -> bool:
        found = self.condition(name)
        return found.get("status") == status and text in found["message"]


@pytest.fixture
def groups(pods: Pods) -> Groups:
    return Groups(pods)


def members(
    group: str, count: int, annotations: dict[str, str] | None = None, first: int = 0, cpu: int = 16
) -> list[dict[str, Any]]:
    made = []
    for number in range(first, first + count):
        raw = pod(f"{group}-{number}", cpu=cpu, schedulingGroup={"podGroupName": group})
        raw["metadata"]["annotations"] = annotations or {}
        made.append(raw)
    return made


def create(pods: Pods, raws: list[dict[str, Any]]) -> None:
    pods.plane.api.in_parallel(partial(pods.create, raw) for raw in raws)


def test_a_group_and_its_pods_go_to_one_rack_whichever_comes_first(
    racks: Callable[[int, int], None], pods: Pods, groups: Groups
) -> None:
    both_orders(racks, pods, groups)


@pytest.mark.usefixtures("no_plugin")
def test_so_they_do_without_the_schedulers_gang_plugin(
    racks: Callable[[int, int], None], pods: Pods, groups: Groups
) -> None:
    both_orders(racks, pods, groups)


def both_orders(racks: Callable[[int, int], None], pods: Pods, groups: Groups) -> None:
    # two racks of 16 nodes with one NUMA node each
    racks(2, 1)
    groups.create("first", 8)
    create(pods, members("first", 8, SINGLE))
    create(pods, members("later", 8))
    pods.wait_until_says("later-0", "There is no PodGroup")
    groups.create("later", 8)
    plane = pods.plane
    plane.wait_for("all to be bound", lambda: len(pods.bound()) == 16)
    for name in ("first", "later"):
        (rack,) = racks_of(pods, name)
        plane.wait_for("its condition", partial(groups.says, name, "True", f"placed in {rack}: 8 pods on 8 nodes"))
    assert overcommitted(plane, pods.all().values()) == {}


def test_a_group_waits_for_its_pods_and_a_faulty_one_is_alone_with_its_fault(
    racks: Callable[[int, int], None], pods: Pods, groups: Groups
) -> None:
    racks(1, 1)
    groups.create("huge", 2**31 - 1)
    groups.create("odd", 1, key="example.com/none")
    groups.create("few", 3)
    groups.create("good", 2)
    create(pods, [raw for name in ("huge", "odd", "few", "good") for raw in members(name, 2)])
    pods.wait_until_bound("good-0", "good-1")
    for name, text in (
        ("huge", "spec.schedulingPolicy.gang.minCount: 2147483647 is not a number of pods"),
        ("odd", '"example.com/none" is a level of no Topology'),
        ("few", "2 of the 3 pods that must start together are there"),
    ):
        pods.plane.wait_for(f"the condition of {name}", partial(groups.says, name, "False", text))
        assert groups.condition(name)["reason"] == "Unschedulable"
    assert pods.gated() == {f"{name}-{number}" for name in ("huge", "odd", "few") for number in range(2)}
    # Kubernetes keeps a group that is deleted until its pods have ended, and it holds for them.
    pods.plane.api.delete(f"{groups.path}/few")
    create(pods, members("few", 1, first=2))
    pods.wait_until_bound("few-0", "few-1", "few-2")


@pytest.mark.parametrize("policy", ["gang", "basic"])
def test_a_group_starts_although_some_of_its_pods_have_no_room_and_these_follow_into_its_rack(
    racks: Callable[[int, int], None], pods: Pods, groups: Groups, policy: str
) -> None:
    # two racks of 16 nodes with one NUMA node each; each pod fills a node, and half of them request it as a NUMA node
    racks(2, 1)
    groups.create("big", 12, schedulingPolicy={policy: {"minCount": 12} if policy == "gang" else {}})
    create(pods, [*members("big", 10, SINGLE), *members("big", 10, first=10)])
    plane = pods.plane
    plane.wait_for("as many as fit to be bound", lambda: len(pods.bound()) == 16)
    (rack,) = racks_of(pods, "big")
    ended = sorted(pods.bound())[:4]
    pods.delete(*ended)
    plane.wait_for("the others to follow", lambda: len(pods.bound()) == 16)
    assert racks_of(pods, "big") == {rack}
    assert not pods.gated()
    assert overcommitted(plane, pods.all().values()) == {}


def test_pods_without_room_take_none_of_those_with_which_the_scheduler_tries_them(
    racks: Callable[[int, int], None], pods: Pods, groups: Groups
) -> None:
    # one rack of 16 nodes with two NUMA nodes each: they hold all small pods, or too few beside the large ones
    racks(1, 2)
    groups.create("mixed", 32)
    large = members("mixed", 4, cpu=32)
    for raw in large:  # of no NUMA node, since it is not Guaranteed
        del raw["spec"]["containers"][0]["resources"]["limits"]
    create(pods, large)  # the scheduler tries the oldest first
    create(pods, members("mixed", 32, SINGLE, first=4))
    pods.plane.wait_for("the small ones to be bound", lambda: len(pods.bound()) == 32)
    assert pods.bound().keys() == {f"mixed-{number}" for number in range(4, 36)}
    assert overcommitted(pods.plane, pods.all().values()) == {}


def test_review_of_the_group_and_its_pods_in_one_file_gives_the_services_answer(
    racks: Callable[[int, int], None], pods: Pods, groups: Groups, tmp_path: Path
) -> None:
    racks(2, 1)
    group = native_pod_group(name="one", namespace=pods.namespace, minimum=8, level=RACK_LABEL, version=VERSION)
    created = members("one", 8, SINGLE)
    for raw in created:
        raw["metadata"]["namespace"] = pods.namespace
    documents = [*({"apiVersion": "v1", "kind": "Pod", **raw} for raw in created), group]
    entries = reviewed(documents, tmp_path, "--kubeconfig", pods.plane.kubeconfig)
    assert {entry["verdict"] for entry in entries} == {"allow"}
    assert entries[-1]["group"] == entries[0]["group"]
    groups.create("one", 8)
    create(pods, created)
    pods.wait_until_bound(*(f"one-{number}" for number in range(8)))
    assert {one["name"]: one["node"] for one in entries[-1]["group"]["pods"]} == {
        name: raw["spec"]["nodeName"] for name, raw in pods.all().items()
    }


def test_a_group_that_requests_nothing_of_us_is_the_schedulers(
    racks: Callable[[int, int], None], pods: Pods, groups: Groups
) -> None:
    racks(1, 1)
    create(pods, members("free", 2))
    groups.create("free", 2, key="")
    pods.wait_until_bound("free-0", "free-1")
    for raw in pods.all().values():
        assert "topology-webhook.dev/scheduling-group" not in raw["metadata"]["annotations"]
        assert "nodeAffinity" not in raw["spec"].get("affinity", {})
