"""A necessary condition for a gang to fit: the sums of its domain's nodes hold what its pods request.

It costs microseconds where a trial costs an assignment of the gang. In a domain that the gang fills, it refuses nearly
all trials that would fail.
"""

from collections.abc import Collection, Mapping

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.preemption.candidates import Candidates
from webhook.engine.request import named_resources
from webhook.engine.snapshot.node_sums import added
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.resources import PODS


class SumBound:
    """The sums of a snapshot for one gang."""

    def __init__(self, snapshot: Snapshot, gang: Gang, candidates: Candidates) -> None:
        sets = gang.all_sets()
        snapshot = snapshot.covering({PODS, *(name for each in sets for name in named_resources(each.pod))})
        resources = snapshot.node_arrays.resources
        wanted: dict[str, int] = {}
        for each in sets:
            for name, amount in {**each.pod.requests, PODS: 1}.items():
                wanted[name] = wanted.get(name, 0) + each.minimum * amount
        self._names = tuple(name for name, amount in wanted.items() if amount > 0 and name in resources)
        rows = [snapshot.node_free(resources.find(name)) for name in self._names]
        # A node that is overcommitted takes nothing away from the others.
        self._free = np.maximum(np.array(rows, dtype=np.int64).reshape(len(rows), snapshot.node_arrays.n), 0)
        ending = added(requests for pods in candidates.ending.values() for requests in pods.values())
        pods_ending = sum(len(pods) for pods in candidates.ending.values())
        self._missing = {
            name: wanted[name] - (pods_ending if name == PODS else ending.get(name, 0)) for name in self._names
        }
        self._requests: Mapping[str, list[int]] = {
            key: [1 if name == PODS else pod.requests.get(name, 0) for name in self._names]
            for key, pod in candidates.pods.items()
        }

    def refuses(self, gone: Collection[str], closed: Bools | None) -> bool:
        """Whether the gang cannot fit once these pods, namespace/name, are gone.

        closed: bool [node], where it must not run.
        """
        free = self._free.sum(axis=1) if closed is None else self._free[:, ~closed].sum(axis=1)
        freed = np.array([self._requests[key] for key in gone], dtype=np.int64).reshape(len(gone), len(self._names))
        total = free + freed.sum(axis=0)
        return any(have < self._missing[name] for name, have in zip(self._names, total.tolist(), strict=True))
