"""The affinity that keeps a gang's pods in their domains if no leader pins them to nodes: for `review -o yaml`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from webhook.admission.gang import GangJudgement
from webhook.admission.pod.decision import Verdict
from webhook.admission.pod.domain_affinity import hold_to_domains
from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.cli.judgement import PodSet
from webhook.cli.outcome import hopeful_nodes
from webhook.engine.gang.domains import domains_of
from webhook.engine.gang.result import GangAssignment
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.model.rules import Rules
from webhook.model.workload.record import WorkloadGang

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
    """Members of a gang, pinned to its domains; if it does not fit now, to the nodes that may fit it later."""
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
        f"{one.path}: its pods are held to {names} together. Only where topology-webhook runs is each replica, or "
        "segment, kept in one of them."
    )
