"""Which pods have to be evicted for a preemptor, and whether that still holds a moment later.

Phases of a search:
1. The candidates are read, then the engine searches (see `engine.preemption`). Both take steps, so that reviews run in
   between. Nodes that are held for others are left out. Victims that have ended count as being deleted as long as no
   exporter has shown that (see `unshown_room`).
2. Before any pod ends, the choice is verified on the cluster of that moment: all victims still run where they did, the
   preemptor still does not fit, and it fits without exactly these pods. A gang fits whole.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from webhook.engine.decide import decide
from webhook.engine.preemption.candidates import Candidates, NoVictims, Victims
from webhook.engine.preemption.freed_cluster import FreedCluster
from webhook.engine.preemption.gang import gang_victims
from webhook.engine.preemption.single_pod import pod_victims
from webhook.engine.request import named_resources
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.placing.gang.gang_search import GangSearch, GatedGang, assign_within, search_gang
from webhook.placing.pod.assignment import without
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.preemption.preemption_candidates import is_leaving, may_end, read_candidates
from webhook.placing.preemption.unshown_room import UnshownRoom
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.cluster_cache import ClusterCache
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules
from webhook.steps import Steps


@dataclass(frozen=True, slots=True)
class Found:
    """The answer of a search."""

    victims: Victims | NoVictims | None
    """None: the preemptor fits, or waits for something else than room."""
    candidates: Candidates


class PreemptionSearch:
    """Searches for victims in a cluster. trees: None if it searches only once. unshown: None if nothing is known."""

    def __init__(
        self,
        cache: ClusterCache,
        rules: Rules,
        trees: TopologyTrees | None = None,
        unshown: UnshownRoom | None = None,
    ) -> None:
        self._cache = cache
        self._unshown = unshown or UnshownRoom(cache)
        self._rules = rules
        self._trees = trees or TopologyTrees()

    def run(self, preemptor: WaitingUnit, closed: Collection[str] = ()) -> Steps[Found]:
        """The victims. closed: nodes that are held for others."""
        candidates = yield from read_candidates(self._cache, preemptor.priority, closed, self._own(preemptor))
        holdings, unshown = self._unshown.holdings()
        ending = dict(candidates.ending)
        for node, left in unshown.items():
            if node not in closed:
                ending[node] = {**ending.get(node, {}), left: {}}
        candidates = replace(candidates, ending=ending)
        if not candidates.pods and not candidates.ending:
            return Found(NoVictims(certain=True), candidates)
        cluster = self._cache.snapshot()
        unit = preemptor.unit
        if isinstance(unit, GatedPod):
            found = yield from pod_victims(
                cluster.nodes, unit.pod, unit.intent, self._rules.engine, candidates, holdings, closed
            )
            return Found(found, candidates)
        searched = self._assembled(preemptor, unit, cluster, closed)
        yield
        if searched is None:
            return Found(None, candidates)
        assembled, tree = searched.assembled, searched.placement.tree
        found = yield from gang_victims(
            cluster.nodes,
            assembled.gang,
            lambda view: assign_within(without(view, closed), tree, assembled, self._rules),
            tree,
            candidates,
            holdings,
            assembled.within,
        )
        return Found(found, candidates)

    def still_holds(self, preemptor: WaitingUnit, victims: Mapping[str, str], closed: Collection[str]) -> bool:
        """Whether the preemptor still needs exactly these pods to end. victims: namespace/name -> uid."""
        bound = self._cache.bound_pods.by_key()
        if not victims.keys().isdisjoint(self._own(preemptor)):
            return False
        for key, uid in victims.items():
            pod = bound.get(key)
            if pod is None or pod.uid != uid or pod.deleting or not may_end(pod, preemptor.priority):
                return False
        gone: dict[str, list[str]] = {}
        for key in victims:
            gone.setdefault(bound[key].node, []).append(key)
        now = self._cache.current_time()
        for pod in bound.values():
            if pod.deleting and pod.node not in closed and is_leaving(pod, now):
                gone.setdefault(pod.node, []).append(pod.key)
        holdings, unshown = self._unshown.holdings()
        for node, left in unshown.items():
            if node not in closed:
                gone.setdefault(node, []).append(left)
        cluster = self._cache.snapshot()
        unit = preemptor.unit
        if isinstance(unit, GatedPod):
            names = tuple(named_resources(unit.pod))
            if self._pod_fits(unit, without(cluster.nodes, closed)):
                return False
            return self._pod_fits(unit, without(FreedCluster(cluster.nodes, names, holdings).without(gone), closed))
        searched = self._assembled(preemptor, unit, cluster, closed)
        if searched is None:
            return False
        assembled, tree = searched.assembled, searched.placement.tree
        names = tuple({name for podset in assembled.gang.all_sets() for name in named_resources(podset.pod)})
        view = without(FreedCluster(cluster.nodes, names, holdings).without(gone), closed)
        return assign_within(view, tree, assembled, self._rules).assigned

    def _own(self, preemptor: WaitingUnit) -> frozenset[str]:
        """The members that run: those that it counts, and all others of its group."""
        if isinstance(preemptor.unit, GatedPod):
            return frozenset()
        running = self._cache.gangs.groups().get(preemptor.unit.membership.group, {})
        return frozenset(preemptor.assigned) | frozenset(running)

    def _pod_fits(self, gated: GatedPod, snapshot: Snapshot) -> bool:
        return decide(snapshot, gated.pod, gated.intent, self._rules.engine).fit_count > 0

    def _assembled(
        self, preemptor: WaitingUnit, gang: GatedGang, cluster: ClusterSnapshot, closed: Collection[str]
    ) -> GangSearch | None:
        """The gang in the engine's terms; None if it fits, or if something else than room is missing."""
        cluster = replace(cluster, nodes=without(cluster.nodes, closed))
        found = search_gang(gang, preemptor.minimum, preemptor.assigned, cluster, self._trees, self._rules)
        return None if not isinstance(found, GangSearch) or found.placement.assigned else found
