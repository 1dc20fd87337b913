"""The leader's runnables, created from the settings. A follower has them too, ready to take over."""

import os
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn

from webhook.admission.default_levels import asked_owner
from webhook.app.binding_guard import answer_lifetime
from webhook.app.clients import Clients
from webhook.app.settings import Settings, asking_of, rules_of
from webhook.controllers import stuck_pods
from webhook.controllers.admission_checks import AdmissionChecks
from webhook.controllers.allocation_backfill import AllocationBackfiller
from webhook.controllers.allocation_corrections import AllocationCorrections
from webhook.controllers.autoscaling.exporter_reports import MissingExporterReports
from webhook.controllers.autoscaling.marks import ScaleUpMarks
from webhook.controllers.autoscaling.narrowing import Narrowing
from webhook.controllers.autoscaling.provisioning import Provisioning
from webhook.controllers.autoscaling.provisioning_writer import ProvisioningWriter
from webhook.controllers.claim_take_back import ClaimTakeBack
from webhook.controllers.gang_events import GangEvents
from webhook.controllers.gang_repair import GangRepair
from webhook.controllers.gate_removal import GateRemoval
from webhook.controllers.metric_recorder import ControllerMetrics
from webhook.controllers.native_group_conditions import NativeGroupConditions
from webhook.controllers.nominator import Nominator
from webhook.controllers.placed_conditions import PlacedConditions
from webhook.controllers.placement.controller import Background, PlacementController
from webhook.controllers.pod_groups import PodGroupKeeper
from webhook.controllers.preemption.controller import PreemptionController
from webhook.controllers.preemption.wave import Waves
from webhook.controllers.rejected_pod_deletion import RejectedPodDeletion
from webhook.controllers.rejection_reports import AvoidedNodeReports, RejectionCounter
from webhook.controllers.status_reporter import StatusReporter
from webhook.controllers.unbindable_pods import UnbindablePods
from webhook.controllers.unbound_pods import DelegatedPods
from webhook.controllers.waiting_pods import oldest_waiting, waiting_pods
from webhook.formats.kubernetes.pod import Owner
from webhook.kube.claim_writes import ClaimWrites
from webhook.kube.events import EventRecorder
from webhook.kube.kueue_client import AdmissionCheckWrites
from webhook.kube.leadership import Leadership
from webhook.kube.lease import clock
from webhook.kube.owners import ReadOwner, read_owner
from webhook.kube.pod_group_client import NativePodGroupWrites, PodGroups
from webhook.kube.pod_writes import PodWrites
from webhook.kube.provisioning_request_client import ProvisioningWrites
from webhook.placing.planner import Limits, Planner
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Mode, Rules

WRITES_AT_A_TIME: Final = 16
"""Gated pods that are written at a time. A write takes the API server some 16 ms under load: so 1,000 pods a second,
more than kube-scheduler binds."""


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


@dataclass(frozen=True, slots=True)
class Runnable:
    """A task of the process, and the modes in which it runs."""

    run: Background
    modes: AbstractSet[Mode] = frozenset({"Enforce"})


class LeaderRunnables:
    """The leader's tasks: `runnables` lists them all.

    Most write what was decided, so they run in mode Enforce alone. In the modes Observe and Off gates are removed from
    pods that still wait.
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
            return leads() and not any(leadership.seconds_until_settled(shard) > 0 for shard in leadership.led())

        is_leader, leads = leadership.is_leader, leadership.leads_any
        rules, client = rules_of(settings), clients.placement
        reading = _as_asked(partial(read_owner, clients.owners), cache, rules)
        writes, slots = PodWrites(client), WRITES_AT_A_TIME
        self._cache, self._mode, self._autoscaler = cache, settings.mode, settings.autoscaler
        self.events = events = EventRecorder(client, settings.pod_name or os.uname().nodename)
        self._status_reporter = status_reporter = StatusReporter(writes, events, cache.gated_pods, metrics)
        release, reserve = settings.ungate_after_seconds, settings.reserve_after_seconds
        limits = Limits(answer_lifetime(settings), slots, release, reserve, settings.preempts, asking_of(settings))
        self.controller = PlacementController(
            cache, writes, status_reporter, rules, limits, leadership, reading, claim_writes=ClaimWrites(client)
        )
        planner = self.controller.planner
        self.marks = scale_up_marks(settings, writes, ProvisioningWrites(client), cache, planner, events, leads)
        """Shows a cluster autoscaler the pods that wait for room."""
        self.nominator = Nominator(cache, writes, rules, leads)
        patience = stuck_pods.Limits(settings.stuck_after_seconds, settings.evict_stuck)
        self.stuck = stuck_pods.StuckPods(cache, writes, events, rules, patience, leads, metrics)
        self._conditions = PlacedConditions(cache, writes, status_reporter.reported_reason, leads)
        rejections = RejectionCounter(metrics, is_leader, clock)
        cache.rejections.seen.subscribe(rejections.saw)
        leadership.began.subscribe(rejections.started)
        cache.avoided.began.subscribe(AvoidedNodeReports(events, metrics, is_leader).began)
        keeper = PodGroupKeeper(cache, pod_groups, reading, writes.read, leads, pod_groups_are_served)
        native_groups = NativeGroupConditions(cache, NativePodGroupWrites(client), leads)
        gang_events = GangEvents(cache, events, leads, settings.warn_after_seconds)
        for saw in (keeper.saw, native_groups.saw, gang_events.saw):
            self.controller.gang_examined.subscribe(saw)
        self.runnables = [
            Runnable(self._write_events, frozenset({"Enforce", "Observe", "Off"})),
            Runnable(
                GateRemoval(cache, writes, events, settings.mode, is_leader, metrics, slots).run,
                frozenset({"Observe", "Off"}),
            ),
            *map(Runnable, self.controller.background()),
            *map(Runnable, keeper.background()),
            Runnable(self.marks.run),
            Runnable(native_groups.run),
            Runnable(gang_events.run),
            Runnable(self._conditions.run),
            Runnable(self.nominator.run),
            Runnable(AllocationBackfiller(cache, writes, events, may_give_out, metrics, slots).run),
            Runnable(AllocationCorrections(cache, writes, events, may_give_out, metrics, slots).run),
            Runnable(DelegatedPods(cache, writes, events, rules, leads).run),
            Runnable(UnbindablePods(cache, writes, events, rules, leads, slots).run),
            Runnable(self.stuck.run),
        ]
        if settings.dynamic_resources:
            take_back = ClaimTakeBack(cache, ClaimWrites(client), self.controller.has_fenced)
            self.runnables.append(Runnable(take_back.run))
        if settings.preempts:
            waves = Waves(writes, events, metrics, leads, slots)
            settle = cache.times.age + cache.times.settle
            preemption = PreemptionController(cache, planner, waves, metrics, leads, settle)
            self.runnables.append(Runnable(preemption.run))
        if settings.kueue_admission_check:
            checks = AdmissionChecks(cache, AdmissionCheckWrites(client), planner.trees, rules, reading, is_leader)
            self.runnables.append(Runnable(checks.run))
        if after := settings.delete_rejected_after_seconds:
            self.runnables.append(Runnable(RejectedPodDeletion(cache, writes, after, is_leader, metrics).run))
        if settings.repair == "Gang":
            repair = GangRepair(cache, writes, events, planner, leads, metrics)
            self.controller.gang_examined.subscribe(repair.saw)
            self.runnables.append(Runnable(repair.run))

    def waiting_pods(self) -> Mapping[tuple[str, str], int]:
        """How many pods wait, by namespace and reason, as far as a leader has tried them."""
        return waiting_pods(self._cache.gated_pods(), self._status_reporter.reason_of)

    def oldest_waiting(self) -> tuple[int | None, int | None]:
        """When the oldest waiting pod was created, and the oldest one of a gang."""
        return oldest_waiting(self._cache.gated_pods().values())

    def preemption_is_paused(self) -> bool:
        """Whether pods are preempted for nobody at present, or not for a namespace, because it had no effect."""
        return self.controller.planner.preemptors.in_vain.is_paused

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
        """The tasks that run in this mode, as long as the process does."""
        return (each.run for each in self.runnables if self._mode in each.modes)


def _as_asked(read: ReadOwner, cache: ClusterCache, rules: Rules) -> ReadOwner:
    """Owners as their pods read them."""

    async def read_as_asked(namespace: str, owner: Owner) -> Mapping[str, Any] | None:
        raw = await read(namespace, owner)
        return None if raw is None else asked_owner(raw, cache.snapshot(), rules)

    return read_as_asked
