"""Which domains of a level hold a gang if several choices need the same minimum number.

1. Choices: every set of that many domains, if there are at most `_EXHAUSTIVE` sets. Otherwise the largest domains, and
   for each threshold the domains whose finer domains exceed it most. The latter are the optima of the Lagrangian
   relaxation, which prices each finer domain at the threshold.
2. Cost of a choice at a finer level: the number of its domains of that level that the gang fills, largest first.
3. Where the levels in between are passed over, the choice in the fewest of their domains comes first: racks of few
   blocks. If step 1 is not exhaustive, its choices among the racks of the fewest blocks that can do are added.
4. The lowest cost at the first of the finer levels wins, then at the next. Ties: the pods' preference, then the least
   capacity (the tightest), then the least capacity in the parents (the fullest parent), then tree order.

The answer is the optimum over all choices if step 1 is exhaustive and one finer level counts.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, combinations
from math import comb
from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import Amounts, Codes, Nodes

# 512 sets of 16 sizes are 64 KiB an array: a level is decided in about 50 microseconds.
_EXHAUSTIVE = 512
# Nodes have a handful of sizes; between two thresholds the relaxation's optimum seldom changes.
_THRESHOLDS = 8
# With more prices or more tries, the fewest blocks were no fewer in 900 random clusters of up to 11 blocks.
_PRICES = 16
_TRIED_PRICES = 4


class Finer(NamedTuple):
    """A finer level at which the gang needs few domains. D: domains at the level of the choice."""

    domain_capacity: Amounts
    """int64 [domain of the finer level]: capacity in pods, or as webhook.engine.gang.domain_capacity counts segments.
    """
    bounds: Codes
    """int32 [D + 1]: the first finer domain of each domain at the level of the choice."""
    owners: Nodes
    """int [domain of the finer level]: its domain at the level of the choice."""
    wanted: int
    """What the gang needs, in the same unit."""
    unit: int = 1
    """The number that stands for a whole segment; 1 if there is nothing smaller."""


class _Table(NamedTuple):
    """How many finer domains of each size the candidates have. D candidates, S sizes, the last of them 0."""

    counts: Amounts
    """int64 [D, S]."""
    sizes: Amounts
    """int64 [S], descending."""
    wanted: int


Key = Callable[[Amounts], Amounts]
"""int64 [n] of some candidates (n numbers of domains): lower is better."""


class Candidates(NamedTuple):
    """The domains of a level among which a choice is made. D of them."""

    numbers: Amounts
    """int64 [D], ascending."""
    domain_capacity: Amounts
    """int64 [D]."""
    above: Sequence[Nodes] = ()
    """int [D] each: the domains that hold them at the levels passed over, from fine to coarse."""


def fewest_below(
    among: Candidates,
    size: int,
    wanted: int,
    finer: Iterable[Finer],
    ties: Iterable[Key],
    disliked: Key | None = None,
) -> Amounts:
    """The best `size` candidates, ascending; together they hold `wanted`, which some choice does.

    disliked: low means preferred.
    """
    candidates, domain_capacity, above = among
    tables: Iterable[_Table] = (_by_size(level, candidates) for level in finer)
    if comb(len(domain_capacity), size) <= _EXHAUSTIVE:
        choices = _every(len(domain_capacity), size)
    elif size == 1 and disliked is not None:
        choices = np.arange(len(domain_capacity))[:, None]
    else:
        tables = list(tables)
        choices = _likely(domain_capacity, size, tables, None if disliked is None else disliked(candidates))
        for owners in above:
            few = _of_few_blocks(domain_capacity, size, wanted, owners)
            within = [_Table(table.counts.take(few, axis=0), table.sizes, table.wanted) for table in tables]
            choices = np.concatenate([choices, few.take(_likely(domain_capacity.take(few), size, within, None))])
    choices = choices[_added(domain_capacity, choices) >= wanted]
    for owners in above:
        blocks = np.sort(owners.take(choices), axis=1)
        number = np.count_nonzero(np.diff(blocks, axis=1), axis=1)
        choices = choices[number == number.min()]
    for counts, sizes, needed in tables:
        if len(choices) == 1:
            break
        cost = _filled(_added(counts, choices), sizes, needed)
        choices = choices[cost == cost.min()]
    for key in ties if disliked is None else chain([disliked], ties):
        if len(choices) == 1:
            break
        total = key(candidates.take(choices[:, 0])) if size == 1 else _added(key(candidates), choices)
        choices = choices[total == total.min()]
    chosen: Amounts = candidates[np.sort(choices[0])]
    return chosen


def least_needed(among: Amounts, level: Finer) -> Amounts:
    """int64 [n]: the fewest domains of a finer level that hold the gang in each of n domains, `among`, ascending."""
    return _filled(*_by_size(level, among))


@lru_cache(maxsize=256)
def _every(number: int, size: int) -> Amounts:
    """int64 [choice, size]: all sets of that many positions."""
    return np.array(list(combinations(range(number), size)), dtype=np.int64)


def _added(amounts: Amounts, choices: Amounts) -> Amounts:
    """int64 [choice, ..]: the sum over the domains of each choice. amounts: int64 [D, ..]; choices: [choice, size]."""
    if choices.shape[1] == 1:
        return amounts.take(choices[:, 0], axis=0)
    total: Amounts = amounts.take(choices, axis=0).sum(axis=1)
    return total


def _likely(domain_capacity: Amounts, size: int, finer: Sequence[_Table], disliked: Amounts | None) -> Amounts:
    """int64 [choice, size]: the largest, and the optima of the relaxation; the same for preferred domains only.

    disliked: int64 [D].
    """
    worth = [domain_capacity[None]]
    for table in finer:
        present = np.flatnonzero(table.counts.any(axis=0))[::-1]
        counts, sizes = table.counts.take(present, axis=1), table.sizes.take(present)
        thresholds = sizes[:: max(len(sizes) // _THRESHOLDS, 1)][1:]
        worth.append(np.maximum(sizes - thresholds[:, None], 0) @ counts.T)
    worths: Amounts = np.concatenate(worth)
    if disliked is not None:
        levels = np.unique(disliked)
        most = levels[:: max(len(levels) // _THRESHOLDS, 1)][:-1]
        worths = np.concatenate([worths, *(np.where(disliked <= level, worths, -1) for level in most.tolist())])
    return np.argsort(-worths, axis=1, kind="stable")[:, :size]


def _of_few_blocks(domain_capacity: Amounts, size: int, wanted: int, owners: Nodes) -> Nodes:
    """Int [n], ascending: the candidates in the fewest blocks of which `size` hold `wanted`; all if that is not found.

    With the price p of a candidate, b blocks hold at most size * p and what their candidates exceed p by, the b best
    blocks first. This bounds the number of blocks from below, and the lowest prices suggest which they are.

    owners: int [D], ascending: the block of each.
    """
    largest = -np.sort(-domain_capacity)
    prices = np.unique(largest[size - 1 :])[::-1]
    prices = np.append(prices[:: -(-len(prices) // _PRICES)], 0)
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    worth = np.add.reduceat(np.maximum(domain_capacity - prices[:, None], 0), first, axis=1)
    best = np.argsort(-worth, axis=1, kind="stable")
    most = np.take_along_axis(worth, best, axis=1).cumsum(axis=1) + prices[:, None] * size
    widths = np.diff(first, append=len(owners))
    for number in range(int(np.argmax(most.min(axis=0) >= wanted)), len(first)):
        for price in np.argsort(most[:, number], kind="stable")[:_TRIED_PRICES].tolist():
            inside = np.zeros(len(first), dtype=np.bool_)
            inside[best[price, : number + 1]] = True
            found = np.flatnonzero(inside.repeat(widths))
            if len(found) >= size and -np.sort(-domain_capacity[found])[:size].sum() >= wanted:
                return found
    return np.arange(len(owners))


def _by_size(level: Finer, candidates: Amounts) -> _Table:
    """How many finer domains of each size a candidate has; sizes above `wanted` count as `wanted`."""
    low, high = int(candidates[0]), int(candidates[-1]) + 1
    below = slice(int(level.bounds[low]), int(level.bounds[high]))
    codes = np.minimum(level.domain_capacity[below], level.wanted)
    if level.unit > 1:
        # Whole segments, with and without space for a smaller one.
        codes = codes // level.unit * 2 + (codes % level.unit > 0)
    columns = int(codes.max(initial=0)) + 1
    # The row of each domain begins with its largest size and ends with size 0.
    row_ends = np.arange(1 - low, high - low + 1) * columns - 1
    places = row_ends.take(level.owners[below]) - codes
    counts = np.bincount(places, minlength=(high - low) * columns).reshape(high - low, columns)
    if len(counts) > len(candidates):
        counts = counts.take(candidates - low, axis=0)
    sizes = np.arange(columns - 1, -1, -1)
    if level.unit > 1:
        sizes = sizes // 2 * level.unit + sizes % 2
    return _Table(counts, sizes, level.wanted)


def _filled(counts: Amounts, sizes: Amounts, wanted: int) -> Amounts:
    """int64 [choice]: how many finer domains are needed to hold `wanted`, largest first.

    counts: int64 [choice, size]; sizes: int64 [size], descending to 0; wanted: at least 1.
    """
    rows, columns = counts.shape
    first = np.arange(0, rows * columns, columns)
    # Cumulative sums over all choices in a row, minus those before each choice.
    held, number = (counts * sizes).ravel().cumsum(), counts.ravel().cumsum()
    before, fewer = _before(held, first), _before(number, first)
    # The size of the last domain filled, what is missing before any of that size, and how many are larger.
    last = np.minimum(held.searchsorted(before + wanted), first + columns - 1)
    size, same = np.maximum(sizes, 1).take(last - first), counts.ravel().take(last)
    missing = wanted - (held.take(last) - before) + same * size
    filled: Amounts = number.take(last) - fewer - same - (-missing // size)
    return filled


def _before(running: Amounts, first: Amounts) -> Amounts:
    """int64 [n]: the cumulative sum before each of these indexes, the first of which is 0."""
    before = running.take(first - 1)
    before[0] = 0
    return before
