"""The smallest set of pods on one node whose end lets another pod run there.

1. Only nodes count on which the pod would fit if nothing ran there. If there are none, terminating pods does not help.
2. A lower bound for each node: so many of its largest pods must end until the node as a whole has enough. Only the
   `MOST_NODES` nodes with the lowest bounds are tried.
3. All sets of one pod are tried on all of these, then all of two, then of three, unless these are more than
   `MOST_TRIALS`. Equal pods count once. The first size that fits is the smallest.
4. Beyond that, greedily: on each node all pods end, then each, the largest first, stays after all if the pod still
   fits. No pod of such a set can stay, but a smaller set may exist.
5. Of several sets of the same size: the one with the fewest devices, then CPUs, then memory, then the first by name.

The engine itself judges the trials, thousands at a time (`Trials`), on the amounts that are free once the pods of a set
have ended (`FreedAmounts`).

The cost grows with the number of trials: at most MOST_TRIALS for the exact part, and for the greedy part MOST_NODES
times the pods of a node. It also grows with all pods of the cluster, whose requests step 2 sorts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from math import comb
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from webhook.engine.arrays import NO_ZONE, UNLISTED, Amounts, Bools, Counts, Nodes
from webhook.engine.decide import decide
from webhook.engine.request import named_resources
from webhook.engine.snapshot.empty_cluster import empty_cluster
from webhook.engine.snapshot.label_columns import LabelColumns
from webhook.engine.snapshot.node_arrays import ChangeLog, NodeArrays
from webhook.engine.snapshot.node_sums import NumaAmounts, added
from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.engine.snapshot.single_node import as_chosen
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.options import Options
from webhook.model.resources import CPU, MEMORY, PODS, is_device

# Columns judged at once: more would leave the processor's cache.
_AT_ONCE: Final = 8_192
MOST_TRIALS: Final = 20_000
MOST_NODES: Final = 512
LARGEST_EXACT: Final = 3


@dataclass(frozen=True, slots=True)
class HeldPod:
    """A pod that is bound or assigned to the node.

    All of `numa` and `reserved` becomes free when it has ended and its exporter has seen that. Of a pod whose NUMA
    nodes are not known, nothing is counted there.
    """

    key: str
    """namespace/name."""
    requests: Mapping[str, int]
    """On the node as a whole, with itself as "pods"."""
    numa: NumaAmounts
    """What the node's NodeResourceTopology shows of it as taken, or the service subtracts for it."""
    reserved: NumaAmounts
    """What the ledger reserves for it."""
    single: tuple[int, ...] = ()
    """The NUMA ids on which it counts as a SingleNUMANode pod, once for each count."""
    multi: tuple[int, ...] = ()
    """The same as a pod over several NUMA nodes."""


@dataclass(frozen=True, slots=True)
class NodeHoldings:
    """What the pods of one node hold, as far as it becomes free when they end.

    With the sums that do not depend on which of them end.
    """

    pods: tuple[HeldPod, ...]
    """By key."""
    reserved: NumaAmounts = field(default_factory=dict)
    """All that the ledger reserves."""
    ended: NumaAmounts = field(default_factory=dict)
    """What the ledger gives back for pods that have ended."""
    debt: NumaAmounts = field(default_factory=dict)
    """What pods hold beyond what is published, where the service subtracts them: this much has to end before anything
    becomes free.
    """


Effect = NDArray[np.int64]
"""int64 [amount]: what one pod gives back, as `FreedAmounts.effect` lays it out."""


@dataclass(frozen=True, slots=True)
class Freed:
    """Free amounts of T nodes, one column each; K resources, Z positions of NUMA nodes."""

    available: Amounts
    """int64 [K, Z, T]: -1 = the NUMA node does not list the resource."""
    node_free: Amounts
    """int64 [K, T]."""
    single_residents: Counts
    """int32 [Z, T]."""
    multi_residents: Counts
    """int32 [Z, T]."""


class FreedAmounts:
    """What nodes of a snapshot have free after some of their pods have ended, for some resources.

    - NUMA node: min(published + theirs + ended, allocatable) - (reserved - theirs), at least 0
    - node: free + their requests
    """

    def __init__(self, snapshot: Snapshot, names: tuple[str, ...]) -> None:
        """names: the resources, each of which has a row in the snapshot."""
        arrays = snapshot.node_arrays
        self.names = names
        self.rows = [arrays.resources.find(name) for name in names]
        self._snapshot = snapshot
        self._columns = {name: column for column, name in enumerate(names)}
        self._z, self._k = arrays.z, len(names)
        self._effects: dict[tuple[Any, ...], Effect] = {}

    def node_free(self, node: int) -> list[int]:
        """Free on a node (an index) as a whole, by resource of `names`."""
        return [int(self._snapshot.node_free(row)[node]) for row in self.rows]

    def effect(self, node: int, pod: HeldPod) -> Effect:
        """What the pod gives back on the node, by resource.

        Then, by resource and NUMA node, what is published and what is reserved of it. Last, its counts for exclusivity
        by NUMA node.
        """
        position = self._position(node)
        key = (
            *position.items(),
            *(pod.requests.get(name, 0) for name in self.names),
            repr((pod.numa, pod.reserved, pod.single, pod.multi)),
        )
        if key not in self._effects:
            self._effects[key] = self._effect(position, pod)
        return self._effects[key]

    def no_effect(self) -> Effect:
        """The effect of no pod."""
        return np.zeros(self._k + 2 * self._k * self._z + 2 * self._z, dtype=np.int64)

    def base(self, node: int, holdings: NodeHoldings) -> Amounts:
        """int64 [3, K, Z]: what is reserved on a node, what ended pods give back there, and what it owes."""
        position = self._position(node)
        return np.stack([self._cells(position, each) for each in (holdings.reserved, holdings.ended, holdings.debt)])

    def after(self, nodes: Nodes, effects: Amounts, bases: dict[int, Amounts]) -> Freed:
        """What is free in each trial. nodes: int [trial]; effects: int64 [trial, amount], summed over the pods."""
        k, z, snapshot = self._k, self._z, self._snapshot
        arrays = snapshot.node_arrays
        cells = k * z
        whole = effects[:, :k].T
        numa = effects[:, k : k + cells].reshape(-1, k, z).transpose(1, 2, 0)
        reserved = effects[:, k + cells : k + 2 * cells].reshape(-1, k, z).transpose(1, 2, 0)
        counts = effects[:, k + 2 * cells :].reshape(-1, 2, z).transpose(1, 2, 0)
        # [reserved, ended, debt] x resource x NUMA node x trial
        base = np.stack([bases[node] for node in nodes.tolist()], axis=-1)
        published = arrays.available[self.rows][..., nodes]
        allocatable = arrays.zone_allocatable[self.rows][..., nodes]
        unpaid = published - base[2]
        free = np.minimum(unpaid + numa + base[1], np.maximum(allocatable, published)) - np.maximum(
            base[0] - reserved, 0
        )
        available = np.where(published == UNLISTED, UNLISTED, np.maximum(free, 0))
        node_free = np.stack([snapshot.node_free(row)[nodes] for row in self.rows]) + whole
        residents = [
            np.maximum(now[:, nodes] - counts[kind], 0).astype(now.dtype)
            for kind, now in enumerate((snapshot.single_residents, snapshot.multi_residents))
        ]
        return Freed(available, node_free, *residents)

    def _effect(self, position: dict[int, int], pod: HeldPod) -> Effect:
        counts = np.zeros((2, self._z), dtype=np.int64)
        for kind, numa_ids in enumerate((pod.single, pod.multi)):
            for numa_id in numa_ids:
                if numa_id in position:
                    counts[kind, position[numa_id]] += 1
        whole = np.array([pod.requests.get(name, 0) for name in self.names], dtype=np.int64)
        parts = (whole, self._cells(position, pod.numa), self._cells(position, pod.reserved), counts)
        return np.concatenate([part.ravel() for part in parts])

    def _cells(self, position: dict[int, int], numa: NumaAmounts) -> Amounts:
        cells = np.zeros((self._k, self._z), dtype=np.int64)
        for numa_id, amounts in numa.items():
            if numa_id in position:
                for name, amount in amounts.items():
                    if name in self._columns:
                        cells[self._columns[name], position[numa_id]] = amount
        return cells

    def _position(self, node: int) -> dict[int, int]:
        """NUMA id -> position on a node."""
        ids = self._snapshot.node_arrays.zone_ids[:, node].tolist()
        return {numa_id: z for z, numa_id in enumerate(ids) if numa_id != NO_ZONE}


_BY_RESOURCE: Final = frozenset(
    {"available", "capacity", "zone_allocatable", "listed", "allocatable", "requested", "node_free"}
)
_NOT_BY_NODE: Final = frozenset(
    {"generation", "names", "index", "order", "resources", "taint_set", "taint_sets", "soft_taints", "labels"}
    | {"unknown_policies", "devices_away", "rare", "changes", "served_by_slices", "from_slices", "unenforced"}
)
_FREED: Final = frozenset({"available", "node_free", "single_residents", "multi_residents"})
_ARRAYS: Final = tuple(field.name for field in fields(NodeArrays) if field.name not in _NOT_BY_NODE | _FREED)


class Trials(FreedAmounts):
    """Many trials for one pod in one decision, on the nodes of a snapshot.

    Each pair of a node and pods that end on it is a column, judged like a node of a cluster. A column has the node's
    own arrays, with what these pods hold given back.
    """

    def __init__(self, snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options) -> None:
        """The nodes' selectors, taints and readiness are not judged: the caller chooses the nodes."""
        covering = snapshot.covering(named_resources(pod))
        resources = covering.node_arrays.resources
        names = tuple(name for name in dict.fromkeys((*named_resources(pod), PODS)) if name in resources)
        super().__init__(covering, names)
        self._pod = replace(as_chosen(pod), preferred_terms=())
        self._intent = intent
        self._options = options

    def fits(self, nodes: Nodes, effects: Amounts, holdings: dict[int, NodeHoldings]) -> Bools:
        """Whether the pod fits in each trial: bool [trial]. nodes: int [trial]; effects: int64 [trial, amount]."""
        bases = {node: self.base(node, one) for node, one in holdings.items()}
        found = [
            self._judged(nodes[first : first + _AT_ONCE], effects[first : first + _AT_ONCE], bases)
            for first in range(0, len(nodes), _AT_ONCE)
        ]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.bool_)

    def _judged(self, nodes: Nodes, effects: Amounts, bases: dict[int, Amounts]) -> Bools:
        freed = self.after(nodes, effects, bases)
        arrays: dict[str, Any] = {name: self._taken(name, nodes) for name in _ARRAYS}
        arrays |= {name: getattr(freed, name) for name in _FREED}
        return decide(Snapshot(self._arrays(nodes, arrays)), self._pod, self._intent, self._options).fits

    def _arrays(self, nodes: Nodes, arrays: dict[str, Any]) -> NodeArrays:
        n = len(nodes)
        chosen: dict[str, Any] = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        chosen |= {"ready": np.ones(n, dtype=np.bool_), "unschedulable": np.zeros(n, dtype=np.bool_)}
        chosen |= {"order": np.arange(n), "taint_set": np.zeros(n, dtype=np.int32)}
        return replace(
            self._snapshot.node_arrays,
            **chosen,
            names=("",) * n,
            index={},
            resources=ResourceIndex(self.names),
            labels=LabelColumns(n, [{}] * n),
            soft_taints=LabelColumns(n, [{}] * n),
            taint_sets=((),),
            unknown_policies={},
            devices_away={},
            rare={},
            changes=ChangeLog(),
        )

    def _taken(self, name: str, nodes: Nodes) -> Any:
        array = getattr(self._snapshot.node_arrays, name)
        return array[self.rows][..., nodes] if name in _BY_RESOURCE else array[..., nodes]


HoldingsOn = Callable[[str], NodeHoldings]
"""The name of a node -> what its pods hold."""
RequestsOn = Callable[[str], Sequence[Mapping[str, int]]]
"""The name of a node -> what each of its pods requests, with itself as "pods"."""


@dataclass(frozen=True, slots=True)
class SmallestSet:
    """Pods whose end lets the pod run on the node. It is certainly the smallest if `at_least` is its size."""

    node: str
    pods: tuple[str, ...]
    """By key; empty if the pod fits now."""
    at_least: int
    """No smaller set than this exists on any node."""


@dataclass(frozen=True, slots=True)
class NoSet:
    """No such set was found. certain: none exists of pods whose NUMA nodes are known."""

    certain: bool


def smallest_set(
    snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options, holdings_on: HoldingsOn, requests_on: RequestsOn
) -> SmallestSet | NoSet:
    """The set. requests_on: what the pods request on each node, those of `holdings_on`."""
    now = decide(snapshot, pod, intent, options)
    if now.fit_count:
        return SmallestSet(now.best(1)[0].node, (), 0)
    arrays = snapshot.node_arrays
    fits = fits_without_pods(snapshot, pod, intent, options)
    trials = Trials(snapshot, pod, intent, options)
    wanted = {name: pod.requests.get(name, 0) for name in trials.names} | {PODS: 1}
    bounds = [
        (bound, arrays.names[n], n)
        for n in fits.nonzero()[0].tolist()
        if (bound := _bound(trials, n, wanted, requests_on(arrays.names[n]))) is not None
    ]
    bounds.sort()
    tried, left_out = bounds[:MOST_NODES], bounds[MOST_NODES:]
    found = _Search(trials, [_Node(n, name, bound, holdings_on(name)) for bound, name, n in tried]).run()
    if found is None:
        return NoSet(not left_out)
    return replace(found, at_least=min([found.at_least, *(bound for bound, _, _ in left_out[:1])]))


def fits_without_pods(snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options) -> Bools:
    """On which nodes the pod would fit if nothing ran there: bool [node]. Cordoned nodes stay cordoned."""
    arrays = snapshot.node_arrays
    without_pods = replace(empty_cluster(arrays), ready=arrays.ready, unschedulable=arrays.unschedulable)
    return decide(Snapshot(without_pods), pod, intent, options).fits


def _bound(trials: Trials, node: int, wanted: Mapping[str, int], pods: Sequence[Mapping[str, int]]) -> int | None:
    """How many pods of the node must end at least; None if even all are too few."""
    bound = 1
    for name, free in zip(trials.names, trials.node_free(node), strict=True):
        missing, ending = wanted[name] - free, 0
        if missing <= 0 or wanted[name] <= 0:
            continue
        for amount in sorted((requests.get(name, 0) for requests in pods), reverse=True):
            if missing <= 0:
                break
            missing, ending = missing - amount, ending + 1
        if missing > 0:
            return None
        bound = max(bound, ending)
    return bound


class _Node:
    """A node on which the pod would fit if it were empty."""

    def __init__(self, n: int, name: str, bound: int, holdings: NodeHoldings) -> None:
        self.n = n
        self.name = name
        self.holdings = holdings
        self.bound = bound
        """No fewer pods have to end."""
        self.pods: Sequence[HeldPod] = holdings.pods
        """After `_prepare`: those whose end matters."""
        self.effects: Amounts = np.zeros((0, 0), dtype=np.int64)
        """int64 [pod, amount]: what each gives back; after `_prepare`."""
        self.is_prepared = False

    def given_back(self, chosen: Sequence[int]) -> Amounts:
        """What these pods give back together."""
        total: Amounts = self.effects[list(chosen)].sum(axis=0)
        return total


_Set = tuple[_Node, tuple[int, ...]]
"""A node, and some of its pods."""


class _Search:
    """Steps 2 to 5."""

    def __init__(self, trials: Trials, nodes: Sequence[_Node]) -> None:
        self._trials = trials
        self._nodes = nodes

    def run(self) -> SmallestSet | None:
        """The set."""
        spent, at_least = 0, 1
        for size in range(1, LARGEST_EXACT + 1):
            nodes = [node for node in self._nodes if node.bound <= size <= len(node.pods)]
            for node in nodes:
                self._prepare(node)
            count = sum(comb(len(_few_alike(node, size)), size) for node in nodes)
            if spent + count > MOST_TRIALS:
                break
            spent += count
            if (found := self._best_of(nodes, size)) is not None:
                return found
            at_least = size + 1
        return self._greedily(at_least)

    def _prepare(self, node: _Node) -> None:
        """Compute what the node's pods give back, and leave out those that give back nothing that matters."""
        if node.is_prepared:
            return
        node.is_prepared = True
        pods_row = self._trials.names.index(PODS)
        is_full = self._trials.node_free(node.n)[pods_row] < 1
        effects = [self._trials.effect(node.n, pod) for pod in node.pods]
        kept = [n for n, effect in enumerate(effects) if is_full or np.delete(effect, pods_row).any()]
        node.pods = [node.pods[n] for n in kept]
        node.effects = np.array([effects[n] for n in kept])

    def _best_of(self, nodes: Sequence[_Node], size: int) -> SmallestSet | None:
        """Step 3 for one size."""
        sets = [(node, chosen) for node in nodes for chosen in combinations(_few_alike(node, size), size)]
        return _best([one for one, fits in zip(sets, self._fit(sets), strict=True) if fits], size)

    def _greedily(self, at_least: int) -> SmallestSet | None:
        """Step 4."""
        nodes = self._nodes
        for node in nodes:
            self._prepare(node)
        sets = [(node, tuple(range(len(node.pods)))) for node in nodes if node.pods]
        sets = [one for one, fits in zip(sets, self._fit(sets), strict=True) if fits]
        orders = [
            sorted(chosen, key=lambda n, pods=node.pods: size_of([pods[n]]), reverse=True)  # type: ignore[misc]
            for node, chosen in sets
        ]
        for turn in range(max(map(len, orders), default=0)):
            turns = [(number, order[turn]) for number, order in enumerate(orders) if turn < len(order)]
            fewer = [(sets[number][0], tuple(n for n in sets[number][1] if n != stays)) for number, stays in turns]
            for (number, _), less, fits in zip(turns, fewer, self._fit(fewer), strict=True):
                if fits:
                    sets[number] = less
        bound = min((node.bound for node in self._nodes), default=1)
        return _best(sets, max(at_least, bound))

    def _fit(self, sets: Sequence[_Set]) -> list[bool]:
        """Whether the pod fits if a set ends, for each set."""
        if not sets:
            return []
        columns = np.array([node.n for node, _ in sets], dtype=np.intp)
        totals = [node.given_back(chosen) for node, chosen in sets]
        holdings = {node.n: node.holdings for node, _ in sets}
        found: list[bool] = self._trials.fits(columns, np.array(totals), holdings).tolist()
        return found


def _best(sets: Sequence[_Set], at_least: int) -> SmallestSet | None:
    """Step 5."""
    named = ([node.pods[n] for n in chosen] for node, chosen in sets)
    keys = [
        (len(pods), size_of(pods), node.name, tuple(sorted(pod.key for pod in pods)))
        for (node, _), pods in zip(sets, named, strict=True)
    ]
    if not keys:
        return None
    _, _, node, pods = min(keys)
    return SmallestSet(node, pods, at_least)


def _few_alike(node: _Node, size: int) -> list[int]:
    """The node's pods, of those that give back the same only as many as a set can have: the cheapest."""
    alike: dict[bytes, list[int]] = {}
    for n in range(len(node.pods)):
        alike.setdefault(node.effects[n].tobytes(), []).append(n)
    return [
        n
        for pods in alike.values()
        for n in sorted(pods, key=lambda n: (size_of([node.pods[n]]), node.pods[n].key))[:size]
    ]


def size_of(pods: Iterable[HeldPod]) -> tuple[int, int, int]:
    """Devices, CPU, memory."""
    total = added(pod.requests for pod in pods)
    devices = sum(amount for name, amount in total.items() if is_device(name))
    return devices, total.get(CPU, 0), total.get(MEMORY, 0)
