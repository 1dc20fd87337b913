"""The gangs of a workload: whether their annotations are valid, and where their pods can be placed now.

1. Only objects that request something above the node have gangs: a topology, segments, a minimum or a gang's name.
2. The object is read as gangs of pods. Annotations that are invalid, or that do not match the existing topologies, deny
   it.
3. The gangs are placed one after the other. Running members keep their nodes, and the others are placed near them.
   The devices of their claims count, and must be near their CPUs (see `gang_devices`).
4. The result covers all gangs: their pods and the domain that holds them all, or what is missing.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from webhook.engine.gang import (
    GangAssignment,
    PodAssignment,
    Shortfall,
    assign_workload,
    check_gang,
    topology_of,
)
from webhook.engine.gang.gang_spec import PodSet
from webhook.engine.gang.result import Path
from webhook.engine.gang.unmet_levels import Missed, missed_levels
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.dra import pod_claims
from webhook.formats.kubernetes.membership import is_in_group
from webhook.formats.topology import Topology
from webhook.formats.workload.common_fields import annotations_at, min_member
from webhook.formats.workload.levels import coarser_levels
from webhook.formats.workload.plain_pods import workloads_of_pods
from webhook.formats.workload.readers import is_made_by_another, made_by
from webhook.formats.workload.record import Replicas, Workload, WorkloadGang
from webhook.model.errors import UserError
from webhook.model.fields import mapping
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
    MIN_MEMBER,
    NUMA_DEFAULTS,
)
from webhook.model.options import GangStrategy
from webhook.model.wording import counted
from webhook.placing.gang.gang_devices import GangDevices, gang_devices, with_devices
from webhook.placing.gang.gang_text import missed_text, never_held
from webhook.placing.gang.shard_room import ACROSS_SHARDS, needs_several_shards
from webhook.placing.pod.assignment import without
from webhook.placing.pod.claim_alignment import Claimant, asks_for_root
from webhook.placing.pod.decision import Verdict
from webhook.placing.pod.placement_text import waiting
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.management import DEFAULT_NAMESPACE, Management
from webhook.state.rules import Rules


@dataclass(frozen=True, slots=True)
class WorkloadAssignment:
    """The assignments of a workload's pods."""

    name: str
    gangs: tuple[GangAssignment, ...]
    """The result for each gang: several if parts of the workload start independently of each other."""
    running: Mapping[str, str] = field(default_factory=dict)
    """Pod name -> node, of running members, which need no assignment."""
    when_empty: tuple[GangAssignment, ...] = ()
    """If a gang does not fit: the result for each gang if no other pods ran."""
    devices: str = ""
    """Why devices of pods are left to the scheduler; empty if none are."""
    needs_several_shards: bool = False
    """Whether a gang fits in no shard of the nodes alone (see `shard_room`): no leader assigns it."""

    @property
    def assigned(self) -> bool:
        """Whether every gang is assigned."""
        return not self.needs_several_shards and all(gang.assigned for gang in self.gangs)

    @property
    def topology(self) -> str | None:
        """The name of the requested topology."""
        return next((gang.tree.topology.name for gang in self.gangs if gang.tree.topology.name), None)

    @property
    def domain(self) -> Path:
        """The finest domain that holds all gangs; empty if that is the cluster, or if a gang is not assigned."""
        paths = [gang.tree.path(gang.domain) if gang.domain is not None else () for gang in self.gangs]
        common: list[tuple[str, str]] = []
        for steps in zip(*paths, strict=False):
            if len(set(steps)) > 1:
                break
            common.append(steps[0])
        return tuple(common)

    @property
    def why(self) -> tuple[Shortfall, ...]:
        """What is missing, for each gang that is not assigned."""
        return tuple(short for gang in self.gangs if not gang.assigned for short in gang.why)

    @property
    def fits_when_empty(self) -> bool | None:
        """Whether the gangs would fit if no other pods ran; None if the search ended early."""
        if self.assigned or all(gang.assigned for gang in self.when_empty):
            return True
        return None if all(gang.assigned or not gang.exhaustive for gang in self.when_empty) else False

    def pods(self) -> Iterator[PodAssignment]:
        """The assignments in order of gang, pod set and rank; none unless all gangs are assigned."""
        if self.assigned:
            for gang in self.gangs:
                yield from gang.pods()

    @property
    def topologies(self) -> tuple[str, ...]:
        """The names of the topologies of its parts."""
        parts = (part for gang in self.gangs for part in gang.by_topology())
        return tuple(dict.fromkeys(part.tree.topology.name for part in parts if part.tree.topology.name))

    def missed(self) -> tuple[Missed, ...]:
        """The preferred levels that the gangs miss."""
        return tuple(missed for gang in self.gangs for missed in missed_levels(gang)) if self.assigned else ()

    def unplaced(self) -> list[str]:
        """Members beyond the minimum that are not assigned."""
        return [name for gang in self.gangs for name in gang.unplaced()] if self.assigned else []

    @property
    def message(self) -> str:
        """The result in one line."""
        if not self.assigned:
            return self._no_assignment()
        pods = list(self.pods())
        if not pods:
            return f"{self._subject}: nothing to place" + (", all its pods run" if self.running else "")
        nodes = len({pod.node for pod in pods})
        text = f"{self._subject}: {counted(len(pods), 'pod')} on {counted(nodes, 'node')}"
        if self.domain:
            text += f" in {_last(self.domain)}"
        strategies = dict.fromkeys(gang.strategy for gang in self.gangs if gang.strategy is not GangStrategy.BIN_PACK)
        text += "".join(f", strategy {strategy}" for strategy in strategies)
        if len(self.topologies) > 1:
            text += f", its parts in the topologies {', '.join(self.topologies[:_MOST_MISSED])}"
        if len(self.gangs) > 1:
            text += f", in {counted(len(self.gangs), 'gang')}"
        if self.running:
            text += f", beside {counted(len(self.running), 'that runs', 'that run')}"
        if unplaced := self.unplaced():
            text += f"; no room yet for {counted(len(unplaced), 'pod')} beyond the minimum"
        if missed := self.missed():
            text += f"; {missed_text(missed[:_MOST_MISSED])}"
        return f"{text}; {self.devices}" if self.devices else text

    @property
    def _subject(self) -> str:
        return f"{'workload' if len(self.gangs) > 1 else 'gang'} {self.name}"

    def _no_assignment(self) -> str:
        if self.needs_several_shards:
            return f"{self._subject} does not fit now: {ACROSS_SHARDS}"
        failed = next(gang for gang in self.gangs if not gang.assigned)
        # Coarse to fine: the coarsest required level decides, because no finer level can make up for it.
        why = f": {failed.why[0]}" if failed.why else ""
        which = f"gang {failed.name} of " if len(self.gangs) > 1 else ""
        doubt = "" if failed.exhaustive else "; the search ended at its bound, so it may fit nevertheless"
        never = next(filter(None, map(never_held, self.when_empty)), "")
        return f"{which}{self._subject} does not fit now{why}{doubt}" + (f"; {never}" if never else "")


@dataclass(frozen=True, slots=True)
class GangJudgement:
    """The verdict on the gangs of a workload."""

    verdict: Verdict
    message: str
    placement: WorkloadAssignment | None = None
    """None if the workload is denied."""


_LEVELS: Final = (
    KAI_REQUIRED_PLACEMENT,
    KAI_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_PREFERRED_PLACEMENT,
)
# Missed levels in the message about a workload of many gangs.
_MOST_MISSED: Final = 3

# Templates of existing kinds are at most 8 fields deep, and the name of a field is a word.
MAX_DEPTH: Final = 32
MAX_FIELD_NAME: Final = 63
_NO_TEMPLATES: Final = frozenset({"metadata", "status"})


def annotations_in(raw: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """(path, annotations) of the object and of its templates. Templates that are nested too deeply are ignored."""
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
    """Why the workload's gangs are not placed: another scheduler places them. None if we do. Raises UserError."""
    for gang in workload.distinct:
        for pod_set in gang.all_pod_sets():
            below = f"{pod_set.path}.spec" if pod_set.path else "spec"
            scheduler = str(mapping(pod_set.template, "spec", below).get("schedulerName") or "default-scheduler")
            if scheduler not in rules.scheduler_names:
                return f"the scheduler {scheduler} places it"
    return None


def check_gangs(workload: Workload, topologies: Mapping[str, Topology]) -> None:
    """Raise UserError for invalid annotations, and for requests that do not match the existing topologies."""
    for gang in workload.distinct:
        _check_segments(gang, gang.request.topology)
        _check_minimum(gang, workload)
        topology = topology_of(gang, topologies)
        check_gang(workload, gang, topology, topologies)
        deque(coarser_levels(gang, topology, topologies), maxlen=0)  # of its warnings, annotation_warnings tells


def check_bare_pod(raw: Mapping[str, Any], topologies: Mapping[str, Topology]) -> None:
    """Raise UserError for invalid gang annotations of a pod whose owner is no workload that is read here.

    Such a pod is a workload itself. It waits for a topology that does not exist yet.
    """
    if not is_in_group(raw["metadata"]["annotations"]) or is_made_by_another(raw) or may_be_completed(raw):
        return
    (found,) = workloads_of_pods([raw])
    if all(gang.request.topology in {None, *topologies} for gang in found.workload.gangs):
        check_gangs(found.workload, topologies)


def may_be_completed(raw: Mapping[str, Any]) -> bool:
    """Whether a controller of a kind that is not read may name the topology, which the object's levels need."""
    if made_by(raw) is None:
        return False
    keys = {key for _, found in annotations_in(raw) if isinstance(found, Mapping) for key in found}
    return KAI_TOPOLOGY not in keys and not keys.isdisjoint(_LEVELS)


def judge_gangs(
    workload: Workload,
    cluster_snapshot: ClusterSnapshot,
    trees: TopologyTrees,
    rules: Rules,
    running: Mapping[str, str] | None = None,
) -> GangJudgement:
    """Place the workload's gangs. running: pod name (as in its pod sets) -> node of running members.

    Raises UserError for errors outside the annotations.
    """
    try:
        check_gangs(workload, cluster_snapshot.topologies)
    except UserError as error:
        if not all("annotations" in fault.path for fault in error.faults):
            raise
        return GangJudgement(Verdict.DENY, " ".join(map(str, error.faults)))
    claims = _Claims(workload, cluster_snapshot)
    workload = claims.counted(_with_defaults(workload, cluster_snapshot, rules))
    among = cluster_snapshot.topologies, trees, running or {}, rules.engine.gang_strategy

    def assigned(closed: frozenset[str] = frozenset(), *, when_empty: bool = False) -> tuple[GangAssignment, ...]:
        return assign_workload(workload, without(cluster_snapshot.nodes, closed), *among, when_empty=when_empty)

    def search(closed: frozenset[str]) -> tuple[tuple[GangAssignment, ...], GangDevices | None]:
        found = assigned(closed)
        return found, claims.of(found) if all(gang.assigned for gang in found) else None

    def fits(gang: WorkloadGang, nodes: Snapshot) -> bool:
        (found,) = assign_workload(replace(workload, gangs=(gang,)), nodes, *among)
        return found.assigned

    gangs, devices = with_devices(search)
    if devices is not None and devices.apart is not None:
        return GangJudgement(Verdict.WAIT, devices.apart.text.removeprefix(waiting("")))
    when_empty = assigned(when_empty=True) if devices is None else ()
    note = "" if devices is None else devices.note
    is_too_large = any(
        needs_several_shards(cluster_snapshot.shards, cluster_snapshot.nodes, found, partial(fits, gang))
        for gang, found in zip(workload.distinct, gangs, strict=False)
    )
    placement = WorkloadAssignment(workload.name, gangs, running or {}, when_empty, note, is_too_large)
    return GangJudgement(Verdict.ALLOW if placement.assigned else Verdict.WAIT, placement.message, placement)


class _Claims:
    """The claims of a workload's pods."""

    def __init__(self, workload: Workload, cluster_snapshot: ClusterSnapshot) -> None:
        self._workload = workload
        self._devices = cluster_snapshot.devices
        self._namespace = workload.namespace or DEFAULT_NAMESPACE
        self._any = self._devices is not None and any(
            pod_claims(pod_set.template) for gang in workload.distinct for pod_set in gang.all_pod_sets()
        )

    def counted(self, workload: Workload) -> Workload:
        """The workload with what its pods' claims request."""
        if not self._any:
            return workload
        gangs = workload.gangs
        each = gangs.each(self._counted) if isinstance(gangs, Replicas) else tuple(map(self._counted, gangs))
        return replace(workload, gangs=each)

    def _counted(self, gang: WorkloadGang) -> WorkloadGang:
        assert self._devices is not None  # noqa: S101 # the caller has checked it
        found = [(one, self._devices.claimed(one.template, self._namespace).amounts) for one in gang.pod_sets]
        pod_sets = tuple(replace(one, claimed=amounts) for one, amounts in found)
        return replace(gang, pod_sets=pod_sets, gangs=tuple(map(self._counted, gang.gangs)))

    def of(self, placements: Iterable[GangAssignment]) -> GangDevices:
        """What becomes of the devices of the pods, of which all are assigned."""
        if not self._any:
            return GangDevices()
        members, arrays = list[tuple[PodAssignment, Claimant | None]](), None
        for gang, placement in zip(self._workload.gangs, placements, strict=True):
            templates = {pod_set.name: pod_set.template for pod_set in gang.all_pod_sets()}
            parts = placement.by_topology()
            asked = {each.podset.name: each.podset for part in parts for each in part.assignments}
            claimants = {name: self._claimant(templates[name], asked[name]) for name in templates.keys() & asked.keys()}
            pods = sorted(placement.pods(), key=lambda pod: (pod.rank, pod.name))
            members += [(pod, claimants.get(pod.set)) for pod in pods]
            arrays = placement.snapshot.node_arrays
        return GangDevices() if arrays is None else gang_devices(f"gang {self._workload.name}", members, arrays)

    def _claimant(self, template: Mapping[str, Any], asked: PodSet) -> Claimant | None:
        if self._devices is None or not pod_claims(template):
            return None
        claims = self._devices.claims_of(template, self._namespace, "")
        return Claimant(claims, asked.intent.policy, asks_for_root(asked.pod.annotations))


def _with_defaults(workload: Workload, cluster_snapshot: ClusterSnapshot, rules: Rules) -> Workload:
    """The workload with the default NUMA policy that its pods will get if neither they nor the workload have one."""
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
    """Raise UserError for a minimum that counts pods which are only created once others run: it is never reached."""
    pod_sets = gang.all_pod_sets()
    by = next((pod_set.at_once_by for pod_set in pod_sets if pod_set.late), None)
    own = (annotations_at(pod_set.template, pod_set.path) for pod_set in pod_sets)
    size, at_once = gang.size, gang.at_once  # each is a sum over up to a thousand pod sets
    for annotations, where in (*own, (workload.annotations, "metadata.annotations")):
        asked = min(min_member(annotations, path=where) or 0, size)
        if by is not None and asked > at_once:
            raise UserError(
                f"{where}[{MIN_MEMBER}]",
                f"{counted(asked, 'pod')} never start together here: before one of them runs there are no more than "
                f"{at_once}. Write {by}, or leave this out.",
            )


def _last(domain: Path) -> str:
    """The finest domain of a path as `rack r7 (zone a)`."""
    (label, value), above = domain[-1], domain[:-1]
    outer = ", ".join(f"{one.rpartition('/')[2]} {held}" for one, held in above)
    return f"{label.rpartition('/')[2]} {value}" + (f" ({outer})" if outer else "")
