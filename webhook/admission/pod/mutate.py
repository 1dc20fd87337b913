"""The mutating webhook on pods.

It also validates: a second webhook would cost the API server another call for every pod. A controller creates many
equal pods at a time, so answers are given again (`RecentAnswers`).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from webhook.admission.annotation_warnings import annotation_warnings, unmanaged_warnings
from webhook.admission.grove_requests import in_pod_gang
from webhook.admission.kueue_requests import asked_pod
from webhook.admission.pod.mutation import denied, mutate_pod
from webhook.admission.pod.validate import validate_pod
from webhook.admission.response import Allowed, Denied, Patched, Response
from webhook.codec import dumps
from webhook.formats.kubernetes.admission_review import AdmissionRequest, Operation
from webhook.formats.kubernetes.avoided_node import Avoided
from webhook.formats.kubernetes.namespace import Namespace
from webhook.formats.kubernetes.native_pod_group import scheduling_group_of
from webhook.formats.kueue import asks_kueue
from webhook.formats.patches.affinity_patch import warnings_of
from webhook.formats.topology import Topology
from webhook.formats.workload.record import RANK_KEYS
from webhook.model.errors import UserError
from webhook.placing.pod.decision import PodDecision, RecentDecisions, Verdict
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules

# CPU time of a review at 5,000 nodes (as is, without bursts, without both): 338, 947, 1,001 us if the cluster changes
# with every second review; 328, 447, 662 us with every fourth; 23, 21, 330 us if it does not change.

# As many as there are recent decisions. An answer takes some kilobytes, its pod up to this.
_MOST_ANSWERS: Final = 128
_LARGEST_POD: Final = 16 * 1024
# Nothing that is decided or said depends on these.
_LEFT_OUT: Final = frozenset({"name", "generateName", "uid", "creationTimestamp", "managedFields"})
# What else the controllers of gangs write to each pod. Longer texts are not theirs, and their size is checked.
_OF_ONE_MEMBER: Final = frozenset({*RANK_KEYS, "statefulset.kubernetes.io/pod-name"})
_LONGEST_VALUE: Final = 63
# Source: kubernetes plugin/pkg/admission/serviceaccount (ServiceAccountVolumeName, DefaultAPITokenMountPath).
_TOKEN: Final = re.compile(r"kube-api-access-[a-z0-9]{5}")

# Watches are usually 10 to 100 ms behind the API server, and twice that when it is busy.
MOMENT_SECONDS: Final = 0.2
# In a moment, by a kube-controller-manager with its default --kube-api-qps of 20.
_MANY: Final = 4

RecentKey = tuple[str, str, bytes]
"""What makes two reviews equal: namespace, user, pod."""
_Basis = tuple[tuple[int, int], Mapping[str, Topology], Avoided]
"""Version of the nodes, topologies, avoided nodes."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer, and the settings of the namespace that it is based on."""

    namespace: Namespace | None
    response: Response


@dataclass(slots=True)
class _Given:
    """An answer that only gates, when it was found (seconds of the clock), and how many asked for it since."""

    answer: Response
    at: float
    in_burst: bool
    asked: int = 1


class RecentAnswers:
    """Answers to reviews of created pods that can be given again, for one set of rules.

    An answer is given again if all that it depends on is the same:
    - the pod, without its name, the names that the API server generates (of the pod, of its volume with the token), and
      its rank in its workload: the rank of a gang member counts once all members are there;
    - the user, the namespace and its settings, the topologies;
    - the nodes: as for `RecentDecisions`, nothing has changed, and the same ones are avoided after rejections.

    Members of Kubernetes' own PodGroups are left out, because their answer depends on the PodGroup. So are denials:
    they are rare, and quote their users.

    While many pods are created, many are bound, and the cluster changes all the time. But an answer that only gates a
    pod decides nothing that depends on what is free: its text says how many nodes fit, and is replaced when the pod
    gets its node. So in a burst, equal pods get the same such answer for a moment, whatever has changed meanwhile; a
    state that is filled by watches may be as far behind. It is a burst if enough equal pods came in the moment before.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """clock: seconds of `time.monotonic`; None: bursts are answered as all other reviews are."""
        self._clock = clock
        self._basis: _Basis | None = None
        self._answers: dict[RecentKey, _Answer] = {}
        self._given: dict[RecentKey, _Given] = {}

    def in_burst(self, key: RecentKey | None) -> Response | None:
        """The answer to an equal pod of this burst; None if it must be found."""
        if self._clock is None or key is None or (known := self._given.get(key)) is None:
            return None
        known.asked += 1
        return known.answer if known.in_burst and self._clock() - known.at < MOMENT_SECONDS else None

    def get(self, key: RecentKey | None, cluster_snapshot: ClusterSnapshot) -> Response | None:
        """The answer to an equal review, if the cluster has not changed since; else None."""
        if key is None or self._basis != _basis_of(cluster_snapshot) or (known := self._answers.get(key)) is None:
            return None
        return known.response if known.namespace == cluster_snapshot.namespaces.get(key[0]) else None

    def put(
        self, key: RecentKey | None, cluster_snapshot: ClusterSnapshot, answer: Response, *, only_gates: bool = False
    ) -> Response:
        """Keep an answer for equal reviews. Returns it, encoded. only_gates: nothing in it depends on what is free."""
        if key is None or isinstance(answer, Denied):
            return answer
        basis = _basis_of(cluster_snapshot)
        if self._basis != basis or len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
            self._basis = basis
        if isinstance(answer, Patched):
            answer = answer.encoded()
        self._answers[key] = _Answer(cluster_snapshot.namespaces.get(key[0]), answer)
        if self._clock is not None and only_gates:
            self._count_burst(key, answer, self._clock())
        return answer

    def _count_burst(self, key: RecentKey, answer: Response, now: float) -> None:
        before = self._given.get(key)
        if before is not None and now - before.at < MOMENT_SECONDS:
            return  # pods are counted for a whole moment
        in_burst = before is not None and now - before.at < 2 * MOMENT_SECONDS and before.asked >= _MANY
        if before is None and len(self._given) >= _MOST_ANSWERS:
            self._given.clear()
        self._given[key] = _Given(answer, now, in_burst)


def key_of(request: AdmissionRequest) -> RecentKey | None:
    """What makes two reviews of created pods equal; None if the answer is not to be given again."""
    try:
        text = _text(request.object)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # no API server sends such a pod; its faults are found where it is read
    if text is None or len(text) > _LARGEST_POD:
        return None
    return request.namespace, request.user.username, text


def _text(pod: Mapping[str, Any]) -> bytes | None:
    """The pod without what differs between equal pods; None for a member of one of Kubernetes' own PodGroups."""
    metadata = pod["metadata"]
    if scheduling_group_of(pod):
        return None
    applied = [one for one in metadata.get("managedFields") or () if one.get("operation") != "Update"]
    kept = {name: value for name, value in metadata.items() if name not in _LEFT_OUT}
    for field in ("labels", "annotations"):
        if held := kept.get(field):
            kept[field] = {name: value for name, value in held.items() if not _is_of_one_member(name, value)}
    return dumps([kept, applied, _without_generated_names(_without_hostname(pod)), pod.get("status")])


def _is_of_one_member(name: str, value: str) -> bool:
    return name in _OF_ONE_MEMBER and len(value) <= _LONGEST_VALUE


def _without_hostname(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The spec without the hostname that controllers of Jobs and StatefulSets set: the pod's name, or what is in it."""
    spec: dict[str, Any] = pod["spec"]
    hostname = spec.get("hostname")
    if not hostname or len(hostname) > _LONGEST_VALUE or not pod["metadata"].get("ownerReferences"):
        return spec
    return {name: value for name, value in spec.items() if name != "hostname"}


def _without_generated_names(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec without the random part of the name of the volume that every pod gets for its token."""
    volumes = spec.get("volumes")
    if not volumes or not any(map(_is_token, volumes)):
        return spec
    changed = {**spec, "volumes": [_renamed(volume) for volume in volumes]}
    for kind in ("initContainers", "containers"):
        if containers := spec.get(kind):
            changed[kind] = [
                {**container, "volumeMounts": [_renamed(mount) for mount in container.get("volumeMounts") or ()]}
                for container in containers
            ]
    return changed


def _is_token(named: Mapping[str, Any]) -> bool:
    return _TOKEN.fullmatch(named.get("name") or "") is not None


def _renamed(named: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**named, "name": "kube-api-access"} if _is_token(named) else named


def _basis_of(cluster_snapshot: ClusterSnapshot) -> _Basis:
    return cluster_snapshot.nodes.version, cluster_snapshot.topologies, cluster_snapshot.avoided


class PodMutator:
    """The handler. snapshot: returns the cluster at the time of a review.

    clock: seconds of `time.monotonic`, to know bursts of equal pods; None: the answer to each is that of its time.
    """

    def __init__(
        self, snapshot: Callable[[], ClusterSnapshot], rules: Rules, clock: Callable[[], float] | None = None
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._recent = RecentDecisions()
        # With other settings the verdict depends on what is free now.
        gates_all = rules.gate == "Always" and rules.no_capacity == "Gate"
        self._answers = RecentAnswers(clock if gates_all else None)

    def handle(self, request: AdmissionRequest) -> Response:
        """Validate and mutate a created pod. There are no side effects, so a dry run gets the same response."""
        if not _is_creation(request):
            return Allowed()
        key = self._key_of(request)
        if (answer := self._answers.in_burst(key)) is not None:
            return answer
        cluster_snapshot = self._snapshot()
        answer = self._answers.get(key, cluster_snapshot)
        if answer is None:
            decided = decide_creation(request, cluster_snapshot, self._rules, self._recent)
            answer = self._answers.put(key, cluster_snapshot, _response(decided), only_gates=decided.gated)
        return answer

    def _key_of(self, request: AdmissionRequest) -> RecentKey | None:
        annotations = (request.object.get("metadata") or {}).get("annotations") or {}
        # Such a pod may be in a gang, which only its answer tells.
        return None if self._rules.kueue_annotations and asks_kueue(annotations) else key_of(request)


def decide_creation(
    request: AdmissionRequest, cluster_snapshot: ClusterSnapshot, rules: Rules, recent: RecentDecisions | None = None
) -> PodDecision:
    """The decision on a created pod, with all warnings for its user.

    recent: earlier decisions with the same rules.
    """
    raw = request.object
    try:
        asked = in_pod_gang(asked_pod(raw, cluster_snapshot.topologies, rules), rules)
    except UserError as error:
        return denied(error, raw, "InvalidAnnotation")
    judged = validate_pod(replace(request, object=asked.raw), cluster_snapshot.topologies, rules)
    if isinstance(judged, Denied):
        return PodDecision(Verdict.DENY, asked.told(judged.message), raw, reason=judged.reason)
    try:
        decided = mutate_pod(raw, cluster_snapshot, rules, recent=recent)
    except UserError as error:
        return denied(error, raw, "Invalid")
    if decided.verdict is Verdict.DENY:
        return decided
    if decided.fit_count is None:
        return _warned(decided, judged.warnings, unmanaged_warnings(asked.raw, rules))
    annotations = map(asked.told, annotation_warnings(asked.raw, cluster_snapshot.topologies, rules))
    return _warned(decided, annotations, warnings_of(raw, gated=decided.gated, constraint=decided.constraint))


def _warned(decided: PodDecision, before: Iterable[str], after: Iterable[str] = ()) -> PodDecision:
    warnings = (*before, *decided.warnings, *after)
    return decided if warnings == decided.warnings else replace(decided, warnings=warnings)


def _is_creation(request: AdmissionRequest) -> bool:
    return request.kind == "Pod" and not request.sub_resource and request.operation is Operation.CREATE


def _response(decided: PodDecision) -> Response:
    logged: dict[str, Any] = {
        "fit_count": decided.fit_count,
        "excluded": {reason.code: nodes for reason, nodes in decided.excluded.items()},
        "not_aligned": decided.not_aligned is not None and decided.not_aligned.warns,
    }
    if decided.verdict is Verdict.DENY:
        return Denied(decided.message, decided.reason, decided.warnings, **logged)
    if decided.fit_count is None:
        return Allowed(decided.warnings, message=decided.message)
    logged |= {"message": decided.message, "verdict": decided.verdict.value, "decided": True}
    return Patched(decided.operations, decided.warnings, **logged)
