"""Two replicas of which one leads. Tests ask which one leads, and how bindings end."""

from __future__ import annotations

import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.cluster.direct import ask, binding_review
from tests.cluster.webhook_process import LEASE, QUICK_LEASE, LocalWebhook, Replica, local_webhook
from webhook.kube.election import ADDRESS_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.control_plane import ControlPlane

# Nothing is gated, so only the binding guard assigns NUMA nodes. A replica that stops drains for a short time only.
# The tests bind pods themselves, as a scheduler would.
BOTH = {"gate": "Never", "drainSeconds": 2, "schedulerUsers": ["system:kube-scheduler", "admin"]}
QUICK = {**BOTH, **QUICK_LEASE}
# With these durations, no Lease expires within a test, so no change of leaders comes from that.
SLOW = {**BOTH, "leaseDurationSeconds": 900}
NUMA = "topology-webhook.dev/numa"
SPEC = "scheduling.koordinator.sh/numa-topology-spec"


class TwoReplicas:
    """A control plane whose webhook has two replicas."""

    def __init__(self, plane: ControlPlane, webhook: LocalWebhook, namespace: str) -> None:
        self.plane = plane
        self.webhook = webhook
        self.namespace = namespace

    def leading(self) -> list[Replica]:
        """The replicas whose metrics say that they lead."""
        return [replica for replica in self.webhook.replicas if says_it_leads(replica)]

    def other(self, replica: Replica) -> Replica:
        (other,) = set(self.webhook.replicas) - {replica}
        return other

    def is_found(self, leader: Replica) -> bool:
        """Whether it holds the Lease, which says where other replicas reach it."""
        address = f"127.0.0.1:{leader.backend.peer_port}"
        annotations = self.plane.api.get(LEASE)["metadata"].get("annotations") or {}
        return self.webhook.leaders == [leader] and annotations.get(ADDRESS_ANNOTATION) == address

    def wait_until_found(self, leader: Replica) -> None:
        self.plane.wait_for(f"{leader.name} to be found", lambda: self.is_found(leader))

    def lease(self) -> Any:
        return self.plane.api.get(LEASE)["spec"]

    def create_pod(self, name: str, cpu: int = 2) -> None:
        """Create a pod that only the test binds: the scheduler finds no node for it."""
        amounts = {"cpu": str(cpu), "memory": "1Gi"}
        container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
        metadata = {"name": name, "annotations": {SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}}
        spec = {"nodeSelector": {"never": "there"}, "containers": [container]}
        self.plane.api.create(f"/api/v1/namespaces/{self.namespace}/pods", {"metadata": metadata, "spec": spec})

    def bind(self, name: str) -> bool:
        """Bind the pod to n0. True if the guard reviewed it: the pod then has its NUMA nodes. Raises ApiError."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        self.plane.api.create(f"{path}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n0"}})
        return NUMA in self.plane.api.get(path)["metadata"].get("annotations", {})

    def ask_directly(self, replica: Replica, name: str) -> str:
        """A replica's answer to a review of a Binding without the Service, as over an old connection."""
        request = binding_review(self.namespace, name, "n0", dry_run=True)
        return ask(replica.backend.port, "/mutate/bindings", request, self.plane.webhook_client.pair)


def says_it_leads(replica: Replica) -> bool:
    if not replica.process.running:
        return False
    try:
        with urllib.request.urlopen(f"{replica.metrics_url}/metrics", timeout=1) as answer:  # noqa: S310
            return "\ntopology_webhook_leader 1.0\n" in answer.read().decode()
    except OSError:  # it is paused, or about to end
        return False


@contextmanager
def two_replicas(
    plane: ControlPlane, namespace: str, settings: Mapping[str, Any], **webhook: Any
) -> Iterator[TwoReplicas]:
    """Run two replicas, which the API server calls. settings, webhook: values of the chart."""
    with local_webhook(plane, replicas=2, values={"settings": settings, "webhook": webhook}) as running:
        assert running.wait_until_called()
        yield TwoReplicas(plane, running, namespace)
