"""A pod that cluster-autoscaler would count on a node that cannot align it is kept off that node, behind its gate.

No autoscaler runs here: the test adds the node. The API server judges the change of a gated pod's affinity.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.gated import Pods, is_gated, pod
from tests.cluster.nodes import NODES, Machine, delete_nodes
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

POOL = {"cloud.google.com/gke-nodepool": "blue"}
# pool-0 ── NUMA 0 [5 of 16 free]  NUMA 1 [5 of 16 free]: 8 CPUs fit in sum
SPLIT = Machine("pool-0", free=(5, 5), labels=POOL)
NEW = Machine("pool-1", free=(16, 16), labels=POOL)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SETTINGS = {"autoscaler": "ClusterAutoscaler", "newNodeSeconds": 1, "narrowAfterSeconds": 3}


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    with local_webhook(control_plane, values={"settings": {**QUICK_LEASE, **SETTINGS}}) as webhook:
        yield webhook


def excluded(raw: dict[str, Any]) -> list[str]:
    """The host names that its required node affinity excludes."""
    required = raw["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    terms = [] if required is None else required["nodeSelectorTerms"]
    return [
        name
        for term in terms
        for one in term.get("matchExpressions", ())
        if (one["key"], one["operator"]) == ("kubernetes.io/hostname", "NotIn")
        for name in one["values"]
    ]


@pytest.mark.parametrize("affinity", [{}, {"key": "pool", "operator": "NotIn", "values": ["slow"]}])
def test_a_pod_is_kept_off_the_node_that_it_fits_in_sum_and_bound_to_the_one_that_is_added(
    known: Callable[..., None], create_machines: Callable[..., None], pods: Pods, affinity: dict[str, Any]
) -> None:
    known(SPLIT)
    terms = {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}
    raw = pod("a")
    if affinity:  # terms of a pod without a controller are not changed
        raw["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: terms}}
        path = f"/api/v1/namespaces/{pods.namespace}/configmaps"
        uid = pods.plane.api.create(path, {"metadata": {"name": "owner"}})["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "controller": True}
        raw["metadata"]["ownerReferences"] = [owner]
    pods.create(raw)
    pods.plane.wait_for("it to be kept off", lambda: excluded(pods.get("a")) == ["pool-0"])
    pods.wait_until_told("a", "KeptOffNodes", "it can no longer go to pool-0: it fits there in total")
    pods.wait_until_says("a", "it is permanently kept off nodes that have enough free only in total")
    assert is_gated(pods.get("a"))
    create_machines(NEW)
    pods.wait_until_bound("a")
    assert pods.allocation("a")[0] == "pool-1"


def test_a_node_whose_exporter_is_missing_gets_an_event(
    known: Callable[..., None], pods: Pods, control_plane: ControlPlane, namespace: str
) -> None:
    known(Machine("pool-0", free=(0, 0), labels=POOL))
    pods.create(pod("a"))
    control_plane.api.create(NODES, NEW.node())
    try:
        pods.wait_until_says("a", "node pool-1 is without NUMA nodes more than 1 s after its creation")
        said = "ExporterMissing .* no NodeResourceTopology with NUMA nodes 1 s after the node's creation"
        control_plane.wait_for(
            "the Event to be shown",
            lambda: re.search(said, control_plane.kubectl("describe", "node", "pool-1")),
        )
    finally:
        pods.delete("a")
        delete_nodes(control_plane.api, [NEW.name])
