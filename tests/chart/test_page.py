"""The page is off by default, on localhost without a host name of its own, and behind the Service with one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chart.helm import Helm, RefusedError
from tests.chart.release import settings_of

if TYPE_CHECKING:
    from tests.chart.helm import Rendered

INGRESS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}


def ports(rendered: Rendered) -> tuple[set[str], set[str]]:
    """The names of the container's ports, and of the Services'."""
    services = {port["name"] for service in rendered.of("Service") for port in service["spec"]["ports"]}
    return {port["name"] for port in rendered.container["ports"]}, services


def test_by_default_there_is_no_page(rendered: Rendered, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_of(rendered, monkeypatch).page is False
    assert ports(rendered) == ({"webhook", "metrics"}, {"webhook", "metrics"})


def test_an_enabled_page_is_reached_by_port_forward_only(helm: Helm, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"page": {"enabled": True}, "ports": {"page": 9090}, "networkPolicy": {"enabled": True}}
    rendered = helm.template(values)
    settings = settings_of(rendered, monkeypatch)
    assert (settings.page, settings.page_bind_address, settings.page_port, settings.page_hosts) == (
        True, "127.0.0.1", 9090, (),
    )  # fmt: skip
    assert ports(rendered) == ({"webhook", "metrics", "page"}, {"webhook", "metrics"})
    allowed = [port["port"] for rule in rendered["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]]
    assert allowed == [8443, 8080]


def test_with_a_host_name_it_listens_for_the_ingress(helm: Helm, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = helm.template(
        {
            "page": {"enabled": True, "hosts": ["topology.example.com", "b.example.com"]},
            "networkPolicy": {"enabled": True, "pageFrom": [INGRESS]},
        }
    )
    settings = settings_of(rendered, monkeypatch)
    assert (settings.page_bind_address, settings.page_hosts) == ("::", ("topology.example.com", "b.example.com"))
    assert ports(rendered)[1] == {"webhook", "metrics", "page"}
    rule = {"from": [INGRESS], "ports": [{"port": 8090, "protocol": "TCP"}]}
    assert rule in rendered["NetworkPolicy"]["spec"]["ingress"]


@pytest.mark.parametrize("host", ["https://a.example.com", "a.example.com:80", "a,b", ""])
def test_a_host_is_a_name_without_scheme_and_port(helm: Helm, host: str) -> None:
    with pytest.raises(RefusedError, match="hosts"):
        helm.template({"page": {"enabled": True, "hosts": [host]}})
