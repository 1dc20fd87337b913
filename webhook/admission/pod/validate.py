"""The validating webhook on pods: denies invalid annotations and writes to reserved fields.

It checks updates. The mutating webhook checks creations with the same function.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from webhook.admission.koordinator_requests import requests_of_pod
from webhook.admission.reserved_fields import forgery
from webhook.admission.response import Allowed, Denied
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.formats.kubernetes.membership import GANG_REQUESTS
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.topology import Topology
from webhook.model.errors import UserError, UserErrors
from webhook.model.names import NUMA_TOPOLOGY_SPEC, RESERVATION_AFFINITY, RESOURCE_SPEC
from webhook.model.raw import Raw
from webhook.placing.gang.workload_judgement import check_bare_pod
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_unmanaged

_OF_KOORDINATOR: Final = (RESOURCE_SPEC, RESERVATION_AFFINITY)
_ASKS: Final = (NUMA_TOPOLOGY_SPEC, *_OF_KOORDINATOR, *GANG_REQUESTS)


class PodValidator:
    """The handler. snapshot: returns the cluster at the time of a review."""

    def __init__(self, snapshot: Callable[[], ClusterSnapshot], rules: Rules) -> None:
        self._snapshot = snapshot
        self._rules = rules

    def handle(self, request: AdmissionRequest) -> Allowed | Denied:
        """Validate an updated pod."""
        return validate_pod(request, self._snapshot().topologies, self._rules)


def validate_pod(request: AdmissionRequest, topologies: Mapping[str, Topology], rules: Rules) -> Allowed | Denied:
    """Check a pod when it is created, or when its annotations, labels or gates change.

    Existing annotations are accepted: they must not make an update of other fields fail.
    """
    if not request.may_change_metadata_of("Pod"):
        return Allowed()
    if forged := forgery(request, rules):
        return Denied(" ".join(map(str, forged.faults)), "ReservedField")
    asked = _asked(request.object)
    if why_unmanaged(request.object, rules) or asked == _asked(request.old_object):
        return Allowed()
    try:
        intent, warnings = parse_numa_intent(asked)
        check_bare_pod(request.object, topologies)
        if not asked.keys().isdisjoint(_OF_KOORDINATOR):
            of_koordinator = requests_of_pod(Pod.from_object(request.object), intent.cpu_bind)
            warnings = (*warnings, *of_koordinator.warnings)
            if of_koordinator.faults:
                raise UserErrors(of_koordinator.faults)
    except UserError as error:
        return Denied(" ".join(map(str, error.faults)), "InvalidAnnotation")
    return Allowed(warnings)


def _asked(pod: Raw) -> dict[str, Any]:
    """The annotations by which a pod requests something."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return {name: annotations[name] for name in _ASKS if name in annotations}
