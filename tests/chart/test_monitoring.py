"""Monitoring objects of the chart: what is scraped, and a dashboard of metrics and labels that exist."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.chart.helm import CHART, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.chart.helm import Helm, Rendered

DASHBOARD: dict[str, Any] = json.loads((CHART / "files" / "dashboard.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
# | `name` | type | `label`, `label` | meaning |
ROW = re.compile(r"^\| `(topology_webhook_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
OPTIONAL = ("serviceMonitor", "podMonitor", "prometheusRule", "dashboard")


def queries() -> list[str]:
    """Every query of the dashboard."""
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


def expressions() -> list[str]:
    return [*queries(), *(rule["expr"] for group in ALERTS["groups"] for rule in group["rules"])]


def documented() -> dict[str, set[str]]:
    """The labels of each series; tests/unit/metrics compares docs/metrics.md with the registry."""
    found: dict[str, set[str]] = {}
    for name, kind, labels in ROW.findall((CHART.parents[1] / "docs" / "metrics.md").read_text()):
        own = set(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            found |= {f"{name}_bucket": own | {"le"}, f"{name}_sum": own, f"{name}_count": own}
        else:
            found[name] = own
    return found


def labels_in(query: str) -> Iterator[str]:
    """The labels that a query selects or groups by."""
    for grouping in re.findall(r"\bby \(([^)]*)\)", query):
        yield from re.findall(r"\w+", grouping)
    for selector in re.findall(r"{([^}]*)}", query):
        yield from re.findall(r"(\w+)\s*[=!]", selector)


@pytest.mark.parametrize("query", expressions())
def test_a_query_names_metrics_and_labels_that_exist(query: str) -> None:
    known = documented()
    named = re.findall(r"topology_webhook_\w+", query)
    assert named
    assert set(named) <= known.keys()
    assert set(labels_in(query)) <= set.union(*(known[name] for name in named))


def test_every_legend_names_a_label_that_its_query_keeps() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= set(labels_in(target["expr"]))


def test_prometheus_can_read_every_query(promtool: Path, tmp_path: Path) -> None:
    rules = [
        {"record": f"a:b{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries())
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run(
        [promtool, "check", "rules", tmp_path / "rules.yaml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_panels_have_their_own_numbers_and_places() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24  # Grafana's columns


def test_by_default_there_are_no_monitoring_objects(rendered: Rendered) -> None:
    assert not {"ServiceMonitor", "PodMonitor", "PrometheusRule"} & {each["kind"] for each in rendered.objects}
    assert rendered.config_maps == []


@pytest.mark.parametrize(
    ("name", "kind", "field"),
    [("serviceMonitor", "ServiceMonitor", "endpoints"), ("podMonitor", "PodMonitor", "podMetricsEndpoints")],
)
def test_a_monitor_selects_the_port_with_metrics_once(helm: Helm, name: str, kind: str, field: str) -> None:
    values = {"enabled": True, "labels": {"release": "monitoring"}, "interval": "1m", "scrapeTimeout": "20s"}
    rendered = helm.template({name: values})
    monitor = rendered[kind]
    assert monitor["metadata"]["labels"]["release"] == "monitoring"
    (endpoint,) = monitor["spec"][field]
    assert endpoint == {"port": "metrics", "path": "/metrics", "interval": "1m", "scrapeTimeout": "20s"}
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    if kind == "PodMonitor":
        assert selected <= rendered["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
        assert "metrics" in {port["name"] for port in rendered.container["ports"]}
    else:
        services = [service for service in rendered.of("Service") if selected <= service["metadata"]["labels"].items()]
        ports = [port["name"] for service in services for port in service["spec"]["ports"]]
        assert ports.count("metrics") == 1


@pytest.mark.parametrize(
    ("name", "kind", "field"),
    [("serviceMonitor", "ServiceMonitor", "endpoints"), ("podMonitor", "PodMonitor", "podMetricsEndpoints")],
)
def test_a_monitor_of_secure_metrics_shows_a_token_at_a_port_that_exists(
    helm: Helm, name: str, kind: str, field: str
) -> None:
    rendered = helm.template({name: {"enabled": True}, "metrics": {"secure": True}, "networkPolicy": {"enabled": True}})
    (endpoint,) = rendered[kind]["spec"][field]
    assert (endpoint["port"], endpoint["scheme"]) == ("metrics-tls", "https")
    assert endpoint["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    assert {"name": "metrics-tls", "containerPort": 8444} in rendered.container["ports"]
    assert [port["name"] for port in rendered.of("Service")[0]["spec"]["ports"]] == ["webhook", "metrics-tls"]
    allowed = [port["port"] for rule in rendered["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]]
    assert allowed == [8443, 8080, 8444]


@pytest.mark.parametrize("secure", [True, False])
def test_the_rights_to_ask_about_tokens_come_with_secure_metrics(helm: Helm, *, secure: bool) -> None:
    roles = {
        role["metadata"]["name"]: role for role in helm.template({"metrics": {"secure": secure}}).of("ClusterRole")
    }
    own = roles["tw-topology-webhook"]["rules"]
    asks = {each for rule in own for each in rule["resources"] if each in {"tokenreviews", "subjectaccessreviews"}}
    assert asks == ({"tokenreviews", "subjectaccessreviews"} if secure else set())
    reader = roles.get("tw-topology-webhook-metrics-reader")
    assert (reader and reader["rules"]) == ([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}] if secure else None)


def test_both_monitors_together_are_refused(helm: Helm) -> None:
    with pytest.raises(RefusedError, match="every metric would be counted twice"):
        helm.template({"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}})


def test_grafana_finds_the_dashboard(helm: Helm) -> None:
    values = {"enabled": True, "annotations": {"grafana_folder": "Scheduling"}}
    (rendered,) = helm.template({"dashboard": values}).config_maps
    assert rendered["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert rendered["metadata"]["annotations"] == {"grafana_folder": "Scheduling"}
    (file,) = rendered["data"]
    assert file.endswith(".json")
    assert json.loads(rendered["data"][file]) == DASHBOARD


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"serviceMonitor": {"interval": "often"}}, "at '/serviceMonitor/interval'"),
        ({"podMonitor": {"port": "metrics"}}, "additional properties 'port' not allowed"),
        ({"prometheusRule": {"labels": {"release": 1}}}, "at '/prometheusRule/labels/release'"),
        ({"dashboard": {"enabled": "yes"}}, "at '/dashboard/enabled'"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(helm: Helm, values: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedError) as raised:
        helm.template(values)
    assert message in str(raised.value)


def test_the_objects_are_off_by_default() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert [values[name]["enabled"] for name in OPTIONAL] == [False] * len(OPTIONAL)


@pytest.mark.parametrize(
    ("name", "kind", "field"),
    [("serviceMonitor", "ServiceMonitor", "endpoints"), ("podMonitor", "PodMonitor", "podMetricsEndpoints")],
)
def test_a_monitor_in_another_namespace_selects_ours_and_relabels(helm: Helm, name: str, kind: str, field: str) -> None:
    rules = {"relabelings": [{"action": "labeldrop", "regex": "pod"}], "metricRelabelings": [{"action": "keep"}]}
    monitor = helm.template({name: {"enabled": True, "namespace": "monitoring", **rules}})[kind]
    assert monitor["metadata"]["namespace"] == "monitoring"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["placement"]}
    (endpoint,) = monitor["spec"][field]
    assert {key: endpoint[key] for key in rules} == rules


def alerts_of(helm: Helm, **values: Any) -> dict[str, Any]:
    """Each alert of the PrometheusRule by its name."""
    spec = helm.template({"prometheusRule": {"enabled": True, **values}})["PrometheusRule"]["spec"]
    return {rule["alert"]: rule for group in spec["groups"] for rule in group["rules"]}


def test_every_alert_takes_a_label_and_can_be_changed_or_left_out_alone(helm: Helm) -> None:
    before = alerts_of(helm)
    assert list(before) == [rule["alert"] for group in ALERTS["groups"] for rule in group["rules"]]
    left_out, changed, *others = before
    changes = {left_out: {"enabled": False}, changed: {"for": "1h", "labels": {"severity": "info", "runbook": "x"}}}
    after = alerts_of(helm, namespace="monitoring", ruleLabels={"team": "a"}, alerts=changes)
    assert list(after) == [changed, *others]
    assert after[changed]["for"] == "1h"
    assert after[changed]["labels"] == {"severity": "info", "runbook": "x", "team": "a"}
    for name in others:
        assert after[name] == {**before[name], "labels": {**before[name]["labels"], "team": "a"}}


def test_a_threshold_is_the_number_at_the_end_of_an_expression(helm: Helm) -> None:
    changed = alerts_of(helm, alerts={"TopologyWebhookStuckPods": {"threshold": 2.5}})["TopologyWebhookStuckPods"]
    assert changed["expr"] == "topology_webhook_stuck_pods > 2.5"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"TopologyWebhookStuck": {"enabled": False}}, "prometheusRule.alerts: there is no alert TopologyWebhookStuck"),
        (
            {"TopologyWebhookNotReady": {"threshold": 1}},
            "TopologyWebhookNotReady.threshold: this alert has no threshold",
        ),
        ({"TopologyWebhookNotReady": {"enable": False}}, "additional properties 'enable' not allowed"),
    ],
)
def test_a_change_that_would_do_nothing_is_refused(helm: Helm, change: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedError) as raised:
        alerts_of(helm, alerts=change)
    assert message in str(raised.value)
