"""A live object explained: where its pods stand, and for those that wait, the engine's answer now.

1. Each pod is read with what it takes from its owners.
2. A pod that is not bound is judged on the cluster as it is, without its own reservation: a single pod by itself, a
   member of a gang with the others that wait, by the same rules as in the leader.
3. The pods with a node are shown by rank.

The answers are the planner's, which the leader asks, too. A gang is judged with its waiting members, and only as a
whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from webhook.cli.input.object_reader import FoundObject
from webhook.cli.offline.bare_pods import judge_waiting
from webhook.cli.offline.judgement_context import JudgementContext
from webhook.cli.render.judgement_json import group_object, per_node
from webhook.engine.decide import Decision, decide
from webhook.engine.topology.tree import Domain, TopologyTree
from webhook.formats.koordinator.intent import NO_INTENT
from webhook.formats.kubernetes.membership import controller_uid, membership_of
from webhook.formats.workload.record import rank_of
from webhook.model.errors import UserError
from webhook.model.names import KAI_TOPOLOGY
from webhook.model.raw import Raw
from webhook.placing.gang.workload_judgement import GangJudgement
from webhook.placing.planner import Limits, Planner
from webhook.placing.pod.assignment import Assignment
from webhook.placing.pod.decision import Verdict
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.placement_text import waiting
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.rules import Asking, Rules
from webhook.views.as_json import as_json
from webhook.views.domains import tree_of
from webhook.views.pod_standing import ENDED, WITHOUT_NODE, PodStanding, Standing, pod_standing
from webhook.views.ranks import PodWithRank, RanksView, ranks_view, topology_of_pods
from webhook.views.waiting import PreemptionView, Preempts, preemption_view


@dataclass(frozen=True, slots=True)
class ScaleUpView:
    """What a cluster autoscaler is asked for a waiting pod or gang, for people."""

    asked: bool
    """Whether the autoscaler is asked."""
    text: str
    """For what node groups, or why not."""


def pods_to_end(unit: WaitingUnit, planner: Planner) -> PreemptionView:
    """Which lower-priority pods would be preempted for a pod or gang that waits. Nothing is evicted."""
    if (why := unit.why_not) is not None:
        return PreemptionView(Preempts.NEVER, why=why)
    found = planner.victims(unit)
    if found is None or found.victims is None:
        return PreemptionView(Preempts.UNKNOWN)
    return preemption_view(found.victims, found.candidates)


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """The engine's answer now for a pod without a node."""

    verdict: Verdict
    message: str
    decision: Decision | None = None
    """Every node's answer to this pod alone; None if it cannot be read."""
    gang: GangJudgement | None = None
    preemption: PreemptionView | None = None
    """Which lower-priority pods would be preempted for it; None unless it fits nowhere and has our gate alone."""
    autoscaler: ScaleUpView | None = None
    """What an autoscaler is asked for it; None as for preemption, without an autoscaler, or if its gang lacks
    members."""


class Explanation:
    """What is known of an object's pods."""

    def __init__(self, found: FoundObject, rules: Rules, asking: Asking) -> None:
        self.found = found
        self._cache = found.cluster.cache
        self._rules = rules
        self._planner = Planner(self._cache, rules, Limits(asking=asking))
        self._around = JudgementContext(self._planner, found.owners, found.cluster.running)
        self._gated = {raw["metadata"]["name"]: self._read(raw) for raw in found.pods}
        self.pods = tuple(self._standing(raw) for raw in found.pods)

    @cached_property
    def ranks(self) -> RanksView:
        """The pods that have not ended, by rank."""
        return ranks_view(self._with_rank(), self._tree, self._nodes.node_arrays.index)

    @property
    def ended(self) -> int:
        """How many pods have ended."""
        return sum(pod.state in ENDED for pod in self.pods)

    def answer(self, pod: PodStanding) -> PodAnswer:
        """The answer for a pod that is not bound. What is reserved for it counts as free, from now on."""
        gated = self._gated[pod.name]
        if isinstance(gated, str):
            return PodAnswer(Verdict.WAIT, gated)
        gang = judge_waiting(gated, self._around) if pod.state in WITHOUT_NODE and gated.membership else None
        if pod.state is Standing.ASSIGNED:
            self._cache.pods.delete(f"{pod.namespace}/{pod.name}")  # this command's own copy
        snapshot = self._cache.snapshot().nodes
        decision = decide(snapshot, gated.pod, gated.intent, self._rules.engine)
        if gang is not None:
            return self._with_ways_out(PodAnswer(gang.verdict, gang.message, decision, gang), pod, gated)
        found = self._planner.place(gated)
        if isinstance(found, Assignment):
            return PodAnswer(Verdict.ALLOW, found.text, decision)
        text = found.text.removeprefix(waiting(""))
        return self._with_ways_out(PodAnswer(Verdict.WAIT, text, decision), pod, gated)

    def _with_ways_out(self, answer: PodAnswer, pod: PodStanding, gated: GatedPod) -> PodAnswer:
        """The answer with what preemption and an autoscaler can do, if our gate alone holds the pod back."""
        if pod.state is not Standing.WAITING or answer.verdict is Verdict.ALLOW:
            return answer
        unit = self._around.unit_of(gated)
        if unit is None:
            return replace(answer, preemption=PreemptionView(Preempts.UNKNOWN))
        asked = self._planner.asked_for(unit)
        return replace(
            answer,
            preemption=pods_to_end(unit, self._planner),
            autoscaler=None if asked is None else ScaleUpView(asked.is_asked, asked.text),
        )

    def answers(self) -> Iterator[tuple[PodStanding, PodAnswer]]:
        """The answers for pods without a node: one for each gang, and for each kind of single pod."""
        seen: set[object] = set()
        for pod in self.pods:
            if pod.state in WITHOUT_NODE and not pod.unmanaged:
                gated = self._gated[pod.name]
                alike = gated if isinstance(gated, str) else gated.signature
                if not isinstance(gated, str) and gated.membership is not None:
                    alike = gated.membership.group
                if alike not in seen:
                    seen.add(alike)
                    yield pod, self.answer(pod)

    @cached_property
    def _nodes(self) -> Any:
        return self._cache.snapshot().nodes

    @cached_property
    def _tree(self) -> TopologyTree:
        asked = (
            gated.pod.annotations.get(KAI_TOPOLOGY, "") for gated in self._gated.values() if not isinstance(gated, str)
        )
        return tree_of(self._nodes, topology_of_pods(asked, self._cache.topologies_by_name()), self._planner.trees)

    def _read(self, raw: Raw) -> GatedPod | str:
        """The pod with what it takes from its owners; a text if it cannot be read."""
        try:
            return self._around.gated(raw)
        except UserError as error:
            return " ".join(map(str, error.faults))

    def _standing(self, raw: Raw) -> PodStanding:
        gated = self._gated[raw["metadata"]["name"]]
        intent = NO_INTENT if isinstance(gated, str) else gated.intent
        membership = membership_of(raw) if isinstance(gated, str) else gated.membership
        return pod_standing(raw, self._cache, self._rules, intent, membership, self._domain)

    def _domain(self, node: str) -> tuple[tuple[str, str], ...]:
        """The path of a node in the topology."""
        n = self._nodes.node_arrays.index.get(node)
        tree = self._tree
        return () if n is None else tree.path(Domain(tree.node_level, int(tree.positions()[n])))

    def _with_rank(self) -> Iterator[PodWithRank]:
        for raw, pod in zip(self.found.pods, self.pods, strict=True):
            if pod.state not in ENDED:
                metadata = raw["metadata"]
                rank = pod.rank
                if rank is None:
                    rank = rank_of(pod.name, metadata.get("labels") or {}, metadata.get("annotations") or {})
                ids = None if pod.numa_nodes is None else tuple(share.id for share in pod.numa_nodes)
                yield PodWithRank(pod.name, pod.gang or _controller(metadata), rank, pod.node, ids)


def pod_object(pod: PodStanding, answer: PodAnswer | None) -> dict[str, Any]:
    """The JSON of one pod. answer: None if it is bound."""
    return {
        "pod": as_json(pod),
        **_answer_object(answer),
        "perNode": [] if answer is None or answer.decision is None else per_node(answer.decision),
    }


def workload_object(explanation: Explanation, answers: Sequence[tuple[PodStanding, PodAnswer]]) -> dict[str, Any]:
    """The JSON of a workload or PodGroup."""
    reference = explanation.found.reference
    return {
        "object": {"kind": reference.kind, "namespace": explanation.found.namespace, "name": reference.name},
        "pods": as_json(explanation.pods),
        "ranks": as_json(explanation.ranks),
        "waiting": [{"pod": pod.name, **_answer_object(answer)} for pod, answer in answers],
    }


def _answer_object(answer: PodAnswer | None) -> dict[str, Any]:
    placement = None if answer is None or answer.gang is None else answer.gang.placement
    return {
        "verdict": None if answer is None else answer.verdict.value,
        "message": "" if answer is None else answer.message,
        "group": None if placement is None else group_object(placement),
        "preemption": None if answer is None else as_json(answer.preemption),
        "autoscaler": None if answer is None else as_json(answer.autoscaler),
    }


def _controller(metadata: Mapping[str, Any]) -> str:
    """The name of the pod's controller; of its first owner, if it has none; empty without owners."""
    owners = metadata.get("ownerReferences") or ()
    uid = controller_uid(metadata)
    return next((str(owner.get("name")) for owner in owners if str(owner.get("uid", "")) == uid), "")
