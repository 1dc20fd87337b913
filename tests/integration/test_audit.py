"""`audit` of a cluster without the service, with planted faults: real control plane, kubelets with their own code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.kubelets import even_machine, kubelets
from tests.cluster.nodes import RACK_LABEL, TOPOLOGIES, ZONE_LABEL, Machine
from tests.cluster.racked import topology_of_racks
from tests.unit.cli.conftest import run_command
from webhook.model.names import KOORDINATOR_NODE_POLICY_LABEL, POD_GROUP_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

REJECTED = "TopologyAffinityError"


class Faults:
    """The faults of a namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self._pods = f"/api/v1/namespaces/{namespace}/pods"

    def pod(self, name: str, node: str, cpu: int, **metadata: Any) -> None:
        """A pod that runs on this node."""
        raw = {"metadata": {"name": name, **metadata}, "spec": {"nodeName": node, **spec(cpu)}}
        self.plane.api.create(self._pods, raw)
        self.plane.wait_for(f"{name} to run", lambda: self.phases().get(name) == "Running")

    def phases(self) -> dict[str, str]:
        items = self.plane.api.get(self._pods)["items"]
        return {raw["metadata"]["name"]: raw["status"].get("phase", "") for raw in items}

    def rejected_by_k0(self) -> None:
        """A ReplicaSet whose third pod k0 rejects, again and again, until it is scaled down."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/replicasets"
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"nodeSelector": on("k0"), **spec(5)}}
        wanted = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        self.plane.api.create(path, {"metadata": {"name": "web"}, "spec": wanted})
        self.plane.wait_for("a rejection", lambda: "Failed" in self.phases().values())
        self.plane.api.patch(f"{path}/web", {"spec": {"replicas": 2}})
        self.plane.wait_for("two of its pods to run", self._web_has_settled)

    def rejected(self) -> set[str]:
        """The rejected pods, with those that their controller deleted meanwhile: of these only an Event is left."""
        events = self.plane.api.get(f"/api/v1/namespaces/{self.namespace}/events")["items"]
        told = {event["involvedObject"]["name"] for event in events if event["reason"] == REJECTED}
        return told | {name for name, phase in self.phases().items() if phase == "Failed"}

    def _web_has_settled(self) -> bool:
        web = [phase for name, phase in self.phases().items() if name.startswith("web-")]
        return sorted(set(web)) == ["Failed", "Running"] and web.count("Running") == 2

    def span_k1(self) -> None:
        """A pod on 3 CPUs of each NUMA node of k1: others were there when it came."""
        for name in ("before-0", "before-1"):
            self.pod(name, "k1", 5)
        self.pod("wide", "k1", 6)
        for name in ("before-0", "before-1"):
            self.plane.api.delete(f"{self._pods}/{name}", {"gracePeriodSeconds": 0})
        self.plane.wait_for("k1 to publish what is left", self._only_wide_is_published)

    def _only_wide_is_published(self) -> bool:
        zones = self.plane.api.get(f"{TOPOLOGIES}/k1")["zones"]
        cpus = [entry for zone in zones for entry in zone["resources"] if entry["name"] == "cpu"]
        return [int(entry["allocatable"]) - int(entry["available"]) for entry in cpus] == [3, 3]

    def event_of_a_deleted_pod(self) -> None:
        about = {"kind": "Pod", "namespace": self.namespace, "name": "web-gone1", "uid": "gone1"}
        self.plane.api.create(
            f"/api/v1/namespaces/{self.namespace}/events",
            {
                "metadata": {"name": "web-gone1.1"},
                "involvedObject": about,
                "reason": REJECTED,
                "message": "Resources cannot be allocated with Topology locality",
                "source": {"component": "kubelet", "host": "k0"},
                "type": "Warning",
            },
        )


def spec(cpu: int) -> dict[str, Any]:
    resources = {"limits": {"cpu": str(cpu), "memory": "1Gi"}}
    container = {"name": "main", "image": "none", "resources": resources}
    return {"containers": [container], "terminationGracePeriodSeconds": 0}


def on(node: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": node}


@pytest.fixture
def faults(control_plane: ControlPlane, namespace: str, create_machines: Callable[..., None]) -> Iterator[Faults]:
    # z ─┬─ r1 ─┬─ k0 [8 8]   single-numa-node           [CPUs per NUMA node]
    #    │      └─ k1 [8 8]   best-effort
    #    └─ r2 ─┬─ k2 [8 8]   single-numa-node, but its label says BestEffort
    #           └─ bare       without NodeResourceTopology
    r1, r2 = ({ZONE_LABEL: "z", RACK_LABEL: rack} for rack in ("r1", "r2"))
    fleet = [
        even_machine("k0", cpus=8, labels=r1),
        even_machine("k1", cpus=8, labels=r1, policy="best-effort"),
        even_machine("k2", cpus=8, labels={**r2, KOORDINATOR_NODE_POLICY_LABEL: "BestEffort"}),
    ]
    with topology_of_racks(control_plane), kubelets(control_plane, fleet):
        create_machines(Machine("bare", free=(8,), cpus=8, labels=r2))
        control_plane.api.delete(f"{TOPOLOGIES}/bare")
        yield Faults(control_plane, namespace)
        control_plane.delete_namespace(namespace)


def audited(*arguments: object) -> Any:
    outcome = run_command("audit", *arguments, "-o", "json")
    assert (outcome.code, outcome.stderr) == (0, "")
    return outcome.json


def test_the_faults_of_a_live_cluster_are_found_and_a_snapshot_of_it_gives_the_same(
    control_plane: ControlPlane, faults: Faults, tmp_path: Path
) -> None:
    for number, name in enumerate(("k0", "k2")):
        faults.pod(f"g-{number}", name, 1, annotations={POD_GROUP_NAME: "train"})
    faults.rejected_by_k0()
    faults.span_k1()
    faults.event_of_a_deleted_pod()
    rejected = faults.rejected()
    assert "web-gone1" in rejected

    found = audited("--kubeconfig", control_plane.kubeconfig)
    (rejection,) = found["rejections"]
    assert rejection == {
        "workload": {"namespace": faults.namespace, "kind": "ReplicaSet", "name": "web"},
        "pods": len(rejected),
        "reasons": {REJECTED: len(rejected)},
        "nodes": {"k0": len(rejected)},
        "manage": "Aligned",
    }
    (spanning,) = found["spanningPods"]
    assert (spanning["name"], spanning["node"], spanning["shownBy"]) == ("wide", "k1", "Usage")
    assert spanning["couldHold"] == [0, 1]
    (gang,) = found["splitGangs"]
    assert (gang["name"], gang["pods"], gang["domains"], gang["bestPods"]) == ("train", 2, 2, 2)
    assert (gang["topology"], gang["level"]) == ("racks", RACK_LABEL)
    assert found["nodes"] == {
        "total": 4,
        "policies": {"best-effort": 2, "single-numa-node": 1},
        "withoutTopology": ["bare"],
        "disagreeing": [{"node": "k2", "label": "best-effort", "published": "single-numa-node"}],
        "unreadable": [],
        **{empty: [] for empty in ("kubeletOptions", "levels", "notEnforcedPods", "notEnforcing", "unreported")},
    }
    assert [(one["mode"], one["pods"]) for one in found["manage"]] == [("Annotated", 2), ("Aligned", 5), ("All", 5)]
    assert len(found["actions"]) == 7

    kinds = ("nodes", "namespaces", "pods", "events")
    served = ("noderesourcetopologies.topology.node.k8s.io", "topologies.kai.scheduler")
    get = ("get", "--all-namespaces", "--show-managed-fields", "--output", "json")
    documents = [json.loads(control_plane.kubectl(*get, kind)) for kind in (*kinds, *served)]
    snapshot = tmp_path / "cluster.json"
    snapshot.write_text("\n".join(map(json.dumps, documents)))
    assert audited("--cluster", snapshot) == found
