"""The placement controller, put together from the settings."""

import os
from collections.abc import Callable
from functools import partial
from typing import Final

from webhook.cluster.client import Client
from webhook.cluster.events import EventRecorder
from webhook.cluster.owners import read_owner
from webhook.cluster.pace import Pace
from webhook.cluster.pod_groups import PodGroups
from webhook.cluster.writes import PodWrites
from webhook.placement import stuck
from webhook.placement.controller import PlacementController
from webhook.placement.figures import Figures
from webhook.placement.late_hints import LateHints
from webhook.placement.nominate import Nominator
from webhook.placement.podgroups import PodGroupKeeper
from webhook.placement.surroundings import Limits
from webhook.placement.teller import Teller
from webhook.rules import rules_of
from webhook.server.bindings import Duty
from webhook.service.guarding import answer_lifetime, duty_of
from webhook.service.leadership import Leadership
from webhook.service.world import ClusterWorld
from webhook.settings import Settings

# Writes of placements: a burst is a large group's pods; on average no more than one API server writes in a second.
_RATE: Final = 500.0
_BURST: Final = 500


def placement_pace() -> Pace:
    """How fast placements are written, apart from all other calls."""
    return Pace(_RATE, _BURST)


def events_of(settings: Settings, client: Client) -> EventRecorder:
    """Who tells of pods."""
    return EventRecorder(client, settings.pod_name or os.uname().nodename)


def controller_of(
    settings: Settings,
    client: Client,
    events: EventRecorder,
    world: ClusterWorld,
    leadership: Callable[[], Leadership],
    figures: Figures,
) -> PlacementController:
    """The controller; `leadership` is asked when it works, for it is one of the leader's duties itself."""
    writes = PodWrites(client)
    limits = Limits(
        answer_lifetime(settings),
        settings.ungate_concurrency,
        settings.release_after_seconds,
        settings.reserve_after_seconds,
    )
    teller = Teller(writes, events, world.gated_pods, figures)
    reading = partial(read_owner, client)
    return PlacementController(world, writes, teller, rules_of(settings), limits, leadership, reading)


def pod_group_keeper_of(
    client: Client,
    world: ClusterWorld,
    pod_groups: PodGroups,
    is_leader: Callable[[], bool],
    is_served: Callable[[], bool],
) -> PodGroupKeeper:
    """Who keeps KAI-Scheduler's PodGroups in step, where they are served."""
    reading = partial(read_owner, client)
    return PodGroupKeeper(world, pod_groups, reading, PodWrites(client).read, is_leader, is_served)


def stuck_pods_of(
    settings: Settings,
    client: Client,
    events: EventRecorder,
    world: ClusterWorld,
    is_leader: Callable[[], bool],
    figures: Figures,
) -> stuck.StuckPods:
    """Who looks after pods that were let go and found no node."""
    limits = stuck.Limits(settings.stuck_after_seconds, settings.evict_stuck)
    return stuck.StuckPods(world, PodWrites(client), events, rules_of(settings), limits, is_leader, figures)


def nominator_of(settings: Settings, client: Client, world: ClusterWorld, is_leader: Callable[[], bool]) -> Nominator:
    """Who names nodes for pods whose binding was refused."""
    return Nominator(world, PodWrites(client), rules_of(settings), is_leader)


def late_hints_of(
    settings: Settings,
    client: Client,
    events: EventRecorder,
    world: ClusterWorld,
    leadership: Leadership,
    figures: Figures,
) -> LateHints:
    """Who writes the hints of pods that were bound while nobody answered."""

    def may_write() -> bool:
        return duty_of(leadership) is Duty.ALL

    return LateHints(world, PodWrites(client), events, may_write, figures, settings.ungate_concurrency)
