from ipaddress import ip_address

import pytest

from certs import Authority, CertificateError, ServerNames
from tests.unit.certs.conftest import NOW


def test_a_service_is_named_as_the_api_server_dials_it_first() -> None:
    names = ServerNames.of_service("webhook", "team-a")
    assert names.dns == ("webhook.team-a.svc", "webhook.team-a.svc.cluster.local", "webhook.team-a", "webhook")
    assert names.ips == ()


def test_extra_names_are_sorted_into_addresses_and_dns_names_without_repetition() -> None:
    names = ServerNames.of(("LOCALHOST", "127.0.0.1", "::1", "localhost.", "0:0:0:0:0:0:0:1", "*.example.org"))
    assert names.dns == ("localhost", "*.example.org")
    assert names.ips == (ip_address("127.0.0.1"), ip_address("::1"))


@pytest.mark.parametrize(
    "name", ["", "https://example.org", "a b", "-a", "a..b", "*", "a.*.b", "10.0.0.7:8443", "x" * 64]
)
def test_what_is_no_name_is_refused_by_name(name: str) -> None:
    with pytest.raises(CertificateError, match="neither a DNS name nor an IP address") as raised:
        ServerNames.of((name,))
    assert repr(name) in str(raised.value)


def test_a_wildcard_covers_one_label_and_not_its_parent(authority: Authority) -> None:
    certificate = authority.issue(ServerNames.of(("*.svc.example",)), NOW).certificate
    wanted = ServerNames.of(("a.svc.example", "a.b.svc.example", "svc.example"))
    assert wanted.missing_from(certificate) == ("a.b.svc.example", "svc.example")
