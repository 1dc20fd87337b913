"""Karpenter beside the control plane, with its cloud provider `kwok`: it creates and deletes Node objects.

Its chart gives CRDs and rights, and a NodePool with one instance type is the node group. Its Nodes and NodeClaims have
finalizers that only it removes; here they are removed when it has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.nodes import NODES
from tests.cluster.ports import free_port
from tests.cluster.process import Process
from tests.neighbours.manifests import Manifests
from tests.neighbours.node_groups import NOT_READY, GroupOfMachines, nodes_of
from tests.neighbours.operators import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles

POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
CLASSES: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
_NAMESPACE: Final = "karpenter"
# The provider keeps this much of each instance type for the kubelet, whatever the type.
_RESERVED_MILLICORES, _RESERVED_MEBIBYTES = 100, 10
FLAGS: Final = ("--disable-leader-election=true", "--batch-idle-duration=1s", "--batch-max-duration=3s")


@contextlib.contextmanager
def karpenter(
    plane: ControlPlane, files: NeighbourFiles, groups: Sequence[GroupOfMachines], consolidate_after: str = "5s"
) -> Iterator[Process]:
    """Run it with a NodePool for each group. consolidate_after: how long a Node must be empty before it is removed."""
    chart, crds = files.manifests / "kwok" / "charts", files.manifests / "kwok" / "apis" / "crds"
    manifests = Manifests.in_folder(crds) + Manifests.templated(plane, chart, _NAMESPACE)
    (account,) = manifests.of_kind("ServiceAccount")
    health, types = free_port(), plane.folder / "instance-types.json"
    types.write_text(json.dumps([_instance_type(group) for group in groups]))
    try:
        manifests.install(plane)
        _create_pools(plane, groups, consolidate_after)
        kubeconfig = plane.service_account_kubeconfig(_NAMESPACE, account["metadata"]["name"])
        process = plane.guests["karpenter"] = Process(
            "karpenter",
            [
                files.program,
                f"--metrics-port={free_port()}",
                f"--health-probe-port={health}",
                f"--instance-types-file-path={types}",
                *FLAGS,
            ],
            plane.folder / "karpenter.log",
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(plane.folder),
                "KUBECONFIG": str(kubeconfig),
                "KUBERNETES_MIN_VERSION": "1.19.0-0",
                "SYSTEM_NAMESPACE": _NAMESPACE,
            },
        )
        plane.wait_for("karpenter /readyz", lambda: is_ready(process, health))
        yield process
    finally:
        if "karpenter" in plane.guests:
            plane.guests.pop("karpenter").stop()
        _release(plane, groups)
        manifests.remove(plane)


def _instance_type(group: GroupOfMachines) -> dict[str, Any]:
    """An instance type whose Nodes have what pods can allocate on a machine of the group."""
    sample = group.sample
    memory = sample.memory_gib * sample.numa_nodes * 1024 + _RESERVED_MEBIBYTES
    resources = {**group.amounts, "cpu": f"{sample.millicores + _RESERVED_MILLICORES}m", "memory": f"{memory}Mi"}
    offering = {
        "Price": 1.0,
        "Available": True,
        "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-0"]},
        ],
    }
    return {
        "name": group.name,
        "offerings": [offering],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": resources,
    }


def _create_pools(plane: ControlPlane, groups: Sequence[GroupOfMachines], consolidate_after: str) -> None:
    create = plane.api.create
    create(CLASSES, {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", **_named("default")})
    for group in groups:
        template = {
            "metadata": {"labels": {key: value for key, value in group.labels.items() if "kubernetes.io/" not in key}},
            "spec": {
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [group.name]},
                ],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "startupTaints": [{"key": NOT_READY, "effect": "NoSchedule"}],
                "expireAfter": "Never",
            },
        }
        disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": consolidate_after}
        limits = {"cpu": str(group.maximum * (group.sample.millicores + _RESERVED_MILLICORES) // 1000)}
        spec = {"template": template, "disruption": disruption, "limits": limits}
        create(POOLS, {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", **_named(group.name), "spec": spec})


def _release(plane: ControlPlane, groups: Sequence[GroupOfMachines]) -> None:
    """Remove the finalizers of what it made."""
    unfinalized = {"metadata": {"finalizers": None}}
    claims = [f"{CLAIMS}/{claim['metadata']['name']}" for claim in plane.api.get(CLAIMS)["items"]]
    nodes = [f"{NODES}/{name}" for name in nodes_of(plane, groups)]
    plane.api.in_parallel(partial(plane.api.patch, path, unfinalized) for path in (*claims, *nodes))


def _named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}
