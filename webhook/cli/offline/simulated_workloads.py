"""Objects from files as the workloads of a simulation.

1. Each object is judged as by `review`: whether it is denied, and which of its pods the webhook manages.
2. Its templates become pods; those that the webhook places together become a gang.
3. Its annotations say when it is created and how long its pods run.
4. Pods without a workload that name the same gang become one workload, created with the last of them. If a PodGroup
   says that they wait for a correction or for others, they are left out.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from webhook.cli.commands.review import judge_all
from webhook.cli.input.documents import InputError, Item
from webhook.cli.input.object_schema import METADATA
from webhook.cli.input.offline_cluster import Cluster, cluster_snapshots_of
from webhook.cli.offline.judgement import Judgement, PodSet
from webhook.cli.offline.judgement_context import JudgementContext
from webhook.cli.offline.pod_group_review import POD_GROUPS
from webhook.engine.gang import topology_of
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.topology import Topology
from webhook.formats.user_pod_group import SubGroup, UserPodGroup
from webhook.formats.workload.common_fields import MAX_PODS, with_minimum
from webhook.formats.workload.plain_pods import BY_HAND, workloads_of_pods
from webhook.formats.workload.readers import read_workload
from webhook.formats.workload.record import Workload, WorkloadGang, WorkloadPodSet
from webhook.formats.workload.topology_request import NO_REQUEST, TopologyRequest
from webhook.model.errors import UserError
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_TOPOLOGIES,
    KAI_TOPOLOGY,
    KUEUE_TOPOLOGIES,
    MIN_MEMBER,
    POD_GROUP_NAME,
    SIMULATE_AT,
    SIMULATE_RUN_SECONDS,
)
from webhook.model.raw import Raw
from webhook.model.wording import counted, quoted
from webhook.placing.gang.pod_group_members import by_subgroup
from webhook.placing.pod.decision import Verdict
from webhook.placing.pod.gated_pods import GatedPod
from webhook.simulation.workload import GangRequest, PodGroup, PodKind, SimulatedWorkload
from webhook.state.management import DEFAULT_NAMESPACE

_LEVELS: Final = frozenset({KAI_TOPOLOGY, KAI_REQUIRED_PLACEMENT, KAI_PREFERRED_PLACEMENT})


def gang_of_pods(raws: Sequence[Raw], members: Sequence[GatedPod], group: UserPodGroup | None) -> Workload:
    """The workload of a gang's pods that have no other workload. Raises UserError.

    Their annotations define the gang, or the PodGroup does that Kubernetes or KAI-Scheduler reads. Its subgroups become
    those of the workload.

    members: the same pods as the leader sees them; group: the one that a user wrote for KAI-Scheduler, if any.
    """
    if group is not None:
        return _of_users_group(raws, members, group)
    if members[0].scheduling_group:
        raws = [_as_named(raw, gated) for raw, gated in zip(raws, members, strict=True)]
    (together, *_) = workloads_of_pods(raws)
    return together.workload


def _as_named(raw: Raw, gated: GatedPod) -> Raw:
    """A pod with what its PodGroup of Kubernetes requests; without a minimum each may start alone."""
    name = gated.membership.name if gated.membership else ""
    annotations = {MIN_MEMBER: "1", **gated.pod.annotations, POD_GROUP_NAME: name}
    return {**raw, "metadata": {**raw["metadata"], "annotations": annotations}}


def _of_users_group(raws: Sequence[Raw], members: Sequence[GatedPod], group: UserPodGroup) -> Workload:
    by_name = {gated.key: raw for raw, gated in zip(raws, members, strict=True)}
    pods = {name: [by_name[gated.key] for gated in some] for name, some in by_subgroup(members).items()}
    topology = TopologyRequest(topology=group.topology) if group.topology else NO_REQUEST
    gang = _gang(group.whole, group, pods, topology)
    return Workload(BY_HAND, group.namespace, group.name, "", (gang,), {})


def _gang(
    part: SubGroup, group: UserPodGroup, pods: Mapping[str, Sequence[Raw]], request: TopologyRequest
) -> WorkloadGang:
    if part.required or part.preferred:
        request = TopologyRequest(
            part.topology or group.topology,
            part.required or None,
            part.preferred or None,
            part.path,
            part.path,
            part.fields,
        )
    below = (_gang(each, group, pods, NO_REQUEST) for each in part.parts)
    sets = () if part.parts else tuple(_pod_sets(part, group, pods.get(part.name, ())))
    return WorkloadGang(part.name or group.name, request, sets, tuple(gang for gang in below if gang.size))


def _pod_sets(part: SubGroup, group: UserPodGroup, raws: Sequence[Raw]) -> list[WorkloadPodSet]:
    """The pods of a subgroup, with its minimum. Their own annotations about the gang say the same or nothing."""
    if not raws:
        return []
    (together, *_) = workloads_of_pods(map(_without_levels, raws))
    sets = [pod_set for gang in together.workload.gangs for pod_set in gang.all_pod_sets()]
    named = [replace(one, name=f"{part.name or group.name}-{number}") for number, one in enumerate(sets)]
    return with_minimum(named, part.minimum)


def _without_levels(raw: Raw) -> Raw:
    """A pod whose annotations say nothing that its PodGroup says."""
    own = {key: text for key, text in raw["metadata"]["annotations"].items() if key not in _LEVELS}
    return {**raw, "metadata": {**raw["metadata"], "annotations": own}}


MOST_SECONDS: Final = 1e10
"""317 years."""
_NO_PODS: Final = POD_GROUPS | {("", "Namespace"), (KAI_TOPOLOGIES[0], "Topology"), (KUEUE_TOPOLOGIES[0], "Topology")}

Warn = list[str]
_Member = tuple[Judgement, SimulatedWorkload, GatedPod]


def simulated_workloads(
    items: Sequence[Item], cluster: Cluster, around: JudgementContext, warnings: Warn
) -> list[SimulatedWorkload]:
    """The workloads, in the order of the objects; their Topologies, Namespaces and PodGroups become the cluster's.

    What is left out or denied is added to the warnings. Raises InputError.
    """
    judgements = judge_all(items, cluster_snapshots_of(items, cluster), around)
    topologies = cluster.cache.snapshot().topologies
    workloads: list[SimulatedWorkload] = []
    groups: dict[str, list[_Member]] = {}
    for judgement in judgements:
        item = judgement.item
        if (item.group, item.kind) in _NO_PODS:
            continue
        if judgement.verdict is Verdict.DENY:
            warnings.append(f"{item.place}: {item.kind} {item.name} is denied: {judgement.message}")
        if (item.group, item.kind) == ("", "Pod"):
            workload = _of_pod(judgement)
            gated = judgement.sets[0].outcome.gated if judgement.sets else None
            if gated is not None and gated.membership is not None:
                if judgement.verdict is Verdict.WAIT and judgement.group is None and _group_of(gated, cluster):
                    warnings.append(f"{item.place}: {item.kind} {item.name} is left out: {judgement.message}")
                else:
                    groups.setdefault(gated.membership.group, []).append((judgement, workload, gated))
                continue
        elif (found := _of_workload(judgement, topologies)) is None:
            why = "how many pods it has is not known" if judgement.sets else judgement.message
            warnings.append(f"{item.place}: {item.kind} {item.name} is left out: {why}")
            continue
        else:
            workload = found
        workloads.append(workload)
    workloads += [_of_group(members, cluster) for members in groups.values()]
    _check_size(workloads)
    return workloads


def _check_size(workloads: Sequence[SimulatedWorkload]) -> None:
    pods = sum(group.count for workload in workloads for group in workload.groups)
    if pods > MAX_PODS:
        raise InputError(f"Together the objects have {counted(pods, 'pod')}. A simulation has at most {MAX_PODS}.")


def _of_pod(judgement: Judgement) -> SimulatedWorkload:
    kind = _kind(judgement.item, judgement.item.body, "", judgement.sets)
    owners = judgement.item.body["metadata"].get("ownerReferences") or ()
    recreated = any(owner.get("controller") for owner in owners)
    return replace(_workload(judgement, (PodGroup(kind, 1),)), recreates=recreated)


def _of_workload(judgement: Judgement, topologies: Mapping[str, Topology]) -> SimulatedWorkload | None:
    """None if its kind's pods are not known."""
    item = judgement.item
    try:
        workload = read_workload(item.body)
    except UserError as error:
        raise item.fault(error.faults[0].path, error.faults[0].message) from error
    if workload is None:
        return None
    kinds: dict[str, PodKind] = {}
    counts: dict[str, int] = {}
    for gang in workload.gangs:
        for pod_set in gang.all_pod_sets():
            counts[pod_set.path] = counts.get(pod_set.path, 0) + len(pod_set.pods)
            if pod_set.path not in kinds:
                kinds[pod_set.path] = _kind(item, pod_set.template, pod_set.path, judgement.sets)
            if sum(counts.values()) > MAX_PODS:
                raise InputError(f"{item.place}: {item.kind} {item.name} has more than {MAX_PODS} pods.")
    together = {one.path for one in judgement.sets if one.in_group}
    gangs = judgement.gangs if together else None
    groups = [PodGroup(kinds[path], count) for path, count in counts.items() if gangs is None or path not in together]
    if gangs is None:
        return _workload(judgement, tuple(groups))
    groups += [
        PodGroup(kinds[pod_set.path], len(pod_set.pods), tuple(pod_set.pods))
        for gang in gangs.gangs
        for pod_set in gang.all_pod_sets()
        if pod_set.path in kinds
    ]
    return replace(_workload(judgement, tuple(groups)), gang=GangRequest(gangs, _levels(gangs, topologies)))


def _group_of(gated: GatedPod, cluster: Cluster) -> UserPodGroup | str | None:
    """The PodGroup that defines its gang: Kubernetes' own by its name; None if there is none."""
    name = gated.pod.annotations.get(POD_GROUP_NAME)
    return gated.scheduling_group or cluster.cache.user_groups().get(f"{gated.pod.namespace}/{name}")


def _of_group(members: Sequence[_Member], cluster: Cluster) -> SimulatedWorkload:
    """Pods without a workload, as one gang."""
    (_, first, gated), raws = members[0], [_named(judgement.item) for judgement, _, _ in members]
    group = _group_of(gated, cluster)
    together = gang_of_pods(raws, [each for _, _, each in members], group if isinstance(group, UserPodGroup) else None)
    groups = tuple(
        replace(workload.groups[0], names=(raw["metadata"]["name"],))
        for raw, (_, workload, _) in zip(raws, members, strict=True)
    )
    return replace(
        first,
        at=max(workload.at for _, workload, _ in members),
        groups=groups,
        denied=any(workload.denied for _, workload, _ in members),
        gang=GangRequest(together, _levels(together, cluster.cache.snapshot().topologies)),
    )


def _workload(judgement: Judgement, groups: tuple[PodGroup, ...]) -> SimulatedWorkload:
    item = judgement.item
    return SimulatedWorkload(
        name=f"{item.kind} {item.namespace or DEFAULT_NAMESPACE}/{item.name}",
        at=_seconds(item, SIMULATE_AT) or 0.0,
        groups=groups,
        run_seconds=_seconds(item, SIMULATE_RUN_SECONDS),
        denied=judgement.verdict is Verdict.DENY,
    )


def _kind(item: Item, raw: Raw, path: str, sets: Sequence[PodSet]) -> PodKind:
    """What the pods of a template request. Raises InputError."""
    metadata = {**(raw.get("metadata") or {}), "namespace": item.namespace or DEFAULT_NAMESPACE, "name": item.name}
    try:
        pod = Pod.from_object({"metadata": metadata, "spec": raw["spec"]})
    except UserError as error:
        below = f"{path}." if path else ""
        raise item.fault(f"{below}{error.faults[0].path}", error.faults[0].message) from error
    outcome = next((one.outcome for one in sets if one.path == path), None)
    return PodKind(pod, outcome.intent if outcome is not None and outcome.managed else None)


def _named(item: Item) -> dict[str, Any]:
    metadata = {**item.body["metadata"], "name": item.name, "namespace": item.namespace or DEFAULT_NAMESPACE}
    return {**item.body, "metadata": metadata}


def _levels(workload: Workload, topologies: Mapping[str, Topology]) -> tuple[str, ...]:
    """The labels down to the required level, else to the preferred one, of the first gang that requests any."""
    for gang in workload.gangs:
        asking = next((each for each in _with_subgroups(gang) if each.request.levels), None)
        if asking is not None:
            topology = topology_of(asking, topologies)
            levels = asking.request.resolve(topology)
            finest = levels.preferred if levels.required is None else levels.required
            return tuple(topology.node_labels[: (finest or 0) + 1])
    return ()


def _with_subgroups(gang: WorkloadGang) -> Iterator[WorkloadGang]:
    yield gang
    for part in gang.gangs:
        yield from _with_subgroups(part)


def _seconds(item: Item, annotation: str) -> float | None:
    """A number of seconds; None if the object does not have the annotation. Raises InputError."""
    item.check(item.body["metadata"], METADATA, "metadata")
    text = (item.body["metadata"].get("annotations") or {}).get(annotation)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= MOST_SECONDS:
        raise item.fault(
            f"metadata.annotations[{annotation}]",
            f"{quoted(text)} is no number of seconds. Write a number from 0 to {MOST_SECONDS:.0f}.",
        )
    return seconds
