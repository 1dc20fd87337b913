"""The domain that is kept for a gang that has waited long, and from when on.

1. A gang that has not waited long enough is tried again once it has, though nothing else changes until then.
2. Of each namespace one gang has a domain kept (see `cycle`).
3. The domain is the one that can hold the gang soonest (see `backfill_reservation`). Of it, those nodes are kept that
   could hold a pod of the gang at all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

from webhook.engine.freeing import HeldPod
from webhook.engine.gang.backfill_reservation import earliest_domain, usable_nodes
from webhook.engine.gang.result import Path
from webhook.engine.topology.tree import ROOT
from webhook.placing.gang.gang_search import GangSearch, GatedGang
from webhook.placing.gang.gang_text import spoken_path
from webhook.placing.node_holdings import Holdings
from webhook.placing.pod.gated_pods import seconds_waited
from webhook.state.cluster_cache import ClusterCache


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept for a gang. The default: nothing, and there is nothing to say about it."""

    path: Path = ()
    nodes: frozenset[str] = frozenset()
    text: str = ""
    """A clause for the gang's pods."""


NOTHING = Kept()


class KeptDomains:
    """Chooses the domains to keep. reserve_after: seconds that a gang waits before; 0: none is ever kept.

    wake_in: requests another cycle after that many seconds; clock: seconds, monotonic; now: seconds since the epoch.
    """

    def __init__(
        self,
        cache: ClusterCache,
        reserve_after: float,
        wake_in: Callable[[float], object],
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._reserve_after = reserve_after
        self._wake_in = wake_in
        self._clock = clock
        self._now = now
        self._wakes: set[int] = set()
        """The whole seconds for which another cycle is requested: one for all gangs of that second."""

    def of(self, gang: GatedGang, found: GangSearch, *, may_reserve: bool) -> Kept:
        """The domain for a gang that does not fit now. may_reserve: whether its namespace has none yet."""
        if not self._reserve_after or found.assembled.gang.constraint.bound == ROOT:
            return NOTHING
        now = self._now()
        waited = max(seconds_waited(gated.raw, now) for gated in gang.members)
        if waited < self._reserve_after:
            self._wake_at(self._clock() + self._reserve_after - waited)
            return NOTHING
        if not may_reserve:
            return Kept(text="a domain is reserved for another gang of its namespace first")
        placement = found.placement
        tree, assembled = placement.tree, found.assembled
        domain = earliest_domain(
            placement.snapshot, tree, assembled.gang, assembled.within, _LastingPods(self._cache).on
        )
        if domain is None:
            return NOTHING
        path, names = tree.path(domain), placement.snapshot.node_arrays.names
        usable = usable_nodes(placement.snapshot, tree, assembled.gang, domain)
        nodes = frozenset(names[node] for node in usable.nonzero()[0].tolist())
        return Kept(path, nodes, f"{spoken_path(path)} is reserved for it")

    def _wake_at(self, due: float) -> None:
        second = ceil(due)
        if second not in self._wakes:
            now = self._clock()
            self._wakes = {one for one in self._wakes if one > now} | {second}
            self._wake_in(second - now)


class _LastingPods:
    """The bound pods that end only when they are deleted, with what they hold."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._holdings = Holdings(cache)

    def on(self, node: str) -> Iterator[HeldPod]:
        """Those of a node."""
        lasting = {pod.key for pod in self._cache.pods_on(node) if pod.lasts and not pod.deleting}
        if lasting:
            yield from (pod for pod in self._holdings.on(node).pods if pod.key in lasting)
