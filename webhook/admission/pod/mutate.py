"""The mutating webhook on pods.

It also validates: a second webhook would cost the API server another call for every pod.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from webhook.admission.annotation_warnings import annotation_warnings, strategy_warnings
from webhook.admission.kueue_requests import asked_pod
from webhook.admission.pod.mutation import denied, mutate_pod
from webhook.admission.pod.recent_answers import RecentAnswers, RecentKey, key_of
from webhook.admission.pod.validate import validate_pod
from webhook.admission.response import Allowed, Denied, Patched, Response
from webhook.formats.kubernetes.admission_review import AdmissionRequest, Operation
from webhook.formats.kueue import asks_kueue
from webhook.formats.patches.reapply import warnings_of
from webhook.model.errors import UserError
from webhook.placing.pod.decision import PodDecision, RecentDecisions, Verdict
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules


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
        asked = asked_pod(raw, cluster_snapshot.topologies, rules)
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
        return _warned(decided, judged.warnings, strategy_warnings(asked.raw, rules))
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
