"""What the binding guard and the sweep of its assumed pods need from the rest of the process."""

from collections.abc import Callable
from typing import Any

from webhook.admission.binding.guard import Fetch, LeaderState
from webhook.admission.handler import NotNowError
from webhook.app.settings import Settings
from webhook.kube.api_errors import APIError, ClusterError
from webhook.kube.client import Client
from webhook.kube.events import PodEvent
from webhook.kube.leadership import Leadership
from webhook.model.raw import Raw
from webhook.state.cluster_cache import ClusterCache
from webhook.state.shards import NodeShards


def pod_by_get(client: Client, cache: ClusterCache) -> Fetch:
    """Reads a pod by one GET, without an untrusted allocation; None if it does not exist. Raises ClusterError."""

    async def fetch(namespace: str, name: str) -> Raw | None:
        try:
            raw = await client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
            return cache.as_managed(cache.believed(raw))
        except APIError as error:
            if error.status == 404:
                return None
            raise

    return fetch


def for_a_review(fetch: Fetch) -> Fetch:
    """The same for a waiting review: if the API server does not answer us, its failurePolicy decides."""

    async def fetch_now(namespace: str, name: str) -> Any:
        try:
            return await fetch(namespace, name)
        except ClusterError as error:
            msg = f"the pod could not be read: {error}"
            raise NotNowError(msg) from error

    return fetch_now


def unenforced_event(tell: Callable[[PodEvent], None]) -> Callable[[str, str, str], None]:
    """Reports a pod whose node does not enforce its NUMA policy. tell: queues an event."""

    def report(key: str, uid: str, note: str) -> None:
        tell(PodEvent(key, uid, "NotEnforced", note, "Binding", "Warning"))

    return report


def leader_state_of(leadership: Leadership, shards: NodeShards, node: str = "") -> LeaderState:
    """Which bindings to a node this replica may answer now; without a node, what the default shard's leader answers."""
    shard = shards.of(node)
    if not leadership.is_leader(shard):
        return LeaderState.ELSEWHERE if leadership.is_elsewhere(shard) else LeaderState.NONE
    if leadership.seconds_until_settled(shard) > 0 or shards.is_moving(node):
        return LeaderState.ASSIGNED_ONLY
    return LeaderState.ALL


def answer_lifetime(settings: Settings) -> float:
    """Seconds after which an answer that its pod does not show will never appear in it.

    `assume_ttl` starts with the claim of the next leader. This claim is later than any answer, by the time
    between two terms, which is added here.
    """
    return settings.assume_ttl + settings.timing.lease_duration - settings.timing.renew_deadline
