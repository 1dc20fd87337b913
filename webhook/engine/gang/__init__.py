"""Placement of a gang: one domain or as few as possible, down to the node and NUMA nodes of every pod."""

from webhook.engine.gang.assignment_request import Effort
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import ANYWHERE, Constraint, Gang, Member, PodSet, Segments
from webhook.engine.gang.result import GangAssignment, PodAssignment, PodSetAssignment, Shortfall
from webhook.engine.gang.workload_gang import assign_workload, check_gang, gang_of, topology_of

__all__ = [
    "ANYWHERE",
    "Constraint",
    "Effort",
    "Gang",
    "GangAssignment",
    "Member",
    "PodAssignment",
    "PodSet",
    "PodSetAssignment",
    "Segments",
    "Shortfall",
    "assign_gang",
    "assign_workload",
    "check_gang",
    "gang_of",
    "topology_of",
]
