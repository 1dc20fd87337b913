"""The real API server shows its client certificate. Other clients get no answer."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from certs import Authority
from tests.client_certificates import client_leaf
from tests.cluster.direct import ask, binding_review
from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import Machine
from tests.cluster.pki import KeyPair, WebhookClient
from tests.cluster.webhook_process import LocalWebhook, local_webhook
from tests.leaf_files import write_leaf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

HANDSHAKES = 'topology_webhook_connections_closed_total{port="reviews",reason="handshake"}'


@pytest.fixture(scope="module")
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    """Two replicas with failurePolicy Fail, so that an unanswered call shows."""
    values = {"webhook": {"failurePolicy": "Fail", "bindFailurePolicy": "Fail"}}
    with local_webhook(control_plane, replicas=2, values=values) as running:
        assert running.wait_until_called()
        yield running


def shown_by(folder: Path, common_name: str) -> tuple[Authority, KeyPair]:
    """Another CA, and a certificate that it issued."""
    authority = Authority.create("another", datetime.now(UTC))
    pair = KeyPair(folder / "client.crt", folder / "client.key")
    write_leaf(client_leaf(authority, common_name), *pair)
    return authority, pair


def test_pods_are_placed_and_bound_by_an_api_server_that_shows_its_certificate(
    webhook: LocalWebhook, known: Callable[..., None], pods: Pods
) -> None:
    known(Machine("n0", free=(8, 8)))
    for name in ("a", "b"):
        pods.create(pod(name))
    pods.wait_until_bound("a", "b")
    assert {tuple(pods.allocation(name)[1]) for name in ("a", "b")} == {(0,), (1,)}
    assert all(replica.metrics().get(HANDSHAKES, 0) == 0 for replica in webhook.replicas)


def test_who_shows_none_or_another_one_gets_no_further_than_the_handshake(
    webhook: LocalWebhook, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    review = binding_review(namespace, "a", "n0", dry_run=True)
    _, other = shown_by(tmp_path, WebhookClient.NAME)
    replica = webhook.replicas[0]
    for client in (None, other):
        with pytest.raises(OSError, match=r"(?i)alert|reset|closed|EOF|remote end"):
            ask(replica.backend.port, "/mutate/bindings", review, client)
    control_plane.wait_for("both to be counted", lambda: replica.metrics().get(HANDSHAKES, 0) == 2)
    assert replica.is_ready()


def test_a_ca_that_changes_is_trusted_and_distrusted_without_a_restart(
    webhook: LocalWebhook, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    review = binding_review(namespace, "a", "n0", dry_run=True)
    authority, other = shown_by(tmp_path, WebhookClient.NAME)
    replica = webhook.replicas[1]
    before = replica.client_ca.read_bytes()

    def is_answered() -> bool:
        try:
            return bool(ask(replica.backend.port, "/mutate/bindings", review, other))
        except (OSError, ssl.SSLError):
            return False

    assert not is_answered()
    replica.client_ca.write_bytes(before + authority.certificate_pem)
    control_plane.wait_for("the second CA to be trusted", is_answered)
    assert ask(replica.backend.port, "/mutate/bindings", review, control_plane.webhook_client.pair)
    replica.client_ca.write_bytes(before)
    control_plane.wait_for("it to be trusted no more", lambda: not is_answered())
