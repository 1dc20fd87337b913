"""The Cluster Autoscaler beside the control plane, with its cloud provider `kwok`: it creates and deletes Node objects.

1. Its rights are those that its project documents for AWS, and the two that this provider needs on Nodes.
2. Node groups are in the provider's ConfigMaps: one template Node each.
3. With `provisioning` it reads ProvisioningRequests, with the flags and rights that its project documents for that.
4. Times are short, so that tests need not wait for the ten minutes of its defaults.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.nodes import NODES
from tests.cluster.ports import free_port
from tests.cluster.process import Process
from tests.neighbours.manifests import Manifests
from tests.neighbours.node_groups import GROUP_LABEL, GroupOfMachines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles

_NAME: Final = "cluster-autoscaler"
_NAMESPACE: Final = "kube-system"
_PROVIDER: Final = "cluster-autoscaler-kwok"
_GROUP: Final = "cluster-autoscaler.kwok.nodegroup"
# The provider deletes only Nodes with this annotation.
_DELETABLE: Final = {"kwok.x-k8s.io/node": "fake"}
FLAGS: Final = (
    "--cloud-provider=kwok",
    "--leader-elect=false",
    "--scan-interval=1s",
    "--scale-down-delay-after-add=5s",
    "--scale-down-unneeded-time=5s",
    "--scale-down-unready-time=5s",
    "--unremovable-node-recheck-timeout=5s",
    "--node-delete-delay-after-taint=0s",
    # `random`, the default, picks any group that has room
    "--expander=least-waste",
)

# As its FAQ says.
_PROVISIONING: Final = "cluster-autoscaler-provisioning"
_PROVISIONING_RULES: Final = (
    {
        "apiGroups": ["autoscaling.x-k8s.io"],
        "resources": ["provisioningrequests", "provisioningrequests/status"],
        "verbs": ["watch", "list", "get", "create", "update", "patch", "delete"],
    },
    {"apiGroups": [""], "resources": ["podtemplates"], "verbs": ["watch", "list", "get"]},
)
_PROVISIONING_FLAGS: Final = ("--enable-provisioning-requests=true", "--kube-api-content-type=application/json")


def provider_node(group: GroupOfMachines, name: str) -> dict[str, Any]:
    """A Node of a group as the provider creates it."""
    annotations = {**_DELETABLE, f"{_GROUP}/name": group.name}
    return group.node(name, annotations, f"kwok:{name}")


def create_nodes(plane: ControlPlane, group: GroupOfMachines, count: int) -> list[str]:
    """Create the first Nodes of a group. Returns their names."""
    names = [f"{group.name}-{number}" for number in range(count)]
    for name in names:
        plane.api.create(NODES, provider_node(group, name))
    return names


@contextlib.contextmanager
def cluster_autoscaler(
    plane: ControlPlane,
    files: NeighbourFiles,
    groups: Sequence[GroupOfMachines],
    flags: Sequence[str] = (),
    *,
    provisioning: bool = False,
) -> Iterator[Process]:
    """Run it with these node groups. flags: further ones, of which the last of a name counts.

    provisioning: whether it reads ProvisioningRequests, which must be served.
    """
    if provisioning:
        flags = (*flags, *_PROVISIONING_FLAGS)
    examples = Manifests.in_folder(files.manifests / "cloudprovider" / "aws" / "examples")
    further = _granted(_PROVISIONING, _PROVISIONING_RULES) if provisioning else []
    manifests = _rights(examples) + Manifests((*_provider_rights(), *further, *_config_maps(groups)))
    try:
        manifests.install(plane)
        kubeconfig = plane.service_account_kubeconfig(_NAMESPACE, _NAME)
        process = plane.guests[_NAME] = Process(
            _NAME,
            [files.program, f"--kubeconfig={kubeconfig}", f"--address=127.0.0.1:{free_port()}", *FLAGS, *flags, "-v=4"],
            plane.folder / f"{_NAME}.log",
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(plane.folder),
                # the provider has a client of its own
                "KUBECONFIG": str(kubeconfig),
                "KWOK_PROVIDER_MODE": "local",
                "POD_NAMESPACE": _NAMESPACE,
            },
        )
        yield process
    finally:
        if _NAME in plane.guests:
            plane.guests.pop(_NAME).stop()
        manifests.remove(plane)


def _rights(examples: Manifests) -> Manifests:
    """One of the examples' equal sets of rights."""
    kinds = ("ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
    return Manifests(tuple({each["kind"]: each for each in examples.of_kind(*kinds)}.values()))


def _provider_rights() -> list[dict[str, Any]]:
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["create", "delete"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]
    return _granted(_PROVIDER, rules)


def _granted(name: str, rules: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A ClusterRole with these rules, bound to its account."""
    api, named = "rbac.authorization.k8s.io/v1", {"metadata": {"name": name}}
    subject = {"kind": "ServiceAccount", "name": _NAME, "namespace": _NAMESPACE}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    return [
        {"apiVersion": api, "kind": "ClusterRole", **named, "rules": list(rules)},
        {"apiVersion": api, "kind": "ClusterRoleBinding", **named, "roleRef": reference, "subjects": [subject]},
    ]


def _config_maps(groups: Sequence[GroupOfMachines]) -> list[dict[str, Any]]:
    config = {
        "apiVersion": "v1alpha1",
        "readNodesFrom": "configmap",
        "nodegroups": {"fromNodeLabelKey": GROUP_LABEL},
        "nodes": {"skipTaint": True},
        "configmap": {"name": "kwok-provider-templates"},
    }
    templates = {"apiVersion": "v1", "kind": "List", "items": [_template(group) for group in groups]}
    return [
        _config_map("kwok-provider-config", "config", config),
        _config_map("kwok-provider-templates", "templates", templates),
    ]


def _template(group: GroupOfMachines) -> dict[str, Any]:
    node = provider_node(group, f"template-{group.name}")
    annotations = node["metadata"]["annotations"]
    sizes = {"min": group.minimum, "desired": group.minimum, "max": group.maximum}
    annotations.update((f"{_GROUP}/{size}-count", str(count)) for size, count in sizes.items())
    return node


def _config_map(name: str, key: str, value: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "data": {key: json.dumps(value)},
    }
