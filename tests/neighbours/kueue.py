"""Kueue's manager beside the control plane, and a queue. Topology-Aware Scheduling is off: no flavor has a topology."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import yaml

from tests.neighbours.operators import configured, operator
from webhook.formats.kueue_admission import CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles
    from tests.neighbours.manifests import Manifests
    from tests.neighbours.operators import Addresses

QUEUE = {"kueue.x-k8s.io/queue-name": "queue"}
"""The label of what Kueue manages."""
API = "/apis/kueue.x-k8s.io/v1beta1"
_FINALIZED = ("workloads", "localqueues", "clusterqueues", "resourceflavors", "admissionchecks")
_CERTIFICATES = "/etc/kueue/metrics/certs"


@contextlib.contextmanager
def kueue(plane: ControlPlane, files: NeighbourFiles) -> Iterator[None]:
    """Run it."""
    with operator(plane, files, _config, certificates=_CERTIFICATES):
        yield


@contextlib.contextmanager
def queue(plane: ControlPlane, namespace: str, cpus: int, *checks: str) -> Iterator[None]:
    """A queue in a namespace, with quota for CPUs; memory is plenty. checks: AdmissionChecks that the webhook answers.

    On exit it is deleted with the namespace, while Kueue runs: its objects have finalizers.
    """
    create = plane.api.create
    create(
        f"{API}/resourceflavors", {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", **_named("any")}
    )
    for check in checks:
        create(
            f"{API}/admissionchecks",
            {
                "apiVersion": "kueue.x-k8s.io/v1beta1",
                "kind": "AdmissionCheck",
                **_named(check),
                "spec": {"controllerName": CONTROLLER},
            },
        )
    create(f"{API}/clusterqueues", _cluster_queue(cpus, checks))
    create(
        f"{API}/namespaces/{namespace}/localqueues",
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "LocalQueue",
            **_named("queue"),
            "spec": {"clusterQueue": "all"},
        },
    )
    try:
        yield
    finally:
        plane.delete_namespace(namespace)
        plane.api.delete(f"{API}/clusterqueues/all")
        plane.api.delete(f"{API}/resourceflavors/any")
        for check in checks:
            plane.api.delete(f"{API}/admissionchecks/{check}")
        plane.wait_for("Kueue to remove its finalizers", lambda: not any(map(partial(_left, plane), _FINALIZED)))


def _left(plane: ControlPlane, plural: str) -> list[Any]:
    found: list[Any] = plane.api.get(f"{API}/{plural}")["items"]
    return found


def _named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def _cluster_queue(cpus: int, checks: Iterable[str]) -> dict[str, Any]:
    amounts = {"cpu": str(cpus), "memory": "1000Gi"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    groups = [{"coveredResources": [*amounts], "flavors": [{"name": "any", "resources": resources}]}]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        **_named("all"),
        "spec": {"namespaceSelector": {}, "resourceGroups": groups, "admissionChecks": [*checks]},
    }


def _config(manifests: Manifests, addresses: Addresses) -> list[str]:
    """Kueue's, which manages Jobs and single pods, without its API of pending workloads."""
    flags = configured(manifests, addresses)
    file = addresses.folder / "config.yaml"
    config = yaml.safe_load(file.read_text())
    config["integrations"]["frameworks"] = ["batch/job", "pod"]
    config["featureGates"] = {"VisibilityOnDemand": False}
    file.write_text(yaml.safe_dump(config))
    return flags
