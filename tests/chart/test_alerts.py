"""The alerts of the chart: valid, documented, and each fires for its fault and not without it.

promtool plays the series of `CASES` into Prometheus's own engine.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from tests.chart.helm import CHART

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.chart.helm import Helm

ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
}
DOCS = (CHART.parents[1] / "docs" / "metrics.md").read_text()
T = "topology_webhook_"


class Case(NamedTuple):
    """series: the fault, by name and labels, a value a minute; at: when the alert fires first; labels: its own."""

    series: Mapping[str, str]
    at: str
    labels: Mapping[str, str] = {}


# Two replicas; the first leads, and all is well.
HEALTHY = {
    f'{T}ready{{pod="a"}}': "1x60",
    f'{T}ready{{pod="b"}}': "1x60",
    f'{T}leader{{pod="a"}}': "1x60",
    f'{T}leader{{pod="b"}}': "0x60",
    f'{T}gated_pods{{pod="a"}}': "3x60",
    f'{T}placement_cycles_total{{pod="a"}}': "0+7x60",
    f'{T}placement_cycles_total{{pod="b"}}': "0x60",
    f'{T}kubelet_rejections_total{{pod="a",managed="true",reason="TopologyAffinityError"}}': "0x60",
    f'{T}kubelet_rejections_total{{pod="a",managed="false",reason="TopologyAffinityError"}}': "0+1x60",
    f'{T}stuck_pods{{pod="a"}}': "0x60",
    f'{T}internal_errors_total{{pod="a",where="pod"}}': "0x60",
    f'{T}reviews_total{{pod="a",webhook="mutate-pods",operation="CREATE",verdict="deny"}}': "0+9x60",
    f'{T}reviews_total{{pod="a",webhook="mutate-pods",operation="CREATE",verdict="error"}}': "2x60",
    f'{T}connections_closed_total{{pod="a",port="reviews",reason="handshake"}}': "0+30x60",
    f'{T}connections_closed_total{{pod="a",port="observation",reason="handshake"}}': "0+600x60",
    f'{T}certificate_end_timestamp_seconds{{pod="a"}}': "86400x60",
    f'{T}unknown_policies{{pod="a"}}': "0x60",
    f'{T}informer_last_event_timestamp_seconds{{pod="a",resource="pods"}}': "0+60x60",
    f'{T}oldest_waiting_gang_created_timestamp_seconds{{pod="a"}}': "0+60x90",
    f'{T}preemption_paused{{pod="a"}}': "0x60",
    f'{T}nodes_with_stale_topology{{pod="a"}}': "0x60",
}
CASES = {
    "TopologyWebhookNotReady": Case({f'{T}ready{{pod="{pod}"}}': "1x9 0x50" for pod in "ab"}, "15m"),
    "TopologyWebhookNoLeader": Case({f'{T}leader{{pod="a"}}': "1x9 0x50"}, "12m"),
    "TopologyWebhookNotPlacing": Case({f'{T}placement_cycles_total{{pod="a"}}': "5x60"}, "16m", {"pod": "a"}),
    "TopologyWebhookKubeletRejections": Case(
        {f'{T}kubelet_rejections_total{{pod="a",managed="true",reason="TopologyAffinityError"}}': "0x9 1x50"},
        "10m",
        {"reason": "TopologyAffinityError"},
    ),
    "TopologyWebhookStuckPods": Case({f'{T}stuck_pods{{pod="a"}}': "0x9 1x50"}, "40m", {"pod": "a"}),
    # An hour after the gang's first pod, and then five minutes.
    "TopologyWebhookGangWaitsLong": Case(
        {f'{T}oldest_waiting_gang_created_timestamp_seconds{{pod="a"}}': "0x90"}, "66m"
    ),
    "TopologyWebhookPreemptionPaused": Case({f'{T}preemption_paused{{pod="a"}}': "0x9 1x50"}, "15m"),
    "TopologyWebhookExporterSilent": Case({f'{T}nodes_with_stale_topology{{pod="a"}}': "0x9 3x50"}, "25m"),
    "TopologyWebhookInternalErrors": Case(
        {f'{T}internal_errors_total{{pod="a",where="pod"}}': "0x9 1x50"}, "10m", {"where": "pod"}
    ),
    "TopologyWebhookReviewErrors": Case(
        {f'{T}reviews_total{{pod="a",webhook="mutate-pods",operation="CREATE",verdict="error"}}': "0x9 0+1x50"},
        "16m",
        {"webhook": "mutate-pods"},
    ),
    "TopologyWebhookConnectionsClosed": Case(
        {f'{T}connections_closed_total{{pod="a",port="reviews",reason="handshake"}}': "0x9 0+120x50"},
        "18m",
        {"reason": "handshake"},
    ),
    # An hour before the end, and then five minutes.
    "TopologyWebhookCertificateExpires": Case({f'{T}certificate_end_timestamp_seconds{{pod="a"}}': "4200x60"}, "16m"),
    "TopologyWebhookUnknownPolicies": Case({f'{T}unknown_policies{{pod="a"}}': "0x9 2x50"}, "20m", {"pod": "a"}),
    "TopologyWebhookInformerStale": Case(
        {f'{T}informer_last_event_timestamp_seconds{{pod="a",resource="pods"}}': "0+60x9 540x50"},
        "20m",
        {"resource": "pods"},
    ),
}


def promtool_test(promtool: Path, folder: Path, *tests: Mapping[str, Any]) -> str:
    """What promtool says of these tests of the chart's rules; empty if they hold."""
    (folder / "alerts.yaml").write_text((CHART / "files" / "alerts.yaml").read_text())
    document = {"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": list(tests)}
    (folder / "test.yaml").write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [promtool, "test", "rules", folder / "test.yaml"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def played(series: Mapping[str, str], *checks: Mapping[str, Any]) -> dict[str, Any]:
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "1m", "input_series": inputs, "alert_rule_test": list(checks)}


def fires(alert: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """The alert as it reaches Alertmanager."""
    annotations = {
        name: re.sub(r"{{ \$labels\.(\w+) }}", lambda label: labels[label[1]], text)
        for name, text in ALERTS[alert]["annotations"].items()
    }
    return {"exp_labels": {**ALERTS[alert]["labels"], **labels}, "exp_annotations": annotations}


def minute_before(at: str) -> str:
    return f"{int(at.removesuffix('m')) - 1}m"


def test_promtool_finds_no_fault_in_the_rules(promtool: Path) -> None:
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", CHART / "files" / "alerts.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def test_every_alert_has_a_case() -> None:
    assert list(CASES) == [name for name in ALERTS if name in CASES]
    assert CASES.keys() == ALERTS.keys()


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_for_its_fault_and_not_a_minute_sooner(promtool: Path, tmp_path: Path, alert: str) -> None:
    case = CASES[alert]
    checks: list[dict[str, Any]] = [
        {"alertname": alert, "eval_time": minute_before(case.at), "exp_alerts": []},
        {"alertname": alert, "eval_time": case.at, "exp_alerts": [fires(alert, case.labels)]},
    ]
    assert promtool_test(promtool, tmp_path, played({**HEALTHY, **case.series}, *checks)) == ""


def test_no_alert_fires_while_all_is_well(promtool: Path, tmp_path: Path) -> None:
    checks = [{"alertname": alert, "eval_time": "55m", "exp_alerts": []} for alert in ALERTS]
    assert promtool_test(promtool, tmp_path, played(HEALTHY, *checks)) == ""


def test_no_metrics_at_all_is_not_ready(promtool: Path, tmp_path: Path) -> None:
    alert = "TopologyWebhookNotReady"
    check = {"alertname": alert, "eval_time": "6m", "exp_alerts": [fires(alert, {})]}
    assert promtool_test(promtool, tmp_path, played({"up": "1x10"}, check)) == ""


def test_the_docs_have_a_section_for_each_alert_and_no_other() -> None:
    section = DOCS.partition("## Alerts\n")[2]
    assert re.findall(r"^### (Topology\w+)\n\nFires when ", section, re.MULTILINE) == list(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_the_runbook_of_an_alert_is_an_anchor_that_exists(alert: str) -> None:
    page, _, anchor = ALERTS[alert]["annotations"]["runbook_url"].partition("#")
    titles = re.findall(r"^#+ (.+)$", (CHART.parents[1] / page).read_text(), re.MULTILINE)
    assert anchor in {title.lower().replace(" ", "-") for title in titles}
    assert anchor == alert.lower()


def test_runbooks_can_be_where_a_team_publishes_them(helm: Helm) -> None:
    url = "https://wiki.example.com/metrics"
    rendered = helm.template({"prometheusRule": {"enabled": True, "runbookUrl": url}})["PrometheusRule"]
    urls = [rule["annotations"]["runbook_url"] for group in rendered["spec"]["groups"] for rule in group["rules"]]
    assert urls == [f"{url}#{alert.lower()}" for alert in ALERTS]


def test_the_rule_object_has_the_alerts_as_they_are_tested(helm: Helm) -> None:
    labels = {"release": "monitoring"}
    rendered = helm.template({"prometheusRule": {"enabled": True, "labels": labels}})["PrometheusRule"]
    assert rendered["spec"] == yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    assert labels.items() <= rendered["metadata"]["labels"].items()
