"""The answer to a PodCliqueSet of Grove: that to the pods of its PodGangs, as Grove's operator will make them.

1. Replica 0 stands for all replicas. Each has a base PodGang: the PodCliques outside scaling groups, and of each
   scaling group as many replicas as have to be available.
2. The first further replica of a scaling group stands for all of these. Each is a PodGang of its own, which starts
   after the base.
3. A domain becomes the node label of the level that the ClusterTopologyBinding calls so.
4. Each PodGang is judged with its pods. The answer is the worst.

Source: grove operator/api/core/v1alpha1/podcliqueset.go, operator/api/common/namegen.go,
operator/internal/controller/podcliqueset/components/podgang/syncflow.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from webhook.cli.input.documents import Item
from webhook.cli.offline.bare_pods import judge_pods
from webhook.cli.offline.judgement import Judgement, PodSet, worst
from webhook.cli.offline.judgement_context import JudgementContext
from webhook.cli.offline.pod_group_review import POD_GANGS_ARE_NOT_READ
from webhook.formats.topology import Topology
from webhook.formats.user_pod_group import MAX_SUBGROUPS
from webhook.model.errors import UserError
from webhook.model.fields import mapping, mappings
from webhook.model.json_text import shortened
from webhook.model.names import GROVE_POD_CLIQUE, GROVE_POD_GANG, GROVE_POD_INDEX, GROVE_TOPOLOGY
from webhook.model.raw import Raw
from webhook.model.wording import counted, did_you_mean, quoted
from webhook.placing.pod.decision import Verdict
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.management import DEFAULT_NAMESPACE

_CLIQUES: Final = "spec.template.cliques"
_GROUPS: Final = "spec.template.podCliqueScalingGroups"
_MOST_PODS: Final = 4096
"""Each pod of a PodGang is judged by name, some milliseconds each: of more, a review would take minutes."""


@dataclass(frozen=True, slots=True)
class _Clique:
    """One PodClique of a PodGang: a podgroup."""

    name: str
    template: Raw
    path: str
    pods: int
    minimum: int

    def podgroup(self, constraint: Mapping[str, Any]) -> dict[str, Any]:
        return {"name": self.name, "podReferences": [], "minReplicas": self.minimum, **constraint}


@dataclass(slots=True)
class _PodGang:
    name: str
    spec: dict[str, Any]
    cliques: list[_Clique] = field(default_factory=list)


def judge_pod_clique_set(item: Item, snapshot: ClusterSnapshot, around: JudgementContext) -> Judgement:
    """The judgement of a PodCliqueSet. Raises InputError for one that Grove would reject."""
    if not around.rules.grove_pod_gangs:
        return Judgement(item, Verdict.ALLOW, f"unmanaged: {POD_GANGS_ARE_NOT_READ}", item.body)
    expansion = _Expansion(item.body, snapshot.topologies)
    try:
        gangs = expansion.gangs()
    except UserError as error:
        raise item.fault(error.faults[0].path, error.faults[0].message) from error
    known, namespace = around.planner.state.pod_gangs.by_key(), item.namespace or DEFAULT_NAMESPACE
    if there := [gang.name for gang in gangs if f"{namespace}/{gang.name}" in known]:
        text = f"its PodGang {there[0]} is there already: what its pods wait for, or where they are, stands on them"
        return Judgement(item, Verdict.ALLOW, text, item.body, tuple(expansion.warnings))
    found = [_judged(item, gang, expansion.topology, snapshot, around) for gang in gangs]
    verdict = worst(one.verdict for one in found)
    decisive = next(one for one in found if one.verdict is verdict)
    warnings = (*expansion.warnings, *(warning for one in found for warning in one.all_warnings()))
    message = "; then ".join(one.message for one in found) if verdict is Verdict.ALLOW else decisive.message
    sets = tuple(one for each in found for one in each.sets)
    return replace(decisive, message=message, warnings=tuple(dict.fromkeys(warnings)), sets=sets)


def _judged(
    item: Item, gang: _PodGang, topology: str, snapshot: ClusterSnapshot, around: JudgementContext
) -> Judgement:
    """Step 4 for one PodGang."""
    namespace = item.namespace or DEFAULT_NAMESPACE
    named = {"annotations": {GROVE_TOPOLOGY: topology}} if topology else {}
    metadata = {"name": gang.name, "namespace": namespace, **named}
    around.planner.state.pod_gangs.feed.upsert(f"{namespace}/{gang.name}", {"metadata": metadata, "spec": gang.spec})
    pods = {
        number: (replace(item, body=raw, prefix=f"{item.prefix}{clique.path}."), snapshot)
        for number, (clique, raw) in enumerate(
            (clique, _pod(clique, index, gang.name, namespace))
            for clique in gang.cliques
            for index in range(clique.pods)
        )
    }
    found = list(judge_pods(pods, around).values())
    verdict = worst(one.verdict for one in found)
    decisive = next(one for one in found if one.verdict is verdict)
    sets, first = [], 0
    for clique in gang.cliques:
        (one,) = found[first].sets
        sets.append(PodSet(clique.name, clique.path, clique.pods, (), one.outcome, one.in_group))
        first += clique.pods
    return replace(decisive, item=item, mutated=item.body, sets=tuple(sets))


def _pod(clique: _Clique, index: int, gang: str, namespace: str) -> Raw:
    """A pod as the operator creates it, once its gate is gone."""
    labels = {GROVE_POD_GANG: gang, GROVE_POD_CLIQUE: clique.name, GROVE_POD_INDEX: str(index)}
    own = mapping(clique.template, "labels", "labels"), mapping(clique.template, "annotations", "annotations")
    metadata = {
        "name": f"{clique.name}-{index}",
        "namespace": namespace,
        "labels": {**own[0], **labels},
        "annotations": own[1],
    }
    spec = mapping(mapping(clique.template, "spec", "spec"), "podSpec", "podSpec")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class _Expansion:
    """Steps 1 to 3."""

    def __init__(self, body: Raw, topologies: Mapping[str, Topology]) -> None:
        self.warnings: list[str] = []
        self.topology = ""
        """The ClusterTopologyBinding that it names; Grove allows one."""
        self._body = body
        self._topologies = topologies

    def gangs(self) -> list[_PodGang]:
        """The PodGangs that stand for all. Raises UserError."""
        name = str(self._body["metadata"].get("name") or "set")
        template = mapping(mapping(self._body, "spec", "spec"), "template", "spec.template")
        cliques = {str(one.get("name")): (at, one) for at, one in _entries(template, "cliques", _CLIQUES)}
        groups = list(_entries(template, "podCliqueScalingGroups", _GROUPS))
        if not cliques:
            raise UserError(_CLIQUES, "There are none. A PodCliqueSet needs at least one.")
        constrained = [("spec.template", template), *cliques.values(), *groups]
        named = [str(tied.get("topologyName") or "") for path, one in constrained if (tied := _tied(one, path))]
        self.topology = next(filter(None, named), "")
        whole = self._constraint(template, "spec.template")
        base = _PodGang(f"{name}-0", {"podgroups": [], "topologyConstraintGroupConfigs": [], **whole})
        if priority := template.get("priorityClassName"):
            base.spec["priorityClassName"] = priority
        scaled: list[_PodGang] = []
        members = {str(each) for path, group in groups for each in _names(group, path)}
        for key, (path, clique) in cliques.items():
            if key not in members:
                self._add(base, f"{base.name}-{key}", path, clique)
        for path, group in groups:
            replicas, minimum = (_count(group, field, 1, path) for field in ("replicas", "minAvailable"))
            for replica in range(min(replicas, minimum + 1, MAX_SUBGROUPS + 1)):  # more is a fault of the PodGang
                full = f"{base.name}-{group.get('name')}"
                gang, own = base, self._constraint(group, path)
                if replica == minimum:
                    gang = _PodGang(f"{full}-0", {**base.spec, "podgroups": [], **(own or whole)})
                    gang.spec.pop("topologyConstraintGroupConfigs")
                    scaled.append(gang)
                inside = []
                for key in _names(group, path):
                    if key not in cliques:
                        text = f"There is no clique {quoted(key)}.{did_you_mean(str(key), cliques)}"
                        raise UserError(f"{path}.cliqueNames", text)
                    inside.append(f"{full}-{replica}-{key}")
                    self._add(gang, inside[-1], *cliques[key])
                if own and gang is base:
                    configs = base.spec["topologyConstraintGroupConfigs"]
                    configs.append({"name": f"{full}-{replica}", "podGroupNames": inside, **own})
        return [base, *scaled] if base.cliques else scaled

    def _add(self, gang: _PodGang, name: str, path: str, clique: Raw) -> None:
        spec = mapping(clique, "spec", f"{path}.spec")
        pods = _count(spec, "replicas", 1, f"{path}.spec")
        minimum = _count(spec, "minAvailable", pods, f"{path}.spec")
        one = _Clique(name, clique, f"{path}.spec.podSpec", pods, minimum)
        gang.cliques.append(one)
        gang.spec["podgroups"].append(one.podgroup(self._constraint(clique, path)))
        there = sum(each.pods for each in gang.cliques)
        if there > _MOST_PODS:
            text = f"PodGang {gang.name} has {counted(there, 'pod')} or more. At most {_MOST_PODS} can be reviewed."
            raise UserError(f"{path}.spec.replicas", text)

    def _constraint(self, entry: Raw, path: str) -> dict[str, Any]:
        """Step 3: a constraint as a field of a PodGang; {} without levels."""
        tied = _tied(entry, path)
        pack = mapping(tied, "pack", f"{path}.topologyConstraint.pack")
        levels = {"required": pack.get("required") or tied.get("packDomain"), "preferred": pack.get("preferred")}
        found: dict[str, str] = {}
        topology = self._topologies.get(self.topology)
        for field_name, domain in levels.items():
            labels = {level.alias: level.node_label for level in topology.levels if level.alias} if topology else {}
            if domain in labels:
                found[field_name] = labels[domain]
            elif domain:
                of = f'There is no ClusterTopologyBinding "{shortened(self.topology)}"'
                if topology:
                    of = f'"{shortened(str(domain))}" is no level of it.{did_you_mean(str(domain), labels)}'
                self.warnings.append(f"{path}.topologyConstraint: {of}, so that level is left out")
        return {"topologyConstraint": {"packConstraint": found}} if found else {}


def _tied(entry: Raw, path: str) -> Raw:
    return mapping(entry, "topologyConstraint", f"{path}.topologyConstraint")


def _entries(template: Raw, name: str, path: str) -> Iterator[tuple[str, Raw]]:
    return ((f"{path}[{index}]", entry) for index, entry in enumerate(mappings(template, name, path)))


def _names(group: Raw, path: str) -> Sequence[Any]:
    found = group.get("cliqueNames")
    if not isinstance(found, list):
        raise UserError(f"{path}.cliqueNames", f"This must be a list, not {quoted(found)}.")
    return found


def _count(entry: Raw, name: str, default: int, path: str) -> int:
    value = entry.get(name)
    if value is None:
        return default
    if type(value) is not int or value < 1:
        raise UserError(f"{path}.{name}", f"{quoted(value)} is not a number of pods or replicas.")
    return value
