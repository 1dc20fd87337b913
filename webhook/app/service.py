"""One replica of the service: all its parts and how they are connected.

Life cycle:
1. The observation port opens, so that probes see a live process. The informers start. The process obtains its
   certificate and the user name by which the API server knows it, so that our own writes do not count as forged.
2. With both of these, the review port opens. Reviews are answered once every informer has synced and the first snapshot
   has read all nodes (`SnapshotKeeper`).
3. When ready, the replica takes part in the leader election (see `leader_elector`). The leader assigns gated pods to
   nodes (see `webhook.controllers.placement`).
4. When told to stop, the replica drains (see `drain`) and hands over leadership at the same time.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Final, NoReturn, TypeVar

import structlog

from webhook.admission.binding.guard import BindingGuard
from webhook.admission.binding.review_trust import Doubts
from webhook.admission.claim import ClaimGuard
from webhook.admission.handler import Handler
from webhook.app.allocation_key_secret import SharedAllocationKey
from webhook.app.binding_guard import answer_lifetime, for_a_review, leader_state_of, pod_by_get, unenforced_event
from webhook.app.certificate import ClientCAFile, ServingCertificate, source_of
from webhook.app.clients import Clients
from webhook.app.debugger import Debugger
from webhook.app.informers import (
    FAILED_PODS,
    PODS,
    Watched,
    watch_admission_checks,
    watch_budgets,
    watch_cluster,
    watch_devices,
    watch_pod_gangs,
    watch_pod_groups,
    watch_provisioning_requests,
    watch_reservations,
)
from webhook.app.leader_elector import LeaderElector, leadership_of
from webhook.app.leader_runnables import LeaderRunnables
from webhook.app.page import page_listener, problems_of
from webhook.app.peers import Peers
from webhook.app.settings import Settings, rules_of, times_of
from webhook.app.signals import drain, finish_seconds
from webhook.app.webhooks import LEADERS, ObservedBindings, handlers_of, in_mode, waiting_handlers
from webhook.collector import collector_paused
from webhook.controllers.assumed_pod_sweep import AssumedPodSweep
from webhook.controllers.placement.controller import Background
from webhook.formats.koordinator.numa_allocation import AllocationKey
from webhook.kube.ca_bundle import CABundleKeeper
from webhook.kube.client import Client, own_user
from webhook.kube.informer import InformerStatus
from webhook.kube.metrics_access import MetricsAccess
from webhook.kube.pacing import Turns
from webhook.kube.pod_group_client import POD_GROUPS, PodGroups
from webhook.kube.shared_secret import SharedSecret
from webhook.metrics import ClusterSample, Metrics, Sample
from webhook.page.app import Source
from webhook.page.work_share import REST_PER_WORK
from webhook.placing.planner import Planner
from webhook.server.health import Check, Health
from webhook.server.listener import OBSERVATION_LIMITS, Closed, Listener
from webhook.server.routes import metrics_app, observation_app, review_app
from webhook.state.cluster_cache import ClusterCache
from webhook.state.shards import NodeShards
from webhook.views.nodes import nodes_without_topology, silent_exporters
from webhook.views.room import rooms

log = structlog.get_logger(__name__)

# In a cluster of 50,000 nodes the NRTs of 80 nodes change in this time. Writing their columns takes 5 ms.
_PERIOD_SECONDS: Final = 0.1
_NODES_AT_ONCE: Final = 32


class SnapshotKeeper:
    """Keeps the cache's snapshot current, once all objects of `watched` are known.

    It applies changes to the engine's arrays between reviews, so that no review pays for many of them, and announces
    the changes that are due to time alone (see `advance` in `webhook.state.cluster_cache`).
    """

    def __init__(self, cache: ClusterCache, watched: Sequence[Watched]) -> None:
        self.is_current = False
        """Whether there is a snapshot of all objects."""
        self._cache = cache
        self._watched = watched

    async def run(self) -> NoReturn:
        """Take snapshots until cancelled."""
        for watched in self._watched:
            await watched.informer.synced.wait()
        with collector_paused():
            await self._prepare()
            self._cache.snapshot()
        self.is_current = True
        log.info("serve.synced", objects={watched.status.name: watched.status.objects for watched in self._watched})
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            await self._prepare()
            self._cache.advance()

    async def _prepare(self) -> None:
        """Apply what has changed on each node; reviews, health checks and informers run in between."""
        turns = Turns()
        while not self._cache.prepare(_NODES_AT_ONCE):
            if turns.is_over():
                await turns.next()


Result = TypeVar("Result")


class Service:
    """One replica: all its parts and how they are connected."""

    def __init__(self, settings: Settings, clients: Clients) -> None:
        client = clients.general
        self._settings = settings
        self._clients = clients
        self._client = client
        self._user: str | None = None
        times = times_of(settings)
        pods_status = InformerStatus(PODS)
        failed_status = InformerStatus(FAILED_PODS)
        self._cache = ClusterCache(
            times,
            rules=rules_of(settings),
            pods_in_order=pods_status.in_order,
            failed_in_order=failed_status.in_order,
            preempts=settings.preempts,
            shards=NodeShards(settings.shard_label, settings.assume_ttl),
        )
        pod_groups = PodGroups(clients.placement)
        self._watched = (
            *watch_cluster(client, self._cache, pods_status, failed_status),
            watch_pod_groups(client, pod_groups, self._cache),
            *(watch_budgets(client, self._cache) if settings.preempts else ()),
            *(watch_pod_gangs(client, self._cache) if settings.grove_pod_gangs else ()),
            *(watch_reservations(client, self._cache) if settings.koordinator_reservations else ()),
            *(watch_admission_checks(client, self._cache) if settings.kueue_admission_check else ()),
            *(watch_devices(client, self._cache) if settings.dynamic_resources else ()),
            *((watch_provisioning_requests(client, self._cache),) if settings.provisioning_class else ()),
        )
        self._snapshots = SnapshotKeeper(self._cache, self._watched)
        self._debugger = Debugger(self._cache, client)
        self._bundles = _bundle_keeper(settings, client)
        secret = SharedSecret(client, settings.namespace, f"{settings.name}-ca")
        allocation_secret = SharedSecret(client, settings.namespace, f"{settings.name}-hint-key")
        self._allocation_key = SharedAllocationKey(allocation_secret, self._use_key)
        publish = self._bundles.publish if self._bundles is not None else _ignore
        client_ca = None if settings.client_ca_file is None else ClientCAFile(settings.client_ca_file)
        self._certificate = ServingCertificate(source_of(settings, secret), publish, clients=client_ca)
        # With a client CA every caller is the API server, so what it asks for will happen: no doubts are needed.
        self._doubts = None if settings.client_ca_file is not None else Doubts()
        came_to_nothing = _ignore if self._doubts is None else self._doubts.came_to_nothing
        self._assumed_pods = AssumedPodSweep(self._cache, pod_by_get(client, self._cache), came_to_nothing)
        self._metrics = Metrics(self._sample)
        watched = {each.status.name: each for each in self._watched}
        self._peer_port: Listener | None = None
        self._leadership = leadership_of(
            settings,
            clients.leadership,
            watched[PODS].follows,
            self._peer_address,
            shards=lambda: self._cache.shards.known,
        )
        self._peers = Peers(self._leader_of)
        self._runnables = LeaderRunnables(
            settings,
            clients,
            self._cache,
            self._metrics.placement,
            pod_groups,
            watched[POD_GROUPS.name].is_served,
            self._leadership,
        )
        self._health = health = Health(self._checks, lambda: self._snapshots.is_current)
        runnables = self._assumed_pods, self._runnables.controller
        self._elector = LeaderElector(self._leadership, settings, lambda: health.ready, runnables)
        self._takes_reviews = False

    def background(self) -> Iterator[Background]:
        """The tasks that run while the ports are open. Each ends only by cancellation or an exception."""
        yield self._allocation_key.run
        # Reading pods needs the allocation key and the namespaces.
        namespaces = next(watched.informer.synced for watched in self._watched if watched.status.name == "namespaces")
        for watched in self._watched:
            first = [self._allocation_key.known, *([namespaces] if watched.status.name == PODS else [])]
            yield _after(first, watched.run)
        yield self._certificate.run
        yield self._peers.run
        if self._bundles is not None:
            yield self._bundles.run
        yield self._elector.run
        yield self._assumed_pods.run
        yield from self._runnables.background()
        yield self._snapshots.run
        yield self._debugger.run

    async def serve(self, stop: asyncio.Event) -> None:
        """Open the ports, serve until `stop` is set, then hand over leadership and drain."""
        settings = self._settings
        observation = Listener(
            observation_app(self._health, self._metrics if settings.metrics_tls_port is None else None),
            finish_seconds=1.0,
            name="observation",
            limits=OBSERVATION_LIMITS,
            told=partial(self._count_closed, "observation"),
        )
        reviews: Listener | None = None
        metrics: Listener | None = None
        page = self._page()
        try:
            await observation.open(settings.bind_address, settings.metrics_port)
            log.info("serve.observation", address=settings.bind_address, port=observation.port)
            if page is not None:
                await page.open(settings.page_bind_address, settings.page_port)
                log.info("serve.page", address=settings.page_bind_address, port=page.port)
            self._user = await _unless(stop, own_user(self._client))
            context = await _unless(stop, self._certificate.context())
            if self._user is not None and context is not None:
                handlers = self._handlers(self._user)
                ask = self._peers.ask if settings.pod_ip else None
                routes = review_app(handlers, self._health, self._metrics, settings.client_names, ask)
                told = partial(self._count_closed, "reviews")
                reviews = Listener(routes, finish_seconds(settings.drain_seconds), told=told)
                if settings.pod_ip:
                    await self._open_to_peers(handlers)
                await reviews.open(settings.bind_address, settings.port, context.listening)
                self._takes_reviews = True
                if settings.metrics_tls_port is not None:
                    metrics = self._metrics_listener()
                    open_context = await self._certificate.open_context()
                    await metrics.open(settings.bind_address, settings.metrics_tls_port, open_context.listening)
                    log.info("serve.metrics", address=settings.bind_address, port=metrics.port)
                log.info("serve.reviews", address=settings.bind_address, port=reviews.port)
                await stop.wait()
                async with asyncio.TaskGroup() as ending:
                    ending.create_task(self._elector.hand_over(settings.drain_seconds))
                    ending.create_task(drain(self._health, reviews, settings.drain_seconds))
        finally:
            if reviews is not None:
                await reviews.close()
            for port in (self._peer_port, metrics, page):
                if port is not None:
                    await port.close()
            await self._peers.close()
            await observation.close()

    async def _open_to_peers(self, handlers: Mapping[str, Handler]) -> None:
        """Open the port on which other replicas ask what only the leader can answer."""
        settings = self._settings
        leaders = {path: handlers[path] for path in LEADERS}
        told = partial(self._count_closed, "peers")
        seconds = finish_seconds(settings.drain_seconds)
        port = Listener(review_app(leaders, self._health, self._metrics), seconds, name="peers", told=told)
        await port.open(settings.bind_address, settings.peer_port, (await self._peers.context()).listening)
        self._peer_port = port
        log.info("serve.peers", address=settings.bind_address, port=port.port)

    def _peer_address(self) -> str:
        """Where other replicas reach this one; empty if they do not."""
        ip, port = self._settings.pod_ip, self._peer_port
        if not ip or port is None:
            return ""
        return f"[{ip}]:{port.port}" if ":" in ip else f"{ip}:{port.port}"

    def _leader_of(self, node: str) -> str:
        """Where the replica answers that leads the shard of this node; empty if that is unknown."""
        return self._leadership.address_of_leader(self._cache.shards.of(node))

    def _use_key(self, key: AllocationKey) -> None:
        self._cache.use_allocation_key(key)
        self._peers.use(key)

    def _metrics_listener(self) -> Listener:
        """The port of metrics for clients with a token."""
        return Listener(
            metrics_app(self._metrics, MetricsAccess(self._client).of),
            finish_seconds=1.0,
            name="metrics",
            limits=OBSERVATION_LIMITS,
            told=partial(self._count_closed, "metrics"),
        )

    def _page(self) -> Listener | None:
        """The page's port, if it is enabled."""
        settings = self._settings
        if not settings.page:
            return None
        planner = Planner(self._cache, rules_of(settings))
        source = Source(
            planner, settings.namespace, lambda: list(problems_of(self._watched)), rest_per_work=REST_PER_WORK
        )
        return page_listener(source, settings.page_hosts)

    def _count_closed(self, port: str, why: Closed) -> None:
        self._metrics.connections_closed.labels(port, why.code).inc()

    def _handlers(self, user: str) -> Mapping[str, Handler]:
        """The handlers by path. user: the name by which the API server knows us."""
        settings = self._settings
        rules = rules_of(settings, user)
        fetch = for_a_review(pod_by_get(self._client, self._cache))
        leader_state = partial(leader_state_of, self._leadership, self._cache.shards)
        # Only a running nominator takes refusals from its queue.
        refused = self._runnables.nominator.refused if settings.mode == "Enforce" else _ignore
        assume_ttl = answer_lifetime(settings)
        events = self._runnables.events
        guard = BindingGuard(self._cache, fetch, leader_state, rules, assume_ttl, refused, self._doubts)
        if settings.mode == "Enforce":
            guard.not_enforced.subscribe(unenforced_event(events.tell))
        claims = ClaimGuard(self._cache.devices, leader_state, rules, self._doubts)
        handlers = waiting_handlers(handlers_of(rules, self._cache.snapshot, guard, claims), self._cache)
        observed = ObservedBindings(self._cache, rules, events.tell)
        return in_mode(settings.mode, handlers, observed.report)

    def _checks(self) -> Iterator[Check]:
        yield from (watched.check() for watched in self._watched)
        yield Check("hint key", self._allocation_key.known.is_set(), self._allocation_key.error)
        yield Check("snapshot", self._snapshots.is_current, f"generation {self._cache.generation}")
        end = self._certificate.end
        ends = f"ends {end.isoformat()}" if end else ""
        yield Check("certificate", self._certificate.valid, "; ".join(filter(None, (ends, self._certificate.error))))
        yield Check("identity", self._user is not None, self._user or "")
        yield Check("reviews", self._takes_reviews, f"port {self._settings.port}")
        if self._bundles is not None:
            found = ", ".join(self._bundles.configurations) or "no configuration found"
            detail = "; ".join(filter(None, (found, self._bundles.error)))
            yield Check("caBundle", self._bundles.published, detail)
        yield self._elector.check()

    def _sample(self) -> Sample:
        return Sample(
            ready=self._health.ready,
            informers=tuple(watched.sample() for watched in self._watched),
            generation=self._cache.generation,
            certificate_end=self._certificate.end,
            cluster=self._cluster_sample() if self._leadership.is_leader() else None,
            api_errors=self._clients.errors(),
            shards=self._runnables.controller.waiting_by_shard() if self._settings.shard_label else {},
        )

    def _cluster_sample(self) -> ClusterSample:
        snapshot = self._cache.snapshot()
        trees = self._runnables.controller.planner.trees
        oldest_pod, oldest_gang = self._runnables.oldest_waiting()
        return ClusterSample(
            policy_disagreements=self._cache.policies.disagreements,
            unknown_policies=self._cache.policies.unknown,
            gated_pods=len(self._cache.gated_pods()),
            waiting_pods=self._runnables.waiting_pods(),
            stuck_pods=self._runnables.stuck.count,
            scale_up_pods=self._runnables.scale_up_pods(),
            provisioning_requests=self._runnables.provisioning_requests(),
            assumed_count=self._cache.assumed_count,
            oldest_waiting_pod=oldest_pod,
            oldest_waiting_gang=oldest_gang,
            preemption_is_paused=self._runnables.preemption_is_paused(),
            nodes_without_topology=nodes_without_topology(self._cache),
            nodes_with_stale_topology=len(silent_exporters(self._cache)),
            rooms=tuple(rooms(snapshot.nodes, self._cache.topologies_by_name().values(), trees)),
        )


def _after(events: Sequence[asyncio.Event], run: Background) -> Background:
    @wraps(run)
    async def run_later() -> NoReturn:
        for event in events:
            await event.wait()
        await run()

    return run_later


def _bundle_keeper(settings: Settings, client: Client) -> CABundleKeeper | None:
    """The keeper of caBundle; None if another tool writes it."""
    if settings.tls_files is not None:
        return None
    return CABundleKeeper(client, (settings.name,), {(settings.namespace, settings.name)})


def _ignore(*_: object) -> None:
    """Ignore a bundle that another tool writes, or results without a reader."""


async def _unless(stop: asyncio.Event, wanted: Coroutine[Any, Any, Result]) -> Result | None:
    """The result of `wanted`; None if `stop` is set first."""
    tasks = asyncio.create_task(wanted), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else None
    finally:
        for task in tasks:
            task.cancel()
