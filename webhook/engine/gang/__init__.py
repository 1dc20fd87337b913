"""Where a whole group of pods goes: one domain or the fewest, down to the node and NUMA node of every pod."""

from webhook.engine.gang.assignment_request import Effort
from webhook.engine.gang.gang_assignment import place_group
from webhook.engine.gang.gang_spec import ANYWHERE, Constraint, Member, PodGroup, PodSet, Segments
from webhook.engine.gang.result import GroupPlacement, PodPlacement, Seats, Shortfall
from webhook.engine.gang.workload_gang import check_group, group_of, place_workload, topology_of

__all__ = [
    "ANYWHERE",
    "Constraint",
    "Effort",
    "GroupPlacement",
    "Member",
    "PodGroup",
    "PodPlacement",
    "PodSet",
    "Seats",
    "Segments",
    "Shortfall",
    "check_group",
    "group_of",
    "place_group",
    "place_workload",
    "topology_of",
]
