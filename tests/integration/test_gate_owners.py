"""Annotations on owners alone apply to their pods, on the real control plane."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.cluster.api import ApiError
from tests.cluster.audit import overcommitted
from tests.cluster.gated import PLACEMENT, SPEC, Pods, pod
from tests.cluster.nodes import RACK_LABEL, machines
from tests.cluster.racked import RACKS, racks, racks_of, webhook
from tests.integration.workloads import INHERIT, SINGLE, deployment, deployments, job, jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.control_plane import ControlPlane

__all__ = ["racks", "webhook"]  # fixtures


def test_a_job_that_is_annotated_itself_and_its_template_not_goes_whole_to_one_rack(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(2, 2)
    created = control_plane.api.create(jobs(pods), job("large", 33, {**RACKS, **SINGLE}))
    assert created["spec"]["template"]["metadata"]["annotations"] == {INHERIT: "true"}
    control_plane.wait_for("its pods", lambda: len(pods.gated()) == 33)
    pods.wait_until_told("large", "WaitingForPlacement")
    control_plane.api.create(jobs(pods), job("fits", 32, {**RACKS, **SINGLE}))
    control_plane.wait_for("the smaller one to go", lambda: len(pods.bound()) == 32)
    raws = pods.all()
    assert {name.partition("-")[0] for name in pods.bound()} == {"fits"}
    assert len(racks_of(pods, "fits")) == 1
    assert overcommitted(control_plane, raws.values()) == {}
    one = next(raws[name] for name in pods.bound() if "-7-" in name)
    owner = one["metadata"]["ownerReferences"][0]
    annotations, labels = one["metadata"]["annotations"], one["metadata"]["labels"]
    assert annotations.items() >= {**RACKS, **SINGLE, "pod-group-name": f"pg-fits-{owner['uid']}"}.items()
    (rack,) = racks_of(pods, "fits")
    assert (labels["topology-webhook.dev/rank"], labels["topology-webhook.dev/domain-rack"]) == ("7", rack)
    assert json.loads(annotations["topology-webhook.dev/domain"])[RACK_LABEL] == rack


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (SINGLE, "waiting: SingleNUMANode: none of 16 nodes fits now"),
        ({**RACKS, **SINGLE}, ", 3 pods, SingleNUMANode: rack "),
    ],
    ids=["alone", "gang"],
)
def test_the_placement_of_waiting_pods_names_the_policy_that_they_take_from_their_owner(
    asked: dict[str, str], text: str, known: Callable[..., None], pods: Pods, control_plane: ControlPlane
) -> None:
    known(*(replace(one, free=(0, 0)) for one in machines(16, 2, prefix="gang")))
    control_plane.api.create(jobs(pods), job("w", 3, asked))
    control_plane.wait_for("its pods", lambda: len(pods.gated()) == 3)
    for name in pods.gated():
        pods.wait_until_says(name, text)


def test_a_deployment_two_levels_up_holds_its_pods_together_and_a_change_of_its_wish_is_followed(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(2, 1)
    path = deployments(pods)
    control_plane.api.create(path, deployment("web", 17, {**RACKS, **SINGLE, "topology-webhook.dev/min-member": "17"}))
    control_plane.wait_for("its pods", lambda: len(pods.gated()) == 17)
    pods.wait_until_told("web", "WaitingForPlacement")
    assert pods.bound() == {}
    # 16 fit in a rack: without one for all the whole cluster will do
    zone = {"metadata": {"annotations": {"kai.scheduler/topology-required-placement": "zone"}}}
    control_plane.api.patch(f"{path}/web", zone)
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 17)
    # the wish is read where it stands: no new pods were needed
    assert len(control_plane.api.get(path.replace("deployments", "replicasets"))["items"]) == 1


def test_a_pod_behind_our_gate_that_asks_for_nothing_is_released_with_a_sentence(
    racks: Callable[[int, int], None], pods: Pods, control_plane: ControlPlane
) -> None:
    racks(1, 1)
    gate = [{"name": "topology-webhook.dev/placement"}]
    pods.create({**pod("by-hand", schedulingGates=gate), "metadata": {"name": "by-hand"}})
    control_plane.api.create(deployments(pods), deployment("web", 2, {}))
    raw = pod("orphan", annotations={INHERIT: "true"})
    del raw["metadata"]["annotations"][SPEC]
    pods.create(raw)
    control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 4)
    assert pods.get("by-hand")["metadata"]["annotations"][PLACEMENT].startswith("ungated: no annotation")
    assert pods.wait_until_told("orphan", "Ungated") == "ungated: neither it nor its owners ask for a placement"


def test_the_api_server_takes_the_variables_that_a_pod_asks_for(racks: Callable[[int, int], None], pods: Pods) -> None:
    racks(1, 1)
    asks = {**RACKS, "topology-webhook.dev/inject-env": "true"}
    created = pods.create(pod("a", annotations=asks, initContainers=[{"name": "init", "image": "none"}]))
    for container in created["spec"]["initContainers"] + created["spec"]["containers"]:
        read = {variable["name"]: variable["valueFrom"]["fieldRef"]["fieldPath"] for variable in container["env"]}
        assert read == {
            "TOPOLOGY_RANK": "metadata.labels['topology-webhook.dev/rank']",
            "TOPOLOGY_DOMAIN_ZONE": "metadata.labels['topology-webhook.dev/domain-zone']",
            "TOPOLOGY_DOMAIN_RACK": "metadata.labels['topology-webhook.dev/domain-rack']",
        }
    with pytest.raises(ApiError, match='"yes" is not allowed here'):
        pods.create(pod("b", annotations={**RACKS, "topology-webhook.dev/inject-env": "yes"}))


def test_a_manifest_that_is_applied_again_finds_nothing_changed(pods: Pods, control_plane: ControlPlane) -> None:
    body = deployment("web", 0, RACKS)
    for how in ((), ("--server-side",)):
        apply = ("apply", *how, "--namespace", pods.namespace, "-f", "-")
        generations = []
        for _ in range(2):
            control_plane.kubectl(*apply, input=json.dumps(body))
            found = control_plane.api.get(f"{deployments(pods)}/web")
            assert found["spec"]["template"]["metadata"]["annotations"] == {INHERIT: "true"}
            generations.append(found["metadata"]["generation"])
        assert len(set(generations)) == 1
        diff = ("diff", *how, "--namespace", pods.namespace, "-f", "-")
        assert control_plane.kubectl(*diff, input=json.dumps(body)) == ""
        control_plane.api.delete(f"{deployments(pods)}/web")
        control_plane.wait_for("it to go", lambda: not control_plane.api.get(deployments(pods))["items"])
