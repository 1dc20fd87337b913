"""The kubelet's merge of NUMA hints into one, for many nodes at a time.

1. Every provider gives one list of hints per resource: possible masks, some of them preferred. A list may also contain
   "any NUMA node" (no mask given), preferred or not.
2. Over the cross product of the lists, a merged mask is the intersection of the masks given, where "any" is the whole
   machine. It is preferred if every hint is preferred and all masks given are equal. Empty intersections are dropped.
3. Preferred beats not preferred. Of preferred masks the narrowest wins; of the others the width nearest to, but not
   over, the largest of the lists' narrowest widths, then the narrowest above it.
4. At equal width the smaller average distance wins (prefer-closest-numa-nodes, not for single-numa-node), then the
   lower mask.
5. If nothing is left: the whole machine, not preferred. The policy then admits or, unless preferred, rejects.

Source: kubernetes pkg/kubelet/cm/topologymanager/policy*.go, numa_info.go. The cross product itself is never walked:
preferred results are an AND of the lists, the others an intersection transform (webhook.engine.kubelet.bitmask).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Bools, Ids
from webhook.engine.kubelet.bitmask import distance_sums, intersections, widths
from webhook.model.policy import NUMAPolicy

Masks = npt.NDArray[np.int64]
"""int64 [n] or [M, n]: masks, or numbers by mask."""


@dataclass(frozen=True, slots=True)
class Hints:
    """One list of hints on each of n nodes. M masks; row 0, the empty mask, is never set."""

    preferred: Bools
    """bool [M, n]: the mask is in the list and preferred."""
    other: Bools
    """bool [M, n]: the mask is in the list and not preferred."""
    any_preferred: Bools
    """bool [n]: the list has "any NUMA node", preferred: the provider has no requirement."""
    any_other: Bools
    """bool [n]: the list has "any NUMA node", not preferred: the provider cannot be satisfied."""

    def single_numa_node(self) -> "Hints":
        """What single-numa-node keeps: preferred hints of one NUMA node, and preferred "any"."""
        one = widths(_z(self))[:, None] == 1
        return Hints(self.preferred & one, np.zeros_like(self.other), self.any_preferred, np.zeros_like(self.any_other))


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged hint on each of n nodes."""

    mask: Masks
    """int64 [n]: the NUMA nodes; the whole machine also stands for "any"."""
    preferred: Bools
    """bool [n]."""

    def admitted(self, policy: NUMAPolicy) -> Bools:
        """Whether the policy admits a pod with this hint (bool [n])."""
        if policy in {NUMAPolicy.NONE, NUMAPolicy.BEST_EFFORT}:
            return np.ones(self.preferred.shape, dtype=np.bool_)
        return self.preferred


def merge(
    lists: Sequence[Hints],
    policy: NUMAPolicy,
    machine: Masks,
    distances: Ids | None = None,
    *,
    preferred_only: bool = False,
) -> Merged:
    """Merge the lists of hints of n nodes under one policy.

    machine: int64 [n], mask of the node's NUMA nodes. distances: int16 [z, z, n] for nodes that prefer the closest NUMA
    nodes, None for nodes that do not. preferred_only: a hint that is not preferred will be rejected, so its mask is not
    computed (it is then the whole machine).
    """
    z = _z(lists[0]) if lists else int(machine.max(initial=1)).bit_length()
    if policy is NUMAPolicy.SINGLE_NUMA_NODE:
        lists = [hints.single_numa_node() for hints in lists]
        distances = None
    whole = np.arange(1 << z)[:, None] == machine
    average = None
    if distances is not None:
        average = distance_sums(distances) / np.maximum(widths(z) ** 2, 1)[:, None]

    agreed = _agreed(lists, whole)
    preferred: Bools = np.asarray(agreed.any(axis=0))
    mask = best(agreed, widths(z)[:, None], average)
    # single-numa-node has no other hints left. If a hint will be rejected, its mask is useless, and not computed.
    if policy is not NUMAPolicy.SINGLE_NUMA_NODE and not preferred_only and not preferred.all():
        rest = np.flatnonzero(~preferred)
        left = [_columns(hints, rest) for hints in lists]
        reached = _reached(left, whole[:, rest])
        order = _order_of_widths(_largest_narrowest(left, z), z)
        mask[rest] = best(reached, order, None if average is None else average[:, rest])
    return Merged(np.where(mask > 0, mask, machine), preferred)


def best(candidates: Bools, order: Masks, average: npt.NDArray[np.float64] | None) -> Masks:
    """int64 [n]: the candidate (bool [M, n]) first by `order` ([M, n] or [M, 1]), average distance, mask; 0 if none."""
    last = np.iinfo(np.int64).max
    ranked = np.where(candidates, order, last)
    first = candidates & (ranked == ranked.min(axis=0))
    if average is not None:
        far = np.where(first, average, np.inf)
        first &= far == far.min(axis=0)
    chosen: Masks = first.argmax(axis=0).astype(np.int64, copy=False)
    return chosen


def _z(hints: Hints) -> int:
    return len(hints.preferred).bit_length() - 1


def _agreed(lists: Sequence[Hints], whole: Bools) -> Bools:
    """Masks (bool [M, n]) that every list prefers or leaves open; the whole machine if all leave it open."""
    agreed = np.ones_like(whole)
    named = np.zeros_like(whole)
    open_everywhere = np.ones(whole.shape[1], dtype=np.bool_)
    for hints in lists:
        agreed &= hints.preferred | hints.any_preferred
        named |= hints.preferred
        open_everywhere &= hints.any_preferred
    return agreed & named | whole & open_everywhere


def _reached(lists: Sequence[Hints], whole: Bools) -> Bools:
    """Every intersection of one hint from each list, except the empty one (bool [M, n])."""
    reached = whole
    for hints in lists:
        given = hints.preferred | hints.other | whole & (hints.any_preferred | hints.any_other)
        reached = intersections(reached, given)
    reached[0] = False
    return reached


def _largest_narrowest(lists: Sequence[Hints], z: int) -> Masks:
    """int64 [n]: the largest of the lists' narrowest widths; lists without a mask do not count."""
    largest = np.zeros(lists[0].any_other.shape if lists else 1, dtype=np.int64)
    for hints in lists:
        given = hints.preferred | hints.other
        narrowest = np.where(given, widths(z)[:, None], z + 1).min(axis=0)
        np.maximum(largest, np.where(narrowest > z, 0, narrowest), out=largest)
    return largest


def _order_of_widths(target: Masks, z: int) -> Masks:
    """int64 [M, n]: 0 for masks as wide as the target, then narrower ones by how far below, then wider ones."""
    width = widths(z)[:, None]
    return np.where(width <= target, target - width, width)


def _columns(hints: Hints, nodes: npt.NDArray[np.intp]) -> Hints:
    return Hints(hints.preferred[:, nodes], hints.other[:, nodes], hints.any_preferred[nodes], hints.any_other[nodes])
