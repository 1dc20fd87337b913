"""cert-manager itself issues the certificate and writes caBundle; both are renewed while every request must pass."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tests.cluster.api import ApiError
from tests.cluster.cert_manager import API, CertManager, cert_manager, is_ready
from tests.cluster.nodes import Machine, present
from tests.cluster.webhook_process import NAMESPACE, RELEASE, LocalWebhook, Replica, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.cert_manager_build import CertManagerFiles
    from tests.cluster.control_plane import ControlPlane

CONFIGURATIONS = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{RELEASE}"
    for kind in ("mutating", "validating")
]
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
LEAF, CA = f"{RELEASE}-tls", f"{RELEASE}-root-ca"
SPEC = "scheduling.koordinator.sh/numa-topology-spec"
PLACEMENT = "topology-webhook.dev/placement"
FAILED_HANDSHAKES = 'topology_webhook_connections_closed_total{port="reviews",reason="handshake"}'
# Every webhook must answer, or what it reviews is refused.
VALUES: dict[str, Any] = {
    "tls": {"mode": "CertManager"},
    "webhook": {"failurePolicy": "Fail", "bindFailurePolicy": "Fail"},
    "settings": {"gate": "Never", "schedulerUsers": ["system:kube-scheduler", "admin"]},
}


@pytest.fixture(scope="module")
def manager(control_plane: ControlPlane, cert_manager_files: CertManagerFiles) -> Iterator[CertManager]:
    with cert_manager(control_plane, cert_manager_files) as running:
        yield running


@pytest.fixture(scope="module")
def webhook(control_plane: ControlPlane, manager: CertManager) -> Iterator[LocalWebhook]:
    del manager  # it runs
    try:
        with (
            present(control_plane.api, [Machine("n0", free=(16, 16))]),
            local_webhook(control_plane, replicas=2, values=VALUES) as running,
        ):
            assert running.wait_until_called()
            yield running
    finally:
        for name in (LEAF, CA):
            with contextlib.suppress(ApiError):  # the chart did not get that far
                control_plane.api.delete(f"{SECRETS}/{name}")


def pod(name: str) -> dict[str, Any]:
    resources = {"limits": {"cpu": "4", "memory": "1Gi"}}
    return {
        "metadata": {"name": name, "annotations": {SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}},
        # Only the test binds it: the scheduler finds no node for it.
        "spec": {
            "nodeSelector": {"never": "there"},
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        },
    }


class Load:
    """Dry runs of one request each that the three webhooks with a failure policy review, repeated side by side."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._ended = threading.Event()
        self._calls = [self._create, self._change, self._bind]
        self.done = [0] * len(self._calls)
        plane.api.create(self._pods, pod("a"))

    def _create(self) -> None:
        created = self._plane.api.create(f"{self._pods}?dryRun=All", pod("b"))
        assert PLACEMENT in created["metadata"]["annotations"]

    def _change(self) -> None:
        with pytest.raises(ApiError, match=r'"validate\.pods\.topology-webhook\.dev" denied the request'):
            self._plane.api.patch(f"{self._pods}/a?dryRun=All", {"metadata": {"annotations": {SPEC: "not JSON"}}})

    def _bind(self) -> None:
        binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n0"}}
        self._plane.api.create(f"{self._pods}/a/binding?dryRun=All", binding)

    @contextlib.contextmanager
    def running(self) -> Iterator[Callable[[], None]]:
        """Repeat the calls; what is returned waits until each was made several times more. Raises what one raised."""

        def repeat(worker: int) -> None:
            while not self._ended.is_set():
                self._calls[worker]()
                self.done[worker] += 1

        with ThreadPoolExecutor(len(self._calls)) as workers:
            working = [workers.submit(repeat, worker) for worker in range(len(self._calls))]

            def more() -> None:
                wanted = [each + 20 for each in self.done]
                self._plane.wait_for(
                    "more requests",
                    lambda: (
                        any(future.done() for future in working)
                        or all(done >= each for done, each in zip(self.done, wanted, strict=True))
                    ),
                )

            try:
                more()
                yield more
                more()
            finally:
                self._ended.set()
            for future in working:
                future.result()


def bundle(plane: ControlPlane) -> str:
    """The caBundle of every webhook, once they are the same, as base64."""

    def same() -> str | None:
        found = {
            each["clientConfig"].get("caBundle") for path in CONFIGURATIONS for each in plane.api.get(path)["webhooks"]
        }
        return found.pop() if len(found) == 1 else None

    return str(plane.wait_for("one caBundle", same))


def data(plane: ControlPlane, secret: str, entry: str) -> bytes:
    return base64.b64decode(plane.api.get(f"{SECRETS}/{secret}")["data"][entry])


def trusted_leaf(plane: ControlPlane, replica: Replica) -> bytes:
    """The PEM text of the leaf that a new handshake shows. Raises SSLError if caBundle does not trust it."""
    context = ssl.create_default_context(cadata=base64.b64decode(bundle(plane)).decode())
    context.load_cert_chain(*plane.webhook_client.pair)
    with (
        socket.create_connection(("127.0.0.1", replica.backend.port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        shown = connection.getpeercert(binary_form=True)
    assert shown
    return x509.load_der_x509_certificate(shown).public_bytes(Encoding.PEM)


def renew_leaf(plane: ControlPlane, manager: CertManager, webhook: LocalWebhook, more: Callable[[], None]) -> None:
    """Renew the serving certificate. Each step is as long as its requests take: a kubelet may need a minute for it."""
    before = data(plane, LEAF, "tls.crt")
    manager.renew(NAMESPACE, LEAF)
    after = data(plane, LEAF, "tls.crt")
    assert after != before
    if manager.runs("cainjector"):
        wait_for_the_cainjector(plane)
    for replica in webhook.replicas:
        assert before.startswith(trusted_leaf(plane, replica))
    more()
    for replica in webhook.replicas:
        for volume in replica.volumes.values():
            volume.update()

        def shows_it(replica: Replica = replica) -> bool:
            return after.startswith(trusted_leaf(plane, replica))

        plane.wait_for(f"{replica.name} to show the renewed certificate", shows_it)
        more()


def wait_for_the_cainjector(plane: ControlPlane) -> None:
    plane.wait_for("the cainjector", lambda: data(plane, LEAF, "ca.crt").strip() in base64.b64decode(bundle(plane)))


def replace_ca(plane: ControlPlane) -> None:
    """Have another CA with another key issued, as after a leak."""
    path = f"{SECRETS}/{CA}"
    plane.api.delete(path)
    plane.wait_for("another CA", lambda: CA in {each["metadata"]["name"] for each in plane.api.get(SECRETS)["items"]})
    plane.wait_for("its issuer", lambda: is_ready(plane.api.get(f"{API}/{NAMESPACE}/issuers/{CA}")["status"]))


def failed_handshakes(webhook: LocalWebhook) -> float:
    return sum(replica.metrics().get(FAILED_HANDSHAKES, 0) for replica in webhook.replicas)


def test_the_certificate_is_issued_and_its_ca_is_in_every_webhook(
    control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    certificates = control_plane.api.get(f"{API}/{NAMESPACE}/certificates")["items"]
    assert {each["metadata"]["name"] for each in certificates} == {LEAF, CA}
    assert all(is_ready(each["status"]) for each in certificates)
    assert base64.b64decode(bundle(control_plane)) == data(control_plane, CA, "tls.crt")
    for replica in webhook.replicas:
        assert data(control_plane, LEAF, "tls.crt").startswith(trusted_leaf(control_plane, replica))


def test_a_renewed_certificate_costs_no_request(
    control_plane: ControlPlane, manager: CertManager, webhook: LocalWebhook, namespace: str
) -> None:
    before = bundle(control_plane)
    with Load(control_plane, namespace).running() as more:
        renew_leaf(control_plane, manager, webhook, more)
    assert bundle(control_plane) == before
    assert failed_handshakes(webhook) == 0


@pytest.mark.parametrize("cainjector", [pytest.param("replaces caBundle", marks=pytest.mark.long), "does not run"])
def test_a_renewed_ca_costs_no_request(
    control_plane: ControlPlane, manager: CertManager, webhook: LocalWebhook, namespace: str, cainjector: str
) -> None:
    """Not with a cainjector that replaces the old CA, as before cert-manager 1.19, nor with one that is late."""
    manager.stop("cainjector")
    if cainjector == "replaces caBundle":
        manager.start("cainjector", "--feature-gates=CAInjectorMerging=false")
    before = data(control_plane, LEAF, "ca.crt")
    with Load(control_plane, namespace).running() as more:
        manager.renew(NAMESPACE, CA)
        more()
        renew_leaf(control_plane, manager, webhook, more)
        if manager.runs("cainjector"):
            manager.stop("cainjector")
        manager.start("cainjector")
        wait_for_the_cainjector(control_plane)
    assert data(control_plane, LEAF, "ca.crt") == data(control_plane, CA, "tls.crt") != before
    assert failed_handshakes(webhook) == 0


def test_a_ca_with_another_key_costs_no_request(
    control_plane: ControlPlane, manager: CertManager, webhook: LocalWebhook, namespace: str
) -> None:
    """The cainjector adds it to caBundle, and it does so before a kubelet updates the files."""
    before = bundle(control_plane)
    with Load(control_plane, namespace).running() as more:
        replace_ca(control_plane)
        more()
        renew_leaf(control_plane, manager, webhook, more)
    assert base64.b64decode(bundle(control_plane)).startswith(base64.b64decode(before))
    assert bundle(control_plane) != before
    assert failed_handshakes(webhook) == 0


def test_an_upgrade_of_the_chart_leaves_ca_bundle_alone(
    control_plane: ControlPlane, webhook: LocalWebhook, namespace: str
) -> None:
    before = bundle(control_plane)
    with Load(control_plane, namespace).running():
        webhook.upgrade({**VALUES, "webhook": {**VALUES["webhook"], "timeoutSeconds": 7}})
        found = control_plane.api.get(CONFIGURATIONS[0])["webhooks"][0]
        assert (found["timeoutSeconds"], found["clientConfig"]["caBundle"]) == (7, before)
    assert failed_handshakes(webhook) == 0
