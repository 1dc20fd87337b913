"""The leader's runnables, created from the settings. A follower has them too, ready to take over.

How a cluster autoscaler is asked for nodes, by the settings.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NoReturn

from webhook.admission.binding.guard import LeaderState
from webhook.admission.kueue_requests import asked_owner
from webhook.app.binding_guard import answer_lifetime, leader_state_of
from webhook.app.clients import Clients
from webhook.app.rules_of_settings import asking_of, rules_of
from webhook.app.settings import Settings
from webhook.controllers import stuck_pods
from webhook.controllers.autoscaling.exporter_reports import MissingExporterReports
from webhook.controllers.autoscaling.marks import ScaleUpMarks
from webhook.controllers.autoscaling.narrowing import Narrowing
from webhook.controllers.autoscaling.provisioning import Provisioning
from webhook.controllers.autoscaling.provisioning_writer import ProvisioningWriter
from webhook.controllers.avoided_node_reports import AvoidedNodeReports
from webhook.controllers.gang_events import GangEvents
from webhook.controllers.gang_repair import GangRepair
from webhook.controllers.gate_removal import GateRemoval
from webhook.controllers.hint_backfill import HintBackfiller
from webhook.controllers.hint_corrections import HintCorrections
from webhook.controllers.metric_recorder import ControllerMetrics
from webhook.controllers.native_group_conditions import NativeGroupConditions
from webhook.controllers.nominator import Nominator
from webhook.controllers.placed_conditions import PlacedConditions
from webhook.controllers.placement.controller import Background, PlacementController
from webhook.controllers.pod_groups import PodGroupKeeper
from webhook.controllers.preemption.controller import PreemptionController
from webhook.controllers.preemption.wave import Waves
from webhook.controllers.rejected_pod_deletion import RejectedPodDeletion
from webhook.controllers.rejection_counter import RejectionCounter
from webhook.controllers.status_reporter import StatusReporter
from webhook.controllers.unbindable_pods import UnbindablePods
from webhook.controllers.unbound_pods import DelegatedPods
from webhook.controllers.waiting_pods import waiting_pods
from webhook.formats.kubernetes.pod import Owner
from webhook.kube.events import EventRecorder
from webhook.kube.leadership import Leadership
from webhook.kube.lease import clock
from webhook.kube.native_pod_group_client import NativePodGroupWrites
from webhook.kube.owners import ReadOwner, read_owner
from webhook.kube.pod_group_client import PodGroups
from webhook.kube.pod_writes import PodWrites
from webhook.kube.provisioning_request_client import ProvisioningWrites
from webhook.placing.planner import Limits, Planner
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules


def scale_up_marks(
    settings: Settings,
    writes: PodWrites,
    requests: ProvisioningWrites,
    cache: ClusterCache,
    planner: Planner,
    events: EventRecorder,
    is_leader: Callable[[], bool],
) -> ScaleUpMarks:
    """Shows the autoscaler the pods that wait for room, and asks it for gangs as a whole where a class is set."""
    asking = asking_of(settings)
    narrowing = Narrowing(cache, writes, events, planner.rules, asking.narrow_after, asking.new_node_seconds, is_leader)
    exporters = MissingExporterReports(events, asking.new_node_seconds)
    provisioning = None
    if asking.provisioning_class:
        writer = ProvisioningWriter(cache, requests, is_leader)
        provisioning = Provisioning(cache, writer, asking.provisioning_class)
    lacking, answers = planner.lacking_room, planner.scale_up
    return ScaleUpMarks(cache, writes, lacking, answers, narrowing, exporters, provisioning, is_leader)


class LeaderRunnables:
    """The placement of gated pods, status reports, PodGroups, nominations, hints and the care of unbound pods.

    In the modes Observe and Off: only the removal of gates from pods that still wait, and Events.
    """

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        cache: ClusterCache,
        metrics: ControllerMetrics,
        pod_groups: PodGroups,
        pod_groups_are_served: Callable[[], bool],
        leadership: Leadership,
    ) -> None:
        def may_give_out() -> bool:
            return leader_state_of(leadership) is LeaderState.ALL

        is_leader = leadership.is_leader
        rules, client = rules_of(settings), clients.placement
        reading = _with_kueue(partial(read_owner, clients.owners), cache, rules)
        writes, slots = PodWrites(client), settings.ungate_concurrency
        self._enforces = settings.mode == "Enforce"
        self.events = events = EventRecorder(client, settings.pod_name or os.uname().nodename)
        status_reporter = StatusReporter(writes, events, cache.gated_pods, metrics)
        release, reserve = settings.ungate_after_seconds, settings.reserve_after_seconds
        limits = Limits(answer_lifetime(settings), slots, release, reserve, settings.preempts, asking_of(settings))
        controller = PlacementController(cache, writes, status_reporter, rules, limits, leadership, reading)
        planner = controller.planner
        settle = settings.nrt_age_seconds + settings.nrt_settle_seconds
        waves = Waves(writes, events, metrics, is_leader, slots)
        self._preemption = PreemptionController(cache, planner, waves, metrics, is_leader, settle)
        self._preempts, self._autoscaler = settings.preempts, settings.autoscaler
        self.marks = scale_up_marks(settings, writes, ProvisioningWrites(client), cache, planner, events, is_leader)
        """Shows a cluster autoscaler the pods that wait for room."""
        self.controller = controller
        self._cache, self._status_reporter = cache, status_reporter
        rejections = RejectionCounter(metrics, is_leader, clock)
        cache.rejections.seen.subscribe(rejections.saw)
        leadership.began.subscribe(rejections.started)
        cache.avoided.began.subscribe(AvoidedNodeReports(events, metrics, is_leader).began)
        keeper = PodGroupKeeper(cache, pod_groups, reading, writes.read, is_leader, pod_groups_are_served)
        controller.gang_examined.subscribe(keeper.saw)
        self._pod_groups = keeper
        native_writes = NativePodGroupWrites(client)
        self._native_groups = NativeGroupConditions(cache, native_writes, is_leader)
        controller.gang_examined.subscribe(self._native_groups.saw)
        self._gang_events = GangEvents(cache, events, is_leader, settings.warn_after_seconds)
        controller.gang_examined.subscribe(self._gang_events.saw)
        self._conditions = PlacedConditions(cache, writes, status_reporter.reported_reason, is_leader)
        self.nominator = Nominator(cache, writes, rules, is_leader)
        self._hint_backfiller = HintBackfiller(cache, writes, events, may_give_out, metrics, slots)
        self._hint_corrections = HintCorrections(cache, writes, events, may_give_out, metrics, slots)
        self._gate_removal = GateRemoval(cache, writes, events, settings.mode, is_leader, metrics, slots)
        self._delegated = DelegatedPods(cache, writes, events, rules, is_leader)
        self._unbindable = UnbindablePods(cache, writes, events, rules, is_leader, slots)
        self._gang_repair: GangRepair | None = None
        if settings.repair == "Gang":
            self._gang_repair = GangRepair(cache, writes, events, rules, is_leader, metrics)
            controller.gang_examined.subscribe(self._gang_repair.saw)
        after = settings.delete_rejected_after_seconds
        self._rejected = RejectedPodDeletion(cache, writes, after, is_leader, metrics) if after else None
        patience = stuck_pods.Limits(settings.stuck_after_seconds, settings.evict_stuck)
        self.stuck = stuck_pods.StuckPods(cache, writes, events, rules, patience, is_leader, metrics)

    def waiting_pods(self) -> Mapping[tuple[str, str], int]:
        """How many pods wait, by namespace and reason, as far as a leader has tried them."""
        return waiting_pods(self._cache.gated_pods(), self._status_reporter.reason_of)

    def scale_up_pods(self) -> Mapping[str, int]:
        """Autoscaler -> pods that are marked for it; empty without one."""
        return {self._autoscaler: self.marks.count} if self._autoscaler != "None" else {}

    def provisioning_requests(self) -> Mapping[str, int]:
        """Answer -> our ProvisioningRequests; empty without a provisioning class."""
        return self.marks.requests()

    async def _write_events(self) -> NoReturn:
        # The scheduler binds the pods of a burst for some seconds after the last one was ungated.
        await self.events.run(lambda: self.controller.is_in_burst() or self._conditions.is_delayed())

    def background(self) -> Iterator[Background]:
        """The tasks that run as long as the process."""
        yield self._write_events
        if not self._enforces:
            yield self._gate_removal.run
            return  # all others write what was decided
        yield from self.controller.background()
        yield from self._pod_groups.background()
        if self._preempts:
            yield self._preemption.run
        yield self.marks.run
        yield self._native_groups.run
        yield self._gang_events.run
        yield self._conditions.run
        yield self.nominator.run
        yield self._hint_backfiller.run
        yield self._hint_corrections.run
        yield self._delegated.run
        yield self._unbindable.run
        yield self.stuck.run
        if self._rejected is not None:
            yield self._rejected.run
        if self._gang_repair is not None:
            yield self._gang_repair.run


def _with_kueue(read: ReadOwner, cache: ClusterCache, rules: Rules) -> ReadOwner:
    """Owners with Kueue's annotations read as ours, where the settings say so."""
    if not rules.kueue_annotations:
        return read

    async def read_as_ours(namespace: str, owner: Owner) -> Mapping[str, Any] | None:
        raw = await read(namespace, owner)
        return None if raw is None else asked_owner(raw, cache.topologies_by_name(), rules)

    return read_as_ours
