"""Workloads on the real control plane: a wrong wish is refused as the workload is written, before its pods wait."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.cluster.control_plane import ControlPlane

TOPOLOGY = "/apis/kai.scheduler/v1alpha1/topologies"
RACK = {"kai.scheduler/topology": "floor", "kai.scheduler/topology-required-placement": "rack"}
RAKC = {**RACK, "kai.scheduler/topology-required-placement": "rakc"}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    topology = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "floor"},
        "spec": {"levels": [{"nodeLabel": ZONE_LABEL}, {"nodeLabel": RACK_LABEL}]},
    }
    control_plane.api.create(TOPOLOGY, topology)
    try:
        with local_webhook(control_plane) as webhook:
            yield webhook
    finally:
        control_plane.api.delete(f"{TOPOLOGY}/floor")


@pytest.fixture
def custom_kinds(control_plane: ControlPlane) -> Iterator[None]:
    """The kinds of CUSTOM, as CRDs that let any spec in."""
    crds = [crd(api_version, kind) for kind, (api_version, _) in CUSTOM.items()]
    with contextlib.ExitStack() as stack:
        for each in crds:
            control_plane.api.create(CRDS, each)
            stack.callback(control_plane.api.delete, f"{CRDS}/{each['metadata']['name']}")
        for each in crds:
            control_plane.wait_for(each["metadata"]["name"], partial(is_served, control_plane, each))
        yield


def crd(api_version: str, kind: str) -> dict[str, Any]:
    group, version = api_version.split("/")
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # groups that end in .k8s.io are guarded: https://github.com/kubernetes/enhancements/pull/1111
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}],
        },
    }


def is_served(plane: ControlPlane, each: Mapping[str, Any]) -> bool:
    spec = each["spec"]
    try:
        plane.api.get(f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}")
    except ApiError:
        return False
    return True


def template(annotations: Mapping[str, str]) -> dict[str, Any]:
    containers = [{"name": "main", "image": "none"}]
    labels = {"app": "w"}
    spec = {"restartPolicy": "Never", "containers": containers}
    return {"metadata": {"annotations": dict(annotations), "labels": labels}, "spec": spec}


def job(annotations: Mapping[str, str], on_template: Mapping[str, str]) -> dict[str, Any]:
    spec = {"suspend": True, "parallelism": 2, "template": template(on_template)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": named(annotations), "spec": spec}


def named(annotations: Mapping[str, str]) -> dict[str, Any]:
    return {"name": "w", "annotations": dict(annotations)}


def create(plane: ControlPlane, namespace: str, document: dict[str, Any]) -> dict[str, Any]:
    path = f"/apis/{document['apiVersion']}/namespaces/{namespace}/{document['kind'].lower()}s?dryRun=All"
    created: dict[str, Any] = plane.api.create(path, document)
    return created


def refusal(plane: ControlPlane, namespace: str, document: dict[str, Any]) -> str:
    with pytest.raises(ApiError) as refused:
        create(plane, namespace, document)
    return str(refused.value)


def test_a_job_with_an_unknown_level_is_refused_with_the_nearest_match(
    control_plane: ControlPlane, namespace: str
) -> None:
    told = refusal(control_plane, namespace, job(RAKC, {}))
    assert "metadata.annotations[kai.scheduler/topology-required-placement]" in told
    assert '"rakc" is no level of topology floor' in told.replace("\\", "")
    assert "Did you mean rack?" in told


def test_a_job_that_can_be_meant_so_is_created(control_plane: ControlPlane, namespace: str) -> None:
    assert create(control_plane, namespace, job(RACK, {}))["metadata"]["name"] == "w"
    assert create(control_plane, namespace, job({}, RACK))["metadata"]["name"] == "w"
    assert create(control_plane, namespace, job({}, {}))["metadata"]["name"] == "w"


def test_templates_are_found_in_every_kind(control_plane: ControlPlane, namespace: str) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": named({}),
        "spec": {"selector": {"matchLabels": {"app": "w"}}, "template": template(RAKC)},
    }
    deployment["spec"]["template"]["spec"]["restartPolicy"] = "Always"  # type: ignore[index] # plain JSON
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": named({}),
        "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": job({}, RAKC)["spec"]}},
    }
    for document, place in (
        (job({}, RAKC), "spec.template.metadata"),
        (deployment, "spec.template.metadata"),
        (cron_job, "spec.jobTemplate.spec.template.metadata"),
    ):
        assert f"{place}.annotations[" in refusal(control_plane, namespace, document)


# Kind -> its API version, and a spec around a pod template.
CUSTOM: Mapping[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        lambda pods: {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": pods}}}]},
    ),
    "PyTorchJob": ("kubeflow.org/v1", lambda pods: {"pytorchReplicaSpecs": {"Worker": {"template": pods}}}),
    "RayCluster": (
        "ray.io/v1",
        lambda pods: {
            "headGroupSpec": {"template": template({})},
            "workerGroupSpecs": [{"replicas": 1, "template": pods}],
        },
    ),
    "RayJob": ("ray.io/v1", lambda pods: {"rayClusterSpec": {"headGroupSpec": {"template": pods}}}),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        lambda pods: {"leaderWorkerTemplate": {"size": 2, "workerTemplate": pods}},
    ),
}


@pytest.mark.usefixtures("custom_kinds")
def test_templates_are_found_in_custom_kinds(control_plane: ControlPlane, namespace: str) -> None:
    for kind, (api_version, around) in CUSTOM.items():
        for on_workload, on_template in (({}, RAKC), (RAKC, {})):
            spec = around(template(on_template))
            document = {"apiVersion": api_version, "kind": kind, "metadata": named(on_workload), "spec": spec}
            assert "Did you mean rack?" in refusal(control_plane, namespace, document)
        spec = around(template(RACK))
        create(control_plane, namespace, {**document, "metadata": named({}), "spec": spec})
