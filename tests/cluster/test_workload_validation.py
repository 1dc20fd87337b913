"""Workloads on the real control plane: a wrong wish is refused as the workload is written, before its pods wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.nodes import RACK_LABEL, ZONE_LABEL
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.control_plane import ControlPlane

TOPOLOGY = "/apis/kai.scheduler/v1alpha1/topologies"
RACK = {"kai.scheduler/topology": "floor", "kai.scheduler/topology-required-placement": "rack"}
RAKC = {**RACK, "kai.scheduler/topology-required-placement": "rakc"}


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
