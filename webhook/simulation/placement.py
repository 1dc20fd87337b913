"""How a pod gets its node: by the bare scheduler alone, or by the webhook's engine as the leader asks it.

Both end at the kubelet of the node. Without the webhook its rejection fails the pod. With it, the binding guard asks
the same model first, so a node that would reject the pod refuses the binding, and the next best node is tried.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from webhook.engine.decide import decide
from webhook.engine.gang import assign_workload
from webhook.engine.gang.backfill_reservation import earliest_domain, usable_nodes
from webhook.engine.gang.result import GangAssignment
from webhook.engine.numa_fit import Allocation
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.model.intent import NO_INTENT
from webhook.model.pod_signature import pod_signature
from webhook.model.rules import Rules
from webhook.simulation.bare_scheduler import BareScheduler
from webhook.simulation.kubelet import admitted
from webhook.simulation.room import Room
from webhook.simulation.wanted_pod import WantedGang, WantedPod
from webhook.simulation.workload import PodKind

# A node that refuses the binding is left out and the next best one is tried: that many times, then the pod waits.
_MOST_REFUSALS: Final = 8


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod runs on the node."""

    node: str
    numa: Allocation


@dataclass(frozen=True, slots=True)
class Rejected:
    """The pod's kubelet rejected it."""


REJECTED: Final = Rejected()
Result = Placed | Rejected | None
"""None: it fits on no node now."""


class Placement:
    """Without the webhook. The scheduler knows no gangs: each pod gets its node by itself."""

    def __init__(self, room: Room, seed: int) -> None:
        self.refused_binds = 0
        self._room = room
        self._scheduler = BareScheduler(seed)
        self._known: dict[Hashable, Result] = {}
        self._known_at = -1

    def place(self, pod: WantedPod, closed: frozenset[str]) -> Result:
        """A node for one pod, in the cluster as it is now. closed: nodes kept for others, unknown to the scheduler."""
        del closed
        return self._by_scheduler(pod.kind)

    def _by_scheduler(self, kind: PodKind) -> Result:
        signature = pod_signature(kind.pod, NO_INTENT), repr(kind.pod.preferred_terms)
        known = self._results()
        if signature in known:
            return known[signature]
        choice = self._scheduler.choose(self._room.snapshot(), kind.pod)
        if choice is None:
            known[signature] = None
            return None
        numa = admitted(self._room, choice.node, kind.pod, None)
        if numa is not None:
            return Placed(choice.node, numa)
        if choice.sure:
            known[signature] = REJECTED
        return REJECTED

    def _results(self) -> dict[Hashable, Result]:
        """What is known since the last change of the cluster."""
        if self._known_at != self._room.version:
            self._known.clear()
            self._known_at = self._room.version
        return self._known


class WebhookPlacement(Placement):
    """With the webhook: it places the gangs and the pods that it manages, the scheduler the others."""

    def __init__(self, room: Room, seed: int, rules: Rules) -> None:
        super().__init__(room, seed)
        self._rules = rules
        self._trees = TopologyTrees()

    def place(self, pod: WantedPod, closed: frozenset[str]) -> Result:
        """A node for one pod, in the cluster as it is now. closed: the nodes kept for others."""
        kind = pod.kind
        if kind.intent is None:
            return self._by_scheduler(kind)
        signature = pod_signature(kind.pod, kind.intent), repr(kind.pod.preferred_terms), closed
        known = self._results()
        if signature not in known and (placed := self._by_engine(kind, self._snapshot(closed))) is not None:
            return placed
        known[signature] = None
        return None

    def place_gang(self, gang: WantedGang, closed: frozenset[str]) -> Iterator[tuple[WantedPod, Placed]]:
        """Nodes for the members of a gang; each is to be held before the next one is asked for."""
        assignments = self._assign(gang, closed)
        nodes = [(pod.name, pod.node) for assignment in assignments if assignment.assigned for pod in assignment.pods()]
        del assignments
        for name, node in nodes:
            member = gang.members[name]
            numa = admitted(self._room, node, member.kind.pod, member.kind.intent)
            if numa is None:
                self.refused_binds += 1
            else:
                yield member, Placed(node, numa)

    def earliest_nodes(self, gang: WantedGang, closed: frozenset[str]) -> frozenset[str]:
        """The nodes of the domains that can hold a waiting gang soonest; empty if there are none to keep for it."""
        kept: set[str] = set()
        if gang.begun():
            return frozenset()  # its other members belong into the domain of those, whatever else is free
        for assignment in self._assign(gang, closed):
            if assignment.assigned:
                continue
            snapshot, tree = assignment.snapshot, assignment.tree
            domain = earliest_domain(snapshot, tree, assignment.gang, lasting_on=self._room.lasting_on)
            if domain is not None:
                names, usable = snapshot.node_arrays.names, usable_nodes(snapshot, tree, assignment.gang, domain)
                kept.update(names[n] for n in usable.nonzero()[0].tolist())
        return frozenset(kept)

    def _assign(self, gang: WantedGang, closed: frozenset[str]) -> tuple[GangAssignment, ...]:
        workload, topologies, strategy = gang.request.workload, self._room.topologies, self._rules.engine.gang_strategy
        return assign_workload(workload, self._snapshot(closed), topologies, self._trees, gang.begun(), strategy)

    def _snapshot(self, closed: frozenset[str]) -> Snapshot:
        """The cluster as it is now, with no free resources on the closed nodes."""
        snapshot = self._room.snapshot()
        if not closed:
            return snapshot
        columns = np.zeros(snapshot.node_arrays.n, dtype=np.bool_)
        columns[[snapshot.node_arrays.index[name] for name in closed]] = True
        return snapshot.closed(columns)

    def _by_engine(self, kind: PodKind, snapshot: Snapshot) -> Placed | None:
        index: Mapping[str, int] = snapshot.node_arrays.index
        refusing = np.zeros(snapshot.node_arrays.n, dtype=np.bool_)
        for _ in range(_MOST_REFUSALS):
            best = decide(snapshot, kind.pod, kind.intent or NO_INTENT, self._rules.engine).best(1)
            if not best:
                return None
            node = best[0].node
            numa = admitted(self._room, node, kind.pod, kind.intent)
            if numa is not None:
                return Placed(node, numa)
            self.refused_binds += 1
            refusing[index[node]] = True
            snapshot = snapshot.closed(refusing)
        return None
