"""The pods that are bound or assigned to a node and have not ended, by node."""

from collections.abc import Collection, Mapping

from webhook.formats.kubernetes.resident import ResidentPod


class PodsByNode:
    """Each pod (namespace/name) is on the node that it is bound to, else on the one that it is assigned to."""

    def __init__(self) -> None:
        self._pods: dict[str, ResidentPod] = {}
        self._on: dict[str, dict[str, ResidentPod]] = {}

    @property
    def by_key(self) -> Mapping[str, ResidentPod]:
        """All pods; a live view."""
        return self._pods

    def get(self, key: str) -> ResidentPod | None:
        """The pod; None if it is on no node."""
        return self._pods.get(key)

    def put(self, pod: ResidentPod) -> None:
        """Add the pod to its node, or replace it there. It must not be on another node."""
        self._pods[pod.key] = pod
        self._on.setdefault(node_of(pod), {})[pod.key] = pod

    def remove(self, pod: ResidentPod) -> None:
        """Remove a pod from its node."""
        del self._pods[pod.key]
        on_node = self._on[node_of(pod)]
        del on_node[pod.key]
        if not on_node:
            del self._on[node_of(pod)]

    def on(self, node: str) -> Collection[ResidentPod]:
        """The pods bound or assigned to the node, unordered."""
        return self._on.get(node, {}).values()

    def bound_to(self, node: str) -> tuple[ResidentPod, ...]:
        """The pods bound to the node, unordered."""
        return tuple(pod for pod in self.on(node) if pod.node)


def node_of(pod: ResidentPod) -> str:
    """The node that the pod is bound or assigned to; empty if there is none."""
    return pod.node or pod.assigned_node
