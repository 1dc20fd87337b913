"""A cluster with planted faults, and what the audit has to find in it.

    rack-1 ─┬─ n0 [8 8]     single-numa-node: train-0, train-1            [free of 16 CPUs, per NUMA node]
            └─ n1 [8 8]     best-effort: span, whose 16 CPUs are 8 of each NUMA node
    rack-2 ─┬─ n2 [0 16]    best-effort, but its label says SingleNUMANode: train-2, train-3
            ├─ n3           no NRT
            └─ n4 [16 16]   its label is no policy

| fault                                        | where                                                     |
|----------------------------------------------|-----------------------------------------------------------|
| rejected pods                                | Deployment web: 2 failed, 1 only in an Event; odd, gone-1  |
| a pod over NUMA nodes that one could hold     | span on n1: 16 CPUs                                       |
| a gang over racks                            | train: 4 pods of 8 CPUs; n0 alone has 32 - 16 + 16 for it  |
| nodes that placement knows too little of     | n2, n3, n4                                                |
| an exporter that does not see pods           | n4: unseen has 8 CPUs                                     |
| options of kubelets                          | n0: learned from odd                                       |
| labels of a Topology                         | n2, n3, n4 have no hall; rack-1 is in hall-a and hall-b    |
"""

from typing import Any

from tests.builders.nodes import node, nrt
from tests.builders.pods import bound, container, plain
from tests.builders.topologies import topology
from webhook.model.names import KOORDINATOR_NODE_POLICY_LABEL as POLICY

RACK, HALL = "example.com/rack", "example.com/hall"
REJECTED = "TopologyAffinityError"
SMT = "Pod was rejected: SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"


# Other pods were bound when they were created, in the second at which snapshots of these objects end.
BOUND_LONG_AGO = {
    "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2029-12-31T00:00:00Z"}]
}


def machine(
    name: str, rack: str, free: tuple[int, ...] = (), label: str = "", hall: str = "", **how: Any
) -> list[dict[str, Any]]:
    """A node of 32 CPUs and, if it has NUMA nodes, its NRT."""
    labels = {RACK: rack, POLICY: label, HALL: hall}
    itself = node(name=name, cpus=32, labels={key: value for key, value in labels.items() if value})
    return [itself, nrt(node=name, free=free, **how)] if free else [itself]


def of_web(name: str, **more: Any) -> dict[str, Any]:
    """A pod of the Deployment web, by its ReplicaSet."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f9", "uid": "r", "controller": True}
    labels = {"pod-template-hash": "5d4f9"}
    metadata = {"name": name, "namespace": "team", "uid": name, "labels": labels, "ownerReferences": [owner]}
    return plain(cpu=8, metadata=metadata, **more)


def rejected(raw: dict[str, Any], node: str, reason: str = REJECTED, message: str = "") -> dict[str, Any]:
    """The pod, rejected by the kubelet of a node."""
    status = {"phase": "Failed", "reason": reason, "message": message}
    return {**raw, "spec": {**raw["spec"], "nodeName": node}, "status": status}


def event(namespace: str, name: str, host: str, reason: str = REJECTED, **more: Any) -> dict[str, Any]:
    """The kubelet's Event about a rejected pod."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "name": f"{name}.1"},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": name, "uid": name},
        "reason": reason,
        "source": {"component": "kubelet", "host": host},
        **more,
    }


def cluster() -> list[dict[str, Any]]:
    """The objects."""
    return [
        topology(name="network", labels=(RACK,)),
        topology(name="site", labels=(HALL, RACK)),
        *machine("n0", "rack-1", (8, 8), hall="hall-a"),
        *machine("n1", "rack-1", (8, 8), hall="hall-b", policy="best-effort"),
        *machine("n2", "rack-2", (0, 16), label="SingleNUMANode", policy="best-effort"),
        *machine("n3", "rack-2"),
        *machine("n4", "rack-2", (16, 16), label="Strange"),
        bound(name="train-0", node="n0", cpu=8, group="train"),
        bound(name="train-1", node="n0", cpu=8, group="train"),
        bound(name="train-2", node="n2", cpu=8, group="train"),
        bound(name="train-3", node="n2", cpu=8, group="train"),
        bound(name="span", namespace="team", node="n1", cpu=16, numa=None),
        bound(name="unseen", namespace="team", node="n4", cpu=8, numa=None, status=BOUND_LONG_AGO),
        bound(name="idle", node="n3", numa=None, containers=[container()]),
        rejected(of_web("web-5d4f9-a"), "n0"),
        rejected(of_web("web-5d4f9-b"), "n1", "UnexpectedAdmissionError"),
        rejected(plain(name="oom"), "n0", "Evicted"),
        rejected(plain(name="odd", namespace="team", cpu=3), "n0", "SMTAlignmentError", SMT),
        event("team", "web-5d4f9-a", "n0"),
        event("team", "web-5d4f9-c", "n0"),
        event("team", "gone-1", "n2"),
        event("team", "fine", "n2", reason="Started"),
    ]
