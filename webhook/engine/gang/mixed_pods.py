"""Placement of a gang of several pod classes, or with constraints of its subgroups.

1. Greedy, for all pods (webhook.engine.gang.greedy_search).
2. Exact, for all pods, at the required level, if greedy found nothing (webhook.engine.gang.exact_search).
3. The same for the minimum of elastic gangs; then as many of the others as fit beside.

Steps 2 and 3 are limited. Beyond the limit the answer is "not found", marked as uncertain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from webhook.engine.gang.assignment_request import AssignmentRequest
from webhook.engine.gang.exact_search import assign_exactly
from webhook.engine.gang.greedy_search import GreedySearch
from webhook.engine.gang.pareto_front import TooMuchWork
from webhook.engine.gang.pod_assignment import Row
from webhook.engine.gang.remaining import Remaining
from webhook.engine.gang.slices import PodSlice, SlicedGang
from webhook.engine.topology.tree import Domain


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Assignments for the slices of a gang within a domain."""

    domain: Domain
    rows: Sequence[tuple[tuple[PodSlice, ...], Row]]
    """Assignments, shared by equal slices."""


def assign_mixed(request: AssignmentRequest, sliced: SlicedGang) -> tuple[Found | None, bool]:
    """Assignments, and whether "none" is certain."""
    certain = True
    elastic = any(pod_slice.minimum < len(pod_slice.members) for pod_slice in sliced.all_slices())
    for full in (True, False) if elastic else (True,):
        greedy = GreedySearch(request, full=full)
        domain = greedy.place(sliced, Domain(0, 0), None)
        if domain is None:
            try:
                remaining = Remaining(request.snapshot, request.tree, request.caps)
                liked = greedy.liked(sliced, sliced.constraint.bound)
                exact = assign_exactly(remaining, request.tree, sliced, full, request.effort.steps, liked)
            except TooMuchWork:
                certain = False
                continue
            if exact is None:
                continue
            domain = exact[0]
            greedy.adopt(exact[1])
        if not full:
            greedy.add_extras(sliced, [])
        return Found(domain, greedy.rows_by_slice()), True
    return None, certain
