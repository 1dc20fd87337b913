"""`serve` as the chart runs it, two replicas behind a Service, called by a real API server."""

from __future__ import annotations

import base64
import json
import operator
import os
import signal
import socket
import ssl
import threading
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from certs import Authority
from tests.cluster.api import ApiError
from tests.cluster.nodes import Machine, present
from tests.cluster.webhook_process import NAMESPACE, RELEASE, LocalWebhook, Replica, local_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

MUTATING = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{RELEASE}"
VALIDATING = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{RELEASE}"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/{RELEASE}-ca"
SPEC = "scheduling.koordinator.sh/numa-topology-spec"
PLACEMENT = "topology-webhook.dev/placement"

#  free cpus per NUMA node of 16
#  roomy [9 9]   split [3 3]


@pytest.fixture(scope="module")
def webhook(control_plane: ControlPlane) -> Iterator[LocalWebhook]:
    """Two replicas that must answer: failurePolicy Fail turns every lost review into a refused pod.

    Pods that fit are not gated, so that what is written into them at their creation shows.
    """
    values = {"webhook": {"failurePolicy": "Fail"}, "settings": {"gate": "WhenNeeded", "noCapacity": "Deny"}}
    machines = [Machine("roomy", free=(9, 9)), Machine("split", free=(3, 3))]
    with (
        present(control_plane.api, machines),
        local_webhook(control_plane, replicas=2, values=values) as running,
    ):
        assert running.wait_until_called()
        yield running


def observed(replica: Replica, path: str) -> str:
    with urllib.request.urlopen(f"{replica.metrics_url}/{path}", timeout=5) as answer:  # noqa: S310 - our own http URL
        return str(answer.read().decode())


def logged(replica: Replica) -> list[dict[str, Any]]:
    return [json.loads(line) for line in replica.process.log.read_text().splitlines()]


def pod(name: str, annotation: str = '{"numaTopologyPolicy": "SingleNUMANode"}') -> dict[str, Any]:
    resources = {"limits": {"cpu": "4", "memory": "1Gi"}}
    return {
        "metadata": {"name": name, "annotations": {SPEC: annotation}},
        "spec": {"containers": [{"name": "main", "image": "none", "resources": resources}]},
    }


def create(plane: ControlPlane, namespace: str, document: dict[str, Any], query: str = "?dryRun=All") -> dict[str, Any]:
    created: dict[str, Any] = plane.api.create(f"/api/v1/namespaces/{namespace}/pods{query}", document)
    return created


def test_every_part_of_readiness_is_told(webhook: LocalWebhook) -> None:
    for replica in webhook.replicas:
        told = json.loads(observed(replica, "readyz?verbose"))
        assert told["ready"]
        # KAI's PodGroups are watched as well where another test has installed their kind.
        assert {check["name"] for check in told["checks"]} - {"informer podgroups.scheduling.run.ai"} == {
            "informer poddisruptionbudgets.policy",
            "informer podgroups.scheduling.k8s.io",
            "serving",
            "informer namespaces",
            "informer nodes",
            "informer pods",
            "informer failed-pods",
            "informer noderesourcetopologies.topology.node.k8s.io",
            "informer topologies.kai.scheduler",
            "informer topologies.kueue.x-k8s.io",
            "informer deviceclasses.resource.k8s.io",
            "informer devicetaintrules.resource.k8s.io",
            "informer resourceclaims.resource.k8s.io",
            "informer resourceclaimtemplates.resource.k8s.io",
            "informer resourceslices.resource.k8s.io",
            "snapshot",
            "certificate",
            "identity",
            "reviews",
            "caBundle",
            "leadership",
            "hint key",
        }


def test_a_pod_is_mutated_and_the_decision_is_logged_and_counted(
    control_plane: ControlPlane, webhook: LocalWebhook, namespace: str
) -> None:
    created = create(control_plane, namespace, pod("steered"), query="")
    required = created["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["roomy"]}]
    lines = [line for replica in webhook.replicas for line in logged(replica)]
    mutations = [line for line in lines if line["event"] == "review" and line["webhook"] == "mutate-pods"]
    (line,) = [line for line in mutations if line["object"] == f"{namespace}/steered"]
    assert (line["verdict"], line["fit"], line["excluded"]) == ("allow", 1, {"NoSingleNUMANode": 1})
    *said, affinity = created["metadata"]["annotations"][PLACEMENT].splitlines()
    assert line["message"] == "; ".join(said)
    assert affinity == "node affinity added: required: roomy"
    assert line["milliseconds"] > 0
    counted = 'topology_webhook_reviews_total{operation="CREATE",verdict="allow",webhook="mutate-pods"}'
    assert any(counted in observed(replica, "metrics") for replica in webhook.replicas)


@pytest.mark.usefixtures("webhook")
def test_a_mistake_is_refused_with_403_and_our_words(control_plane: ControlPlane, namespace: str) -> None:
    with pytest.raises(ApiError) as refused:
        create(control_plane, namespace, pod("wrong", '{"numaTopologyPolicy": "SingleNumaNode"}'))
    assert refused.value.status == 403
    assert "SingleNUMANode" in refused.value.message


@pytest.mark.usefixtures("webhook")
def test_a_pod_for_which_there_is_no_room_now_is_refused_where_the_operator_says_so(
    control_plane: ControlPlane, namespace: str
) -> None:
    large = pod("large")
    large["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "10"
    with pytest.raises(
        ApiError, match="none of 2 nodes fits now; 2 nodes could take it once other pods leave"
    ) as refused:
        create(control_plane, namespace, large)
    assert refused.value.status == 403


@pytest.mark.usefixtures("webhook")
def test_a_node_that_comes_is_used_without_a_restart(control_plane: ControlPlane, namespace: str) -> None:
    def decided() -> str:
        text: str = create(control_plane, namespace, pod("p"))["metadata"]["annotations"][PLACEMENT]
        return text

    with present(control_plane.api, [Machine("newcomer", free=(16, 16))]):
        control_plane.wait_for("the new node in a decision", lambda: "2 of 3 nodes fit" in decided())


def test_replicas_that_start_together_share_one_ca_and_show_certificates_of_their_own(
    control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    authority = base64.b64decode(control_plane.api.get(SECRET)["data"]["ca.crt"]).decode()
    context = ssl.create_default_context(cadata=authority)
    shown = set()
    for replica in webhook.replicas:
        with (
            socket.create_connection(("127.0.0.1", replica.backend.port)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            shown.add(connection.getpeercert(binary_form=True))
    assert len(shown) == 2


@pytest.mark.usefixtures("webhook")
@pytest.mark.parametrize("path", [MUTATING, VALIDATING])
def test_a_ca_bundle_that_somebody_drops_is_put_back_and_nothing_else_is_touched(
    control_plane: ControlPlane, path: str
) -> None:
    before = control_plane.api.get(path)
    bundle = before["webhooks"][0]["clientConfig"]["caBundle"]
    assert bundle == control_plane.api.get(SECRET)["data"]["ca.crt"]
    del before["webhooks"][0]["clientConfig"]["caBundle"]
    before["webhooks"][0]["timeoutSeconds"] = 3  # as an upgrade may change something at the same time
    written = control_plane.api.replace(path, before)
    assert "caBundle" not in written["webhooks"][0]["clientConfig"]

    def mended() -> dict[str, Any] | None:
        now: dict[str, Any] = control_plane.api.get(path)
        return now if "caBundle" in now["webhooks"][0]["clientConfig"] else None

    after = control_plane.wait_for("the caBundle", mended)
    assert after["webhooks"][0]["clientConfig"].pop("caBundle") == bundle
    assert after["webhooks"] == written["webhooks"]


@pytest.mark.usefixtures("webhook")
@pytest.mark.parametrize("what", ["garbage", "another CA's bundle", "deleted"])
def test_a_spoilt_ca_secret_is_put_back_and_reviews_are_answered_all_the_time(
    control_plane: ControlPlane, namespace: str, what: str
) -> None:
    before = control_plane.api.get(SECRET)["data"]
    if what == "deleted":
        control_plane.api.delete(SECRET)
    elif what == "garbage":
        spoilt = base64.b64encode(bytes(range(256))).decode()
        control_plane.api.patch(SECRET, {"data": {"ca.crt": spoilt, "ca.key": spoilt, "more": spoilt}})
    else:
        foreign = Authority.create("foreign", datetime.now(UTC)).to_secret_data()["ca.crt"]
        configuration = control_plane.api.get(MUTATING)
        configuration["webhooks"][0]["clientConfig"]["caBundle"] = foreign
        control_plane.api.replace(MUTATING, configuration)

    def put_back() -> bool:
        if what != "another CA's bundle":
            # No caBundle and no leaf has to change for it.
            assert PLACEMENT in create(control_plane, namespace, pod("p"))["metadata"]["annotations"]
        found = control_plane.api.get(SECRET)["data"] if exists(control_plane, SECRET) else None
        bundle = control_plane.api.get(MUTATING)["webhooks"][0]["clientConfig"]["caBundle"]
        return (found, bundle) == (before, before["ca.crt"])

    control_plane.wait_for("the CA to be put back", put_back)


def exists(control_plane: ControlPlane, path: str) -> bool:
    try:
        control_plane.api.get(path)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


# NB: the last two end a replica each, and start it again.
def test_not_one_review_is_lost_while_a_replica_drains(
    control_plane: ControlPlane, webhook: LocalWebhook, namespace: str
) -> None:
    ended = threading.Event()
    created = [0] * 4

    def create_until_ended(worker: int) -> None:
        while not ended.is_set():
            answer = create(control_plane, namespace, pod(f"w{worker}"))
            assert PLACEMENT in answer["metadata"]["annotations"]
            created[worker] += 1

    def each_creates_one_more(working: list[Future[None]]) -> None:
        before = list(created)
        control_plane.wait_for(
            "a review of each worker",
            lambda: all(map(operator.gt, created, before)) or any(future.done() for future in working),
        )

    leaving = webhook.replicas[0]
    with ThreadPoolExecutor(4) as workers:
        working = [workers.submit(create_until_ended, worker) for worker in range(4)]
        try:
            each_creates_one_more(working)
            leaving.process.send_signal(signal.SIGTERM)
            exit_code = leaving.process.wait(30)
            each_creates_one_more(working)
        finally:
            ended.set()
        for future in working:
            future.result()
    assert exit_code == 0
    events = [line["event"] for line in logged(leaving)]
    assert events[-1] == "serve.ended"
    assert events.index("drain.begun") < events.index("drain.done")
    leaving.start_again()


def test_a_replica_compares_its_state_with_fresh_lists_on_a_signal(
    control_plane: ControlPlane, webhook: LocalWebhook
) -> None:
    asked = webhook.replicas[0]
    os.kill(asked.process.pid, signal.SIGUSR2)
    control_plane.wait_for("the comparison", lambda: "state.compared" in asked.process.tail())
    lines = {line["event"]: line for line in logged(asked)}
    assert lines["state.dump"]["nodes"] == len(control_plane.api.get("/api/v1/nodes")["items"])
    assert lines["state.compared"]["differences"] == 0
    assert "state.differs" not in lines


def test_a_second_signal_ends_a_drain_at_once(control_plane: ControlPlane, webhook: LocalWebhook) -> None:
    leaving = webhook.replicas[1]
    leaving.process.send_signal(signal.SIGTERM)
    control_plane.wait_for("the drain", lambda: "drain.begun" in leaving.process.tail())
    leaving.process.send_signal(signal.SIGTERM)
    assert leaving.process.wait(30) == 128 + signal.SIGTERM  # and not the 0 of a drain that came to its end
    leaving.start_again()
