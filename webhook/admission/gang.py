"""A workload as a group of pods: what it asks of the topology, whether it can be placed now, and where.

1. Objects that ask for nothing above the node are no groups: no topology, no segments, no minimum, no group's name.
2. The object is read as gangs of pods. What its annotations have wrong, by themselves or against the topologies there
   are, denies it.
3. The gangs are placed one after the other; members that run already hold their place and draw the others to it.
4. One answer for all of them: their pods, the domain that holds them all; for those without a place what is missing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from webhook.admission.gang_text import missed_text, never_held
from webhook.admission.pod.decision import Verdict
from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.cache.management import DEFAULT_NAMESPACE, Management
from webhook.engine.gang import (
    GangAssignment,
    PodAssignment,
    Shortfall,
    assign_workload,
    check_gang,
    topology_of,
)
from webhook.engine.gang.result import Path
from webhook.engine.gang.unmet_levels import Missed, missed_levels
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.model.errors import UserError
from webhook.model.fields import mapping
from webhook.model.membership import is_in_group
from webhook.model.names import (
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
    MIN_MEMBER,
    NUMA_DEFAULTS,
)
from webhook.model.rules import Rules
from webhook.model.topology import Topology
from webhook.model.workload.common_fields import annotations_at, min_member
from webhook.model.workload.plain_pods import workloads_of_pods
from webhook.model.workload.record import Workload, WorkloadGang


@dataclass(frozen=True, slots=True)
class WorkloadAssignment:
    """Where the pods of a workload go."""

    name: str
    gangs: tuple[GangAssignment, ...]
    """The answer for each gang: several for a workload whose parts start independently of each other."""
    running: Mapping[str, str] = field(default_factory=dict)
    """Pod name -> node, of the members that run already and are not placed."""
    when_empty: tuple[GangAssignment, ...] = ()
    """Where one has no place: the answer for each if no other pods ran."""

    @property
    def assigned(self) -> bool:
        """Whether every gang has a place."""
        return all(gang.assigned for gang in self.gangs)

    @property
    def topology(self) -> str | None:
        """The topology that is asked for by name."""
        return next((gang.tree.topology.name for gang in self.gangs if gang.tree.topology.name), None)

    @property
    def domain(self) -> Path:
        """The finest domain that is known to hold all gangs: empty if that is the cluster, or if one has no place."""
        paths = [gang.tree.path(gang.domain) if gang.domain is not None else () for gang in self.gangs]
        common: list[tuple[str, str]] = []
        for steps in zip(*paths, strict=False):
            if len(set(steps)) > 1:
                break
            common.append(steps[0])
        return tuple(common)

    @property
    def why(self) -> tuple[Shortfall, ...]:
        """What is missing, gang by gang, where one has no place."""
        return tuple(short for gang in self.gangs if not gang.assigned for short in gang.why)

    @property
    def fits_when_empty(self) -> bool | None:
        """Whether the gangs would have places if no other pods ran; None where the search for them was given up."""
        if self.assigned or all(gang.assigned for gang in self.when_empty):
            return True
        return None if all(gang.assigned or not gang.exhaustive for gang in self.when_empty) else False

    def pods(self) -> Iterator[PodAssignment]:
        """Every pod that has a place, in order of gang, set and rank; none unless all gangs have one."""
        if self.assigned:
            for gang in self.gangs:
                yield from gang.pods()

    def missed(self) -> tuple[Missed, ...]:
        """Preferred levels that the gangs do not keep."""
        return tuple(missed for gang in self.gangs for missed in missed_levels(gang)) if self.assigned else ()

    def unplaced(self) -> list[str]:
        """Members beyond the minimum that have no place."""
        return [name for gang in self.gangs for name in gang.unplaced()] if self.assigned else []

    @property
    def message(self) -> str:
        """The answer in one line."""
        if not self.assigned:
            return self._no_assignment()
        pods = list(self.pods())
        if not pods:
            return f"group {self.name}: nothing to place" + (", all its pods run" if self.running else "")
        nodes = len({pod.node for pod in pods})
        text = f"group {self.name}: {_count(len(pods), 'pod')} on {_count(nodes, 'node')}"
        if self.domain:
            text += f" in {_last(self.domain)}"
        if len(self.gangs) > 1:
            text += f", in {len(self.gangs)} gangs"
        if self.running:
            text += f", beside {len(self.running)} that {'runs' if len(self.running) == 1 else 'run'}"
        if unplaced := self.unplaced():
            text += f"; no room yet for {_count(len(unplaced), 'pod')} beyond the minimum"
        if missed := self.missed():
            text += f"; {missed_text(missed[:_MOST_MISSED])}"
        return text

    def _no_assignment(self) -> str:
        failed = next(gang for gang in self.gangs if not gang.assigned)
        # Coarse to fine: the coarsest level that has to hold the group is what nothing finer can make up for.
        why = f": {failed.why[0]}" if failed.why else ""
        which = f"gang {failed.name} of " if len(self.gangs) > 1 else ""
        doubt = "" if failed.exhaustive else "; the search ended at its bound, so a place may exist"
        never = next(filter(None, map(never_held, self.when_empty)), "")
        return f"{which}group {self.name} has no place now{why}{doubt}" + (f"; {never}" if never else "")


@dataclass(frozen=True, slots=True)
class GangJudgement:
    """The verdict on a workload as a group."""

    verdict: Verdict
    message: str
    placement: WorkloadAssignment | None = None
    """None where it is denied."""


# Levels, of a workload of many gangs, that its message names.
_MOST_MISSED: Final = 3

# The templates of the kinds in use are at most 8 fields deep, and a field's name is a word.
MAX_DEPTH: Final = 32
MAX_FIELD_NAME: Final = 63
_NO_TEMPLATES: Final = frozenset({"metadata", "status"})


def annotations_in(raw: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """(path, annotations) of the object and of all templates in it; what is nested too deeply is no template."""
    if isinstance(raw, Mapping):
        metadata = raw.get("metadata")
        if isinstance(metadata, Mapping) and metadata.get("annotations"):
            yield f"{path}metadata.annotations", metadata["annotations"]
        spec = raw.get("spec")
        is_template = isinstance(spec, Mapping) and isinstance(spec.get("containers"), list)
        if depth < MAX_DEPTH and not is_template:
            for key, below in raw.items():
                if isinstance(below, Mapping | list) and len(key) <= MAX_FIELD_NAME and key not in _NO_TEMPLATES:
                    yield from annotations_in(below, f"{path}{key}.", depth + 1)
    elif isinstance(raw, list) and depth < MAX_DEPTH:
        for index, below in enumerate(raw):
            if isinstance(below, Mapping | list):
                yield from annotations_in(below, f"{path.removesuffix('.')}[{index}].", depth + 1)


def why_unmanaged(workload: Workload, rules: Rules) -> str | None:
    """Why a workload is not placed as a group: another scheduler does that. Raises UserError."""
    for gang in workload.distinct:
        for pod_set in gang.all_pod_sets():
            below = f"{pod_set.path}.spec" if pod_set.path else "spec"
            scheduler = str(mapping(pod_set.template, "spec", below).get("schedulerName") or "default-scheduler")
            if scheduler not in rules.scheduler_names:
                return f"the scheduler {scheduler} places it"
    return None


def check_gangs(workload: Workload, topologies: Mapping[str, Topology]) -> None:
    """Raise UserError for what the workload asks wrongly: in its annotations, or of the topologies there are."""
    for gang in workload.distinct:
        _check_segments(gang, gang.request.topology)
        _check_minimum(gang, workload)
        check_gang(workload, gang, topology_of(gang, topologies))


def check_bare_pod(raw: Mapping[str, Any], topologies: Mapping[str, Topology]) -> None:
    """Raise UserError for what the annotations of a pod that nobody owns ask wrongly of its group.

    Such a pod is a workload itself. A topology that is not there yet may come, and the pod waits for it.
    """
    if not is_in_group(raw["metadata"]["annotations"]) or is_made_by_another(raw):
        return
    (found,) = workloads_of_pods([raw])
    if all(gang.request.topology in {None, *topologies} for gang in found.workload.gangs):
        check_gangs(found.workload, topologies)


def is_made_by_another(raw: Mapping[str, Any]) -> bool:
    """Whether an object has a controller: what it asks is that one's affair."""
    owners = (raw.get("metadata") or {}).get("ownerReferences") or ()
    return any(owner.get("controller") for owner in owners)


def judge_gangs(
    workload: Workload,
    cluster_snapshot: ClusterSnapshot,
    trees: TopologyTrees,
    rules: Rules,
    running: Mapping[str, str] | None = None,
) -> GangJudgement:
    """Place the workload's gangs; `running`: pod name (as in its roles) -> node of those that run already.

    Raises UserError for what is wrong with it other than by its annotations.
    """
    try:
        check_gangs(workload, cluster_snapshot.topologies)
    except UserError as error:
        if not all("annotations" in fault.path for fault in error.faults):
            raise
        return GangJudgement(Verdict.DENY, " ".join(map(str, error.faults)))
    workload = _with_defaults(workload, cluster_snapshot, rules)
    asked = (
        workload,
        cluster_snapshot.nodes,
        cluster_snapshot.topologies,
        trees,
        running or {},
        rules.engine.gang_strategy,
    )
    gangs = assign_workload(*asked)
    when_empty = () if all(gang.assigned for gang in gangs) else assign_workload(*asked, when_empty=True)
    placement = WorkloadAssignment(workload.name, gangs, running or {}, when_empty)
    return GangJudgement(Verdict.ALLOW if placement.assigned else Verdict.WAIT, placement.message, placement)


def _with_defaults(workload: Workload, cluster_snapshot: ClusterSnapshot, rules: Rules) -> Workload:
    """The workload with what holds where its pods and itself leave their NUMA policy open, as its pods will have it."""
    management = Management.of(cluster_snapshot.namespaces.get(workload.namespace or DEFAULT_NAMESPACE), rules)
    return replace(workload, annotations={**workload.annotations, NUMA_DEFAULTS: management.defaults.to_json()})


def _check_segments(gang: WorkloadGang, topology: str | None) -> None:
    for pod_set in gang.pod_sets:
        if pod_set.segments is not None and topology is None:
            key = KAI_SEGMENT_REQUIRED_PLACEMENT if pod_set.segments.required else KAI_SEGMENT_PREFERRED_PLACEMENT
            raise UserError(
                f"{pod_set.segments.path}[{key}]",
                f"A level needs a topology. Name it in the annotation {KAI_TOPOLOGY} beside this one.",
            )
    for part in gang.gangs:
        _check_segments(part, part.request.topology or topology)


def _check_minimum(gang: WorkloadGang, workload: Workload) -> None:
    """A minimum that counts pods which are made when others run is never reached."""
    pod_sets = gang.all_pod_sets()
    by = next((pod_set.at_once_by for pod_set in pod_sets if pod_set.late), None)
    own = (annotations_at(pod_set.template, pod_set.path) for pod_set in pod_sets)
    for annotations, where in (*own, (workload.annotations, "metadata.annotations")):
        asked = min(min_member(annotations, path=where) or 0, gang.size)
        if by is not None and asked > gang.at_once:
            raise UserError(
                f"{where}[{MIN_MEMBER}]",
                f"{asked} pods never start together here: before one of them runs there are no more than "
                f"{gang.at_once}. Write {by}, or leave this out.",
            )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _last(domain: Path) -> str:
    """Rack r7 (zone a)."""
    (label, value), above = domain[-1], domain[:-1]
    outer = ", ".join(f"{one.rpartition('/')[2]} {held}" for one, held in above)
    return f"{label.rpartition('/')[2]} {value}" + (f" ({outer})" if outer else "")
