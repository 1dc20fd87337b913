"""The engine's speed: filter, scores, whole decision, an update of one node, memory. Three figures for comparison:

- read once: the arrays of one generation that any decision reads, each read once: what is free in and allocatable of
  the NUMA nodes (resource x NUMA node x node), what is free on the nodes (resource x node), whether NUMA nodes list a
  resource, the nodes' kinds, readiness, cordons, sets of taints, order by name, and the residents per NUMA node.
  `ratio_to_read` is relative to this.
- only this pod's rows: the same, but only for the resources that the pod names. No decision can be faster.
- plain loop: the same decision as a loop over Python objects.

"From memory": with empty CPU caches, as when a request follows other work, and a pod with a new signature.
"Cached": the same decision was made a moment ago. Each is compared with its own read.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.bench.engine_cluster import CPUS, HalfFullCluster, asked, fleet
from tests.bench.measure import cached, duration, from_memory, once
from tests.bench.plain import decide_plainly
from tests.builders.records import node, resident
from webhook.engine.decide import decide
from webhook.engine.filter.node_fit import node_fit
from webhook.engine.koordinator import packing_score
from webhook.engine.kubelet import predict
from webhook.engine.plugin import Strategy, filter_nodes, score_nodes
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.nrt import NodeTopology, ZoneResource
from webhook.model.options import Options
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import PODS

SIZES = [(nodes, zones) for nodes in (100, 1_000, 5_000, 50_000) for zones in (2, 4, 8)]
BEST = 64  # as many names as a required affinity holds by default


@dataclass
class _Bench:
    """One cluster with a pod to decide on."""

    fleet: HalfFullCluster
    pod: Pod

    def __post_init__(self) -> None:
        self.snapshot = Snapshot(self.fleet.state.node_arrays())
        self.intent, _ = parse_numa_intent(self.pod.annotations)
        self.request = PodRequest.of(self.pod, self.intent, self.snapshot.node_arrays.resources)

    def read(self) -> None:
        """Read everything once that any decision depends on, without a computation."""
        self._read(range(len(self.snapshot.node_arrays.resources.names)))

    def read_rows(self) -> None:
        """Read everything once that the decision on this pod depends on."""
        self._read(self.request.rows)

    def _read(self, rows: Iterable[int]) -> None:
        node_arrays, snapshot = self.snapshot.node_arrays, self.snapshot
        for row in rows:
            for array in (
                snapshot.free(row),
                node_arrays.zone_allocatable[row],
                snapshot.node_free(row),
                node_arrays.listed[row],
            ):
                np.bitwise_or.reduce(array, axis=None)
        for array in (snapshot.node_free(node_arrays.resources.find(PODS)), node_arrays.kind, node_arrays.ready):
            np.bitwise_or.reduce(array, axis=None)
        for array in (node_arrays.unschedulable, node_arrays.taint_set, node_arrays.order):
            np.bitwise_or.reduce(array, axis=None)
        for array in (snapshot.single_residents, snapshot.multi_residents):
            np.bitwise_or.reduce(array, axis=None)

    def decide(self, pod: Pod | None = None, options: Options | None = None) -> None:
        """The whole decision, from a parsed pod to the names and NUMA nodes of the best nodes."""
        decide(self.snapshot, pod or self.pod, self.intent, options).best(BEST)

    def new_signatures(self) -> Callable[[], None]:
        """Decide on a pod with another signature each time."""
        pods = cycle([asked(cpus) for cpus in range(1, CPUS)])
        return lambda: self.decide(next(pods))


def lines(sizes: list[tuple[int, int]] | None = None) -> Iterator[dict[str, Any]]:
    """Every measurement, size by size."""
    for nodes, zones in sizes or SIZES:
        cluster = fleet(nodes, zones)
        read = yield from _decisions(_Bench(cluster, asked()), nodes, zones)
        yield from _changes(cluster, nodes, zones, read)
        if nodes == 5_000:
            yield from _other_policies(nodes, zones)


def _line(nodes: int, zones: int, what: str, ns: int, read: int) -> dict[str, Any]:
    ratio = round(ns / read, 2)
    return {"bench": "engine", "nodes": nodes, "zones": zones, "what": what, "ns": ns, "ratio_to_read": ratio}


def _decisions(bench: _Bench, nodes: int, zones: int) -> Generator[dict[str, Any], None, int]:
    """Benches that read the arrays. Returns the time to read them once."""
    snapshot, request = bench.snapshot, bench.request
    read, read_from_memory = cached(bench.read), from_memory(bench.read)
    line = partial(_line, nodes, zones)
    yield line("read once, cached", read, read)
    yield line("read once, from memory", read_from_memory, read_from_memory)
    yield line("read only this pod's rows, cached", cached(bench.read_rows), read)
    yield line("whole decision, cached", cached(bench.decide), read)
    yield line("whole decision, from memory, new signature", from_memory(bench.new_signatures()), read_from_memory)
    yield line("whole decision with 100 reservations", cached(_reserved(bench).decide), read)
    yield line("whole decision, plain loop", once(lambda: decide_plainly(bench.fleet.state, bench.pod, BEST)), read)
    yield line("node-level filter", cached(lambda: node_fit(snapshot, bench.pod, request)), read)
    yield line("filter, kubelet", cached(lambda: predict(snapshot, request)), read)
    yield line("filter, plugin", cached(lambda: filter_nodes(snapshot, request)), read)
    fit = predict(snapshot, request)
    fitting = np.flatnonzero(fit.fits)
    yield line("score Packing", cached(lambda: packing_score(snapshot, request, fitting, fit.mask[fitting])), read)
    for strategy in Strategy:
        yield line(f"score {strategy}, all nodes", cached(partial(score_nodes, snapshot, request, strategy, {})), read)
        options = Options(fidelity="Plugin", score_strategy=strategy.value)
        yield line(f"whole decision, plugin, {strategy}", cached(partial(bench.decide, options=options)), read)
    return read


def _changes(cluster: HalfFullCluster, nodes: int, zones: int, read: int) -> Iterator[dict[str, Any]]:
    """Benches that write the arrays. No older snapshot is held."""
    line = partial(_line, nodes, zones)
    yield line("one node's NRT applied", cached(_nrt_updates(cluster)), read)
    yield line("one bound pod applied", cached(_pod_updates(cluster)), read)
    yield line("one node added, one deleted", cached(_node_updates(cluster)), read)
    yield line("one reservation subtracted", cached(_reservations(cluster)), read)
    yield {**line("memory of both buffers", 0, read), "bytes": _memory(cluster)}


def _other_policies(nodes: int, zones: int) -> Iterator[dict[str, Any]]:
    """Pods for which one NUMA node is not enough. The search over sets of NUMA nodes costs more."""
    for policy in (NUMAPolicy.RESTRICTED, NUMAPolicy.BEST_EFFORT):
        cluster = fleet(nodes, zones, policy)
        for wanted in ("12 CPUs and 64Gi", "40 CPUs and 64Gi", "40 CPUs and 320Gi"):
            cpus, memory = wanted.split(" CPUs and ")
            bench = _Bench(cluster, asked(int(cpus), policy.koordinator, memory))
            what = f"whole decision, {policy.kubelet}, {wanted}"
            yield _line(nodes, zones, what, cached(bench.decide), cached(bench.read))


def _reserved(bench: _Bench) -> _Bench:
    ledger = Ledger()
    for number in range(100):
        ledger.put(Reservation.of(f"default/p{number}", f"node-{number}", {0: {"cpu": 1000}}, {"cpu": 1000}))
    other = _Bench(bench.fleet, bench.pod)
    other.snapshot = Snapshot(bench.snapshot.node_arrays, ledger)
    return other


def _nrt_updates(cluster: HalfFullCluster) -> Callable[[], None]:
    """Updates by an exporter: one CPU more or less is free on a NUMA node."""
    changed = [_with_free_cpus(topology, free) for free in (1000, 2000) for topology in cluster.topologies[:50]]
    updates = cycle(changed)

    def update() -> None:
        cluster.state.upsert_topology(next(updates))
        cluster.state.node_arrays()

    return update


def _with_free_cpus(topology: NodeTopology, free: int) -> NodeTopology:
    first, *others = topology.zones
    cpu = ZoneResource(1000 * CPUS, 1000 * CPUS, free)
    return replace(topology, zones=(replace(first, resources={**first.resources, "cpu": cpu}), *others))


def _pod_updates(cluster: HalfFullCluster) -> Callable[[], None]:
    numbers = count()

    def update() -> None:
        number = next(numbers)
        name = cluster.topologies[number % len(cluster.topologies)].node
        cluster.state.upsert_pod(resident(name=f"p{number}", node=name, requests={"cpu": 1000}))
        cluster.state.node_arrays()

    return update


def _node_updates(cluster: HalfFullCluster) -> Callable[[], None]:
    numbers = count()

    def update() -> None:
        number = next(numbers)
        cluster.state.upsert_node(node(name=f"new-{number}"))
        cluster.state.delete_node(f"new-{number - 1}")
        cluster.state.node_arrays()

    return update


def _reservations(cluster: HalfFullCluster) -> Callable[[], None]:
    ledger, numbers = Ledger(), count()
    node_arrays = cluster.state.node_arrays()

    def reserve() -> None:
        number = next(numbers)
        name = cluster.topologies[number % len(cluster.topologies)].node
        ledger.put(Reservation.of(f"default/p{number}", name, {0: {"cpu": 1000}}, {"cpu": 1000}))
        Snapshot(node_arrays, ledger)

    return reserve


def _memory(cluster: HalfFullCluster) -> int:
    """Bytes of both buffers' arrays."""
    return 2 * sum(array.nbytes for array in _arrays(cluster.state.node_arrays()))


def _arrays(node_arrays: NodeArrays) -> Iterator[NDArray[Any]]:
    fields = (getattr(node_arrays, field, None) for field in type(node_arrays).__slots__)
    return (field for field in fields if isinstance(field, np.ndarray))


def text(line: dict[str, Any]) -> str:
    """A measurement as text."""
    head = f"{line['nodes']:>6} nodes x {line['zones']} NUMA nodes  {line['what']:<48}"
    if "bytes" in line:
        return f"{head} {line['bytes'] / 2**20:>9.1f} MiB"
    return f"{head} {duration(line['ns']):>10}  {line['ratio_to_read']:>8.1f} x read"
