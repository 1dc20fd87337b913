"""A gang of equal pods and the capacity for it: what both its domain and its nodes are chosen by."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.gang.distribution import Share, SubDomains, distribute
from webhook.engine.gang.domain_capacity import DomainCapacity
from webhook.engine.gang.domain_choice import Key
from webhook.engine.gang.gang_spec import ANYWHERE, Constraint, Segments
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.model.options import GangStrategy


@dataclass(frozen=True, slots=True, eq=False)
class EqualPods:
    """A gang of equal pods. Positions are those of the tree."""

    count: int
    """Pods to place."""
    minimum: int
    """The minimum number of pods; with fewer, none is placed."""
    constraint: Constraint = ANYWHERE
    segments: Segments | None = None
    strategy: GangStrategy = GangStrategy.BIN_PACK
    members: Amounts | None = None
    """int64 [position]: members of the gang that already run there; None = none."""
    preference: Amounts | None = None
    """int64 [position]: how much the pods prefer each node (webhook.engine.filter.node_preference); None = all equally.
    """


@dataclass(frozen=True, slots=True, eq=False)
class EqualPlan:
    """The assignment of equal pods."""

    domain: Domain
    """The domain that holds them all."""
    nodes: Share
    """Pods per position. In order of position, neighbours in rank are neighbours in the tree."""
    tails: tuple[slice, ...] = ()
    """Positions of the domain with the smaller last segment: its pods come last in rank. With several layers of
    segments, one in the other."""


@dataclass(frozen=True, slots=True, eq=False)
class EqualGang:
    """A gang in a tree."""

    tree: TopologyTree
    pods: EqualPods
    domain_capacity: DomainCapacity

    def finer_levels(self, level: int) -> list[int]:
        """The levels below one at which few domains are wanted: down to the segments' level, from there to nodes."""
        above_segments = self.domain_capacity.segmented and level < self.domain_capacity.level
        return list(range(level + 1, (self.domain_capacity.level if above_segments else self.tree.node_level) + 1))

    def balanced_level(self, level: int) -> int:
        """The level within domains of `level` from which on shares are even."""
        if self.domain_capacity.segmented:
            finest = self.domain_capacity.level
        else:
            finest = 1 + max(self.pods.constraint.bound, self.pods.constraint.preferred or ROOT)
        return min(max(finest, level + 1), self.tree.node_level)

    def disliked(self, level: int) -> Key | None:
        """How little the pods prefer the nodes that they would get in each domain of a level; None: all equally."""
        if self.pods.preference is None:
            return None
        return partial(self._dislike, level, self.pods.preference)

    def _dislike(self, level: int, preference: Amounts, domains: Amounts) -> Amounts:
        """int64 [n], at most 0: minus a thousand times the mean over as many pods as each of n domains holds.

        Computed as if they were distributed directly over its nodes, ignoring levels in between.
        """
        nodes = self.tree.node_level
        if level == nodes:
            return -1000 * preference[domains]
        amounts = np.minimum(self.domain_capacity.pods(level)[domains], self.domain_capacity.count)
        among = SubDomains(nodes, self.domain_capacity.slots, liked=preference)
        distributed = distribute(self.tree, Share(domains.astype(np.int64), amounts), level, among, joint=False)
        within = self.tree.bounds(level, nodes)[domains].searchsorted(distributed.domains, side="right") - 1
        liked = np.bincount(
            within, weights=distributed.amounts * preference[distributed.domains], minlength=len(domains)
        )
        return -(1000 * liked.astype(np.int64)) // np.maximum(amounts, 1)
