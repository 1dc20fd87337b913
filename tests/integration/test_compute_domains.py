"""Pods of a ComputeDomain on the real control plane, with what NVIDIA's controller and kubelet plugin write for it.

clique a: imex-a0 imex-a1           clique b: imex-b0 imex-b1 imex-b2

These are played: the controller makes the template of the claims and the DaemonSet of the daemons, once it sees the
ComputeDomain. The kubelet plugin labels the node of a pod with such a claim, which brings the daemon there. Only then
does the pod start, so that a pod must never wait for a daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.compute_domains import CHANNEL_CLASS, CLAIM, CLIQUE, DRIVER, channel_slice, channel_template
from tests.builders.devices import claim_template, device_class, request
from tests.cluster.nodes import Machine
from tests.cluster.racked import webhook
from tests.integration.workloads import SINGLE, job, jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.gated import Pods

__all__ = ["webhook"]  # a fixture

API = "/apis/resource.k8s.io/v1"
NODES = {"imex-a0": "a", "imex-a1": "a", "imex-b0": "b", "imex-b1": "b", "imex-b2": "b"}
IN_DOMAIN = "resource.nvidia.com/computeDomain"
DAEMONS = "compute-domain-daemon.nvidia.com"
DAEMON_CLASS = device_class(DAEMONS, f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'daemon'")


@pytest.fixture
def site(control_plane: ControlPlane, known: Callable[..., None]) -> Iterator[None]:
    api = control_plane.api
    made = [(f"{API}/deviceclasses", CHANNEL_CLASS), (f"{API}/deviceclasses", DAEMON_CLASS)]
    made += [(f"{API}/resourceslices", channel_slice(name)) for name in NODES]
    for path, raw in made:
        api.create(path, raw)
    known(*(Machine(name, free=(16,), labels={CLIQUE: clique}) for name, clique in NODES.items()))
    yield
    for path, raw in reversed(made):
        api.delete(f"{path}/{raw['metadata']['name']}")


def daemon_set(template: str) -> dict[str, Any]:
    """The daemons of a ComputeDomain, which run where its pods are."""
    labels = {IN_DOMAIN: "uid-of-channel"}
    container = {"name": "compute-domain-daemon", "image": "none", "resources": {"claims": [{"name": "daemon"}]}}
    spec = {
        "nodeSelector": labels,
        "containers": [container],
        "tolerations": [{"operator": "Exists"}],
        "resourceClaims": [{"name": "daemon", "resourceClaimTemplateName": template}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "computedomain-daemon", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def in_domain(name: str, size: int) -> dict[str, Any]:
    """A Job whose pods have a channel each."""
    raw = job(name, size, SINGLE, cpu=2, resourceClaims=CLAIM)
    raw["spec"]["template"]["spec"]["containers"][0]["resources"]["claims"] = [{"name": "channel"}]
    return raw


def test_the_jobs_of_a_compute_domain_go_to_one_clique_and_its_daemons_follow_them(
    control_plane: ControlPlane, site: None, pods: Pods
) -> None:
    api, templates = control_plane.api, f"{API}/namespaces/{pods.namespace}/resourceclaimtemplates"
    # As with `kubectl apply` of both: the Job's pods are there before the controller has made their template.
    api.create(jobs(pods), in_domain("first", 2))
    control_plane.wait_for("its pods", lambda: len(pods.gated()) == 2)
    first = sorted(pods.gated())
    pods.wait_until_told(first[0], "WaitingForPlacement", "has no ResourceClaimTemplate channel yet")
    api.create(templates, claim_template("daemon", [request("daemon", cls=DAEMONS)], namespace=pods.namespace))
    api.create(f"/apis/apps/v1/namespaces/{pods.namespace}/daemonsets", daemon_set("daemon"))
    api.create(templates, channel_template(namespace=pods.namespace))

    pods.wait_until_bound(*first)
    assert {NODES[pods.bound()[name]] for name in first} == {"a"}  # the tightest
    pods.wait_until_says(first[0], "2 pods in gpu.clique a")
    for name in first:
        api.patch(f"/api/v1/nodes/{pods.bound()[name]}", {"metadata": {"labels": {IN_DOMAIN: "uid-of-channel"}}})
    control_plane.wait_for(
        "a daemon on each of their nodes",
        lambda: (
            {pods.bound()[name] for name in pods.bound() if name.startswith("computedomain-daemon-")}
            == {pods.bound()[name] for name in first}
        ),
    )

    # a is full, so a second Job of the ComputeDomain is in the other clique, and says nothing of a missed one.
    api.create(jobs(pods), in_domain("second", 4))
    waiting = control_plane.wait_for("its pods", lambda: sorted(pods.gated()) if len(pods.gated()) == 4 else None)
    pods.wait_until_told("second", "WaitingForPlacement", "gpu.clique b holds 3 of 4 pods: devices of class")
    api.delete(f"{jobs(pods)}/first", {"propagationPolicy": "Background"})
    pods.wait_until_bound(*waiting)
    assert {NODES[pods.bound()[name]] for name in waiting} == {"a", "b"}
    pods.wait_until_says(waiting[0], "preferred gpu.clique missed: in 2 gpu.cliques (a, b)")
