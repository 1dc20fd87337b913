"""The chart's `metrics.secure`: who reads the metrics of a replica, by the API server's own answers."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.cluster.webhook_process import NAMESPACE, LocalWebhook, Replica, local_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

ROLE = "topology-webhook-metrics-reader"


@pytest.fixture(scope="module")
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    with local_webhook(control_plane, values={"metrics": {"secure": True}}) as webhook:
        yield webhook


@pytest.fixture(scope="module")
def replica(webhook: LocalWebhook) -> Replica:
    (replica,) = webhook.replicas
    return replica


def read(url: str, token: str | None = None) -> tuple[int, str]:
    """Status and text. Prometheus does not verify the certificate either."""
    request = urllib.request.Request(url, headers={} if token is None else {"Authorization": f"Bearer {token}"})  # noqa: S310 - our own
    context = ssl._create_unverified_context() if url.startswith("https") else None  # noqa: S323
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:  # noqa: S310 - our own
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_only_a_client_with_the_right_reads_the_metrics(control_plane: ControlPlane, replica: Replica) -> None:
    for account in ("prometheus", "other"):
        control_plane.kubectl("-n", NAMESPACE, "create", "serviceaccount", account)
    control_plane.kubectl(
        *("create", "clusterrolebinding", "prometheus-reads", f"--clusterrole={ROLE}"),
        f"--serviceaccount={NAMESPACE}:prometheus",
    )
    tokens = {
        account: control_plane.kubectl("-n", NAMESPACE, "create", "token", account).strip()
        for account in ("prometheus", "other")
    }
    url = replica.secure_metrics_url
    status, text = read(url, tokens["prometheus"])
    assert status == 200
    assert "topology_webhook_ready 1.0" in text
    assert [read(url, token) for token in (tokens["other"], "forged", None)] == [(403, ""), (401, ""), (401, "")]


def test_the_plain_port_keeps_the_probes_alone(replica: Replica) -> None:
    assert read(f"{replica.metrics_url}/readyz")[0] == 200
    assert read(f"{replica.metrics_url}/metrics")[0] == 404
