"""The exact search for an assignment of several pod classes with their own constraints, within a limit of work.

What a gang is to the search:
1. Each slice is one class of pods, or several: its whole segments, and the smaller last one, which again consists of
   whole segments of the next finer layer and a smaller last one.
2. The front of a node: what fits on the node as a whole and, for classes bound to single NUMA nodes, into those
   together. Nodes in the same state share their front.
3. Constraints become rules; running members pin them to their domains.
4. Domains of the gang's level are tried, those that the pods prefer first, then the tightest.

`Search` then combines fronts over the tree. Fronts are lossless, so if it finds no assignment, there is none.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from webhook.engine.arrays import UNLISTED, Amounts, Bools
from webhook.engine.cpu_cores import WholeCoresOfClasses
from webhook.engine.gang.gang_spec import Segments
from webhook.engine.gang.pareto_front import Budget, ParetoFront, Vector, both, common, covers, maximal, packings, split
from webhook.engine.gang.pod_assignment import Row, joined, row_of
from webhook.engine.gang.pod_counts import Count
from webhook.engine.gang.remaining import Remaining, Taken
from webhook.engine.gang.slices import PodSlice, SlicedGang
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree


@dataclass(frozen=True, slots=True)
class Together:
    """All pods of these classes are in one domain of a level."""

    level: int
    classes: tuple[int, ...]
    """Their positions in the vectors."""
    pinned: int | None = None
    """The only allowed domain; None: any."""


@dataclass(frozen=True, slots=True)
class InSegments:
    """Each segment of `size` pods of a class is in one domain of a level."""

    level: int
    index: int
    """The position of the class in the vectors."""
    size: int


Rule = Together | InSegments


class Search:
    """The search for one gang in one tree: all its pod classes at once.

    1. From the nodes upwards, compute the Pareto front of each domain by combining those of its subdomains
       (webhook.engine.gang.pareto_front).
    2. At a constraint's level, reduce vectors to what the constraint allows: classes that belong together are all in
       one domain of that level or not in it at all, and segments are whole.
    3. A domain whose front covers the whole gang holds it; the share of each subdomain is read back from the top down.
    """

    def __init__(
        self,
        tree: TopologyTree,
        node_front: Callable[[int], ParetoFront],
        wanted: Vector,
        rules: Sequence[Rule],
        budget: Budget,
    ) -> None:
        """node_front: the front of the node at a position; wanted: number of pods of each class."""
        self._tree = tree
        self._node_front = node_front
        self._wanted = wanted
        self._rules = rules
        self._budget = budget
        self._real = [tree.real(level) for level in range(tree.node_level + 1)]
        self._fronts: dict[Domain, ParetoFront] = {}

    def holds(self, domain: Domain) -> bool:
        """Whether a domain holds the whole gang; raises TooMuchWork."""
        return any(covers(vector, self._wanted) for vector in self._front(domain))

    def nodes(self, domain: Domain) -> dict[int, Vector]:
        """The number of pods of each class on the node at each position, for a domain that holds the gang."""
        found: dict[int, Vector] = {}
        self._assign(domain, self._wanted, found)
        return found

    def _front(self, domain: Domain) -> ParetoFront:
        pareto_front = self._fronts.get(domain)
        if pareto_front is None:
            pareto_front = self._cut(domain, self._inside(domain))
            self._fronts[domain] = pareto_front
        return pareto_front

    def _inside(self, domain: Domain) -> ParetoFront:
        if domain.level == self._tree.node_level:
            return [tuple(map(min, vector, self._wanted)) for vector in self._node_front(domain.number)]
        pareto_front: ParetoFront = [(0,) * len(self._wanted)]
        for child in self._children(domain):
            pareto_front = both(pareto_front, self._front(child), self._wanted, self._budget)
        return pareto_front

    def _children(self, domain: Domain) -> list[Domain]:
        below = self._tree.under(domain, domain.level + 1)
        return [Domain(domain.level + 1, number) for number in range(below.start, below.stop)]

    def _cut(self, domain: Domain, pareto_front: ParetoFront) -> ParetoFront:
        rules = [rule for rule in self._rules if rule.level == domain.level]
        if not rules:
            return pareto_front
        real = bool(self._real[domain.level][domain.number])
        return maximal((self._passing(vector, rules, domain.number, real) for vector in pareto_front), self._budget)

    def _passing(self, vector: Vector, rules: Sequence[Rule], number: int, real: bool) -> Vector:
        counts = list(vector)
        for rule in rules:
            if isinstance(rule, InSegments):
                counts[rule.index] -= counts[rule.index] % rule.size if real else counts[rule.index]
            elif not (
                real
                and rule.pinned in {None, number}
                and all(counts[index] == self._wanted[index] for index in rule.classes)
            ):
                for index in rule.classes:
                    counts[index] = 0
        return tuple(counts)

    def _assign(self, domain: Domain, target: Vector, found: dict[int, Vector]) -> None:
        if not any(target):
            return
        if domain.level == self._tree.node_level:
            found[domain.number] = target
            return
        children = self._children(domain)
        shares = split([self._front(child) for child in children], target, self._budget)
        if shares is None:
            raise AssertionError("a front promises more than its parts hold")
        for child, share in zip(children, shares, strict=True):
            self._assign(child, share, found)


@dataclass(frozen=True, slots=True, eq=False)
class _Class:
    pod_slice: PodSlice
    count: int
    slots: Amounts
    counted: Count


def assign_exactly(
    remaining: Remaining,
    tree: TopologyTree,
    sliced: SlicedGang,
    full: bool,
    steps: int,
    liked: Amounts | None = None,
) -> tuple[Domain, list[tuple[PodSlice, Row]]] | None:
    """A domain and assignments for all pods (full) or the minimum of each slice; None if there is none at all.

    steps: the limit of work, see Budget; liked: int64 [domain of the gang's level]: how much each is preferred;
    None = all equally. Raises TooMuchWork.
    """
    return _Exact(remaining, tree, sliced, full, steps).run(liked)


def pinned(tree: TopologyTree, running: Amounts | None, level: int | None) -> int | None:
    """The domain of a required level that most running members are in; the others must join them. None = any."""
    if running is None or not level or not running.any():
        return None
    return int(tree.sums(level, running).argmax())


def _required(segments: Segments) -> list[tuple[int, int]]:
    """(level, size) of each layer that is required, from coarse to fine."""
    found = ((layer.constraint.required, layer.size) for layer in segments.layers())
    return [(level, size) for level, size in found if level is not None]


class _Exact:
    def __init__(self, remaining: Remaining, tree: TopologyTree, sliced: SlicedGang, full: bool, steps: int) -> None:
        self._remaining = remaining
        self._tree = tree
        self._sliced = sliced
        self._classes: list[_Class] = []
        self._of_slice: dict[int, tuple[int, ...]] = {}
        self._rules: list[Rule] = []
        self._memo: dict[tuple[object, ...], tuple[ParetoFront, list[ParetoFront]]] = {}
        for pod_slice in sliced.all_slices():
            self._add(pod_slice, len(pod_slice.members) if full else pod_slice.minimum)
        requests = [cls.pod_slice.pod_class.request for cls in self._classes]
        self._cores = WholeCoresOfClasses(remaining.snapshot, requests)
        self._constrain(sliced)
        for rule in self._rules:
            self._leave_out(rule)
        self._wanted: Vector = tuple(cls.count for cls in self._classes)
        self._budget = Budget(steps, len(self._classes))

    def run(self, liked: Amounts | None) -> tuple[Domain, list[tuple[PodSlice, Row]]] | None:
        """The first domain that holds the gang."""
        search = Search(self._tree, lambda position: self._node(position)[0], self._wanted, self._rules, self._budget)
        for domain in self._domains(liked):
            if search.holds(domain):
                return domain, self._rows(search.nodes(domain))
        return None

    def _add(self, pod_slice: PodSlice, count: int) -> None:
        slots, counted = self._remaining.slots(pod_slice.pod_class)
        first = len(self._classes)
        layers = [] if pod_slice.segments is None else _required(pod_slice.segments)
        sizes = [*(size for _, size in layers), 1]
        began: list[int] = []
        for layer, (above, size) in enumerate(pairwise([count + 1, *sizes])):
            whole = count % above - count % above % size
            began.append(len(self._classes))
            if whole or not layer:
                self._rules += [InSegments(level, len(self._classes), finer) for level, finer in layers[layer:]]
                self._classes.append(_Class(pod_slice, whole, slots, counted))
        for (level, _), start in zip(layers, began[1:], strict=True):
            if start < len(self._classes):
                self._rules.append(Together(level, tuple(range(start, len(self._classes)))))
        self._of_slice[id(pod_slice)] = tuple(range(first, len(self._classes)))
        required = pod_slice.constraint.required
        if required is not None:
            self._rules.append(
                Together(required, self._of_slice[id(pod_slice)], pinned(self._tree, pod_slice.running, required))
            )

    def _constrain(self, sliced: SlicedGang) -> None:
        required = sliced.constraint.required
        if required is not None:
            classes = tuple(index for pod_slice in sliced.all_slices() for index in self._of_slice[id(pod_slice)])
            self._rules.append(Together(required, classes, pinned(self._tree, sliced.running, required)))
        for subgroup in sliced.subgroups:
            self._constrain(subgroup)

    def _leave_out(self, rule: Rule) -> None:
        """Remove a class's slots where its constraint can never be met: this saves most of the search."""
        real = self._tree.real(rule.level)
        indexes: tuple[int, ...]
        if isinstance(rule, InSegments):
            indexes, possible = (rule.index,), real & self._holding(rule.level, rule.index, rule.size)
        else:
            indexes, possible = rule.classes, real
            for index in indexes:
                possible = possible & self._holding(rule.level, index, self._classes[index].count)
        inside = possible[self._tree.domains(rule.level)]
        for index in indexes:
            self._classes[index] = replace(self._classes[index], slots=self._classes[index].slots * inside)

    def _holding(self, level: int, index: int, count: int) -> Bools:
        """Which domains of a level have that many slots of a class: bool [domain]."""
        return self._tree.sums(level, self._classes[index].slots) >= count

    def _domains(self, liked: Amounts | None) -> Iterator[Domain]:
        """The domains that may hold the gang, the most preferred first, then the tightest."""
        level = self._sliced.constraint.bound
        if level == ROOT:
            yield Domain(ROOT, 0)
            return
        domain_capacity = np.zeros(self._tree.size(level), dtype=np.int64)
        possible = self._tree.real(level).copy()
        possible &= self._remaining.totals_suffice(
            level, [(cls.pod_slice.pod_class, cls.count) for cls in self._classes]
        )
        for cls in self._classes:
            here = self._tree.sums(level, cls.slots)
            possible &= here >= cls.count
            domain_capacity += here
        keys = [domain_capacity] if liked is None else [domain_capacity, -liked]
        for number in np.lexsort(keys).tolist():
            if possible[number]:
                yield Domain(level, number)

    def _node(self, position: int) -> tuple[ParetoFront, list[ParetoFront]]:
        """The front of a node, and those of its NUMA nodes (none if no class is bound there)."""
        limit = tuple(min(cls.count, int(cls.slots[position])) for cls in self._classes)
        if not any(limit):
            return [limit], []
        node = int(self._tree.order[position])
        snapshot = self._remaining.snapshot
        rows = sorted({row for cls in self._classes for row in cls.pod_slice.pod_class.node})
        free = tuple(int(snapshot.node_free(row)[node]) for row in rows)
        shares = [self._bound_share(cls, node) for cls in self._classes]
        zone_rows = sorted({row for share in shares if share is not None for row in share})
        planes = [snapshot.free(row)[:, node].tolist() for row in zone_rows]
        whole = self._cores.at(node)
        caps = [
            None if cls.counted.zones is None or share is None else tuple(cls.counted.zones[:, node].tolist())
            for cls, share in zip(self._classes, shares, strict=True)
        ]
        key = (limit, free, tuple(map(tuple, planes)), tuple(caps), whole)
        if key not in self._memo:
            needs = [
                [*(cls.pod_slice.pod_class.node.get(row, 0) for row in rows), cpu]
                for cls, cpu in zip(self._classes, whole.needs, strict=True)
            ]
            pareto_front = packings((*free, whole.of_node), needs, limit, self._budget)
            zones: list[ParetoFront] = []
            if any(cap is not None for cap in caps):
                # A resource that no NUMA node lists is not aligned there.
                listed = [index for index, plane in enumerate(planes) if max(plane) != UNLISTED]
                zone_needs = [
                    [*((share or {}).get(zone_rows[index], 0) for index in listed), cpu if share else 0]
                    for share, cpu in zip(shares, whole.needs, strict=True)
                ]
                for z in range(snapshot.node_arrays.z):
                    here = tuple(
                        most if cap is None else min(most, cap[z]) for most, cap in zip(limit, caps, strict=True)
                    )
                    in_zone = [*(planes[index][z] for index in listed), whole.in_zones[z]]
                    zones.append(packings(in_zone, zone_needs, here, self._budget))
                together = reduce(lambda one, other: both(one, other, limit, self._budget), zones)
                pareto_front = common(pareto_front, together, self._budget)
            self._memo[key] = pareto_front, zones
        return self._memo[key]

    def _bound_share(self, cls: _Class, node: int) -> dict[int, int] | None:
        """What a pod of the class takes of one NUMA node; None if it is not bound to one there."""
        for bound in cls.pod_slice.pod_class.ways.bound:
            if bound.where[node]:
                return {row: amount for row, amount in bound.share.amounts.items() if amount > 0}
        return None

    def _rows(self, nodes: dict[int, Vector]) -> list[tuple[PodSlice, Row]]:
        """Rows of assignments, slice by slice; in a slice with segments, the smaller last one comes last."""
        z = self._remaining.snapshot.node_arrays.z
        positions = sorted(nodes)
        zones = np.zeros((len(self._classes), len(positions), z + 1), dtype=np.int64)
        for at, position in enumerate(positions):
            target = nodes[position]
            _, pareto_fronts = self._node(position)
            shares = split(pareto_fronts, target, self._budget) if pareto_fronts else None
            for index, wanted in enumerate(target):
                bound = self._bound_share(self._classes[index], int(self._tree.order[position]))
                if bound is not None and shares is not None:
                    zones[index, at, :z] = [share[index] for share in shares]
                else:
                    zones[index, at, z] = wanted
        of_nodes = self._tree.order[positions].astype(np.int64)
        rows = [row_of(Taken(of_nodes, zones[index])) for index in range(len(self._classes))]
        return [
            (pod_slice, joined([rows[index] for index in self._of_slice[id(pod_slice)]]))
            for pod_slice in self._sliced.all_slices()
        ]
