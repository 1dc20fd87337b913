"""Workloads for tests on the control plane, and their paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cluster.gated import SPEC, Pods, pod

if TYPE_CHECKING:
    from collections.abc import Mapping


INHERIT = "topology-webhook.dev/inherit"


SINGLE = {SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}


def template(cpu: int = 16, annotations: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"labels": {"app": "w"}, **({"annotations": dict(annotations)} if annotations else {})}
    return {"metadata": metadata, "spec": {**pod("", cpu=cpu)["spec"], **spec}}


def job(name: str, size: int, annotations: Mapping[str, str], **pods: Any) -> dict[str, Any]:
    spec = {"parallelism": size, "completions": size, "completionMode": "Indexed"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": dict(annotations)},
        "spec": {**spec, "template": template(restartPolicy="Never", **pods)},
    }


def jobs(pods: Pods) -> str:
    return f"/apis/batch/v1/namespaces/{pods.namespace}/jobs"


def deployments(pods: Pods) -> str:
    return f"/apis/apps/v1/namespaces/{pods.namespace}/deployments"


def deployment(name: str, size: int, annotations: Mapping[str, str]) -> dict[str, Any]:
    spec = {"replicas": size, "selector": {"matchLabels": {"app": "w"}}, "template": template()}
    metadata = {"name": name, "annotations": dict(annotations)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
