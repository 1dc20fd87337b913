"""docs/metrics.md lists what the registry has."""

import re
from pathlib import Path

from prometheus_client import Metric

from tests.unit.metrics.sample import SAMPLE
from webhook.metrics.service_metrics import NAMESPACE, Metrics

DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<kind>\w+) \|(?P<labels>[^|]*)\| .+ \|$", re.MULTILINE)


def families() -> dict[str, Metric]:
    metrics = Metrics(lambda: SAMPLE)
    metrics.reviews.labels("mutate-pods", "CREATE", "allow").inc()
    metrics.review_seconds.labels("mutate-pods").observe(0.001)
    metrics.connections_closed.labels("reviews", "handshake").inc()
    metrics.unreserved.labels("user").inc()
    metrics.placement.not_aligned()
    metrics.excluded.labels("NotReady").inc(4)
    metrics.placement.cycle()
    metrics.placement.decided("pod", 0.001)
    metrics.placement.ungated("assigned", 3.0)
    metrics.placement.evicted()
    metrics.placement.corrected("changed")
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


def test_states_are_read_at_the_scrape() -> None:
    found = families()
    objects = {sample.labels["resource"]: sample.value for sample in found["topology_webhook_informer_objects"].samples}
    assert objects == {"nodes": 3.0, "pods": 0.0}
    assert found["topology_webhook_gated_pods"].samples[0].value == 5.0
    assert found["topology_webhook_snapshot_generation"].samples[0].value == 7.0
    assert found["topology_webhook_certificate_end_timestamp_seconds"].samples[0].value == 1893456000.0
