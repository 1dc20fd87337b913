"""Gated pods whose owner turns out to be Kueue's: what stood for Kueue's annotations no longer counts."""

from typing import Any

from tests.builders.pods import gated
from tests.builders.workloads import job, of
from webhook.placing.pod.gated_pods import ASKS_FOR_NOTHING, GatedPod

READ = {
    "kueue.x-k8s.io/podset-required-topology": "rack",
    "kai.scheduler/topology": "network",
    "kai.scheduler/topology-required-placement": "rack",
}


def of_job(labels: dict[str, str], *, numa: str | None = None, reads_kueue: bool = True) -> GatedPod:
    owner: dict[str, Any] = job()
    owner["metadata"]["labels"] = labels
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": "uid-Job", "controller": True}
    raw = gated(annotations=READ, numa=numa, metadata={"ownerReferences": [reference]})
    return GatedPod.from_object(raw, of(owner), reads_kueue=reads_kueue)


def test_a_pod_of_a_workload_with_a_queue_asks_for_nothing_and_its_text_says_why() -> None:
    pod = of_job({"kueue.x-k8s.io/queue-name": "team"})
    assert not pod.asks
    assert pod.why_unasked == (
        "its topology annotations are left to Kueue, which manages its owner (label kueue.x-k8s.io/queue-name)"
    )
    assert pod.owner is not None  # it is read again when it changes


def test_its_numa_policy_still_counts() -> None:
    pod = of_job({"kueue.x-k8s.io/queue-name": "team"}, numa='{"numaTopologyPolicy": "SingleNUMANode"}')
    assert pod.asks
    assert pod.membership is None


def test_without_a_queue_or_without_the_setting_nothing_changes() -> None:
    assert of_job({}).membership is not None
    assert of_job({"kueue.x-k8s.io/queue-name": "team"}, reads_kueue=False).membership is not None
    assert of_job({}).why_unasked == ASKS_FOR_NOTHING
