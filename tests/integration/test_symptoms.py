"""Symptoms of docs/troubleshooting.md on the real control plane: their users see what the page quotes."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cluster.api import ApiError
from tests.cluster.gated import PLACEMENT, SPEC, Pods, is_gated, pod, scheduler_paused
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL, Machine, publish
from tests.cluster.racked import topology_of_racks
from tests.cluster.webhook_process import LocalWebhook, local_webhook
from tests.integration.members import create_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
FROZEN = "this pod is frozen"


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    settings = {"logLevel": "debug"}
    with topology_of_racks(control_plane), local_webhook(control_plane, values={"settings": settings}) as webhook:
        yield webhook


@contextlib.contextmanager
def frozen_pods(plane: ControlPlane) -> Iterator[None]:
    """Updates of pods with the label `frozen` are denied to everybody within this context."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule], "objectSelector": {"matchLabels": {"frozen": "yes"}}},
        "validations": [{"expression": "false", "message": FROZEN}],
    }
    binding = {"policyName": "frozen", "validationActions": ["Deny"]}
    plane.api.create(f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": "frozen"}, "spec": spec})
    plane.api.create(
        f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": "frozen"}, "spec": binding}
    )
    try:
        yield
    finally:
        plane.api.delete(f"{ADMISSION}/validatingadmissionpolicybindings/frozen")
        plane.api.delete(f"{ADMISSION}/validatingadmissionpolicies/frozen")


def refusal(create: Callable[[], object]) -> str:
    """What the API server answers to a creation that it refuses."""
    with pytest.raises(ApiError) as refused:
        create()
    assert "denied the request: " in refused.value.message
    return refused.value.message.partition("denied the request: ")[2]


def test_a_placement_that_a_policy_denies_is_told_by_an_event_and_written_once_it_may_be(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(Machine("n0", free=(2, 2)))
    raw = pod("held")
    raw["metadata"]["labels"] = {"frozen": "yes"}
    pods.create(raw)
    with frozen_pods(control_plane):
        control_plane.wait_for("the policy", lambda: pods.update_is_refused("held", FROZEN))
        publish(control_plane.api, Machine("n0", free=(2, 16)))
        note = pods.wait_until_told("held", "WaitingForPlacement", "it fits, but its placement cannot be written: ")
        assert FROZEN in note
        assert "cannot be written" not in pods.get("held")["metadata"]["annotations"][PLACEMENT]
    pods.wait_until_bound("held")


def test_a_pod_waits_for_those_that_were_placed_on_its_node_before(known: Callable[..., None], pods: Pods) -> None:
    # n0 ── NUMA 0 [16]  NUMA 1 [16]
    known(Machine("n0", free=(16, 16)))
    with scheduler_paused(pods.plane):
        pods.create(pod("first", cpu=8))
        pods.plane.wait_for("it to be placed", lambda: not is_gated(pods.get("first")))
        pods.create(pod("second", cpu=10))
        pods.wait_until_says("second", "waiting: it fits on n0, but 1 other pod must be bound there first")
    pods.wait_until_bound("first", "second")


def test_the_log_says_of_which_pods_the_node_is_chosen_by_others(
    known: Callable[..., None], pods: Pods, webhook: LocalWebhook
) -> None:
    known(Machine("n0", free=(16, 16)))
    (replica,) = webhook.replicas
    for raw, why in (
        (pod("other", schedulerName="other"), "the scheduler other places it"),
        (pod("chosen", nodeName="n0"), "its node is chosen already: n0"),
    ):
        assert PLACEMENT not in pods.create(raw)["metadata"]["annotations"]
        assert why in replica.process.log.read_text()


def test_a_pod_that_no_node_can_ever_take_is_refused_with_the_largest_numa_node(
    known: Callable[..., None], pods: Pods
) -> None:
    known(Machine("n0", free=(16, 16)))
    text = refusal(partial(pods.create, pod("a", cpu=20)))
    assert "none could align it even if it were empty: " in text
    assert "it asks for 20 cpu in one NUMA node, the largest has 16 (" in text
    text = refusal(partial(pods.create, pod("a", annotations={SPEC: '{"numaTopologyPolicy": "Restricted"}'})))
    assert "no node has a NUMA policy that goes with Restricted: " in text


def test_an_invalid_annotation_is_refused_with_its_place(known: Callable[..., None], pods: Pods) -> None:
    known(Machine("n0", free=(16, 16)))
    text = refusal(partial(pods.create, pod("a", annotations={SPEC: '{"numaTopologyPolicy": "SingleNUMANode",}'})))
    assert "The JSON is invalid at line 1, column " in text
    text = refusal(partial(pods.create, pod("a", annotations={SPEC: '{"numaTopologyPolicy": "Single"}'})))
    assert "is unknown." in text


def test_a_pod_that_is_too_large_is_refused_with_the_bound(known: Callable[..., None], pods: Pods) -> None:
    known(Machine("n0", free=(16, 16)))
    raw = pod("a")
    container = raw["spec"]["containers"][0]
    raw["spec"]["containers"] = [{**container, "name": f"c{number}"} for number in range(2000)]
    text = refusal(partial(pods.create, raw))
    assert "There are 2000" in text
    assert "A pod that asks for a placement may have at most " in text


def test_a_gang_that_no_rack_holds_names_the_best_rack_and_what_an_empty_one_would_hold(
    known: Callable[..., None], pods: Pods
) -> None:
    # two racks of one node, 2 NUMA nodes each; a gang of 3 whole NUMA nodes in one rack
    racks = ({ZONE_LABEL: "zone-0", RACK_LABEL: f"rack-{number}"} for number in range(2))
    known(*(Machine(f"n{number}", free=(16, 16), labels=labels) for number, labels in enumerate(racks)))
    create_all(pods, "g", 3)
    pods.wait_until_says("g-0", "holds 2 of 3 pods: ")
    placement = pods.get("g-0")["metadata"]["annotations"][PLACEMENT]
    assert "not even an empty cluster has a place for it: " in placement
    assert "would hold 2 of 3 pods" in placement
    assert "needed: at least " in placement
