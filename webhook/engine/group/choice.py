"""Which domains of a level take a group, when several choices need equally few of them.

1. Choices: every set of so many domains, as long as that is at most `_EXHAUSTIVE` sets. Beyond that the largest
   domains, and for each threshold the domains whose finer domains exceed it most. The latter are the optima of the
   Lagrangian relaxation, which prices each finer domain at the threshold.
2. Cost of a choice at a finer level: how many of its domains of that level the group fills, largest first.
3. The least cost at the first of the finer levels wins, then at the next; among equals what the pods prefer, then the
   least room (the tightest), then the least room in the parents (the fullest parent), then tree order.

The answer is the optimum over all choices where step 1 is exhaustive and one finer level counts.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, combinations
from math import comb
from typing import NamedTuple

import numpy as np

from webhook.engine.arrays import Amounts, Codes

# 512 sets of 16 sizes are 64 KiB an array: a level is decided in about 50 microseconds.
_EXHAUSTIVE = 512
# Nodes differ in a handful of sizes; between two thresholds the optimum of the relaxation seldom changes.
_THRESHOLDS = 8


class Finer(NamedTuple):
    """A finer level at which few domains are wanted. D candidates."""

    room: Amounts
    """int64 [domain of the finer level]: what each holds, in pods, or as webhook.engine.group.room counts segments."""
    bounds: Codes
    """int32 [domain + 1]: the first finer domain of each domain of the level that is chosen at."""
    wanted: int
    """What the group needs in the same terms."""
    unit: int = 1
    """What a whole segment counts; 1 where nothing counts less."""


class _Table(NamedTuple):
    """How many finer domains of each size the candidates have. D candidates, S sizes, the first of them 0."""

    counts: Amounts
    """int64 [D, S]."""
    sizes: Amounts
    """int64 [S], ascending."""
    wanted: int


Key = Callable[[Amounts], Amounts]
"""int64 [n] of some candidates (n numbers of domains): the less the better."""


def fewest_below(
    candidates: Amounts,
    size: int,
    room: Amounts,
    wanted: int,
    finer: Iterable[Finer],
    ties: Iterable[Key],
    disliked: Key | None = None,
) -> Amounts:
    """The best `size` of the candidates, ascending; together they hold `wanted`, which some choice does.

    candidates: int64 [D], numbers of domains, ascending; room: int64 [D]; disliked: how little each is preferred.
    """
    tables: Iterable[_Table] = (_by_size(level, candidates) for level in finer)
    if comb(len(room), size) <= _EXHAUSTIVE:
        choices = _every(len(room), size)
    elif size == 1 and disliked is not None:
        choices = np.arange(len(room))[:, None]
    else:
        tables = list(tables)
        choices = _likely(room, size, tables, None if disliked is None else disliked(candidates))
    choices = choices[room[choices].sum(axis=1) >= wanted]
    for counts, sizes, needed in tables:
        if len(choices) == 1:
            break
        cost = _filled(counts[choices[:, 0]] if size == 1 else counts[choices].sum(axis=1), sizes, needed)
        choices = choices[cost == cost.min()]
    for key in ties if disliked is None else chain([disliked], ties):
        if len(choices) == 1:
            break
        total = key(candidates[choices[:, 0]]) if size == 1 else key(candidates)[choices].sum(axis=1)
        choices = choices[total == total.min()]
    chosen: Amounts = candidates[np.sort(choices[0])]
    return chosen


@lru_cache(maxsize=256)
def _every(number: int, size: int) -> Amounts:
    """int64 [choice, size]: all sets of so many positions."""
    return np.array(list(combinations(range(number), size)), dtype=np.int64)


def _likely(room: Amounts, size: int, finer: Sequence[_Table], disliked: Amounts | None) -> Amounts:
    """int64 [choice, size]: the largest, and the optima of the relaxation; the same of preferred domains only.

    disliked: int64 [D].
    """
    worth = [room]
    for table in finer:
        present = table.counts.any(axis=0)
        counts, sizes = table.counts[:, present], table.sizes[present]
        thresholds = sizes[:: max(len(sizes) // _THRESHOLDS, 1)]
        worth += [counts @ np.maximum(sizes - threshold, 0) for threshold in thresholds[1:]]
    if disliked is not None:
        levels = np.unique(disliked)
        most = levels[:: max(len(levels) // _THRESHOLDS, 1)][:-1]
        worth += [np.where(disliked <= level, each, -1) for level in most.tolist() for each in worth]
    return np.stack([np.argsort(-each, kind="stable")[:size] for each in worth]).astype(np.int64)


def _by_size(level: Finer, candidates: Amounts) -> _Table:
    """How many finer domains of each size a candidate has; larger than wanted counts as wanted."""
    first = level.bounds[candidates].astype(np.int64)
    widths = level.bounds[candidates + 1] - first
    starts = widths.cumsum() - widths
    below = np.arange(widths.sum()) + np.repeat(first - starts, widths)
    codes = np.minimum(level.room[below], level.wanted)
    if level.unit > 1:
        # Whole segments, with room for a smaller one beside them or without.
        codes = codes // level.unit * 2 + (codes % level.unit > 0)
    columns = int(codes.max(initial=0)) + 1
    owners = np.repeat(np.arange(len(candidates)), widths)
    counts = np.bincount(owners * columns + codes, minlength=len(candidates) * columns)
    sizes = np.arange(columns)
    if level.unit > 1:
        sizes = sizes // 2 * level.unit + sizes % 2
    return _Table(counts.reshape(len(candidates), columns), sizes, level.wanted)


def _filled(counts: Amounts, sizes: Amounts, wanted: int) -> Amounts:
    """int64 [choice]: how many finer domains it takes to hold what is wanted, largest first.

    counts: int64 [choice, size]; sizes: int64 [size], ascending from 0.
    """
    if len(sizes) == 1:
        return np.zeros(len(counts), dtype=np.int64)
    counts, sizes = counts[:, :0:-1], sizes[:0:-1]
    held = (counts * sizes).cumsum(axis=1)
    # The size of the last domain that is filled, what is missing before any of that size, and how many are larger.
    last = np.minimum((held < wanted).sum(axis=1), len(sizes) - 1)
    rows = np.arange(len(counts))
    size, same = sizes[last], counts[rows, last]
    missing = wanted - held[rows, last] + same * size
    larger = (counts * (np.arange(len(sizes)) < last[:, None])).sum(axis=1)
    filled: Amounts = larger - (-missing // size)
    return filled
