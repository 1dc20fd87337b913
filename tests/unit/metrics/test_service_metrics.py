"""docs/metrics.md lists what the registry has."""

import re
from dataclasses import replace
from pathlib import Path

from prometheus_client import Metric

from tests.unit.metrics.sample import SAMPLE
from webhook.formats.kubernetes.rejected_pod import RejectionReason
from webhook.metrics import NAMESPACE, Metrics, Sample
from webhook.placing.pod.wait_reason import WaitReason

DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<kind>\w+) \|(?P<labels>[^|]*)\| .+ \|$", re.MULTILINE)


def families() -> dict[str, Metric]:
    metrics = Metrics(lambda: SAMPLE)
    metrics.reviews.labels("mutate-pods", "CREATE", "allow").inc()
    metrics.observed_reviews.labels("mutate-pods", "deny", "Unalignable").inc()
    metrics.review_seconds.labels("mutate-pods").observe(0.001)
    metrics.connections_closed.labels("reviews", "handshake").inc()
    metrics.unreserved.labels("user").inc()
    metrics.placement.not_aligned()
    metrics.excluded.labels("NotReady").inc(4)
    metrics.placement.cycle()
    metrics.placement.decided("pod", 0.001)
    metrics.placement.ungated("assigned", 3.0)
    metrics.placement.evicted()
    metrics.placement.preemption("victims")
    metrics.placement.preempted(violates=True)
    metrics.placement.corrected("changed")
    metrics.denials.labels("mutate-pods", "InvalidAnnotation").inc()
    found = {}
    for family in metrics.registry.collect():
        if family.name.startswith(NAMESPACE):
            found[f"{family.name}_total" if family.type == "counter" else family.name] = family
    return found


def test_every_metric_is_documented_with_its_type_and_labels_and_nothing_else_is() -> None:
    documented = {
        row["name"]: (row["kind"], set(re.findall(r"`(\w+)`", row["labels"]))) for row in ROW.finditer(DOCS.read_text())
    }
    served = {
        name: (family.type, {label for sample in family.samples for label in sample.labels} - {"le"})
        for name, family in families().items()
    }
    assert served == documented


def test_what_every_replica_sees_of_the_cluster_is_reported_by_the_leader_alone() -> None:
    def gauges(sample: Sample) -> dict[str, float]:
        families = Metrics(lambda: sample).registry.collect()
        return {each.name: each.samples[0].value for each in families if each.type == "gauge" and each.samples}

    leader, follower = gauges(SAMPLE), gauges(replace(SAMPLE, cluster=None))
    of_the_cluster = [
        "policy_disagreements",
        "unknown_policies",
        "gated_pods",
        "waiting_pods",
        "stuck_pods",
        "scale_up_pods",
        "provisioning_requests",
        "assumed_pods",
        "oldest_waiting_pod_created_timestamp_seconds",
        "oldest_waiting_gang_created_timestamp_seconds",
        "preemption_paused",
        "nodes_without_topology",
        "nodes_with_stale_topology",
        *(f"{of}{what}" for of in ("", "domain_", "largest_domain_") for what in ("free_amount", "numa_block")),
    ]
    assert leader.keys() - follower.keys() == {f"{NAMESPACE}_{name}" for name in of_the_cluster}
    assert (leader[f"{NAMESPACE}_leader"], follower[f"{NAMESPACE}_leader"]) == (1.0, 0.0)


def test_every_reason_of_waiting_pods_and_of_rejections_is_documented_and_no_other() -> None:
    text = DOCS.read_text()
    for heading, reasons in {"Waiting pods": WaitReason, "Kubelet rejections": RejectionReason}.items():
        section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        assert re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)[1:] == [each.value for each in reasons]


def test_rejections_start_at_zero() -> None:
    found = families()["topology_webhook_kubelet_rejections_total"]
    counted = {tuple(s.labels.values()): s.value for s in found.samples if s.name.endswith("_total")}
    assert counted == {(reason.value, managed): 0.0 for reason in RejectionReason for managed in ("true", "false")}


def test_states_are_read_at_the_scrape() -> None:
    found = families()
    objects = {sample.labels["resource"]: sample.value for sample in found["topology_webhook_informer_objects"].samples}
    assert objects == {"nodes": 3.0, "pods": 0.0}
    assert found["topology_webhook_gated_pods"].samples[0].value == 5.0
    assert found["topology_webhook_snapshot_generation"].samples[0].value == 7.0
    assert found["topology_webhook_certificate_end_timestamp_seconds"].samples[0].value == 1893456000.0
