"""Exact search for an assignment of several pod classes at once, with their own constraints, within a limit of work.

1. From the nodes upwards, compute the Pareto front of each domain by combining those of its subdomains
   (webhook.engine.gang.pareto_front).
2. At a constraint's level, reduce vectors to what the constraint allows: classes that belong together are all in one
   domain of that level or not in it at all, and segments are whole.
3. A domain whose front covers the whole gang holds it; the share of each subdomain is read back from the top down.

Fronts are lossless, so if this finds no assignment, there is none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from webhook.engine.gang.pareto_front import Budget, ParetoFront, Vector, both, covers, maximal, split
from webhook.engine.topology.tree import Domain, TopologyTree


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
    """The search for one gang in one tree."""

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
