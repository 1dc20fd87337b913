"""Room that victims have left, or are leaving, and that their node's NodeResourceTopology (NRT) does not show yet.

An exporter publishes what a victim has left at its next scan. Until then neither the pods nor the NRT show that room,
and the next preemptor would end further pods. So what the victims held is remembered, whichever preemptor they ended
for: for preemption, a victim that has ended counts as being deleted until its node has reported its end.

Life cycle of a victim's room:
1. Noted: a place is held, and the victim is to be evicted for it.
2. The victim has ended. Its room is what it held on each NUMA node, and at most what the NRT shows as taken, or the
   service reserves, while no living pod holds it. So there is none once the NRT shows it as free, or another pod has
   it.
3. Forgotten: an NRT was written so long after the end that it shows it, or should have been. Or the hold is gone and
   the victim was not evicted.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from webhook.engine.freeing import HeldPod, HoldingsOn, NodeHoldings
from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.formats.kubernetes.bound_pod import BoundPod
from webhook.formats.nrt import NodeTopology
from webhook.placing.node_holdings import Holdings
from webhook.placing.preemption.holds import EVICTION_SECONDS, Hold
from webhook.placing.preemption.preemption_candidates import is_leaving
from webhook.state.assumed.free_bounds import together
from webhook.state.assumed.placement_search import taken_on
from webhook.state.cluster_cache import ClusterCache


class FreedHoldings(NamedTuple):
    """What pods hold, with the room of ended victims as one more pod on each node that has not reported it."""

    on: HoldingsOn
    unshown: Mapping[str, str]
    """Node -> the key of that pod."""


@dataclass(slots=True)
class _Victim:
    key: str
    node: str
    held: NumaAmounts
    since: float | None = None
    """When it was last known to end soon, or to have ended; None: it has just been noted."""
    ended: float | None = None
    """When it was found to have ended, in seconds since the epoch."""


class UnshownRoom:
    """The room of the victims of all holds, those that are over, too. Times named `now` are seconds of one clock."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._victims: dict[str, _Victim] = {}
        """By uid."""

    def note(self, hold: Hold) -> None:
        """Remember what the victims of a hold have now."""
        bound = self._cache.bound_pods.by_key()
        new = {key: uid for key, uid in hold.victims.items() if uid not in self._victims and _runs(key, uid, bound)}
        holdings = Holdings(self._cache)
        for node in {bound[key].node for key in new}:
            for pod in holdings.on(node).pods:
                if (uid := new.get(pod.key)) is not None:
                    self._victims[uid] = _Victim(pod.key, node, self._guess(pod))

    def update(self, now: float, holds: Iterable[Hold]) -> None:
        """Note which victims have ended, and forget what can be forgotten."""
        bound, times, wall_clock = self._cache.bound_pods.by_key(), self._cache.times, self._cache.current_time()
        expected = {uid for hold in holds for uid in (*hold.victims.values(), *hold.earlier.values())}
        for uid, victim in tuple(self._victims.items()):
            if _runs(victim.key, uid, bound):
                if victim.since is None or bound[victim.key].deleting or uid in expected:
                    victim.since = now
                is_over = now - (victim.since or now) > EVICTION_SECONDS
            else:
                if victim.ended is None:
                    victim.since, victim.ended = now, wall_clock
                topology = self._cache.state.topologies.get(victim.node)
                written = None if topology is None else topology.written_at
                is_over = now - (victim.since or now) > times.age + times.settle or (
                    written is not None and written > victim.ended + times.settle
                )
            if is_over:
                del self._victims[uid]

    def clear(self) -> None:
        """Forget all: another replica leads."""
        self._victims.clear()

    def left_on(self, nodes: Collection[str]) -> dict[str, str]:
        """namespace/name -> uid of the victims on these nodes that are being deleted, or whose room is remembered."""
        bound, wall_clock = self._cache.bound_pods.by_key(), self._cache.current_time()
        return {
            victim.key: uid
            for uid, victim in self._victims.items()
            if victim.node in nodes and (not _runs(victim.key, uid, bound) or is_leaving(bound[victim.key], wall_clock))
        }

    def holdings(self) -> FreedHoldings:
        """What the pods of each node hold, and the room that victims left there."""
        bound, holdings = self._cache.bound_pods.by_key(), Holdings(self._cache)
        left: dict[str, list[NumaAmounts]] = {}
        for uid, victim in self._victims.items():
            if not _runs(victim.key, uid, bound):
                left.setdefault(victim.node, []).append(victim.held)
        found: dict[str, NodeHoldings] = {}
        unshown: dict[str, str] = {}
        for node, amounts in left.items():
            topology, living = self._cache.state.topologies.get(node), holdings.on(node)
            if topology is None:
                continue
            pod = _hidden(f"room left on {node}", together(amounts), topology, living, self._guesses(node, living))
            if pod.numa or pod.reserved:
                unshown[node] = pod.key
                found[node] = replace(living, pods=(*living.pods, pod))
        return FreedHoldings(lambda node: found.get(node) or holdings.on(node), unshown)

    def _guesses(self, node: str, living: NodeHoldings) -> Callable[[int], Mapping[str, int]]:
        """What the living pods hold by the best guess, by NUMA id.

        A pod without an allocation, of which nothing is known, may hold all of its requests on any NUMA node.
        """
        requests = {pod.key: pod.requests for pod in self._cache.pods_on(node) if pod.exclusive_resources}
        placed = together(self._guess(pod) for pod in living.pods)
        unknown = (pod for pod in living.pods if pod.key in requests and not self._guess(pod))
        anywhere = added(requests[pod.key] for pod in unknown)
        return lambda numa_id: added([placed.get(numa_id, {}), anywhere])

    def _guess(self, pod: HeldPod) -> NumaAmounts:
        """What the pod holds by the best guess.

        As long as no report shows it, where it was last believed to be, even if more is reserved because its kubelet
        may have chosen otherwise.
        """
        known = self._cache.known_numa_nodes(pod.key)
        if known is not None and known.numa and not any(pod.numa.values()):
            return known.numa
        return together([pod.numa, pod.reserved])


def _hidden(
    key: str,
    left: NumaAmounts,
    topology: NodeTopology,
    living: NodeHoldings,
    guesses: Callable[[int], Mapping[str, int]],
) -> HeldPod:
    """The part of these amounts that is shown as taken, or reserved, and that no pod holds by the best guess."""
    ended, reserved = living.ended, together(pod.reserved for pod in living.pods)
    placed = together(pod.numa for pod in living.pods)
    numa: dict[int, dict[str, int]] = {}
    of_reserved: dict[int, dict[str, int]] = {}
    for numa_id, taken in taken_on(topology).items():
        guess = guesses(numa_id)
        for name, amount in left.get(numa_id, {}).items():
            shown = taken.get(name, 0) - ended.get(numa_id, {}).get(name, 0)
            blocked = shown + reserved.get(numa_id, {}).get(name, 0)
            if (rest := min(amount, blocked - guess.get(name, 0))) > 0:
                part = max(0, min(rest, shown - placed.get(numa_id, {}).get(name, 0)))
                numa.setdefault(numa_id, {})[name] = part
                of_reserved.setdefault(numa_id, {})[name] = rest - part
    return HeldPod(key, {}, numa, of_reserved)


def _runs(key: str, uid: str, bound: Mapping[str, BoundPod]) -> bool:
    pod = bound.get(key)
    return pod is not None and pod.uid == uid
