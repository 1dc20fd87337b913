"""Workloads for the tests of admission, as they are written."""

from collections.abc import Mapping
from typing import Any

from tests.builders import workloads
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY

RACK = {KAI_TOPOLOGY: "network", KAI_REQUIRED_PLACEMENT: "rack"}
SPEC = {"containers": [{"name": "main", "image": "i"}]}


def template(annotations: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"metadata": {"annotations": dict(annotations or {})}, "spec": SPEC}


def workload(kind: str, spec: Mapping[str, Any], annotations: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """kind: with its API version before it, if it is none of `tests/builders/workloads.py`."""
    version, _, name = kind.rpartition("/")
    return workloads.workload(kind=name, spec=spec, name="train", annotations=annotations, api_version=version)


def job(annotations: Mapping[str, Any] | None = None, on_template: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return workload("Job", {"parallelism": 2, "template": template(on_template)}, annotations)


def deployment(
    annotations: Mapping[str, Any] | None = None, on_template: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return workload("Deployment", {"template": template(on_template)}, annotations)


def job_set(*templates: Mapping[str, Any], annotations: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A JobSet of these Job templates."""
    jobs = [{"name": "abcdefgh"[number % 8], "template": dict(one)} for number, one in enumerate(templates)]
    return workload("JobSet", {"replicatedJobs": jobs}, annotations)


def pytorch_job(
    lead: Mapping[str, Any], worker: Mapping[str, Any], annotations: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A PyTorchJob of these pod templates."""
    roles = {"Master": {"replicas": 1, "template": lead}, "Worker": {"replicas": 2, "template": worker}}
    return workload("PyTorchJob", {"pytorchReplicaSpecs": roles}, annotations)
