"""The service's answer to an object: a pod, the pods of a workload, or a gang of pods.

Each object is judged on its own against the snapshot. Objects in one call do not compete for capacity, and the
replicas of a workload that is not a gang count once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from webhook.cli.input.documents import Item
from webhook.cli.offline.outcome import Outcome, hopeful_nodes
from webhook.engine.decide import Decision
from webhook.engine.gang.result import GangAssignment
from webhook.engine.gang.unmet_levels import domains_of
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.formats.patches.json_patch import Tokens
from webhook.formats.workload.record import Workload, WorkloadGang
from webhook.placing.gang.workload_judgement import GangJudgement, WorkloadAssignment
from webhook.placing.pod.decision import Verdict
from webhook.placing.pod.node_names import hold_to_domains
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules

_WORST_FIRST: Final = (Verdict.DENY, Verdict.WAIT, Verdict.ALLOW)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods: those of one template of a workload, or a single pod."""

    name: str
    """The name of the pod set in the workload; `pods` if there is only one, or none is known."""
    path: str
    """The path of the template in the object; empty for a pod."""
    pods: int | None
    """The number of pods; None if unknown."""
    tokens: Tokens
    """The number of pods for each gang."""
    outcome: Outcome
    """The outcome of each pod by itself; for a member of a gang it is only a part of the answer."""
    in_group: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one object."""

    item: Item
    verdict: Verdict
    message: str
    mutated: Mapping[str, Any]
    """The object as it is admitted; unchanged if nothing is mutated."""
    warnings: tuple[str, ...] = ()
    """The warnings that the API server prints at its creation."""
    sets: tuple[PodSet, ...] = ()
    group: WorkloadAssignment | None = None
    """The assignment of a gang; None for an object without a gang, and for a denied gang."""
    notes: tuple[str, ...] = ()
    """What `mutated` cannot guarantee without a running service."""
    gangs: Workload | None = None
    """The gangs of a workload, with those pods only that are placed together; None if there are none."""
    is_podless: bool = False
    """Whether there is nothing to decide: a ConfigMap, a Service."""

    @property
    def decision(self) -> Decision | None:
        """The engine's answer for each node: of several managed pod sets, the one that fits the fewest nodes."""
        decisions = [found for one in self.sets if (found := one.outcome.decision) is not None and one.outcome.managed]
        return min(decisions, key=lambda decision: decision.fit_count, default=None)

    def all_warnings(self) -> list[str]:
        """The warnings, also those of its pods, which only their controller would see; without the message itself."""
        found = dict.fromkeys([*self.warnings, *(text for one in self.sets for text in one.outcome.warnings)])
        said = {self.message, *(one.outcome.message for one in self.sets)}
        return [warning for warning in found if warning not in said]

    @property
    def is_fine(self) -> bool:
        """Whether the object is admitted and fits somewhere now."""
        alone = [one.outcome.decision for one in self.sets if one.outcome.managed and not one.in_group]
        fits = all(decision is None or decision.fit_count > 0 for decision in alone)
        return self.verdict is Verdict.ALLOW and fits


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Denied is worse than waiting, which is worse than allowed."""
    found = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in found), Verdict.ALLOW)


Domains = Sequence[tuple[TopologyTree, Domain]]


def domains_by_path(gangs: Iterable[WorkloadGang], placements: Iterable[GangAssignment]) -> Mapping[str, Domains]:
    """Path of a template -> the domains of its pods."""
    found: dict[str, dict[tuple[int, Domain], tuple[TopologyTree, Domain]]] = {}
    for gang, placement in zip(gangs, placements, strict=True):
        paths = {pod_set.name: pod_set.path for pod_set in gang.all_pod_sets()}
        for part in placement.by_topology():
            for name, domains in domains_of(part).items():
                here = found.setdefault(paths[name], {})
                here.update({(id(part.tree), domain): (part.tree, domain) for domain in domains})
    return {path: tuple(domains.values()) for path, domains in found.items()}


def held(
    one: PodSet, judgement: GangJudgement, domains: Domains, cluster_snapshot: ClusterSnapshot, rules: Rules
) -> PodSet:
    """Members of a gang with the affinity that keeps them in its domains if no leader pins them to nodes.

    For `review -o yaml`. If the gang does not fit now, they are held to the nodes that may fit it later.
    """
    gated, constraint = one.outcome.gated, one.outcome.constraint
    if gated is not None and judgement.verdict is not Verdict.ALLOW:
        constraint = hopeful_nodes(gated, cluster_snapshot, rules)
    elif gated is not None and domains and all(domain.level > ROOT for _, domain in domains):
        constraint = hold_to_domains(cluster_snapshot.nodes, domains, gated.pod, gated.intent, rules)
    outcome = replace(one.outcome, verdict=judgement.verdict, message=judgement.message, constraint=constraint)
    return replace(one, outcome=outcome, in_group=True)


def note_of(one: PodSet, domains: Domains) -> str | None:
    """A note for a template with pods in several domains, which one affinity cannot separate."""
    if len(domains) < 2:
        return None
    names = ", ".join(tree.path(domain)[-1][1] for tree, domain in domains if tree.path(domain))
    return (
        f"{one.path}: its pods are limited to {names} as a whole. Only where topology-webhook runs is each replica, or "
        "segment, kept in one of them."
    )
