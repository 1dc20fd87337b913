"""Fields that the workload readers share: counts, templates, annotations, minimums, strategies."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.formats.workload.record import Annotations, Workload, WorkloadGang, WorkloadPodSet
from webhook.formats.workload.topology_request import (
    TopologyRequest,
    names_segment_level,
    segment_request,
    topology_request,
)
from webhook.model.errors import UserError
from webhook.model.fields import mapping, mappings, whole_number
from webhook.model.json_text import shortened
from webhook.model.limits import TooLarge
from webhook.model.names import KAI_BATCH_MIN_MEMBER, KAI_TOPOLOGY, MIN_MEMBER, STRATEGY
from webhook.model.options import GangStrategy
from webhook.model.wording import counted, did_you_mean, quoted

# More pods than any cluster runs. A larger count is a typing error that would only use memory.
MAX_PODS = 150_000
INT32 = 2**31 - 1
"""The largest count in the API."""
# A pod set takes about 50 us to check. Workloads in use have at most hundreds.
MAX_POD_SETS = 1_000
# Each part in another topology is placed by itself, and again in what the others leave: eight of them take 0.1 s at
# 5,000 nodes.
MAX_TOPOLOGIES = 8
_MOST_NAMED = 3


def annotations_of(raw: Mapping[str, Any], path: str) -> Mapping[str, str]:
    """The annotations of an object or a template; `path` is that of the object, empty for the root."""
    where = annotations_path(path)
    return mapping(mapping(raw, "metadata", where.removesuffix(".annotations")), "annotations", where)


def annotations_on(pod_set: WorkloadPodSet) -> tuple[Annotations, ...]:
    """The annotations that apply to one pod set: its template's first, then those between it and the workload."""
    return annotations_at(pod_set.template, pod_set.path), *pod_set.between


def annotations_at(raw: Mapping[str, Any], path: str) -> Annotations:
    """The annotations of an object or a template, with their path."""
    return annotations_of(raw, path), annotations_path(path)


def annotations_path(path: str) -> str:
    """The path of the annotations of the object at `path`; `path` is empty for the root."""
    return f"{path}.metadata.annotations" if path else "metadata.annotations"


def count(raw: Mapping[str, Any], name: str, path: str, default: int) -> int:
    """A number of pods; raises UserError."""
    value = raw.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_PODS:
        # The API server accepts larger counts. A request to place that many pods is denied at once, not when the pods
        # wait.
        fault = TooLarge if type(value) is int and MAX_PODS < value <= INT32 else UserError
        raise fault(
            f"{path}.{name}", f"{quoted(value)} is not a number of pods. Write a whole number from 0 to {MAX_PODS}."
        )
    return value


def at_most_a_cluster(pods: int, path: str) -> int:
    """The number of pods after multiplying or adding counts; raises UserError if no cluster runs that many."""
    if pods > MAX_PODS:
        raise TooLarge(path, f"Together these are {counted(pods, 'pod')}. Write numbers that make {MAX_PODS} at most.")
    return pods


def at_most_pod_sets(pod_sets: int, path: str) -> None:
    """Raise UserError if a workload has more templates than we place."""
    if pod_sets > MAX_POD_SETS:
        raise TooLarge(
            path, f"There are {pod_sets} of them. A workload that asks for a placement may have at most {MAX_POD_SETS}."
        )


def pod_sets_in(raw: Mapping[str, Any], name: str, path: str) -> Sequence[Mapping[str, Any]]:
    """The list of objects in field `name`, each with a template; raises UserError."""
    entries = mappings(raw, name, f"{path}.{name}")
    at_most_pod_sets(len(entries), f"{path}.{name}")
    return entries


def min_member(annotations: Mapping[str, str], *keys: str, path: str = "metadata.annotations") -> int | None:
    """The minimum that an annotation sets: ours for every kind, KAI's if `keys` names it. Raises UserError.

    path: the path of the annotations.
    """
    for key in (MIN_MEMBER, *keys):
        text = annotations.get(key)
        if text:
            number = whole_number(text)
            if number is None or not 1 <= number <= MAX_PODS:
                raise UserError(
                    f"{path}[{key}]", f'"{shortened(text)}" is not a number of pods. Write a whole number from 1.'
                )
            return number
    return None


def batch_min_member(annotations: Mapping[str, str], path: str = "metadata.annotations") -> int | None:
    """The same for batch jobs, where KAI has its own annotation."""
    return min_member(annotations, KAI_BATCH_MIN_MEMBER, path=path)


def template_of(raw: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The pod template in field `template`; raises UserError if it is missing."""
    template = mapping(raw, "template", f"{path}.template")
    if not template:
        raise UserError(f"{path}.template", "This is missing. It says what the pods look like.")
    return template


def gang_of_one_pod_set(name: str, owner: Mapping[str, str], pod_set: WorkloadPodSet) -> WorkloadGang:
    """A gang of equal pods: the template's annotations override those above it."""
    found = (*annotations_on(pod_set), (owner, "metadata.annotations"))
    return WorkloadGang(name, topology_request(*found), (replace(pod_set, segments=segment_request(*found)),))


def gang_of_pod_sets(
    name: str,
    owner: Mapping[str, str],
    pod_sets: Sequence[WorkloadPodSet],
    *,
    reads_segments: bool = True,
    one_topology: bool = False,
) -> WorkloadGang:
    """A gang of different pods: the owner's request applies to all of them, a template's request to its own pods.

    A template may name another topology than the owner. Its pods are then a part of their own in that one.
    reads_segments: whether to read the segments that a template requests; False if the reader of the kind forms them
    itself. one_topology: whether parts in several topologies are a fault.
    """
    if len(pod_sets) == 1 and reads_segments:
        return gang_of_one_pod_set(name, owner, pod_sets[0])
    above = topology_request((owner, "metadata.annotations"))
    read: list[tuple[WorkloadPodSet, TopologyRequest, bool]] = []
    for order, pod_set in enumerate(pod_sets):
        found = annotations_on(pod_set)
        request = topology_request(*found, ({KAI_TOPOLOGY: above.topology or ""}, above.topology_path))
        whole = replace(pod_set, order=order, segments=segment_request(*found) if reads_segments else None)
        read.append((whole, request, bool(request.levels or names_segment_level(*found))))
    named = [above] * above.levels + [request for _, request, names in read if names]
    topologies = {request.topology for request in named if request.topology is not None}
    at_most_topologies(topologies)
    if one_topology and len(topologies) > 1:
        raise UserError(
            f"metadata.annotations[{KAI_TOPOLOGY}]",
            f"The pods name different topologies: {', '.join(map(shortened, sorted(topologies)))}. Pods that only name "
            "their gang are placed in one: name the same everywhere, or write a PodGroup with subgroups.",
        )
    if named and not above.levels:
        above = replace(above, topology=named[0].topology, topology_path=named[0].topology_path)
    own: list[WorkloadPodSet] = []
    parts: list[WorkloadGang] = []
    for whole, request, names in read:
        if request.levels or (names and request.topology != above.topology):
            parts.append(WorkloadGang(whole.name, request, (whole,)))
        else:
            own.append(whole)
    return WorkloadGang(name, above, tuple(own), tuple(parts))


def at_most_topologies(names: Collection[str], path: str = f"metadata.annotations[{KAI_TOPOLOGY}]") -> None:
    """Raise UserError if the parts of one gang name more topologies than we place together. path: for the message."""
    if len(names) > MAX_TOPOLOGIES:
        some = ", ".join(map(shortened, sorted(names)[:_MOST_NAMED]))
        raise UserError(
            path,
            f"The parts name {counted(len(names), 'topology', 'topologies')}: {some}, …. Parts that start together may "
            f"name at most {MAX_TOPOLOGIES}.",
        )


def with_minimum(pod_sets: Sequence[WorkloadPodSet], minimum: int | None) -> list[WorkloadPodSet]:
    """The pod sets with a common minimum: leaders come first and count first."""
    if minimum is None:
        return list(pod_sets)
    shared = []
    for pod_set in pod_sets:
        here = min(len(pod_set.pods) - pod_set.late, minimum)
        minimum -= here
        shared.append(replace(pod_set, minimum=here))
    return shared


def strategy_of(annotations: Mapping[str, str], path: str) -> GangStrategy | None:
    """The strategy that annotations name for a gang; None if they name none, and the service's setting applies.

    Raises UserError. path: the annotations' path.
    """
    text = annotations.get(STRATEGY)
    if not text:
        return None
    if text not in set(GangStrategy):
        raise UserError(
            f"{path}[{STRATEGY}]",
            f'"{shortened(text)}" is not a strategy. Write one of {", ".join(GangStrategy)}.'
            f"{did_you_mean(text, GangStrategy)}",
        )
    return GangStrategy(text)


def strategy_of_gang(workload: Workload, gang: WorkloadGang) -> GangStrategy | None:
    """The strategy of a workload's gang: a template's annotation overrides the workload's. Raises UserError."""
    above = strategy_of(workload.annotations, "metadata.annotations")
    named: dict[GangStrategy, str] = {}
    for pod_set in gang.all_pod_sets():
        found = ((strategy_of(*annotations), annotations[1]) for annotations in annotations_on(pod_set))
        strategy, path = next((each for each in found if each[0]), (above, "metadata.annotations"))
        if strategy is not None:
            named.setdefault(strategy, path)
    if len(named) > 1:
        raise UserError(
            f"{list(named.values())[-1]}[{STRATEGY}]",
            f"The parts name different strategies: {', '.join(named)}. "
            "All pods of a gang have one: name the same everywhere.",
        )
    return next(iter(named), above)


def most_named(members: Iterable[Mapping[str, str]]) -> GangStrategy | None:
    """The strategy that most members' annotations name, on a tie the first; None if none does. Raises UserError."""
    named = Counter(strategy for each in members if (strategy := strategy_of(each, "metadata.annotations")))
    return max(named, key=named.__getitem__, default=None)
