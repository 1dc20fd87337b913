"""What the placement controller needs around it: the cluster, whether it leads, its settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from webhook.controllers.placement.assignment_writer import PromisingCache
from webhook.controllers.placement.gated_gang import GangCache
from webhook.engine.snapshot.ledger import Reservation
from webhook.model.membership import AssignedMember


class GatedCache(PromisingCache, GangCache, Protocol):
    """What the controller needs of the cluster."""

    on_change: Callable[[], None]

    def gated_pods(self) -> Mapping[str, dict[str, Any]]:
        """The pods that only our gate holds back."""

    def assumed_node(self, pod: str) -> str | None:
        """The node that a pod was given and does not show yet; None when it was given none."""

    def unasked(self, group: str) -> Mapping[str, AssignedMember]:
        """Pods of a controller that were bound before they could take their group from it."""

    def assigned_members(self, group: str) -> Mapping[str, AssignedMember]:
        """The members of a group that have a place, by namespace/name; not to be changed."""

    def assigned(self, node: str) -> tuple[Reservation, ...]:
        """What is promised to pods that are placed on the node and not bound yet."""


class LeadershipState(Protocol):
    """Whether we lead."""

    def is_leader(self) -> bool:
        """Whether we do at this moment."""

    def seconds_until_settled(self) -> float:
        """How long what the last leader has under way may still come; 0 when nothing can."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings of the controller."""

    assume_ttl: float
    """Seconds after which a write that was not seen never will be."""
    concurrency: int
    """Pods that are written at a time."""
    ungate_after: float = 0.0
    """Seconds after which a pod is let go without a place; 0: never."""
    reserve_after: float = 0.0
    """Seconds after which a group has its domain kept; 0: never."""
