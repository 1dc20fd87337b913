"""Clusters for the page, as snapshots.

    20 nodes: zone-0                       zone-1
              rack-0: node-0000 … -0009    rack-0: node-0010 … -0015
                                           rack-1: node-0016 … -0019

Each node has two NUMA nodes of 16 CPUs. Every third one runs a pod of 8 CPUs, on its NUMA node 0. The pods of each 48
nodes are a gang. Five more pods wait.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.builders.clusters import machine
from tests.builders.pods import bound, gated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ZONE, RACK, HOST = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"
PLACEMENT = "topology-webhook.dev/placement"
WAITING = 5
# Long after the pods were bound, so that what it publishes as free is without what they hold.
WRITTEN = {
    "managedFields": [
        {"manager": "nfd", "operation": "Update", "time": "2030-01-01T02:00:00Z", "fieldsV1": {"f:zones": {}}}
    ]
}
NODES_IN_A_RACK = 16


def snapshot(folder: Path, nodes: int) -> Path:
    """A file with a cluster of so many nodes."""
    path = folder / f"cluster-{nodes}.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(_objects(nodes))}))
    return path


def _objects(nodes: int) -> Iterator[dict[str, Any]]:
    levels = [{"nodeLabel": label} for label in (ZONE, RACK, HOST)]
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    yield {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "default"},
        "spec": {"levels": levels},
    }
    for number in range(nodes):
        name = f"node-{number:04}"
        zone, rack = f"zone-{number // (nodes // 2)}", f"rack-{number // NODES_IN_A_RACK}"
        taken = 8 if number % 3 == 0 else 0
        node, nrt = machine(name=name, free=(16 - taken, 16), labels={ZONE: zone, RACK: rack, HOST: name})
        yield from (node, {**nrt, "metadata": {**nrt["metadata"], **WRITTEN}})
        if taken:
            hint = {"node": name, "numaNodeResources": [{"node": 0, "resources": {"cpu": "8"}}]}
            annotations = {"topology-webhook.dev/numa": json.dumps(hint), "pod-group-name": f"train-{number // 48}"}
            yield bound(node=name, name=f"pod-{number:04}", cpu=8, annotations=annotations)
    for number in range(WAITING):
        text = "waiting: SingleNUMANode: none of the nodes fits now"
        yield gated(name=f"big-{number}", cpu=64, annotations={PLACEMENT: text})
