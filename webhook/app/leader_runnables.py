"""What the leader does beside answering, put together from the settings; a follower is ready to take it over."""

import os
from collections.abc import Callable, Iterator
from functools import partial

from webhook.admission.binding.guard import Duty
from webhook.app.binding_guard import answer_lifetime, duty_of
from webhook.app.clients import Clients
from webhook.app.leadership import Leadership
from webhook.app.rules_of_settings import rules_of
from webhook.app.settings import Settings
from webhook.cache.cluster_cache import ClusterWorld
from webhook.controllers import stuck_pods
from webhook.controllers.hint_backfill import LateHints
from webhook.controllers.hint_corrections import HintCorrections
from webhook.controllers.metric_recorder import Figures
from webhook.controllers.nominator import Nominator
from webhook.controllers.placement.controller import Background, PlacementController
from webhook.controllers.placement.dependencies import Limits
from webhook.controllers.pod_groups import PodGroupKeeper
from webhook.controllers.status_reporter import Teller
from webhook.controllers.unbindable_pods import UnbindablePods
from webhook.controllers.unbound_pods import DelegatedPods
from webhook.kube.events import EventRecorder
from webhook.kube.owners import read_owner
from webhook.kube.pod_group_client import PodGroups
from webhook.kube.pod_writes import PodWrites


class LeadersWork:
    """Placing what is gated, and what goes with it: telling of it, PodGroups, nominations, hints, unbound pods."""

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        world: ClusterWorld,
        figures: Figures,
        pod_groups: PodGroups,
        pod_groups_are_served: Callable[[], bool],
        leadership: Callable[[], Leadership],
    ) -> None:
        """`leadership` is asked when there is work: the controller is one of its duties, so that it comes later."""

        def is_leader() -> bool:
            return leadership().is_leader()

        def may_give_out() -> bool:
            return duty_of(leadership()) is Duty.ALL

        rules, client = rules_of(settings), clients.placement
        reading = partial(read_owner, clients.owners)
        writes, slots = PodWrites(client), settings.ungate_concurrency
        self._events = events = EventRecorder(client, settings.pod_name or os.uname().nodename)
        teller = Teller(writes, events, world.gated_pods, figures)
        release, reserve = settings.release_after_seconds, settings.reserve_after_seconds
        limits = Limits(answer_lifetime(settings), slots, release, reserve)
        self.controller = PlacementController(world, writes, teller, rules, limits, leadership, reading)
        keeper = PodGroupKeeper(world, pod_groups, reading, writes.read, is_leader, pod_groups_are_served)
        self.controller.on_gang = keeper.saw
        self._pod_groups = keeper
        self.nominator = Nominator(world, PodWrites(client), rules, is_leader)
        self._late_hints = LateHints(world, PodWrites(client), events, may_give_out, figures, slots)
        self._hint_corrections = HintCorrections(world, PodWrites(client), events, may_give_out, figures, slots)
        self._delegated = DelegatedPods(world, PodWrites(client), events, rules, is_leader)
        self._unbindable = UnbindablePods(world, PodWrites(client), events, rules, is_leader, slots)
        patience = stuck_pods.Limits(settings.stuck_after_seconds, settings.evict_stuck)
        self.stuck = stuck_pods.StuckPods(world, PodWrites(client), events, rules, patience, is_leader, figures)

    def background(self) -> Iterator[Background]:
        """What runs for as long as the process does."""
        yield from self.controller.background()
        yield from self._pod_groups.background()
        yield self.nominator.run
        yield self._late_hints.run
        yield self._hint_corrections.run
        yield self._delegated.run
        yield self._unbindable.run
        yield self.stuck.run
        yield self._events.run
