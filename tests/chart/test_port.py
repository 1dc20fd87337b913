"""Who may call the webhook, by the chart's values: client certificates and the network."""

from typing import Any

import pytest

from tests.chart.helm import Helm, RefusedError, Rendered
from tests.chart.release import settings_of
from tests.cluster.control_plane import ControlPlane

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
API_SERVER = {"ipBlock": {"cidr": "10.0.0.10/32"}}
PEERS = {"port": 8445, "protocol": "TCP"}


def volume(rendered: Rendered) -> Any:
    (found,) = (
        each for each in rendered["Deployment"]["spec"]["template"]["spec"]["volumes"] if each["name"] == "client-ca"
    )
    return found


def test_without_a_ca_no_client_is_asked(rendered: Rendered, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_of(rendered, monkeypatch).client_ca_file is None
    assert [each["name"] for each in rendered.volumes] == ["config"]
    assert rendered.config_maps == rendered.of("NetworkPolicy") == []


@pytest.mark.parametrize("mode", ["SelfManaged", "CertManager"])
@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({"pem": PEM}, ("configMap", "name", "tw-topology-webhook-client-ca")),
        ({"existingSecret": "s", "key": "tls.crt"}, ("secret", "secretName", "s")),
        ({"existingConfigMap": "c"}, ("configMap", "name", "c")),
    ],
)
def test_the_ca_is_mounted_and_read_from_where_it_is(
    helm: Helm, monkeypatch: pytest.MonkeyPatch, mode: str, given: dict[str, str], source: tuple[str, str, str]
) -> None:
    rendered = helm.template({"tls": {"mode": mode, "clientCA": given, "clientNames": ["front-proxy-client"]}})
    settings = settings_of(rendered, monkeypatch)
    assert settings.client_names == ("front-proxy-client",)
    (mount,) = (each for each in rendered.container["volumeMounts"] if each["name"] == "client-ca")
    kind, field, name = source
    shown = volume(rendered)[kind]
    (item,) = shown["items"]
    assert (shown[field], item["key"]) == (name, given.get("key", "ca.crt"))
    assert str(settings.client_ca_file) == f"{mount['mountPath']}/{item['path']}"
    if "pem" in given:
        (config_map,) = rendered.config_maps
        assert config_map["metadata"]["name"] == name
        assert config_map["data"]["ca.crt"].strip() == PEM.strip()
    else:
        assert rendered.config_maps == []


def test_a_network_policy_lets_in_api_servers_and_scrapers_each_at_its_port(helm: Helm) -> None:
    scraper = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    values = {"enabled": True, "webhookFrom": [API_SERVER], "metricsFrom": [scraper]}
    rendered = helm.template({"networkPolicy": values, "ports": {"webhook": 9443}})
    spec = rendered["NetworkPolicy"]["spec"]
    assert spec["podSelector"]["matchLabels"] == rendered["Deployment"]["spec"]["selector"]["matchLabels"]
    assert spec["ingress"] == [
        {"from": [API_SERVER], "ports": [{"port": 9443, "protocol": "TCP"}]},
        {"from": [{"podSelector": spec["podSelector"]}], "ports": [PEERS]},
        {"from": [scraper], "ports": [{"port": 8080, "protocol": "TCP"}]},
    ]


def test_the_default_network_policy_allows_both_ports_from_everywhere_and_dns_and_the_api_server(helm: Helm) -> None:
    spec = helm.template({"networkPolicy": {"enabled": True}})["NetworkPolicy"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    reviews, _, metrics = spec["ingress"]
    assert [reviews, metrics] == [{"ports": [{"port": port, "protocol": "TCP"}]} for port in (8443, 8080)]
    dns = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    api_server = {"ports": [{"port": port, "protocol": "TCP"} for port in (443, 6443)]}
    replicas = {"to": [{"podSelector": spec["podSelector"]}], "ports": [PEERS]}
    assert spec["egress"] == [{"ports": dns}, replicas, api_server]


def test_a_network_policy_limits_calls_of_the_pods_to_the_api_servers_that_are_listed(helm: Helm) -> None:
    values = {"enabled": True, "apiServerTo": [API_SERVER], "apiServerPorts": [16443]}
    *_, api_server = helm.template({"networkPolicy": values})["NetworkPolicy"]["spec"]["egress"]
    assert api_server == {"ports": [{"port": 16443, "protocol": "TCP"}], "to": [API_SERVER]}


def test_the_api_server_accepts_the_network_policy(helm: Helm, control_plane: ControlPlane, namespace: str) -> None:
    values = {"enabled": True, "webhookFrom": [API_SERVER], "apiServerTo": [API_SERVER]}
    policy = helm.template({"networkPolicy": values}, namespace=namespace)["NetworkPolicy"]
    path = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
    assert control_plane.api.create(f"{path}?dryRun=All&fieldValidation=Strict", policy)["spec"] == policy["spec"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"tls": {"clientCA": {"pem": PEM, "existingSecret": "s"}}},
            "give one of pem, existingSecret",
        ),
        ({"tls": {"clientCA": {"pem": "ca.crt"}}}, "at '/tls/clientCA/pem'"),
        ({"tls": {"clientNames": ["x"]}}, "tls.clientNames is set, which needs tls.clientCA"),
        ({"networkPolicy": {"apiServerPorts": []}}, "at '/networkPolicy/apiServerPorts'"),
        ({"networkPolicy": {"enabled": True, "webhookFrom": [{}]}}, "at '/networkPolicy/webhookFrom/0'"),
        ({"networkPolicy": {"enabled": True, "webhookFrom": [{"cidr": "10.0.0.10/32"}]}}, "'cidr' not allowed"),
        ({"networkPolicy": {"enabled": True, "webhookFrom": [API_SERVER]}, "hostNetwork": True}, "exclude each other"),
    ],
)
def test_what_cannot_be_meant_is_refused(helm: Helm, values: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedError) as raised:
        helm.template(values)
    assert message in str(raised.value)
