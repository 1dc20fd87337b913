"""What each node's pods hold, read from the cluster cache, for the question whose end would let another pod run.

What a pod holds of NUMA nodes is what `state.assumed.observed_placement` says; an uncertain allocation counts as none.
"""

from collections import defaultdict
from collections.abc import Mapping

from webhook.engine.freeing import HeldPod, NodeHoldings
from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import PODS
from webhook.state.cluster_cache import ClusterCache


class Holdings:
    """What the pods of each node hold at one moment."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._ledger = cache.snapshot().nodes.ledger
        self._assigned: dict[str, list[Reservation]] = defaultdict(list)
        for reservation in self._ledger or ():
            if reservation.requests:
                self._assigned[reservation.node].append(reservation)
        self._known: dict[str, NodeHoldings] = {}

    def on(self, node: str) -> NodeHoldings:
        """The holdings of a node."""
        if node not in self._known:
            self._known[node] = self._read(node)
        return self._known[node]

    def requests_on(self, node: str) -> list[Mapping[str, int]]:
        """What each pod of the node requests."""
        assigned = self._assigned.get(node, ())
        return [
            *({**pod.requests, PODS: 1} for pod in self._cache.pods_on(node)),
            *(each.requests for each in assigned),
        ]

    def _read(self, node: str) -> NodeHoldings:
        topology = self._cache.state.topologies.get(node)
        bound = self._cache.pods_on(node)
        numa_nodes = self._cache.numa_nodes(node)
        pods = [self._bound(pod, numa_nodes[pod.key].numa) for pod in bound]
        pods += [_assigned(each) for each in self._assigned.get(node, ())]
        pods.sort(key=lambda pod: pod.key)
        if self._ledger is None:
            return NodeHoldings(tuple(pods), debt=_debt(topology, bound))
        sums = self._ledger.sums(node)
        return NodeHoldings(tuple(pods), sums.numa, sums.ended, _debt(topology, bound))

    def _bound(self, pod: ResidentPod, held: NumaAmounts) -> HeldPod:
        reservation = None if self._ledger is None else self._ledger.get(pod.key)
        reserved: NumaAmounts = {} if reservation is None else reservation.numa
        shown = {
            numa_id: {name: amount - reserved.get(numa_id, {}).get(name, 0) for name, amount in amounts.items()}
            for numa_id, amounts in held.items()
        }
        given = {
            numa_id: {name: amount for name, amount in amounts.items() if amount > 0}
            for numa_id, amounts in shown.items()
        }
        counted = (*dict(pod.allocation or ()), *reserved)
        return _of(pod.key, {**pod.requests, PODS: 1}, given, reserved, pod.policy, counted)


def _assigned(reservation: Reservation) -> HeldPod:
    """A pod that is not bound yet: the ledger reserves all of it."""
    numa = reservation.numa
    return _of(reservation.pod, reservation.requests, {}, numa, reservation.policy, tuple(numa))


def _of(
    key: str,
    requests: Mapping[str, int],
    numa: NumaAmounts,
    reserved: NumaAmounts,
    policy: NUMAPolicy | None,
    counted: tuple[int, ...],
) -> HeldPod:
    """The pod. counted: the NUMA ids on which it counts for exclusivity, once for each count."""
    if policy is NUMAPolicy.SINGLE_NUMA_NODE:
        return HeldPod(key, requests, numa, reserved, single=counted)
    return HeldPod(key, requests, numa, reserved, multi=counted if len(set(counted)) > 1 else ())


def _debt(topology: NodeTopology | None, bound: tuple[ResidentPod, ...]) -> NumaAmounts:
    """What the allocations of pods exceed a publisher's totals by."""
    if topology is None or topology.publisher is not Publisher.TOTAL:
        return {}
    debt: dict[int, dict[str, int]] = {}
    for zone in topology.zones:
        for name, amounts in zone.resources.items():
            held = sum(dict(pod.allocation or ()).get(zone.id, {}).get(name, 0) for pod in bound)
            if held > amounts.available:
                debt.setdefault(zone.id, {})[name] = held - amounts.available
    return debt
