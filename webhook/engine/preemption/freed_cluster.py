"""The cluster as it will be when some pods of any nodes have ended, as a snapshot for all of the engine."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.freeing import Effect, FreedAmounts, HoldingsOn, NodeHoldings
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.resources import PODS


class FreedCluster:
    """Views of one snapshot. names: the resources that matter; the amounts of others stay as they are."""

    def __init__(self, snapshot: Snapshot, names: Iterable[str], holdings_on: HoldingsOn) -> None:
        wanted = tuple(dict.fromkeys((*names, PODS)))
        covering = snapshot.covering(wanted)
        arrays = covering.node_arrays
        self._snapshot = covering
        self._freed = FreedAmounts(covering, tuple(name for name in wanted if name in arrays.resources))
        self._holdings_on = holdings_on
        # A search asks for many views, mostly of the same nodes.
        self._holdings: dict[str, NodeHoldings] = {}
        self._effects: dict[str, Mapping[str, Effect]] = {}
        self._bases: dict[str, Amounts] = {}
        rows = range(len(arrays.available))
        self._available = np.stack([covering.free(row) for row in rows])
        self._node_free = np.stack([covering.node_free(row) for row in rows])

    def without(self, ended: Mapping[str, Iterable[str]]) -> Snapshot:
        """The snapshot without these pods. ended: the node's name -> namespace/name of each."""
        arrays = self._snapshot.node_arrays
        nodes = [(arrays.index[name], name, set(keys)) for name, keys in ended.items() if name in arrays.index]
        available, node_free = self._available.copy(), self._node_free.copy()
        single, multi = self._snapshot.single_residents.copy(), self._snapshot.multi_residents.copy()
        if nodes:
            columns = np.array([n for n, _, _ in nodes], dtype=np.intp)
            effects = np.stack([self._effect(n, name, keys) for n, name, keys in nodes])
            bases = {n: self._base(n, name) for n, name, _ in nodes}
            freed = self._freed.after(columns, effects, bases)
            rows = np.array(self._freed.rows, dtype=np.intp)
            available[np.ix_(rows, np.arange(arrays.z), columns)] = freed.available
            node_free[np.ix_(rows, columns)] = freed.node_free
            single[:, columns], multi[:, columns] = freed.single_residents, freed.multi_residents
        return Snapshot(
            replace(arrays, available=available, node_free=node_free, single_residents=single, multi_residents=multi)
        )

    def _effect(self, n: int, name: str, keys: set[str]) -> Effect:
        known = self._effects_on(n, name)
        return sum((known[key] for key in keys if key in known), start=self._freed.no_effect())

    def _effects_on(self, n: int, name: str) -> Mapping[str, Effect]:
        """What the end of each pod of a node gives back, by namespace/name."""
        if name not in self._effects:
            self._effects[name] = {pod.key: self._freed.effect(n, pod) for pod in self._held(name).pods}
        return self._effects[name]

    def _base(self, n: int, name: str) -> Amounts:
        if name not in self._bases:
            self._bases[name] = self._freed.base(n, self._held(name))
        return self._bases[name]

    def _held(self, name: str) -> NodeHoldings:
        if name not in self._holdings:
            self._holdings[name] = self._holdings_on(name)
        return self._holdings[name]
