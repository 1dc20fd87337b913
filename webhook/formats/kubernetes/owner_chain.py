"""The owner chain of a pod: what the pod takes from its owners, and the gang that they form.

1. The next owner above an object is its controller, else its first owner. The last one is the top owner. Only
   references that can be those of real objects are followed (`check_owner`).
2. The top owner is the highest one whose kind is read here. An object above it that only creates other workloads one by
   one (a CronJob) or wraps one (a TrainJob, an AppWrapper) says nothing of which pods start together. Its annotations
   apply all the same.
3. A pod's own annotations come first, then those of the nearest owner that has them. Annotations of a pod in the
   chain (the leader that owns a LeaderWorkerSet's workers) apply to that pod alone. A leader is in the gang of its
   workers: it takes the annotations that define the gang from their template.
4. The gang is named after the top owner, `pg-<name>-<uid>`. If parts of the top owner start independently (a replica
   of a LeaderWorkerSet, a replicated job of a JobSet that starts them in order), each is a gang, and its name says
   which one.

Source: KAI-Scheduler pkg/podgrouper (podgrouper.go; plugins cronjobs, skiptopowner, leaderworkerset, jobset).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

from webhook.formats.kubernetes.membership import (
    GANG_REQUESTS,
    LEVELS_OF_A_TOPOLOGY,
    Membership,
    is_in_group,
    may_be_in_group,
)
from webhook.formats.kubernetes.pod import Owner
from webhook.formats.kueue import why_kueues
from webhook.formats.workload.common_fields import MAX_PODS, annotations_of, annotations_on
from webhook.formats.workload.readers import READERS, kind_of, read_workload
from webhook.formats.workload.record import PodNames, Replicas, WorkloadGang, WorkloadPodSet
from webhook.model.errors import UserError
from webhook.model.fields import mapping, mappings, whole_number
from webhook.model.names import (
    INHERIT,
    JOBSET_REPLICATED_JOB,
    KAI_POD_INDEX_LABEL,
    KAI_TOPOLOGY,
    LWS_GROUP_INDEX,
    NUMA_TOPOLOGY_SPEC,
    POD_GROUP_NAME,
    RANK,
    RESOURCE_SPEC,
    SCHEDULING_GROUP,
)

_NUMA: Final = frozenset({NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC})

INHERITED: Final = GANG_REQUESTS | _NUMA | {KAI_POD_INDEX_LABEL}
"""The annotations that a pod takes from its owners."""

# (API group, kind) of objects that are never the top owner.
_ONLY_MAKE_WORKLOADS: Final = frozenset(
    {
        ("batch", "CronJob"),
        ("argoproj.io", "Workflow"),
        ("ray.io", "RayCronJob"),
        ("trainer.kubeflow.org", "TrainJob"),
        ("nvidia.com", "DynamoGraphDeployment"),
    }
)
LEADER_TEMPLATE: Final = "leaderTemplate"
_LEADER_WORKER_SET: Final = "LeaderWorkerSet"
# Kind of a top owner -> the label that names a pod's gang in it, and the prefix of that name.
_PARTS: Final[Mapping[str, tuple[str, str]]] = {
    _LEADER_WORKER_SET: (LWS_GROUP_INDEX, "group-"),
    "JobSet": (JOBSET_REPLICATED_JOB, ""),
}
# Source: kubernetes pkg/apis/core/validation (names of objects are DNS subdomains).
_LONGEST_NAME: Final = 253


@dataclass(frozen=True)
class OwnerChain:
    """The owners of a pod that could be read."""

    top: Owner
    raw: Mapping[str, Any] | None
    """The top owner with its own annotations and those of the owners above it; None if it cannot be read."""
    annotations: Mapping[str, str]
    """The annotations on the owners that a pod takes."""
    why_kueues: str | None = None
    """By what the top owner, or what wraps it, shows that Kueue manages it; None if by nothing."""

    def group_name(self, labels: Mapping[str, str]) -> str:
        """The name of the gang of a pod with these labels. Raises UserError."""
        part = self._part(labels)
        ending = f"-{self.top.uid}" + ("" if part is None else f"-{_PARTS[self.top.kind][1]}{part}")
        return f"pg-{self.top.name[: _LONGEST_NAME - len(ending) - 3]}{ending}"

    def gang(self, labels: Mapping[str, str]) -> WorkloadGang | None:
        """The gang according to the top owner's spec; None if its kind is unknown. Raises UserError."""
        part = self._part(labels)
        if part is None:
            return self.gangs[0] if self.gangs else None
        if isinstance(self.gangs, Replicas):
            # Replicas beyond the spec's number (a rollout's surge) equal the others.
            index = whole_number(part)
            return self.gangs[index if index is not None and index < len(self.gangs) else 0]
        return next((gang for gang in self.gangs if gang.name == f"{self.top.name}-{part}"), None)

    def minimum(self, labels: Mapping[str, str], asked: int | None) -> int:
        """How many pods of the gang must start together. Raises UserError.

        By the spec, or the requested minimum if there are enough pods.
        """
        gang = self.gang(labels)
        if gang is None or self.raw is None:
            return asked or 1
        return max(1, min(asked or gang.minimum, gang.at_once, _still_to_run(self.raw)))

    def rank(self, name: str, labels: Mapping[str, str]) -> int | None:
        """The rank of a pod in its gang over all pod sets; None if its name has none. Raises UserError."""
        gang = self.gang(labels)
        if gang is None:
            return None
        # Controllers append random characters to the name in the spec.
        exact = _rank_in(gang, name)
        return _rank_in(gang, name.rpartition("-")[0]) if exact is None else exact

    @property
    def gangs(self) -> Sequence[WorkloadGang]:
        """The gangs that start independently, without pod sets whose pods are in no gang. Raises UserError."""
        if isinstance(self._gangs, UserError):
            raise self._gangs.with_traceback(None)
        return self._gangs

    @cached_property
    def _gangs(self) -> Sequence[WorkloadGang] | UserError:
        """The gangs, or what is wrong with the top owner: both are the same for each of its thousands of pods."""
        try:
            return self._read_gangs()
        except UserError as error:
            return error

    def _read_gangs(self) -> Sequence[WorkloadGang]:
        workload = None if self.raw is None else read_workload(self.raw)
        if self.raw is None or workload is None:
            return ()
        leads = self.top.kind == _LEADER_WORKER_SET
        members = partial(_of_members, is_in_group(self.raw["metadata"]["annotations"]), leads)
        if isinstance(workload.gangs, Replicas):
            return workload.gangs.each(members)
        return tuple(map(members, workload.gangs))

    def taking(self, annotations: Mapping[str, str]) -> "OwnerChain":
        """The same chain for pods with these annotations: other objects may be between them and the top owner."""
        other = replace(self, annotations=annotations)
        if "_gangs" in self.__dict__:  # parsed once: a JobSet can have a thousand of them
            other.__dict__["_gangs"] = self._gangs
        return other

    def _part(self, labels: Mapping[str, str]) -> str | None:
        """Which of the top owner's gangs the pod belongs to; None if the top owner is one gang with its own name."""
        if self.top.kind not in _PARTS or not self.gangs or self.gangs[0].name == self.top.name:
            return None
        return labels.get(_PARTS[self.top.kind][0])


def _rank_in(gang: WorkloadGang, name: str) -> int | None:
    """The rank of a pod with this name among all pod sets of a gang."""
    for ranks, pod_set in gang.by_rank():
        rank = pod_set.pods.rank(name) if isinstance(pod_set.pods, PodNames) else _index(pod_set.pods, name)
        if rank is not None:
            return ranks[rank]
    return None


def _index(names: Sequence[str], name: str) -> int | None:
    return names.index(name) if name in names else None


def owner_above(raw: Mapping[str, Any]) -> Owner | None:
    """The next owner above an object; None for a top owner."""
    references = mappings(mapping(raw, "metadata", "metadata"), "ownerReferences", "metadata.ownerReferences")
    owners = [Owner.from_reference(each) for each in references]
    return next((owner for owner in owners if owner.controller), owners[0] if owners else None)


def taken_from_owners(raw: Mapping[str, Any], owner_chain: OwnerChain) -> dict[str, str]:
    """The annotations that a pod takes: those it lacks, and the name of its gang. Raises UserError."""
    own = annotations_of(raw, "")
    # The two NUMA annotations count as one: a pod with either of them takes neither.
    kept = own.keys() | (set() if own.keys().isdisjoint(_NUMA) else _NUMA)
    above = owner_chain.annotations
    if own.get(KAI_TOPOLOGY) and above.get(KAI_TOPOLOGY, own[KAI_TOPOLOGY]) != own[KAI_TOPOLOGY]:
        kept = kept | LEVELS_OF_A_TOPOLOGY  # the levels above are those of another topology
    taken = {key: text for key, text in above.items() if key not in kept}
    if is_in_group({**taken, **own}) and not own.keys() & {POD_GROUP_NAME, SCHEDULING_GROUP}:
        labels = mapping(mapping(raw, "metadata", "metadata"), "labels", "metadata.labels")
        taken.setdefault(POD_GROUP_NAME, owner_chain.group_name(labels))
    return taken


def ranked(membership: Membership | None, raw: Mapping[str, Any], owner_chain: OwnerChain) -> Membership | None:
    """The membership of a pod, with its rank among all pod sets of its gang. Raises UserError."""
    metadata = raw["metadata"]
    annotations = metadata.get("annotations") or {}
    if membership is None or RANK in annotations or KAI_POD_INDEX_LABEL in annotations:
        return membership
    rank = owner_chain.rank(metadata.get("name", ""), metadata.get("labels") or {})
    return membership if rank is None else replace(membership, rank=rank)


def owner_chain_of(owner: Owner, chain: Sequence[Mapping[str, Any]]) -> OwnerChain:
    """The owner chain of the pods of `owner`; `chain`: the objects from it upwards that could be read."""
    if not chain:
        return OwnerChain(owner, None, {})
    highest = _top(chain)
    top = chain[highest]
    taken = _inherited(raw for raw in chain if kind_of(raw) != ("", "Pod") or raw is chain[-1])
    if top.get("kind") == _LEADER_WORKER_SET:
        taken = {**grouped_beside(_sets(top)), **taken}
    metadata = {**top["metadata"], "annotations": _inherited(chain[highest:])}
    reference = Owner(str(top.get("apiVersion")), str(top.get("kind")), metadata["name"], metadata.get("uid", ""), True)
    wraps = (raw for raw in chain[highest + 1 :] if kind_of(raw) not in _ONLY_MAKE_WORKLOADS)
    kueues = next(filter(None, map(why_kueues, (top, *wraps))), None)
    return OwnerChain(reference, {**top, "metadata": metadata}, taken, kueues)


def _top(chain: Sequence[Mapping[str, Any]]) -> int:
    """The index of the top owner in the chain: of owners that are all of other kinds, the last that may be one."""
    kinds = list(map(kind_of, chain))
    # A CronJob is read as the next Job that it creates.
    for wanted in (READERS.keys() - _ONLY_MAKE_WORKLOADS, READERS, set(kinds) - _ONLY_MAKE_WORKLOADS):
        if found := [index for index, kind in enumerate(kinds) if kind in wanted]:
            return found[-1]
    return 0


def grouped_beside(sets: Mapping[str, Any]) -> dict[str, str]:
    """The annotations that put a LeaderWorkerSet's leader with its own template into the gang of its workers."""
    worker, leader = sets.get("workerTemplate"), sets.get(LEADER_TEMPLATE)
    if not isinstance(worker, Mapping) or not isinstance(leader, Mapping):
        return {}
    metadata = worker.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    if not isinstance(annotations, Mapping):
        return {}
    return {key: text for key, text in annotations.items() if key in GANG_REQUESTS and isinstance(text, str)}


def _sets(top: Mapping[str, Any]) -> Mapping[str, Any]:
    """The templates of a LeaderWorkerSet."""
    return mapping(mapping(top, "spec", "spec"), "leaderWorkerTemplate", "spec.leaderWorkerTemplate")


def _of_members(all_ask: bool, leads: bool, gang: WorkloadGang) -> WorkloadGang:
    """The gang without pod sets whose pods are in no gang, as long as other pod sets are left.

    1. Pod sets that take nothing from their owners (`inherit: "false"`) and request nothing themselves.
    2. If the whole workload makes a request (all_ask) and templates are marked: those without the mark, which may
       belong to another scheduler.
    3. If the whole workload requests nothing: those that request nothing either, except a marked leader (leads).
    """
    own = {id(pod_set): annotations_on(pod_set)[0][0] for pod_set in gang.all_pod_sets()}
    are_marked = any(annotations.get(INHERIT) == "true" for annotations in own.values())

    def is_member(pod_set: WorkloadPodSet) -> bool:
        if is_in_group(own[id(pod_set)]):
            return True
        mark = own[id(pod_set)].get(INHERIT)
        if mark == "false" or (are_marked and mark is None):
            return False
        asks = any(is_in_group(annotations) for annotations, _ in annotations_on(pod_set))
        return all_ask or asks or (leads and mark == "true")

    left = _with_pod_sets(gang, is_member)
    return left if left.size else gang


def _with_pod_sets(gang: WorkloadGang, wanted: Callable[[WorkloadPodSet], bool]) -> WorkloadGang:
    parts = (_with_pod_sets(part, wanted) for part in gang.gangs)
    return replace(
        gang, pod_sets=tuple(filter(wanted, gang.pod_sets)), gangs=tuple(part for part in parts if part.size)
    )


def _inherited(chain: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The combined request of these annotations, the nearest first."""
    found: dict[str, Any] = {}
    for raw in chain:
        found = {**annotations_of(raw, ""), **found}
    return {key: text for key, text in found.items() if key in INHERITED and isinstance(text, str)}


def _still_to_run(raw: Mapping[str, Any]) -> int:
    """For a Job, the number of pods that have not succeeded; for other kinds, unlimited."""
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    completions = spec.get("completions")
    if kind_of(raw) != ("batch", "Job") or not isinstance(completions, int):
        return MAX_PODS
    return completions - int(status.get("succeeded") or 0)


_PATH: Final = "metadata.ownerReferences"
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_SUBDOMAIN: Final = 253
# How many characters of a value a message quotes.
_SHOWN: Final = 80


def check_owners(raw: Mapping[str, Any]) -> None:
    """Check the owner whose annotations a pod object takes, if there is one. Raises UserError.

    The API server itself rejects empty fields, after its webhooks.
    """
    if not may_be_in_group(raw["metadata"].get("annotations") or {}):
        return
    if (owner := owner_above(raw)) is not None:
        check_owner(
            replace(
                owner,
                api_version=owner.api_version or "v1",
                kind=owner.kind or "Pod",
                name=owner.name or "name",
                uid=owner.uid or "uid",
            )
        )


def check_owner(owner: Owner) -> None:
    """Check that the reference can be that of a real object: a tenant writes it, and we build a URL from it.

    Raises UserError. The API server only checks that the fields of an entry of `metadata.ownerReferences` are not
    empty. Real objects are stricter:
    - apiVersion: `version` or `group/version`; a group is a DNS subdomain, a version a DNS label.
    - kind: letters, digits and `-`; in lower case it is a DNS label.
    - name: a DNS subdomain, as the names of all objects that own pods are.

    Source: kubernetes apimachinery pkg/apis/meta/v1/validation (ValidateOwnerReferences), pkg/util/validation;
    apiextensions pkg/apis/apiextensions/validation (names of a CRD).
    """
    group, slash, version = owner.api_version.rpartition("/")
    if not _LABEL.fullmatch(version) or (slash and not _is_subdomain(group)):
        raise _fault("apiVersion", owner.api_version, 'a version such as "v1", or a group and one such as "batch/v1"')
    if not _KIND.fullmatch(owner.kind):
        raise _fault("kind", owner.kind, 'letters, digits and "-", at most 63')
    if not _is_subdomain(owner.name):
        raise _fault("name", owner.name, 'a DNS subdomain: lower case letters, digits, "-" and ".", at most 253')
    if not owner.uid:
        raise _fault("uid", owner.uid, "the UID of the object")


def _is_subdomain(text: str) -> bool:
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def _fault(field: str, value: str, allowed: str) -> UserError:
    shown = repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")
    return UserError(f"{_PATH}.{field}", f"{shown} names no object that can own pods. Allowed: {allowed}.")
