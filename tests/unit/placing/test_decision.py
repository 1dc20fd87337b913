"""A plan is taken over by pods that ask for the same while the cluster stays as it is, and by no others."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders.clusters import cluster_snapshot, cluster_state
from tests.builders.nodes import node, nrt
from tests.builders.pods import SINGLE, pod
from webhook.admission.pod.mutation import mutate_pod
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.node import Node
from webhook.formats.nrt import NodeTopology
from webhook.model.names import NUMA_TOPOLOGY_SPEC, POD_GROUP_NAME
from webhook.placing.pod.decision import RecentDecisions
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import GateMode, Rules

CLUSTER = cluster_snapshot(
    node(name="a"),
    node(name="b"),
    node(name="c"),
    nrt(node="a", free=[16, 2]),
    nrt(node="b", free=[16, 16]),
    nrt(node="c", free=[2, 2]),
)
TERM = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]}
PREFERRED = {"weight": 7, "preference": TERM}
INIT = {"name": "init", "resources": {"requests": {"cpu": "12", "memory": "1Gi"}, "limits": {"cpu": "12"}}}
PODS: list[dict[str, Any]] = [
    pod(),
    pod(cpu="12"),
    pod(cpu="40"),
    pod(numa='{"numaTopologyPolicy": "Restricted"}'),
    pod(numa='{"numaTopologyPolicy": "SingleNUMANode", "singleNUMANodeExclusive": "Preferred"}'),
    pod(numa="{}"),
    pod(metadata={"annotations": {NUMA_TOPOLOGY_SPEC: SINGLE, POD_GROUP_NAME: "g"}}),
    pod(nodeSelector={"kubernetes.io/hostname": "a"}),
    pod(tolerations=[{"operator": "Exists"}]),
    pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}}),
    pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERRED]}}),
    pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERRED, PREFERRED]}}),
    pod(overhead={"cpu": "1"}),
    pod(initContainers=[INIT]),
    pod(initContainers=[{**INIT, "restartPolicy": "Always"}]),
    pod(resources={"requests": {"cpu": "9"}, "limits": {"cpu": "9"}}),
]


@pytest.mark.parametrize("gate", ["Never", "WhenNeeded", "Always"])
def test_a_pod_gets_what_it_would_get_had_there_been_no_other(gate: GateMode) -> None:
    rules, recent = Rules(gate=gate), RecentDecisions()
    for raw in [*PODS, *PODS]:
        shared, alone = mutate_pod(raw, CLUSTER, rules, recent=recent), mutate_pod(raw, CLUSTER, rules)
        assert replace(shared, nodes=None) == replace(alone, nodes=None)


def test_each_signature_is_put_to_the_engine_once() -> None:
    recent = RecentDecisions()
    first = [mutate_pod(raw, CLUSTER, Rules(), recent=recent).nodes for raw in PODS]
    second = [mutate_pod(raw, CLUSTER, Rules(), recent=recent).nodes for raw in PODS]
    assert all(first)
    assert not any(second)


def test_other_names_labels_and_images_ask_for_the_same() -> None:
    recent, raw = RecentDecisions(), pod()
    mutate_pod(raw, CLUSTER, Rules(), recent=recent)
    other = pod(volumes=[{"name": "kube-api-access-x"}])
    other["metadata"] |= {"name": "other", "labels": {"a": "b"}}
    other["spec"]["containers"][0]["image"] = "another"
    assert mutate_pod(other, CLUSTER, Rules(), recent=recent).nodes is None


def test_a_plan_ends_with_the_state_of_the_cluster_it_was_made_in() -> None:
    state = cluster_state(node(name="a"), nrt(node="a", free=[16, 2]))
    ledger, recent, rules = Ledger(), RecentDecisions(), Rules(gate="Never")

    def text() -> str:
        return mutate_pod(pod(), ClusterSnapshot(Snapshot(state.node_arrays(), ledger)), rules, recent=recent).message

    assert "1 of 1 node fits; best a" in text()
    state.upsert_node(Node.from_object(node(name="b")))
    state.upsert_topology(NodeTopology.from_object(nrt(node="b", free=[16, 2])))
    assert "2 of 2 nodes fit" in text()
    ledger.put(Reservation.of("default/other", "a", {0: {"cpu": 10_000}}, {"cpu": 10_000}))
    assert "1 of 2 nodes fits; best b" in text()
    ledger.release("default/other")
    assert "2 of 2 nodes fit" in text()
