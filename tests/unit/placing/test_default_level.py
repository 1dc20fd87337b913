"""Pods of a ComputeDomain prefer a level by default, and are read again when that, or their ComputeDomain, changes."""

from time import monotonic
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, put
from tests.builders.compute_domains import CLAIM, CLIQUE, channel_template
from tests.builders.nodes import node
from tests.builders.pods import gated
from tests.builders.topologies import topology
from tests.builders.workloads import job, of
from webhook.formats.kubernetes.pod import Owner
from webhook.model.names import (
    INHERIT,
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    POD_GROUP_NAME,
)
from webhook.placing.pod.default_level import DefaultLevels
from webhook.placing.pod.gated_pods import GatedPod, GatedPods, GroupBasis
from webhook.placing.retry_delays import RetryDelays
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules
from webhook.steps import result_of

RACK = "example.com/rack"
OF_CLIQUES = {KAI_TOPOLOGY: CLIQUE, KAI_PREFERRED_PLACEMENT: CLIQUE}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": "uid-Job", "controller": True}


def cluster(*more: dict[str, Any], label: str = CLIQUE) -> ClusterCache:
    return cluster_cache(node(name="n", labels={label: "a"}), channel_template(), *more)


def asked(cache: ClusterCache, **annotations: str) -> dict[str, str]:
    """The annotations of a pod with a default, without its NUMA policy."""
    pod = GatedPod.from_object(
        gated(annotations=annotations, resourceClaims=CLAIM), defaults=DefaultLevels.of(cache.snapshot())
    )
    return {key: text for key, text in pod.pod.annotations.items() if key.startswith("kai.scheduler/")}


# network ── rack ── clique ── host
@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, {KAI_TOPOLOGY: "network", KAI_PREFERRED_PLACEMENT: CLIQUE}),
        ({KAI_TOPOLOGY: "network", KAI_REQUIRED_PLACEMENT: "rack"}, {KAI_PREFERRED_PLACEMENT: CLIQUE}),
        ({KAI_TOPOLOGY: "network", KAI_REQUIRED_PLACEMENT: "hostname"}, {}),
        ({KAI_TOPOLOGY: "network", KAI_REQUIRED_PLACEMENT: CLIQUE}, {}),
        ({KAI_TOPOLOGY: "network", KAI_PREFERRED_PLACEMENT: "rack"}, {}),
        ({KAI_TOPOLOGY: "network", KAI_SEGMENT_SIZE: "2", KAI_SEGMENT_REQUIRED_PLACEMENT: "rack"}, {}),
        ({KAI_TOPOLOGY: "other", KAI_REQUIRED_PLACEMENT: "rack"}, {}),
        ({KAI_TOPOLOGY: "unknown"}, {}),
        ({KAI_TOPOLOGY: CLIQUE}, {KAI_PREFERRED_PLACEMENT: CLIQUE}),
    ],
)
def test_what_a_pod_asks_for_itself_comes_first(annotations: dict[str, str], expected: dict[str, str]) -> None:
    cache = cluster(topology(labels=(RACK, CLIQUE, "kubernetes.io/hostname")), topology(name="other", labels=(RACK,)))
    assert asked(cache, **annotations) == {**annotations, **expected}


def test_of_two_labels_the_one_of_the_gpus_counts_as_long_as_a_node_has_it() -> None:
    cache = cluster(label="accelerator.topograph.run/domain")
    assert asked(cache)[KAI_PREFERRED_PLACEMENT] == "accelerator.topograph.run/domain"
    put(cache, node(name="gpu", labels={CLIQUE: "a"}))
    assert asked(cache) == OF_CLIQUES
    cache.nodes.delete("gpu")
    assert asked(cache)[KAI_PREFERRED_PLACEMENT] == "accelerator.topograph.run/domain"


def test_a_template_of_another_namespace_or_driver_makes_no_compute_domain() -> None:
    forged = channel_template()
    forged["spec"]["spec"]["devices"]["config"][0]["opaque"]["driver"] = "gpu.example.com"
    for template in (channel_template(namespace="evil"), forged):
        assert asked(cluster_cache(node(name="n", labels={CLIQUE: "a"}), template)) == {}


def test_pods_are_read_again_when_their_template_comes_and_what_was_read_of_their_owners_counts_no_more() -> None:
    cache = cluster_cache(node(name="n", labels={CLIQUE: "a"}))
    pods = GatedPods(Rules(), RetryDelays(lambda _: None, monotonic))
    theirs = {"ownerReferences": [OWNER]}
    raws = {
        f"default/{name}": gated(
            name=name, metadata=theirs, annotations={INHERIT: "true"}, numa=None, resourceClaims=claims
        )
        for name, claims in (("in", CLAIM), ("out", []))
    }
    known = of(job(**{"scheduling.koordinator.sh/numa-topology-spec": '{"numaTopologyPolicy": "Restricted"}'}))

    def read() -> list[tuple[str, Owner]]:
        again = result_of(pods.update(raws, DefaultLevels.of(cache.snapshot())))
        pods.take(lambda *_: known, lambda *_: GroupBasis(None, {}, is_served=False))
        return again

    assert read() == []
    put(cache, channel_template(namespace="evil"))
    assert read() == []
    put(cache, channel_template())
    assert [owner.name for _, owner in read()] == ["w"]
    found = {pod.pod.name: pod for pod in pods.in_order()}
    assert found["in"].pod.annotations.items() >= OF_CLIQUES.items()
    assert POD_GROUP_NAME in found["in"].taken
    assert found["out"].membership is None
    assert read() == []
    cache.devices.feeds["ResourceClaimTemplate"].delete("default/channel")
    assert [owner.name for _, owner in read()] == ["w"]
