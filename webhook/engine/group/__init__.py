"""Where a whole group of pods goes: one domain or the fewest, down to the node and NUMA node of every pod."""

from webhook.engine.group.asked import Effort
from webhook.engine.group.place import place_group
from webhook.engine.group.result import GroupPlacement, PodPlacement, Seats, Shortfall
from webhook.engine.group.spec import ANYWHERE, Constraint, Member, PodGroup, PodSet, Segments
from webhook.engine.group.workload import check_group, group_of, place_workload, topology_of

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
