"""The cluster as a tree of domains: from the whole of it over zones, blocks and racks down to the single node.

Built once per change of labels and never written to:
1. Every node's path: its value at each level of the topology, coarse to fine. A domain is a path, so two racks of the
   same name in different zones are two domains. Siblings are in short-first alphabetical order: rack-2 before rack-10.
2. Nodes are sorted by path, those of one path by name: each domain is a slice of that order, and so is the row of its
   sub-domains one level down. The order does not depend on when a node became known: all replicas have the same.
3. A node without the label of a level belongs to no domain of that level or of those below. Within its parent it joins
   the *rest*: a slice of its own, last in order, that is never a candidate for a constraint at that level.

What changes with each decision (free amounts, counts) is stored outside, in arrays indexed by position in this
order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from webhook.engine.arrays import Amounts, Bools, Codes, Nodes, read_only, slice_sums
from webhook.engine.snapshot.label_columns import ABSENT
from webhook.formats.topology import Topology
from webhook.model.names import HOSTNAME_LABEL

ROOT = 0
"""The level of the root: one domain, all nodes. The topology's own levels follow from 1."""


class Domain(NamedTuple):
    """One domain: its level in the tree and its number within the level."""

    level: int
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class TreeLevel:
    """The domains of one level, D of them, in tree order. Together they contain all nodes without a gap."""

    label: str
    """The node label of the level; empty for the root."""
    values: Sequence[str]
    """Label values by code."""
    codes: Codes
    """int32 [D]: code of each domain's own value; -1 = the rest: nodes without the label."""
    starts: Codes
    """int32 [D + 1]: first position of each domain, then the number of nodes."""
    children: Codes
    """int32 [D + 1]: first subdomain of each domain in the next level, then their number."""
    parents: Codes
    """int32 [D]: the domain of the level above; 0 for the root itself."""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def real(self) -> Bools:
        """Which domains a constraint may choose, that is, all except rests: bool [D]."""
        labelled: Bools = self.codes != ABSENT
        return labelled


@dataclass(frozen=True, slots=True, eq=False)
class Hosts:
    """A last level at which every domain is one node, which needs no slices."""

    label: str
    values: Sequence[str]
    codes: Codes
    """int32 [N]: code of the value of the node at each position; -1 = it lacks a label."""


@dataclass(frozen=True, eq=False)
class TopologyTree:
    """The nodes of a cluster under one topology. N nodes."""

    topology: Topology
    levels: tuple[TreeLevel, ...]
    """The root, then the levels of the topology; a last level of host names, one per node, is stored in `hosts`."""
    order: Codes
    """int32 [N]: the node (its n) at each position."""
    hosts: Hosts | None
    """Set if the topology's last level is the host name and each node has its own."""
    _bounds: dict[tuple[int, int], Codes] = field(default_factory=dict, init=False, repr=False)
    _owners: dict[tuple[int, int], Nodes] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def build(cls, topology: Topology, columns: Sequence[tuple[Codes, Sequence[str]]], by_name: Nodes) -> Self:
        """Sort nodes into the tree.

        columns: for each level int32 [node], the code of the node's value (-1 = it lacks the label), and the values.
        by_name: int [N], the nodes in the order of their names.
        """
        paths = np.zeros(len(by_name), dtype=np.int64)
        levels = [_Sorted("", ("",), np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32), paths)]
        for level, (codes, values) in zip(topology.levels, columns, strict=True):
            levels.append(_divide(levels[-1], level.node_label, codes, values))
        order = by_name[np.argsort(levels[-1].paths[by_name], kind="stable")].astype(np.int32)
        hosts = None
        if _is_host_level(levels[-1]):
            host = levels.pop()
            hosts = Hosts(host.label, host.values, host.codes[host.paths[order]])
        return cls(topology, tuple(map(_tree_level, levels, [*levels[1:], None])), order, hosts)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.order)

    @property
    def node_level(self) -> int:
        """The level at which each domain is one node; its domains are numbered by position."""
        return len(self.levels)

    def size(self, level: int) -> int:
        """Number of domains of a level."""
        return self.n if level == self.node_level else len(self.levels[level])

    def real(self, level: int) -> Bools:
        """Which domains of a level a constraint may choose: bool [domain]."""
        if level < self.node_level:
            return self.levels[level].real
        return np.ones(self.n, dtype=np.bool_) if self.hosts is None else self.hosts.codes != ABSENT

    def sums(self, level: int, amounts: Amounts) -> Amounts:
        """int64 [domain]: the sum over each domain of a level. amounts: int64 [position]."""
        if level == self.node_level:
            return amounts
        return slice_sums(amounts, self.levels[level].starts)

    def lift(self, lower: int, upper: int, amounts: Amounts) -> Amounts:
        """int64 [domain of upper]: the sum over its sub-domains of level `lower`. amounts: int64 [domain of lower]."""
        return slice_sums(amounts, self.bounds(upper, lower))

    def bounds(self, upper: int, lower: int) -> Codes:
        """int32 [D + 1]: the first subdomain at level `lower` of each domain of level `upper`, then their number."""
        found = self._bounds.get((upper, lower))
        if found is None:
            found = self._bounds[upper, lower] = read_only(self._bounding(upper, lower))
        return found

    def _bounding(self, upper: int, lower: int) -> Codes:
        if lower == self.node_level:
            return np.arange(self.n + 1, dtype=np.int32) if upper == lower else self.levels[upper].starts
        bounds = np.arange(len(self.levels[upper]) + 1, dtype=np.int32)
        for level in range(upper, lower):
            bounds = self.levels[level].children[bounds]
        return bounds

    def owners(self, upper: int, lower: int) -> Nodes:
        """The domain of level `upper` that contains each: int [domain of lower], read-only."""
        found = self._owners.get((upper, lower))
        if found is None:
            widths = np.diff(self.bounds(upper, lower))
            found = self._owners[upper, lower] = read_only(np.arange(len(widths)).repeat(widths))
        return found

    def below(self, upper: int, lower: int, domains: Amounts) -> tuple[Amounts, Amounts]:
        """The subdomains at level `lower` of n domains of level `upper`, concatenated; how many of each. All int64."""
        bounds = self.bounds(upper, lower)
        first = bounds.take(domains).astype(np.int64)
        widths = bounds.take(domains + 1) - first
        if len(domains) == 1:
            return np.arange(first[0], first[0] + widths[0]), widths
        starts = widths.cumsum() - widths
        return np.arange(widths.sum()) + (first - starts).repeat(widths), widths

    def span(self, domain: Domain) -> slice:
        """The positions of a domain's nodes."""
        if domain.level == self.node_level:
            return slice(domain.number, domain.number + 1)
        first, last = self.levels[domain.level].starts[domain.number : domain.number + 2].tolist()
        return slice(first, last)

    def under(self, domain: Domain, level: int) -> slice:
        """The subdomains of a domain at its own level or a finer one."""
        first, last = domain.number, domain.number + 1
        for upper in range(domain.level, min(level, self.node_level)):
            children = self.levels[upper].children
            first, last = int(children[first]), int(children[last])
        return slice(first, last)

    def containing(self, position: int, level: int) -> int:
        """The number of the domain of a level that contains the node at a position."""
        if level == self.node_level:
            return position
        return int(self.levels[level].starts.searchsorted(position, side="right")) - 1

    def domains(self, level: int) -> Codes:
        """int32 [position]: the domain of a level that contains each node."""
        if level == self.node_level:
            return np.arange(self.n, dtype=np.int32)
        return np.repeat(np.arange(self.size(level), dtype=np.int32), np.diff(self.levels[level].starts))

    def positions(self) -> Codes:
        """int32 [node], read-only: each node's position."""
        return self._positions

    @cached_property
    def _positions(self) -> Codes:
        positions = np.empty_like(self.order)
        positions[self.order] = np.arange(self.n, dtype=np.int32)
        return read_only(positions)

    def ancestor(self, domain: Domain, level: int) -> Domain:
        """The domain of a coarser level (or its own) that contains `domain`."""
        number = domain.number
        for lower in range(domain.level, level, -1):
            at_node = lower == self.node_level
            number = self.containing(number, lower - 1) if at_node else int(self.levels[lower].parents[number])
        return Domain(level, number)

    def distance(self, one: Domain, other: Domain) -> int:
        """Steps from domain to domain along the tree."""
        common = min(one.level, other.level)
        steps = one.level + other.level - 2 * common
        one, other = self.ancestor(one, common), self.ancestor(other, common)
        while one != other:
            common -= 1
            steps += 2
            one, other = self.ancestor(one, common), self.ancestor(other, common)
        return steps

    def path(self, domain: Domain) -> tuple[tuple[str, str], ...]:
        """(label, value) of a domain and all above it, coarse to fine; the root has none, a rest only its parents'."""
        steps = []
        if domain.level == self.node_level:
            if self.hosts is not None and self.hosts.codes[domain.number] != ABSENT:
                steps.append((self.hosts.label, self.hosts.values[self.hosts.codes[domain.number]]))
            domain = self.ancestor(domain, domain.level - 1)
        while domain.level > ROOT:
            level = self.levels[domain.level]
            code = int(level.codes[domain.number])
            if code != ABSENT:
                steps.append((level.label, level.values[code]))
            domain = self.ancestor(domain, domain.level - 1)
        return tuple(reversed(steps))

    def unlabelled(self) -> tuple[tuple[str, Codes], ...]:
        """For each level's label the nodes (n) that lack it or a coarser one, if there are any."""
        found = []
        for level in self.levels[1:]:
            rests = np.flatnonzero(level.codes == ABSENT)
            missing = [self.order[level.starts[rest] : level.starts[rest + 1]] for rest in rests.tolist()]
            if any(map(len, missing)):
                found.append((level.label, np.concatenate(missing)))
        if self.hosts is not None and (self.hosts.codes == ABSENT).any():
            found.append((self.hosts.label, self.order[self.hosts.codes == ABSENT]))
        return tuple(found)


class _Sorted(NamedTuple):
    """A level while the tree is built: as in TreeLevel, and the domain of each node."""

    label: str
    values: Sequence[str]
    codes: Codes
    parents: Codes
    paths: Amounts


def _divide(upper: _Sorted, label: str, codes: Codes, values: Sequence[str]) -> _Sorted:
    """The domains one level further down. codes: int32 [node], the node's value of `label`."""
    in_order = sorted(range(len(values)), key=lambda code: sibling_order(values[code]))
    rest = len(values)
    rank_of_code = np.empty(rest + 1, dtype=np.int64)
    rank_of_code[in_order] = np.arange(rest)
    rank_of_code[ABSENT] = rest
    ranks = rank_of_code[codes]
    ranks[(upper.codes == ABSENT)[upper.paths]] = rest
    keys, paths = np.unique(upper.paths * (rest + 1) + ranks, return_inverse=True)
    parents, ranks = np.divmod(keys, rest + 1)
    code_of_rank = np.array([*in_order, ABSENT], dtype=np.int32)
    return _Sorted(label, values, code_of_rank[ranks], parents.astype(np.int32), paths)


def sibling_order(value: str) -> tuple[int, str]:
    """Sort key of siblings: short values first, so that numbers without leading zeros are in order."""
    return len(value), value


def _is_host_level(level: _Sorted) -> bool:
    labelled = level.codes[level.paths] != ABSENT
    return level.label == HOSTNAME_LABEL and np.count_nonzero(labelled) == np.count_nonzero(level.codes != ABSENT)


def _tree_level(level: _Sorted, below: _Sorted | None) -> TreeLevel:
    size = len(level.codes)
    starts = np.zeros(size + 1, dtype=np.int32)
    np.bincount(level.paths, minlength=size).cumsum(out=starts[1:])
    children = starts if below is None else np.searchsorted(below.parents, np.arange(size + 1)).astype(np.int32)
    return TreeLevel(level.label, level.values, level.codes, starts, children, level.parents)
