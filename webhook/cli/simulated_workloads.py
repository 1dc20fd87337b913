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

from webhook.admission.pod.decision import Verdict
from webhook.cache.management import DEFAULT_NAMESPACE
from webhook.cli.documents import InputError, Item
from webhook.cli.judgement import Judgement, PodSet
from webhook.cli.judgement_context import JudgementContext
from webhook.cli.object_schema import METADATA
from webhook.cli.offline_cluster import Cluster, cluster_snapshots_of
from webhook.cli.pod_group_review import POD_GROUPS
from webhook.cli.review import judge_all
from webhook.cli.simulated_gangs import gang_of_pods
from webhook.controllers.placement.gated_pods import GatedPod
from webhook.engine.gang import topology_of
from webhook.model.counted import counted
from webhook.model.errors import UserError
from webhook.model.kai_pod_group import KAIPodGroup
from webhook.model.names import KAI_TOPOLOGIES, KUEUE_TOPOLOGIES, POD_GROUP_NAME, SIMULATE_AT, SIMULATE_RUN_SECONDS
from webhook.model.pod import Pod
from webhook.model.quoted import quoted
from webhook.model.topology import Topology
from webhook.model.workload.common_fields import MAX_PODS
from webhook.model.workload.readers import read_workload
from webhook.model.workload.record import Workload, WorkloadGang
from webhook.simulation.workload import GangRequest, PodGroup, PodKind, SimulatedWorkload

MOST_SECONDS: Final = 1e10
"""317 years."""
_NO_PODS: Final = POD_GROUPS | {("", "Namespace"), (KAI_TOPOLOGIES[0], "Topology"), (KUEUE_TOPOLOGIES[0], "Topology")}

Raw = Mapping[str, Any]
Warn = list[str]
_Member = tuple[Judgement, SimulatedWorkload, GatedPod]


def simulated_workloads(
    items: Sequence[Item], cluster: Cluster, around: JudgementContext, warnings: Warn
) -> list[SimulatedWorkload]:
    """The workloads, in the order of the objects; their Topologies, Namespaces and PodGroups become the cluster's.

    What is left out or denied is added to the warnings. Raises InputError.
    """
    judgements = judge_all(items, cluster_snapshots_of(items, cluster), around)
    topologies = cluster.cache.topologies_by_name()
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


def _group_of(gated: GatedPod, cluster: Cluster) -> KAIPodGroup | str | None:
    """The PodGroup that defines its gang: Kubernetes' own by its name; None if there is none."""
    name = gated.pod.annotations.get(POD_GROUP_NAME)
    return gated.scheduling_group or cluster.cache.kai_groups.by_key().get(f"{gated.pod.namespace}/{name}")


def _of_group(members: Sequence[_Member], cluster: Cluster) -> SimulatedWorkload:
    """Pods without a workload, as one gang."""
    (_, first, gated), raws = members[0], [_named(judgement.item) for judgement, _, _ in members]
    group = _group_of(gated, cluster)
    together = gang_of_pods(raws, [each for _, _, each in members], group if isinstance(group, KAIPodGroup) else None)
    groups = tuple(
        replace(workload.groups[0], names=(raw["metadata"]["name"],))
        for raw, (_, workload, _) in zip(raws, members, strict=True)
    )
    return replace(
        first,
        at=max(workload.at for _, workload, _ in members),
        groups=groups,
        denied=any(workload.denied for _, workload, _ in members),
        gang=GangRequest(together, _levels(together, cluster.cache.topologies_by_name())),
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
