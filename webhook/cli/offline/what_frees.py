"""What would let the first waiting pods and gangs run, by the engine's own answers.

- A single pod: the smallest set of pods on one node whose end lets it run (`webhook.engine.freeing`).
- A gang: how many of its pods the best domain of each level has room for. The smallest set for a whole gang would take
  a search over all combinations of nodes.

Equal pods have the same answer, so it is computed once.
"""

from collections.abc import Sequence
from dataclasses import replace

from webhook.cli.input.documents import Item, Source
from webhook.cli.input.live_cluster import Also
from webhook.cli.input.live_owners import read_owners
from webhook.cli.input.offline_cluster import Cluster
from webhook.cli.offline.bare_pods import judge_waiting
from webhook.cli.offline.judgement_context import JudgementContext
from webhook.engine.freeing.smallest_set import NoSet
from webhook.kube.client import Client
from webhook.model.errors import UserError
from webhook.placing.pod.decision import Verdict
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.rules import Rules
from webhook.views.waiting import Frees, Helps, Slots, WaitingView, WaitsFor, waiting_views


def owners_of_first(count: int) -> Also:
    """Reads the owners of the first entries from a live cluster."""

    async def read(cluster: Cluster, client: Client) -> None:
        waiting = cluster.cache.waiting_pods()
        first = waiting_views(cluster.cache)[:count]
        raws = [waiting[f"{view.namespace}/{pod.name}"] for view in first for pod in view.pods]
        source = Source(client.host, "")
        items = [Item(source, 1, 1, "", {"apiVersion": "v1", "kind": "Pod", **raw}) for raw in raws]
        await read_owners(cluster, client, items)

    return read


def with_frees(views: Sequence[WaitingView], count: int, cluster: Cluster, rules: Rules) -> list[WaitingView]:
    """The views, the first of them with what would let them run."""
    finder = _Finder(cluster, rules)
    return [*(replace(view, frees=finder.find(view)) for view in views[:count]), *views[count:]]


class _Finder:
    def __init__(self, cluster: Cluster, rules: Rules) -> None:
        self._around = JudgementContext.of(cluster, rules)
        self._planner = self._around.planner
        self._known: dict[object, Frees] = {}

    def find(self, view: WaitingView) -> Frees | None:
        """What would let the entry run; None if it has a node."""
        waiting = [pod for pod in view.pods if not pod.node]
        if not waiting:
            return None
        if any(pod.waits_for is WaitsFor.OTHER_GATES for pod in waiting):
            return Frees(Helps.UNKNOWN, why="another gate has to be removed first")
        raw = self._planner.state.waiting_pods()[f"{view.namespace}/{waiting[0].name}"]
        try:
            gated = self._around.gated(raw)
        except UserError as error:
            return Frees(Helps.UNKNOWN, why=" ".join(map(str, error.faults)))
        return self._of_pod(gated) if gated.membership is None else self._of_gang(gated)

    def _of_pod(self, gated: GatedPod) -> Frees:
        signature = gated.signature
        if signature not in self._known:
            found = self._planner.frees(gated)
            if isinstance(found, NoSet):
                self._known[signature] = Frees(Helps.NO_END if found.certain else Helps.UNKNOWN)
            else:
                helps = Helps.PODS if found.pods else Helps.NOTHING_NEEDED
                self._known[signature] = Frees(helps, found.node, found.pods, found.at_least)
        return self._known[signature]

    def _of_gang(self, gated: GatedPod) -> Frees:
        judged = judge_waiting(gated, self._around)
        if judged.verdict is Verdict.ALLOW:
            return Frees(Helps.NOTHING_NEEDED)
        placement = judged.placement
        if placement is None or placement.assigned:
            return Frees(Helps.UNKNOWN, why=judged.message)
        slots = tuple(Slots(one.level, one.domain, one.holds, one.needed, one.resource) for one in placement.why)
        if placement.fits_when_empty is False:
            return Frees(Helps.NO_END, slots=slots, why=judged.message)
        return Frees(Helps.SLOTS, slots=slots)
