"""The watched resources, each with its field selector and the feed that it fills."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from time import monotonic, time
from typing import Any, Final, NoReturn

from webhook.formats.topology import TopologySource
from webhook.kube.client import Client
from webhook.kube.discovery import (
    DEVICES,
    GROVE_TOPOLOGIES,
    KAI_TOPOLOGIES,
    KOORDINATOR_RESERVATIONS,
    KUEUE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGIES,
    POD_GANGS,
    DiscoveredInformer,
    Wanted,
)
from webhook.kube.informer import Informer, InformerStatus, Phase
from webhook.kube.kueue_client import ADMISSION_CHECKS, RESOURCE_FLAVORS, WORKLOADS
from webhook.kube.large_field import LargeField
from webhook.kube.pod_group_client import NATIVE_POD_GROUPS, POD_GROUPS, PodGroups
from webhook.kube.provisioning_request_client import PROVISIONING_REQUESTS
from webhook.kube.resource import Resource, key_of
from webhook.metrics import InformerSample
from webhook.model.raw import Raw
from webhook.model.wording import counted
from webhook.server.health import Check
from webhook.state.cluster_cache import ClusterCache
from webhook.state.store import Feed

PODS: Final = "pods"
# Pods that ended hold no resources. Pods without a node are included, so that one watch serves every use of pods. A pod
# costs an event at its binding in any case, whether it was seen before or not.
LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
FAILED_PODS: Final = "failed-pods"
# A watch with a selector shows a pod that leaves it as it was before. So the kubelet's reason needs a watch of its own.
_FAILED: Final = "status.phase=Failed"


@dataclass(frozen=True, slots=True)
class Watched:
    """A watched resource. `run` keeps `feed` current until cancelled."""

    informer: Informer
    feed: Feed[Any]
    run: Callable[[], Coroutine[Any, Any, NoReturn]]

    @property
    def status(self) -> InformerStatus:
        """The informer's state and statistics, live."""
        return self.informer.status

    def is_served(self) -> bool:
        """Whether the API server serves the resource."""
        return self.status.synced and self.status.phase is not Phase.ABSENT

    def follows(self) -> bool:
        """Whether changes arrive as they are made, as far as we know."""
        return self.status.caught_up

    def check(self) -> Check:
        """The informer's readiness check."""
        status = self.status
        objects = counted(status.objects, "object")
        detail = f"{status.phase}, {objects}, heard of {monotonic() - status.last_contact:.0f} s ago"
        return Check(f"informer {status.name}", status.synced, f"{detail}; {status.error}" if status.error else detail)

    def sample(self) -> InformerSample:
        """The informer's metrics."""
        status = self.status
        return InformerSample(
            resource=status.name,
            synced=status.synced,
            objects=status.objects,
            lists=status.lists,
            last_event=time() - (monotonic() - status.last_contact),
            faulty_objects=len(self.feed.faults),
        )


def watch_cluster(
    client: Client, cache: ClusterCache, pods_status: InformerStatus, failed_status: InformerStatus
) -> tuple[Watched, ...]:
    """Everything that decisions depend on.

    pods_status, failed_status: the status of the informers of live and of failed pods, which the cache reads.
    """

    def always(
        plural: str,
        feed: Feed[Any],
        selector: str = "",
        status: InformerStatus | None = None,
        *,
        managed_fields: bool = False,
    ) -> Watched:
        resource = Resource("", "v1", plural)
        informer = Informer(
            client,
            resource,
            feed,
            field_selector=selector,
            status=status,
            managed_fields=managed_fields,
        )
        return Watched(informer, feed, informer.run)

    native_groups = _when_served(client, NATIVE_POD_GROUPS, cache.native_groups.feed)
    native_groups.informer.served.subscribe(cache.native_groups.serve)
    return (
        always("namespaces", cache.namespaces),
        always("nodes", cache.nodes),
        always(PODS, cache.pods, LIVE_PODS, pods_status),
        # The managed fields show when a kubelet rejected it, by the clock that dates NodeResourceTopologies.
        always(PODS, cache.failed_pods, _FAILED, failed_status, managed_fields=True),
        # The managed fields show when the zones were last written, and so which pods they cannot have reported.
        _when_served(
            client,
            NODE_RESOURCE_TOPOLOGIES,
            cache.node_topologies,
            managed_fields=True,
            large_field=LargeField("zones", cache.node_topologies.upsert_rest),
        ),
        _when_served(client, KAI_TOPOLOGIES, cache.topologies[TopologySource.KAI]),
        _when_served(client, KUEUE_TOPOLOGIES, cache.topologies[TopologySource.KUEUE]),
        native_groups,
    )


def watch_pod_groups(client: Client, pod_groups: PodGroups, cache: ClusterCache) -> Watched:
    """KAI-Scheduler's PodGroups: ours result from decisions, and those of users are their input."""

    def put(raw: Raw) -> None:
        pod_groups.put(raw)
        cache.kai_groups.feed.upsert(key_of(raw), raw)

    def drop(key: str) -> None:
        pod_groups.drop(key)
        cache.kai_groups.feed.delete(key)

    watched = _when_served(client, POD_GROUPS, Feed("PodGroup", dict, put, drop))
    watched.informer.served.subscribe(cache.kai_groups.serve)
    return watched


def watch_budgets(client: Client, cache: ClusterCache) -> tuple[Watched, ...]:
    """PodDisruptionBudgets: only preemption needs them."""
    feed = cache.disruption_budgets.feed
    informer = Informer(client, Resource("policy", "v1", "poddisruptionbudgets"), feed)
    return (Watched(informer, feed, informer.run),)


def watch_reservations(client: Client, cache: ClusterCache) -> tuple[Watched, ...]:
    """Koordinator's Reservations: a setting lets them be read."""
    return (_when_served(client, KOORDINATOR_RESERVATIONS, cache.koordinator_reservations),)


def watch_devices(client: Client, cache: ClusterCache) -> tuple[Watched, ...]:
    """Devices of Dynamic Resource Allocation and the claims for them: a setting lets them be read."""
    return tuple(_when_served(client, DEVICES[kind], feed) for kind, feed in cache.devices.feeds.items())


def watch_pod_gangs(client: Client, cache: ClusterCache) -> tuple[Watched, ...]:
    """Grove's PodGangs, and the topologies that they name: a setting lets them be read."""
    return (
        _when_served(client, POD_GANGS, cache.pod_gangs.feed),
        _when_served(client, GROVE_TOPOLOGIES, cache.topologies[TopologySource.GROVE]),
    )


def watch_admission_checks(client: Client, cache: ClusterCache) -> tuple[Watched, ...]:
    """Kueue's AdmissionChecks, and the Workloads that wait for them: a setting lets them be read."""
    kueue = cache.kueue
    stores = (ADMISSION_CHECKS, kueue.checks), (RESOURCE_FLAVORS, kueue.flavors), (WORKLOADS, kueue.workloads)
    found = []
    for wanted, store in stores:
        watched = _when_served(client, wanted, store.feed)
        watched.informer.served.subscribe(store.serve)
        found.append(watched)
    return tuple(found)


def watch_provisioning_requests(client: Client, cache: ClusterCache) -> Watched:
    """ProvisioningRequests: the cache keeps those that the leader made."""
    requests = cache.provisioning_requests
    watched = _when_served(client, PROVISIONING_REQUESTS, requests.feed)
    watched.informer.served.subscribe(requests.serve)
    return watched


def _when_served(
    client: Client,
    wanted: Wanted,
    feed: Feed[Any],
    *,
    managed_fields: bool = False,
    large_field: LargeField | None = None,
) -> Watched:
    # Discovery sets the version later.
    resource = Resource(wanted.group, "", wanted.plural)
    informer = Informer(client, resource, feed, managed_fields=managed_fields, large_field=large_field)
    return Watched(informer, feed, DiscoveredInformer(client, wanted, informer).run)
