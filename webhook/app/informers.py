"""Which resources are watched, with what selection, and into which feed they go."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, NoReturn

from webhook.cache.cluster_cache import ClusterCache
from webhook.cache.feed import Feed
from webhook.kube.client import Client
from webhook.kube.discovery import (
    KAI_TOPOLOGIES,
    KUEUE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGIES,
    DiscoveredInformer,
    Wanted,
)
from webhook.kube.informer import Informer, InformerStatus, Phase
from webhook.kube.pod_group_client import POD_GROUPS, PodGroups
from webhook.kube.resource import Resource
from webhook.metrics.service_metrics import InformerSample
from webhook.model.topology import TopologySource
from webhook.server.health import Check

PODS: Final = "pods"
# Pods that ended hold nothing. Pods without a node are taken in as well: the selection is one watch for all that
# concerns pods, and a pod costs an event when it is bound, whether it was seen before or not.
_LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class Watched:
    """One resource: `run` keeps `feed` current until cancelled."""

    informer: Informer
    feed: Feed[Any]
    run: Callable[[], Coroutine[Any, Any, NoReturn]]

    @property
    def status(self) -> InformerStatus:
        """How the informer is doing."""
        return self.informer.status

    def is_served(self) -> bool:
        """Whether the API server has such objects."""
        return self.status.synced and self.status.phase is not Phase.ABSENT

    def follows(self) -> bool:
        """Whether changes reach us as they are made, as far as we know."""
        return self.status.caught_up

    def check(self) -> Check:
        """The informer as a condition of readiness."""
        status = self.status
        detail = f"{status.phase}, {status.objects} objects, heard of {monotonic() - status.last_contact:.0f} s ago"
        return Check(f"informer {status.name}", status.synced, f"{detail}; {status.error}" if status.error else detail)

    def sample(self) -> InformerSample:
        """The informer as metrics."""
        status = self.status
        return InformerSample(
            resource=status.name,
            synced=status.synced,
            objects=status.objects,
            lists=status.lists,
            last_event_age_seconds=monotonic() - status.last_contact,
            faulty_objects=len(self.feed.faults),
        )


def watch_all(
    client: Client, cache: ClusterCache, pod_groups: PodGroups, page_size: int, pods_status: InformerStatus
) -> tuple[Watched, ...]:
    """Everything a decision depends on, and the PodGroups, which come of decisions.

    pods_status: that of the pods' informer, which the cache reads.
    """

    def always(plural: str, feed: Feed[Any], selector: str = "", status: InformerStatus | None = None) -> Watched:
        resource = Resource("", "v1", plural)
        informer = Informer(client, resource, feed, field_selector=selector, page_size=page_size, status=status)
        return Watched(informer, feed, informer.run)

    def when_served(wanted: Wanted, feed: Feed[Any], *, managed_fields: bool = False) -> Watched:
        # The version is settled when discovery has found one.
        resource = Resource(wanted.group, "", wanted.plural)
        informer = Informer(client, resource, feed, page_size=page_size, managed_fields=managed_fields)
        return Watched(informer, feed, DiscoveredInformer(client, wanted, informer).run)

    return (
        always("namespaces", cache.namespaces),
        always("nodes", cache.nodes),
        always(PODS, cache.pods, _LIVE_PODS, pods_status),
        # When its zones were last written tells which pods they cannot have counted.
        when_served(NODE_RESOURCE_TOPOLOGIES, cache.node_topologies, managed_fields=True),
        when_served(KAI_TOPOLOGIES, cache.topologies[TopologySource.KAI]),
        when_served(KUEUE_TOPOLOGIES, cache.topologies[TopologySource.KUEUE]),
        when_served(POD_GROUPS, Feed("PodGroup", dict, pod_groups.put, pod_groups.drop)),
    )
