"""Placement of a gang of several pod classes, or with constraints of its subgroups.

1. Greedy, for all pods: slice by slice (`GreedySearch`).
2. Exact, for all pods, at the required level, if greedy found nothing (webhook.engine.gang.exact_search).
3. The same for the minimum of elastic gangs; then as many of the others as fit beside.

Steps 2 and 3 are limited. Beyond the limit the answer is "not found", marked as uncertain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from webhook.engine.arrays import Amounts, Bools
from webhook.engine.gang.assignment_request import AssignmentRequest
from webhook.engine.gang.equal_pods import EqualPods, assign_equal
from webhook.engine.gang.exact_search import assign_exactly, pinned
from webhook.engine.gang.gang_spec import ANYWHERE, Constraint
from webhook.engine.gang.pareto_front import TooMuchWork
from webhook.engine.gang.pod_assignment import Row, joined, row_of
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.pod_counts import Count
from webhook.engine.gang.remaining import Remaining
from webhook.engine.gang.slices import PodSlice, SlicedGang, pods_by_class
from webhook.engine.topology.tree import Domain
from webhook.model.options import GangStrategy


class GreedySearch:
    """Slices placed one after the other.

    1. Domains: those with enough capacity for each class by itself, at the preferred level first (without one, at the
       finest), those whose nodes the pods prefer first, then the tightest.
    2. In each domain: subgroups with their own constraints (finest first, including their segments'), then slices
       (largest pods first), each by webhook.engine.gang.equal_pods, in what the earlier ones left, and beside them if
       possible.
    3. If the domain does not hold all of them, the state before it is restored, and the next one is tried.
    """

    def __init__(self, request: AssignmentRequest, *, full: bool) -> None:
        self.rows: list[tuple[PodSlice, Row]] = []
        self._tree = request.tree
        self._remaining = Remaining(request.snapshot, request.tree, request.caps)
        self._strategy = request.strategy
        self._effort = request.effort
        self._preference = request.preference
        self._full = full
        self._allowed: Bools | None = None
        self._tries: int | None = None
        """Set by the first call, for the whole gang. Subgroups within subgroups multiply the domains to try."""

    def place(self, sliced: SlicedGang, within: Domain, preferred: int | None) -> Domain | None:
        """Place a subgroup; the domain that holds it, None if that failed or the limit of tries is reached."""
        if self._tries is None:
            self._tries = self._effort.tries + 4 * _count(sliced)
        self._tries -= 1
        preferred = sliced.constraint.preferred or preferred
        if not sliced.subgroups and len(sliced.pod_slices) == 1 and sliced.pod_slices[0].constraint is ANYWHERE:
            return self._pod_slice(sliced.pod_slices[0], sliced.constraint, within, preferred)
        for level in self._levels(sliced.constraint, within):
            for domain in self._candidates(sliced, level, within)[: self._effort.domains]:
                if self._tries <= 0:
                    return None
                if any(self._fills(sliced, domain, preferred, few) for few in self._few(sliced, domain)):
                    return domain
        return None

    def _levels(self, constraint: Constraint, within: Domain) -> Iterator[int]:
        """The levels to try. Without a preferred one, finer levels come first: they keep the classes together."""
        levels = constraint.within(within.level).levels()
        if constraint.preferred is None:
            yield from range(self._tree.node_level - 1, levels.start, -1)
        yield from levels

    def rows_by_slice(self) -> list[tuple[tuple[PodSlice, ...], Row]]:
        """One row for each slice: its minimum first."""
        rows: dict[int, tuple[PodSlice, list[Row]]] = {}
        for pod_slice, row in self.rows:
            rows.setdefault(id(pod_slice), (pod_slice, []))[1].append(row)
        return [((pod_slice,), joined(parts)) for pod_slice, parts in rows.values()]

    def adopt(self, rows: Sequence[tuple[PodSlice, Row]]) -> None:
        """Adopt assignments found by another search."""
        for pod_slice, row in rows:
            self.rows.append((pod_slice, row))
            self._remaining.take(pod_slice.pod_class, row.taken(self._remaining.snapshot.node_arrays.z))

    def add_extras(self, sliced: SlicedGang, bounds: list[tuple[int, SlicedGang]]) -> None:
        """Assignments for pods beyond the minimum, beside those already placed."""
        if sliced.constraint.required is not None:
            bounds = [*bounds, (sliced.constraint.required, sliced)]
        for subgroup in sliced.subgroups:
            self.add_extras(subgroup, bounds)
        for pod_slice in sliced.pod_slices:
            self._extend(pod_slice, sliced, bounds)

    def _extend(self, pod_slice: PodSlice, sliced: SlicedGang, bounds: Sequence[tuple[int, SlicedGang]]) -> None:
        assigned = sum(len(row.nodes) for of, row in self.rows if of is pod_slice)
        missing = len(pod_slice.members) - assigned
        if not missing or (pod_slice.segments is not None and assigned % pod_slice.segments.size):
            return
        slots, counted = self._remaining.slots(pod_slice.pod_class)
        for level, owner in bounds:
            beside = self._positions_of(owner.all_slices())
            if beside is not None:
                held_to = int(self._tree.sums(level, beside).argmax())
                slots = _only(slots, self._tree.span(Domain(level, held_to)))
        pods = EqualPods(
            count=missing,
            minimum=1,
            constraint=Constraint(max((level for level, _ in bounds), default=None), None),
            segments=pod_slice.segments,
            strategy=self._strategy,
            members=self._positions_of((pod_slice,)),
            preference=self._preference.of((pod_slice,), slots),
        )
        plan = assign_equal(self._tree, slots, pods)
        if plan is None:
            return
        taken = self._remaining.assign(counted, plan.nodes)
        self._remaining.take(pod_slice.pod_class, taken)
        self.rows.append((pod_slice, row_of(taken)))

    def _positions_of(self, pod_slices: Sequence[PodSlice]) -> Amounts | None:
        """int64 [position]: pods of these slices placed so far; None = none."""
        nodes = [
            row.nodes
            for pod_slice, row in self.rows
            if any(pod_slice is other for other in pod_slices) and len(row.nodes)
        ]
        if not nodes:
            return None
        return np.bincount(self._tree.positions()[np.concatenate(nodes)], minlength=self._tree.n)

    def _candidates(self, sliced: SlicedGang, level: int, within: Domain) -> list[Domain]:
        """Domains of a level with capacity for each class by itself, best first."""
        possible = np.zeros(self._tree.size(level), dtype=np.bool_)
        possible[self._tree.under(within, level)] = True
        possible &= self._tree.real(level)
        held_to = pinned(self._tree, sliced.running, sliced.constraint.required)
        if held_to is not None and sliced.constraint.required is not None:
            inside = self._tree.under(Domain(sliced.constraint.required, held_to), level)
            possible[: inside.start] = False
            possible[inside.stop :] = False
        domain_capacity = np.zeros(len(possible), dtype=np.int64)
        needs = pods_by_class(sliced.all_slices(), self._wanted)
        possible &= self._remaining.totals_suffice(level, needs)
        for pod_class, need in needs:
            here = self._tree.sums(level, self._slots(pod_class)[0])
            possible &= here >= need
            domain_capacity += here
        # The more capacity beside a minimum, the more of the others fit.
        keys = [domain_capacity if self._full and self._strategy is not GangStrategy.SPREAD else -domain_capacity]
        if (liked := self.liked(sliced, level)) is not None:
            keys.insert(1 if self._full else 0, -liked)
        if sliced.running is not None:
            keys.append(-self._tree.sums(level, sliced.running))
        return [Domain(level, number) for number in np.lexsort(keys).tolist() if possible[number]]

    def liked(self, sliced: SlicedGang, level: int) -> Amounts | None:
        """int64 [domain]: how much a subgroup's pods prefer the capacity of a level's domains; None = all equally."""
        if self._preference.empty:
            return None
        shares = (
            (pod_slice, self._slots(pod_slice.pod_class)[0], self._wanted(pod_slice))
            for pod_slice in sliced.all_slices()
        )
        return self._preference.of_domains(level, shares)

    def _few(self, sliced: SlicedGang, domain: Domain) -> Iterator[Bools | None]:
        """The nodes to try, in the fewest domains of the preferred level first: bool [position]; None = all."""
        preferred = sliced.constraint.preferred
        if preferred is not None and preferred > domain.level and self._allowed is None:
            under = self._tree.under(domain, preferred)
            needs = pods_by_class(sliced.all_slices(), self._wanted)
            capacities = [self._tree.sums(preferred, self._slots(pod_class)[0])[under] for pod_class, _ in needs]
            # A domain's value is the fraction of each class that it holds; domains with running members come first.
            worth = np.zeros(under.stop - under.start)
            for domain_capacity, (_, need) in zip(capacities, needs, strict=True):
                worth += np.minimum(domain_capacity / max(need, 1), 1.0)
            if sliced.running is not None:
                worth[self._tree.sums(preferred, sliced.running)[under] > 0] += len(needs)
            order = np.argsort(-worth, kind="stable")
            if self._strategy is GangStrategy.NEAREST:
                order = np.lexsort((-worth, self._steps(preferred, under, int(order[0]))))
            reached = [
                domain_capacity[order].cumsum() >= need
                for domain_capacity, (_, need) in zip(capacities, needs, strict=True)
            ]
            enough = np.flatnonzero(np.logical_and.reduce(reached))
            for last in enough[: self._effort.domains].tolist():
                allowed = np.zeros(self._tree.n, dtype=np.bool_)
                for number in order[: last + 1].tolist():
                    allowed[self._tree.span(Domain(preferred, under.start + number))] = True
                yield allowed
        yield None

    def _steps(self, level: int, among: slice, first: int) -> Amounts:
        """int64 [domain]: the levels up to what each of some domains shares with the first of them."""
        owners = (self._tree.owners(coarser, level)[among] for coarser in range(level))
        steps: Amounts = np.sum([above != above[first] for above in owners], axis=0, dtype=np.int64)
        return steps

    def _fills(self, sliced: SlicedGang, domain: Domain, preferred: int | None, few: Bools | None) -> bool:
        """Place a subgroup in a domain, on a choice of nodes; on failure, restore the earlier state."""
        saved, rows, allowed = self._remaining.save(), len(self.rows), self._allowed
        if few is not None:
            self._allowed = few
        filled = self._fill(sliced, domain, preferred)
        self._allowed = allowed
        if not filled:
            self._remaining.restore(saved)
            del self.rows[rows:]
        return filled

    def _slots(self, pod_class: PodClass) -> tuple[Amounts, Count]:
        """The remaining slots, on the allowed nodes."""
        slots, counted = self._remaining.slots(pod_class)
        return (slots if self._allowed is None else slots * self._allowed), counted

    def _fill(self, sliced: SlicedGang, domain: Domain, preferred: int | None) -> bool:
        for subgroup in sorted(sliced.subgroups, key=lambda subgroup: -_finest(subgroup)):
            if self.place(subgroup, domain, preferred) is None:
                return False
        pod_slices = sorted(sliced.pod_slices, key=lambda pod_slice: -max(pod_slice.pod_class.node.values()))
        return all(
            self._pod_slice(pod_slice, pod_slice.constraint, domain, preferred) is not None for pod_slice in pod_slices
        )

    def _pod_slice(
        self, pod_slice: PodSlice, constraint: Constraint, within: Domain, preferred: int | None
    ) -> Domain | None:
        count = self._wanted(pod_slice)
        if not count:
            return within
        slots, counted = self._slots(pod_slice.pod_class)
        bound = max(constraint.bound, within.level)
        members = pod_slice.running
        if members is None and constraint is ANYWHERE and self._strategy is not GangStrategy.BALANCED:
            members = self._beside(within)
        pods = EqualPods(
            count=count,
            minimum=count,
            constraint=Constraint(bound, max(preferred, bound) if preferred is not None else None),
            segments=pod_slice.segments,
            strategy=self._strategy,
            members=members,
            preference=self._preference.of((pod_slice,), slots),
        )
        plan = assign_equal(self._tree, _only(slots, self._tree.span(within)), pods)
        if plan is None:
            return None
        taken = self._remaining.assign(counted, plan.nodes)
        self._remaining.take(pod_slice.pod_class, taken)
        last = [self._tree.order[tail].astype(np.int64) for tail in plan.tails]
        self.rows.append((pod_slice, row_of(taken, last)))
        return plan.domain

    def _beside(self, within: Domain) -> Amounts | None:
        """int64 [position]: pods of the gang placed so far within a domain, which attract others; None = none."""
        assigned = self._positions_of([pod_slice for pod_slice, _ in self.rows])
        if assigned is None:
            return None
        assigned = _only(assigned, self._tree.span(within))
        return assigned if assigned.any() else None

    def _wanted(self, pod_slice: PodSlice) -> int:
        return len(pod_slice.members) if self._full else pod_slice.minimum


def _count(sliced: SlicedGang) -> int:
    """The number of subgroups, the gang included."""
    return 1 + sum(map(_count, sliced.subgroups))


def _finest(sliced: SlicedGang) -> int:
    """The finest level at which all pods of a subgroup, or those of a segment, must be together."""
    segments = (pod_slice.segments for pod_slice in sliced.all_slices())
    levels = (each.finest.constraint.bound for each in segments if each is not None)
    return max([sliced.constraint.bound, *map(_finest, sliced.subgroups), *levels])


def _only(slots: Amounts, span: slice) -> Amounts:
    """The same slots within a range of positions, none elsewhere."""
    inside = np.zeros_like(slots)
    inside[span] = slots[span]
    return inside


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
