"""What Grove's operator does with a PodGang and its pods, as a client of the API server. Its programs are not run.

1. The PodGang comes first, without references to pods.
2. Each pod has Grove's gate and the labels of its PodGang and PodClique.
3. Once a pod stands in `podReferences`, the operator removes its own gate from it, by a merge patch of all gates. Those
   of a scaled PodGang have to wait until those of the base PodGang are scheduled.

Its user has all rights, but is in no group that the service trusts.

Source: grove v0.1.0-alpha.12-rc1, operator/internal/controller/podcliqueset/components/podgang (syncflow.go),
operator/internal/controller/podclique/components/pod (pod.go, syncflow.go).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from tests.builders.grove import GATE, labels
from tests.cluster.gated import pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.api import Api
    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.gated import Pods

USER: Final = "system:serviceaccount:grove-system:grove-operator"
_BINDINGS: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TOPOLOGIES: Final = "/apis/grove.io/v1alpha1/clustertopologybindings"


def _crd(group: str, kind: str, scope: str) -> dict[str, Any]:
    """A CRD that keeps every field. The shape of Grove's own is tested where it is read."""
    plural = f"{kind.lower()}s"
    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": kept, "status": kept}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
            ],
        },
    }


_KINDS: Final = (
    _crd("scheduler.grove.io", "PodGang", "Namespaced"),
    _crd("grove.io", "ClusterTopologyBinding", "Cluster"),
)


@contextlib.contextmanager
def served(plane: ControlPlane) -> Iterator[None]:
    """Within this context the API server serves Grove's kinds, and the operator has its rights."""
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": USER}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    plane.api.create(
        _BINDINGS,
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "grove-operator"},
            "roleRef": role,
            "subjects": [subject],
        },
    )
    names = [crd["metadata"]["name"] for crd in _KINDS]
    try:
        for crd in _KINDS:
            plane.api.create(_CRDS, crd)
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *(f"crd/{name}" for name in names))
        yield
    finally:
        for name in names:
            plane.api.delete(f"{_CRDS}/{name}")
        plane.api.delete(f"{_BINDINGS}/grove-operator")


class Grove:
    """The operator in one namespace."""

    def __init__(self, pods: Pods) -> None:
        self.api: Api = pods.plane.api.acting_as(USER, "system:serviceaccounts")
        self._pods = pods
        self._gangs = f"/apis/scheduler.grove.io/v1alpha1/namespaces/{pods.namespace}/podgangs"

    def close(self) -> None:
        """Close its connections."""
        self.api.close()

    def make(self, gang: dict[str, Any], sizes: Mapping[str, int], base: str = "") -> list[dict[str, Any]]:
        """Steps 1 and 2: the PodGang, and so many pods of each PodClique. Returns the pods as they were created."""
        self.api.create(self._gangs, gang)
        name = gang["metadata"]["name"]
        return [self.pod(name, clique, index, base) for clique, size in sizes.items() for index in range(size)]

    def pod(self, gang: str, clique: str, index: int, base: str = "") -> dict[str, Any]:
        """Step 2 for one pod, which takes a NUMA node of 16 CPUs."""
        raw = pod(f"{clique}-{index}", cpu=16, schedulingGates=[{"name": GATE}])
        raw["metadata"]["labels"] = labels(clique, index, gang, base)
        created: dict[str, Any] = self.api.create(self._pods.path, raw)
        return created

    def open(self, gang: str, *names: str) -> None:
        """Step 3 for these pods."""
        path = f"{self._gangs}/{gang}"
        groups = self.api.get(path)["spec"]["podgroups"]
        for group in groups:
            added = [name for name in names if name.rpartition("-")[0] == group["name"]]
            group["podReferences"] += [{"namespace": self._pods.namespace, "name": name} for name in added]
        self.api.patch(path, {"spec": {"podgroups": groups}})
        for name in names:
            gates = self._pods.get(name)["spec"]["schedulingGates"]
            self.gates(name, [gate for gate in gates if gate["name"] != GATE])

    def gates(self, name: str, gates: list[dict[str, str]] | None) -> None:
        """Set the gates of a pod; None: remove the field, as before 0.1.0-alpha.12."""
        self.api.patch(f"{self._pods.path}/{name}", {"spec": {"schedulingGates": gates or None}})
