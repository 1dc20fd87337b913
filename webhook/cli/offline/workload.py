"""The service's answer to a workload and to the pods that its controller creates.

1. The workload itself is judged, and its templates are marked, as at its creation.
2. One pod of each template is judged, as its controller creates it: see `outcome`.
3. The pods in a gang are placed together (`judge_group`).
4. The answer is the worst of these, with each template pinned to where its pods go.
5. An object of a kind that is not read here, such as an AppWrapper, may contain workloads that its operator creates:
   each is judged as it will be created. Annotations outside them apply to pods that carry `inherit` only.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from webhook.admission.default_levels import asked_owner, with_default_levels
from webhook.admission.kueue_requests import asked_workload
from webhook.admission.response import Denied, Patched
from webhook.admission.workload.mutate import WorkloadMutator
from webhook.admission.workload.templates import annotations_on, asked_in, path_of, templates_in
from webhook.admission.workload.validate import WorkloadValidator
from webhook.cli.input.documents import Item
from webhook.cli.input.object_schema import METADATA, POD, TEXTS
from webhook.cli.offline.gang_members import running_members
from webhook.cli.offline.judgement import Domains, Judgement, PodSet, domains_by_path, held, note_of, worst
from webhook.cli.offline.judgement_context import JudgementContext, unknown_owner
from webhook.cli.offline.outcome import body_of, creation_of, outcome_of
from webhook.formats.kubernetes.membership import may_be_in_group
from webhook.formats.kubernetes.owner_chain import OwnerChain, owner_chain_of
from webhook.formats.kubernetes.pod import Owner, Pod
from webhook.formats.patches.json_patch import Tokens, apply
from webhook.formats.patches.managed_fields import ManagedFields, without_ours
from webhook.formats.workload.common_fields import batch_min_member, with_minimum
from webhook.formats.workload.readers import ASKED_ABOUT, READERS, is_made_by_another, kind_of, read_workload
from webhook.formats.workload.record import Replicas, Workload, WorkloadGang, WorkloadPodSet
from webhook.formats.workload.topology_request import topology_request
from webhook.model.errors import UserError
from webhook.model.limits import TooLarge
from webhook.model.names import INHERIT, MANAGED_FIELDS, STRATEGY
from webhook.model.raw import Raw
from webhook.model.wording import counted
from webhook.placing.gang.workload_judgement import MAX_DEPTH, GangJudgement, annotations_in, judge_gangs
from webhook.placing.pod.decision import Verdict
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.management import DEFAULT_NAMESPACE


def gangs_of_pod_groups(
    pod_sets: Iterable[WorkloadPodSet], members: Mapping[str, GatedPod]
) -> tuple[list[WorkloadGang], str]:
    """The gangs of a workload whose templates name PodGroups of Kubernetes itself, and why one waits for more pods.

    There is one gang for each PodGroup, which says what the gang requests and how many pods start together. Pods
    outside the workload may be in it, too; they do not count here. The reason is empty if none waits.

    pod_sets: with templates as pods, those of replicas with the same path; members: path -> one of its pods.
    """
    by_group: dict[str, dict[str, list[WorkloadPodSet]]] = {}
    for pod_set in pod_sets:
        group = by_group.setdefault(members[pod_set.path].scheduling_group, {})
        group.setdefault(pod_set.path, []).append(pod_set)
    gangs, few = [], ""
    for name, of_paths in by_group.items():
        annotations = members[next(iter(of_paths))].pod.annotations
        asked = batch_min_member(annotations) or 1
        whole = [replace(same[0], pods=tuple(chain(*(one.pods for one in same)))) for same in of_paths.values()]
        there = sum(len(pod_set.pods) for pod_set in whole)
        if there < asked and not few:
            few = f"gang {name}: {there} of the {counted(asked, 'pod')} that must start together are there"
        request = topology_request((annotations, "metadata.annotations"))
        gangs.append(WorkloadGang(name, request, tuple(with_minimum(_named_apart(whole), asked))))
    return gangs, few


def _named_apart(pod_sets: Sequence[WorkloadPodSet]) -> list[WorkloadPodSet]:
    """With names that differ."""
    if len({pod_set.name for pod_set in pod_sets}) == len(pod_sets):
        return [*pod_sets]
    return [replace(pod_set, name=f"{pod_set.name}-{number}") for number, pod_set in enumerate(pod_sets)]


Members = Mapping[str, GatedPod]
"""Path of a template -> one of its pods, for templates with pods in a gang."""


@dataclass(frozen=True, slots=True)
class WorkloadGroup:
    """The answer for the members of a gang."""

    judgement: GangJudgement
    members: frozenset[str]
    """The paths of their templates."""
    domains: Mapping[str, Domains]
    """Path of a template -> the domains of its pods; empty if they are not placed."""
    workload: Workload
    """The gangs, with those pods only that are placed together, as they are stored."""


def judge_group(
    workload: Workload,
    owner_chain: OwnerChain,
    sets: Sequence[PodSet],
    cluster_snapshot: ClusterSnapshot,
    around: JudgementContext,
) -> WorkloadGroup | None:
    """The answer for the pods in a gang, placed together; None if there are none. Raises UserError.

    1. The gangs are those of the workload's top owner, as the leader reads them (see `owner_chain`).
    2. Only pod sets count whose pods are gated and in a gang, with the annotations from their owners.
    3. A gang with a user-chosen name starts with the minimum that an annotation sets, else one by one, because pods
       outside the workload may belong to it, too.
    """
    members = {
        one.path: gated for one in sets if (gated := one.outcome.gated) is not None and gated.membership is not None
    }
    if not members or not owner_chain.gangs:
        return None
    annotations: Mapping[str, str] = {} if owner_chain.raw is None else owner_chain.raw["metadata"]["annotations"]
    top = replace(workload, kind=owner_chain.top.kind, name=owner_chain.top.name, annotations=annotations)
    is_top = (top.kind, top.name) == (workload.kind, workload.name)
    gangs = _changed(owner_chain.gangs, lambda gang: _of_members(gang, members)) if is_top else owner_chain.gangs
    in_pod_groups = {path: gated for path, gated in members.items() if gated.scheduling_group}
    few = ""
    if in_pod_groups:  # all of them or none: another gang of the workload would be placed beside these
        members = in_pod_groups
        gangs, few = gangs_of_pod_groups(_as_pods(workload.gangs, members), members)
    elif is_top and not all(gated.in_group_of_its_top for gated in members.values()):
        gangs = _changed(gangs, lambda gang: _one_by_one(gang, members))
    running = running_members(replace(top, gangs=owner_chain.gangs), around.running)
    top = replace(top, gangs=gangs)
    ours = {name: running[name] for name in _names(gangs) if name in running} if running else {}
    if few:
        return WorkloadGroup(GangJudgement(Verdict.WAIT, few), frozenset(members), {}, top)
    judgement = judge_gangs(top, cluster_snapshot, around.planner.trees, around.rules, ours)
    if judgement.verdict is Verdict.DENY:  # the workload itself was not denied, so its pods wait, with a reason
        judgement = replace(judgement, verdict=Verdict.WAIT)
    domains: Mapping[str, Domains] = {}
    if judgement.placement is not None and judgement.placement.assigned:
        domains = domains_by_path(gangs, judgement.placement.gangs)
    if not is_top and not in_pod_groups:  # the templates are the owner's, not the workload's
        everywhere = tuple(dict.fromkeys(domain for found in domains.values() for domain in found))
        domains = dict.fromkeys(members, everywhere)
    return WorkloadGroup(judgement, frozenset(members), domains, top)


def _as_pods(gangs: Iterable[WorkloadGang], members: Members) -> Iterator[WorkloadPodSet]:
    """The pod sets that are members, as they are stored."""
    for gang in gangs:
        for pod_set in gang.all_pod_sets():
            if pod_set.path in members:
                yield _as_stored(pod_set, members[pod_set.path])


def _changed(gangs: Sequence[WorkloadGang], change: Callable[[WorkloadGang], WorkloadGang]) -> Sequence[WorkloadGang]:
    return gangs.each(change) if isinstance(gangs, Replicas) else tuple(map(change, gangs))


def _of_members(gang: WorkloadGang, members: Members) -> WorkloadGang:
    """The pod sets that are members, with templates as pods that have the annotations from their owners."""
    pod_sets = tuple(_as_stored(pod_set, members[pod_set.path]) for pod_set in gang.pod_sets if pod_set.path in members)
    parts = (_of_members(part, members) for part in gang.gangs)
    return replace(gang, pod_sets=pod_sets, gangs=tuple(part for part in parts if part.all_pod_sets()))


def _as_stored(pod_set: WorkloadPodSet, gated: GatedPod) -> WorkloadPodSet:
    metadata = {"annotations": gated.pod.annotations, "labels": gated.pod.labels}
    return replace(pod_set, template={"metadata": metadata, "spec": gated.raw["spec"]})


def _one_by_one(gang: WorkloadGang, members: Members) -> WorkloadGang:
    """With the requested minimum, else one pod."""
    asked = next(filter(None, (batch_min_member(gated.pod.annotations) for gated in members.values())), 1)
    minimums = iter([pod_set.minimum for pod_set in with_minimum(gang.all_pod_sets(), asked)])
    return _with_minimums(gang, minimums)


def _with_minimums(gang: WorkloadGang, minimums: Iterator[int]) -> WorkloadGang:
    """In the order of `all_pod_sets`."""
    pod_sets = tuple(replace(pod_set, minimum=next(minimums)) for pod_set in gang.pod_sets)
    return replace(gang, pod_sets=pod_sets, gangs=tuple(_with_minimums(part, minimums) for part in gang.gangs))


def _names(gangs: Sequence[WorkloadGang]) -> Iterator[str]:
    for gang in gangs:
        for pod_set in gang.all_pod_sets():
            yield from pod_set.pods


# The API groups whose objects the API server has validated before it calls a webhook.
_BUILT_IN: Final = frozenset({"", "apps", "batch"})
_POD_TEMPLATE: Final = ("", "PodTemplate")
# A RayJob's submitter: a single pod, which takes nothing from the RayJob.
_SUBMITTER: Final = ("spec", "submitterPodTemplate")
# Its pods run on every matching node, so there is nothing to choose.
_DAEMON_SET: Final = ("apps", "DaemonSet")
# An object that is not created yet has no UID, but every reference needs one.
_UID: Final = "00000000-0000-0000-0000-000000000000"
# Replaces the owner's name, which may be one that the API server rejects.
_OWNER: Final = "owner"


@dataclass(frozen=True, slots=True)
class _PodTemplate:
    """One template of a workload."""

    name: str
    tokens: Tokens
    path: str
    pods: int | None
    above: Mapping[str, Any]
    """Annotations above the template in the object that its pods inherit."""


class _DeniedError(Exception):
    """The workload is denied."""


def judge_workload(item: Item, cluster_snapshot: ClusterSnapshot, around: JudgementContext) -> Judgement:
    """The judgement of an object that is not a pod. Raises InputError for one that the API server would reject."""
    try:
        return _WorkloadReview(item, cluster_snapshot, around).run()
    except _DeniedError as denied:
        message, warnings = denied.args
        return Judgement(item, Verdict.DENY, message, item.body, warnings)


class _WorkloadReview:
    """One workload."""

    def __init__(self, item: Item, cluster_snapshot: ClusterSnapshot, around: JudgementContext) -> None:
        self._item = item
        self._cache = cluster_snapshot
        self._around = around
        self._body: Raw = item.body
        self._warnings: tuple[str, ...] = ()
        self._told: Callable[[str], str] = str
        """Names annotations as the user wrote them."""

    def run(self) -> Judgement:
        """Steps 1 to 4."""
        item = self._item
        if item.group in _BUILT_IN:  # the API server validates it before it calls a webhook
            self._check_shape()
        self._body = _as_written(item.body)
        workload = self._read() if item.group in _BUILT_IN else None
        if (item.group, item.kind) not in READERS:
            self._warnings += tuple(_unread(item))
            if contained := list(workloads_in(item.body)):
                return self._contained(contained)
        marked = self._created()
        if item.group not in _BUILT_IN:
            self._check_shape()
            workload = self._read()
        templates = _pod_templates(marked, item.group, workload)
        if not templates:
            return self._let_through()
        owner_chain = self._owner_chain(marked)
        sets = [self._judged(one, _at(marked, one.tokens), owner_chain) for one in templates]
        if worst(one.outcome.verdict for one in sets) is Verdict.DENY or workload is None:
            return self._together(sets, None)
        try:
            return self._together(sets, judge_group(workload, owner_chain, sets, self._cache, self._around))
        except UserError as error:
            raise self._fault(error) from error

    def _contained(self, contained: Sequence[tuple[Tokens, Raw]]) -> Judgement:
        """Step 5."""
        item = self._item
        namespace, name = item.namespace or DEFAULT_NAMESPACE, str(item.body["metadata"].get("name") or _OWNER)
        uid = str(item.body["metadata"].get("uid") or _UID)
        owner = {"apiVersion": item.api_version, "kind": item.kind, "name": name, "uid": uid, "controller": True}
        itself = {**item.body, "metadata": {**item.body["metadata"], "name": name, "namespace": namespace}}
        around = replace(self._around, owners=self._around.owners.beside(itself))
        found, body = [], self._body
        for tokens, raw in contained:
            path = path_of(tokens)
            item.check(raw["metadata"], METADATA, f"{path}.metadata")
            made = {"name": name, **raw["metadata"], "namespace": namespace, "ownerReferences": [owner]}
            inner = replace(item, prefix=f"{item.prefix}{path}.", body={**raw, "metadata": made})
            judgement = judge_workload(inner, self._cache, around)
            found.append((path, judgement))
            body = with_at(body, (*tokens, "spec"), judgement.mutated["spec"])
        verdict = worst(judgement.verdict for _, judgement in found)
        path, decisive = next((path, one) for path, one in found if one.verdict is verdict)
        told = tuple(f"{path}: {text}" for path, one in found for text in one.warnings)
        return replace(
            decisive,
            item=item,
            message=f"{decisive.item.kind} {decisive.item.name} at {path}: {decisive.message}",
            mutated=item.body if verdict is Verdict.DENY else body,
            warnings=(*self._warnings, *told),
        )

    def _check_shape(self) -> None:
        """Raise InputError for a template that the API server would reject."""
        for path, annotations in annotations_in(self._item.body):
            for fault in TEXTS(annotations, path):
                raise self._item.fault(fault.path, fault.message)

    def _read(self) -> Workload | None:
        """The workload by its kind. Raises InputError, _DeniedError."""
        try:
            asked = asked_workload(self._body, self._cache.topologies, self._around.rules)
            self._told = asked.told
            whole = with_default_levels(self._placed_in(asked.raw), self._cache, self._around.rules)
            workload = read_workload(_still_to_run(self._item, whole))
        except UserError as error:
            raise self._fault(error) from error
        for gang in workload.distinct if workload else ():
            for pod_set in gang.all_pod_sets():
                self._check_pod(pod_set.template, pod_set.path)
        return workload

    def _placed_in(self, raw: Raw) -> Raw:
        """With the namespace in which it is created."""
        return {**raw, "metadata": {**raw["metadata"], "namespace": self._item.namespace or DEFAULT_NAMESPACE}}

    def _check_pod(self, raw: Any, path: str) -> None:
        self._item.check(raw, POD, path)
        try:
            Pod.from_object(raw)
        except TooLarge:
            pass  # without a placement request it is allowed
        except UserError as error:
            raise self._item.fault(f"{path}.{error.faults[0].path}", error.faults[0].message) from error

    def _fault(self, error: UserError) -> Exception:
        """Faults in annotations deny the object; other faults are those that the API server would reject."""
        for fault in error.faults:
            if "annotations" not in fault.path and not isinstance(fault, TooLarge):
                return self._item.fault(fault.path, fault.message)
        return _DeniedError(self._told(" ".join(map(str, error.faults))), ())

    def _created(self) -> Raw:
        """The workload as it is stored, with marked templates. Raises _DeniedError."""
        item, rules = self._item, self._around.rules
        namespace = item.namespace or DEFAULT_NAMESPACE
        asks_us = (item.group, item.kind) in ASKED_ABOUT and namespace not in rules.excluded_namespaces
        if not asks_us or is_made_by_another(self._body):
            return self._body
        request = creation_of(self._body, item.api_version, item.kind, item.namespace)
        response = WorkloadValidator(lambda: self._cache, rules).handle(request)
        if isinstance(response, Denied):
            raise _DeniedError(response.message, response.warnings)
        self._warnings += response.warnings
        marks = WorkloadMutator(rules).handle(request)
        marked: Raw = apply(self._body, map(dict, marks.patch)) if isinstance(marks, Patched) else self._body
        return marked

    def _owner_chain(self, marked: Raw) -> OwnerChain:
        """The workload as the top owner of its pods, or below its known owners."""
        item = self._item
        name = str(marked["metadata"].get("name") or item.name.rstrip("-"))
        uid = str(marked["metadata"].get("uid") or _UID)
        metadata = {**marked["metadata"], "name": name, "namespace": item.namespace or DEFAULT_NAMESPACE, "uid": uid}
        above, unknown = self._around.owners.above(marked)
        if unknown is not None and any(may_be_in_group(one.annotations) for one in templates_in(marked)):
            self._warnings += (unknown_owner(unknown),)
        top = {**_still_to_run(item, marked), "metadata": metadata}
        chain = [asked_owner(top, self._cache, self._around.rules), *above]
        return owner_chain_of(Owner(item.api_version, item.kind, name, uid, controller=True), chain)

    def _judged(self, template: _PodTemplate, raw: Raw, owner_chain: OwnerChain) -> PodSet:
        """Step 2."""
        asked = {key: text for key, text in template.above.items() if isinstance(text, str)}
        path = f"{template.path}."
        pod = self._pod_of(raw)
        outcome = outcome_of(
            pod,
            self._cache,
            self._around.planner,
            owner_chain.taking({**owner_chain.annotations, **asked}),
            path,
        )
        return PodSet(template.name, template.path, template.pods, template.tokens, outcome)

    def _pod_of(self, template: Raw) -> Raw:
        """A pod as the controller creates it."""
        item = self._item
        owner = {"apiVersion": item.api_version, "kind": item.kind, "name": _OWNER, "uid": _UID, "controller": True}
        metadata = {
            **(template.get("metadata") or {}),
            "name": item.name.rstrip("-"),
            "namespace": item.namespace or DEFAULT_NAMESPACE,
            "ownerReferences": [owner],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

    def _together(self, sets: Sequence[PodSet], group: WorkloadGroup | None) -> Judgement:
        """Step 4."""
        item, cluster_snapshot, rules = self._item, self._cache, self._around.rules
        notes: list[str] = []
        body = self._body
        found = []
        for one in sets:
            whole = one
            if group is not None and one.path in group.members:
                domains = group.domains.get(one.path, ())
                whole = held(one, group.judgement, domains, cluster_snapshot, rules)
                notes += [note] if (note := note_of(one, domains)) else []
            found.append(whole)
            body = with_at(body, one.tokens, body_of(_at(body, one.tokens), whole.outcome, cluster_snapshot))
        verdict = worst(one.outcome.verdict for one in found)
        placement = group.judgement.placement if group is not None else None
        return Judgement(
            item,
            verdict,
            _message(found, group, verdict),
            item.body if verdict is Verdict.DENY else body,
            self._warnings,
            tuple(one if whole is one else replace(one, in_group=True) for one, whole in zip(sets, found, strict=True)),
            placement,
            tuple(notes),
            group.workload if group is not None else None,
        )

    def _let_through(self) -> Judgement:
        item = self._item
        why = f"a {item.kind} ({item.api_version}) has no pods to place"
        if (item.group, item.kind) == _DAEMON_SET:
            why = "a DaemonSet chooses its pods' nodes itself"
        if (item.group, item.kind) == ("", "Namespace"):
            self._warnings = self._cache.namespaces[item.name].problems
        podless = (item.group, item.kind) != _DAEMON_SET and not self._warnings
        return Judgement(item, Verdict.ALLOW, f"unmanaged: {why}", item.body, self._warnings, is_podless=podless)


def workloads_in(raw: Any, tokens: Tokens = ()) -> Iterator[tuple[Tokens, Raw]]:
    """The path and object of each workload of a kind that is read here within an object of another kind."""
    if len(tokens) >= MAX_DEPTH:
        return
    if tokens and isinstance(raw, Mapping) and kind_of(raw) in READERS and isinstance(raw.get("metadata"), Mapping):
        yield tokens, raw
    elif isinstance(raw, Mapping | list):
        for key, below in raw.items() if isinstance(raw, Mapping) else enumerate(raw):
            if isinstance(below, Mapping | list) and key not in {"metadata", "status"}:
                yield from workloads_in(below, (*tokens, key))


def _unread(item: Item) -> Iterator[str]:
    """The warning about annotations on an object of a custom kind that is not read here: its pods are not marked."""
    asked = sorted(asked_in(annotations_on(item.body)).keys() - {STRATEGY})
    marks = [template.annotations.get(INHERIT) for template in templates_in(item.body)]
    if item.group not in _BUILT_IN and asked and (not marks or set(marks) != {"true"}):
        yield (
            f"metadata.annotations[{', '.join(asked)}]: this service does not read objects of the kind {item.kind}, so "
            f'that only pods with the annotation {INHERIT}: "true" take these. Write it into their template.'
        )


def _message(sets: Sequence[PodSet], group: WorkloadGroup | None, verdict: Verdict) -> str:
    """The message of the gang and of the pods that determine the verdict; of other pods only if there are none."""
    several = len({one.outcome.message for one in sets}) > 1
    alone = [
        f"{one.name}: {one.outcome.message}" if several else one.outcome.message
        for one in sets
        if not one.in_group and (one.outcome.verdict is verdict and one.outcome.managed)
    ]
    if group is not None and group.judgement.verdict is verdict:
        return group.judgement.message
    return alone[0] if alone else sets[0].outcome.message


def _still_to_run(item: Item, body: Raw) -> Raw:
    """For an existing Job, pods that have succeeded are not created again."""
    spec, status = body.get("spec"), body.get("status")
    if (item.group, item.kind) != ("batch", "Job") or not isinstance(spec, Mapping) or not isinstance(status, Mapping):
        return body
    completions, succeeded = spec.get("completions"), status.get("succeeded")
    if not isinstance(completions, int) or not isinstance(succeeded, int):
        return body
    return {**body, "spec": {**spec, "completions": max(0, completions - succeeded)}}


def _pod_templates(body: Mapping[str, Any], group: str, workload: Workload | None) -> list[_PodTemplate]:
    """The templates of a workload whose pods are known; for an unknown kind, all templates found."""
    found = {template.prefix.removesuffix("."): template for template in templates_in(body)}
    if workload is None:
        if group in _BUILT_IN and (group, body.get("kind")) != _POD_TEMPLATE:
            return []
        return [_PodTemplate("pods", one.path, path, None, one.above) for path, one in found.items()]
    named: dict[str, tuple[list[str], int]] = {}
    for name, path, pods in _pod_sets(workload):
        names, count = named.get(path, ([], 0))
        named[path] = [*names, *([] if name in names else [name])], count + pods
    templates = [
        _PodTemplate(", ".join(names), found[path].path, path, count, found[path].above)
        for path, (names, count) in named.items()
        if path in found
    ]
    if isinstance(_at(body, _SUBMITTER), Mapping):
        templates.append(_PodTemplate("submitter", _SUBMITTER, ".".join(_SUBMITTER), 1, {}))
    return templates


def _as_written(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The workload without what an earlier review added to its templates."""
    for template in templates_in(body):
        managed_fields = template.annotations.get(MANAGED_FIELDS)
        if isinstance(managed_fields, str):
            body = with_at(body, template.path, without_ours(template.raw, ManagedFields.parse(managed_fields)))
    return body


def _at(held: Any, path: Tokens) -> Any:
    """The value at the path, None if a step of the path is missing."""
    for key in path:
        if isinstance(held, list) and isinstance(key, int):
            held = held[key] if key < len(held) else None
        else:
            held = held.get(key) if isinstance(held, Mapping) else None
    return held


def with_at(held: Any, path: Tokens, value: Any) -> Any:
    """A copy of the object with `value` at an existing path."""
    if not path:
        return value
    key, *below = path
    changed = with_at(held[key], tuple(below), value)
    if isinstance(held, list):
        return [changed if index == key else one for index, one in enumerate(held)]
    return {**held, key: changed}


def _pod_sets(workload: Workload) -> Iterator[tuple[str, str, int]]:
    """(name, path of the template, pods) of each."""
    times = len(workload.gangs) if isinstance(workload.gangs, Replicas) else 1
    for gang in workload.distinct:
        for pod_set in gang.all_pod_sets():
            yield pod_set.name, pod_set.path, len(pod_set.pods) * times
