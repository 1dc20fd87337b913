"""Replicas as processes behind the chart's Services: one of them leads and is found, whatever happens to it."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

import pytest

from tests.cluster.api import ApiError
from tests.cluster.nodes import Machine
from tests.cluster.webhook_process import BIND_SERVICE, LEASE, NAMESPACE, RELEASE, LocalWebhook, Replica, local_webhook
from webhook.cluster.role_label import LEADER, ROLE_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

# Nothing is gated, so that it is for the guard alone to give out NUMA nodes; and a replica that is done ends soon.
BOTH = {"gate": "never", "drainSeconds": 2}
QUICK = {
    **BOTH,
    "leaseDurationSeconds": 3,
    "renewDeadlineSeconds": 2,
    "retryPeriodSeconds": 0.3,
    "grantHorizonSeconds": 8,
}
# With this, a change of leaders within the time of a test cannot come from a Lease that has run out.
SLOW = {**BOTH, "leaseDurationSeconds": 900, "renewDeadlineSeconds": 600, "retryPeriodSeconds": 300}
NUMA = "topology-webhook.dev/numa"
Start = Callable[[Mapping[str, Any]], AbstractContextManager["Cluster"]]
SPEC = "scheduling.koordinator.sh/numa-topology-spec"


class Cluster:
    """Two replicas."""

    def __init__(self, plane: ControlPlane, webhook: LocalWebhook, namespace: str) -> None:
        self.plane = plane
        self.webhook = webhook
        self.namespace = namespace

    def leading(self) -> list[Replica]:
        """The replicas that say of themselves that they lead."""
        return [replica for replica in self.webhook.replicas if says_it_leads(replica)]

    def other(self, replica: Replica) -> Replica:
        (other,) = set(self.webhook.replicas) - {replica}
        return other

    def is_found(self, leader: Replica) -> bool:
        """Whether its Pod alone is marked, and the leader's Service leads there."""
        endpoints = self.webhook.services.endpoints(BIND_SERVICE)
        return self.webhook.marked == [leader] and endpoints == [leader.backend.port]

    def wait_until_found(self, leader: Replica) -> None:
        self.plane.wait_for(f"{leader.name} to be found", lambda: self.is_found(leader))

    def lease(self) -> Any:
        return self.plane.api.get(LEASE)["spec"]

    def create_pod(self, name: str) -> None:
        """A pod that nobody but the test binds."""
        amounts = {"cpu": "2", "memory": "1Gi"}
        container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
        metadata = {"name": name, "annotations": {SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}}
        spec = {"nodeSelector": {"never": "there"}, "containers": [container]}
        self.plane.api.create(f"/api/v1/namespaces/{self.namespace}/pods", {"metadata": metadata, "spec": spec})

    def bind(self, name: str) -> bool:
        """Bind the pod to n0; whether it was guarded, for then it carries its NUMA nodes. Raises ApiError."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        self.plane.api.create(f"{path}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n0"}})
        return NUMA in self.plane.api.get(path)["metadata"].get("annotations", {})

    def ask_directly(self, replica: Replica, name: str) -> str:
        """What a replica says to a review of a Binding that comes past the Service, over an old connection, say."""
        binding = {"metadata": {"name": name, "namespace": self.namespace}, "target": {"name": "n0"}}
        request = {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Binding"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": "binding",
            "name": name,
            "namespace": self.namespace,
            "operation": "CREATE",
            "userInfo": {"username": "system:kube-scheduler"},
            "dryRun": True,
            "object": binding,
        }
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        call = urllib.request.Request(
            f"https://127.0.0.1:{replica.backend.port}/mutate/bindings?timeout=30s",
            body.encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(call, context=unverified(), timeout=30) as answer:  # noqa: S310 - our own https URL
                response = json.load(answer)["response"]
        except HTTPError as error:
            return str(error.code)
        return "allowed" if response["allowed"] else str(response["status"]["reason"])


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def says_it_leads(replica: Replica) -> bool:
    if not replica.process.running:
        return False
    try:
        with urllib.request.urlopen(f"{replica.metrics_url}/metrics", timeout=1) as answer:  # noqa: S310
            return "\ntopology_webhook_leader 1.0\n" in answer.read().decode()
    except OSError:  # it is paused, or about to end
        return False


@pytest.fixture
def start(control_plane: ControlPlane, namespace: str, create_machines: Callable[..., None], tmp_path: Path) -> Start:
    """A function that starts two replicas with these settings."""
    # n0 ── NUMA 0 [8]  NUMA 1 [8]      [free cpus of 16]
    create_machines(Machine("n0", free=(8, 8)))

    @contextmanager
    def cluster(settings: Mapping[str, Any]) -> Iterator[Cluster]:
        values = tmp_path / "values.yaml"
        values.write_text(json.dumps({"settings": dict(settings)}))
        with local_webhook(control_plane, replicas=2, values=values) as webhook:
            assert webhook.wait_until_called()
            yield Cluster(control_plane, webhook, namespace)

    return cluster


def test_one_replica_leads_and_calls_for_the_leader_go_there_and_others_to_all(start: Start) -> None:
    with start(SLOW) as cluster:
        (leader,) = cluster.leading()
        cluster.wait_until_found(leader)
        services, ports = cluster.webhook.services, [each.backend.port for each in cluster.webhook.replicas]
        cluster.plane.wait_for("both replicas", lambda: sorted(services.endpoints(RELEASE)) == sorted(ports))
        assert cluster.lease()["holderIdentity"].startswith(f"{leader.name}_")
        cluster.create_pod("a")
        assert cluster.bind("a")
        assert cluster.ask_directly(cluster.other(leader), "b") == "allowed"  # no such pod, so none of its affair
        cluster.create_pod("b")
        assert cluster.ask_directly(cluster.other(leader), "b") == "LeaderElsewhere"


def test_a_leader_that_is_asked_to_end_hands_over_at_once_and_nothing_stays_unsettled(start: Start) -> None:
    with start(SLOW) as cluster:
        (leader,) = cluster.leading()
        follower = cluster.other(leader)
        cluster.create_pod("a")
        cluster.create_pod("b")
        assert cluster.bind("a")
        leader.process.ask_to_stop()
        cluster.wait_until_found(follower)
        assert cluster.leading() == [follower]
        assert cluster.lease()["leaseTransitions"] == 2
        # The API server may still have a connection to the old one: refused there, for it leads to the wrong replica.
        cluster.plane.wait_for("b on its node", lambda: bound(cluster, "b", "another replica"))
        leader.process.stop()
        told = [line for line in leader.process.log.read_text().splitlines() if "leader.handed_over" in line]
        assert {"settled": True, "released": True}.items() <= json.loads(told[-1]).items()


def test_a_leader_that_is_killed_is_replaced_and_its_pod_unmarked(start: Start) -> None:
    with start(QUICK) as cluster:
        (leader,) = cluster.leading()
        follower = cluster.other(leader)
        cluster.create_pod("a")
        leader.process.kill()
        cluster.wait_until_found(follower)
        # What the dead one has allowed may not be visible yet.
        with pytest.raises(ApiError, match="leader has just changed"):
            cluster.bind("a")
        leader.start(leader.backend)
        leader.wait_until_ready()
        assert cluster.is_found(follower)
        assert cluster.leading() == [follower]
        cluster.plane.wait_for("the horizon to pass", lambda: bound(cluster, "a", "leader has just changed"))


def bound(cluster: Cluster, name: str, refusal: str) -> bool:
    """Whether the pod is bound now, guarded; not when that was refused for this reason."""
    try:
        assert cluster.bind(name)
    except ApiError as error:
        if refusal not in error.message:
            raise
        return False
    return True


def test_a_leader_that_was_stopped_answers_no_binding_when_it_goes_on(start: Start) -> None:
    with start(QUICK) as cluster, ThreadPoolExecutor() as threads:
        (leader,) = cluster.leading()
        follower = cluster.other(leader)
        cluster.create_pod("a")
        assert cluster.ask_directly(leader, "a") == "allowed"
        leader.process.pause()
        cluster.wait_until_found(follower)
        # This one is waiting when it goes on, so it is the first thing that it does.
        answer = threads.submit(cluster.ask_directly, leader, "a")
        leader.process.resume()
        assert answer.result() in {"503", "LeaderElsewhere"}  # the latter once it has read who leads now
        assert not says_it_leads(leader)
        cluster.plane.wait_for("it to be ready again", leader.is_ready)
        assert cluster.is_found(follower)


def test_while_the_api_server_does_not_answer_nobody_leads(start: Start) -> None:
    with start(QUICK) as cluster:
        (api_server,) = (each for each in cluster.plane.processes if each.name == "kube-apiserver")
        api_server.pause()
        try:
            cluster.plane.wait_for("the leader to step down", lambda: not cluster.leading())
        finally:
            api_server.resume()
        cluster.plane.wait_for("a leader", cluster.leading)
        (leader,) = cluster.leading()
        cluster.wait_until_found(leader)


def test_a_label_that_somebody_moves_to_another_pod_comes_back(start: Start) -> None:
    with start(SLOW) as cluster:
        (leader,) = cluster.leading()
        for name, value in ((leader.name, None), (cluster.other(leader).name, LEADER)):
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
            cluster.plane.api.patch(path, {"metadata": {"labels": {ROLE_LABEL: value}}})
        assert cluster.webhook.marked != [leader]
        cluster.wait_until_found(leader)
