import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from certs import Authority, CABundle, CertificateError, Leaf, ServerNames, server_context
from tests import client_certificates
from tests.client_certificates import client_leaf

# OpenSSL has no clock to pass: what a handshake verifies must be valid now.
NAMES = ServerNames.of_service("webhook", "team-a", extra=("127.0.0.1",))


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority.create("webhook", datetime.now(UTC))


@pytest.fixture(scope="module")
def leaf(ca: Authority) -> Leaf:
    return ca.issue(NAMES, datetime.now(UTC))


@pytest.mark.parametrize("name", ["webhook.team-a.svc", "webhook.team-a.svc.cluster.local", "127.0.0.1"])
def test_a_strict_client_that_trusts_the_ca_completes_a_handshake(ca: Authority, leaf: Leaf, name: str) -> None:
    assert handshake(server_context(leaf), client_context(ca), name) == "TLSv1.3"


def test_a_client_that_dials_another_name_is_turned_away(ca: Authority, leaf: Leaf) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(server_context(leaf), client_context(ca), "elsewhere.team-a.svc")


def test_tls_1_2_is_spoken_and_nothing_older(ca: Authority, leaf: Leaf) -> None:
    server, client = server_context(leaf), client_context(ca)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert handshake(server, client, "webhook.team-a.svc") == "TLSv1.2"
    assert server.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_mixed_pair_is_refused_before_it_is_served(ca: Authority, leaf: Leaf) -> None:
    other = ca.issue(NAMES, datetime.now(UTC))
    with pytest.raises(CertificateError, match="OpenSSL does not accept"):
        server_context(replace(leaf, key=other.key))


@pytest.fixture(scope="module")
def clients() -> Authority:
    return Authority.create("clients", datetime.now(UTC))


def test_a_client_with_a_certificate_of_the_client_ca_completes_a_handshake(
    ca: Authority, leaf: Leaf, clients: Authority
) -> None:
    server = server_context(leaf, CABundle.of([clients.certificate]))
    shows = client_certificates.client_context(ca, client_leaf(clients, "kube-apiserver"))
    assert handshake(server, shows, "webhook.team-a.svc") == "TLSv1.3"


@pytest.mark.parametrize("shown", ["nothing", "of another CA", "a server's", "expired"])
def test_a_client_without_a_certificate_of_the_client_ca_fails_its_handshake(
    ca: Authority, leaf: Leaf, clients: Authority, shown: str
) -> None:
    server = server_context(leaf, CABundle.of([clients.certificate]))
    certificate = {
        "nothing": None,
        "of another CA": client_leaf(ca, "kube-apiserver"),
        "a server's": clients.issue(NAMES, datetime.now(UTC)),
        "expired": client_leaf(clients, "kube-apiserver", lifetime=timedelta(minutes=-1)),
    }[shown]
    with pytest.raises(ssl.SSLError, match=r"PEER_DID_NOT_RETURN_A_CERTIFICATE|CERTIFICATE_VERIFY_FAILED"):
        handshake(server, client_certificates.client_context(ca, certificate), "webhook.team-a.svc")


def test_no_session_of_a_client_outlives_its_ca(ca: Authority, leaf: Leaf, clients: Authority) -> None:
    server = server_context(leaf, CABundle.of([clients.certificate]))
    assert (server.minimum_version, server.num_tickets) == (ssl.TLSVersion.TLSv1_3, 0)


def client_context(ca: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca.certificate_pem.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def handshake(server_side: ssl.SSLContext, client_side: ssl.SSLContext, name: str) -> str | None:
    """A TLS handshake in memory; the version agreed upon."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server, server_hostname=name)
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    # Each turn hands one flight over; TLS 1.2, the longest, takes two and a half round trips.
    for end in (client, server) * 3:
        try:
            end.do_handshake()
            done.add(end)
        except ssl.SSLWantReadError:
            continue
    assert done == {client, server}
    return client.version()
