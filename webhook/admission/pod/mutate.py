"""The mutating webhook on pods: a request in, a response out.

It judges what it is about to change: another webhook for that would cost the API server another look at every pod.
"""

from webhook.admission.annotation_warnings import annotation_warnings
from webhook.admission.pod.mutation import PodMutation, Verdict, mutate_pod
from webhook.admission.pod.plan import Plans
from webhook.admission.pod.reapply import warnings_of
from webhook.admission.pod.validate import validate
from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.model.admission_review import AdmissionRequest, AdmissionResponse, Allowed, Denied, Operation, Patched
from webhook.model.errors import UserError
from webhook.model.rules import Rules


def mutation_of(
    request: AdmissionRequest, cluster_snapshot: ClusterSnapshot, rules: Rules, plans: Plans | None = None
) -> tuple[AdmissionResponse, PodMutation | None]:
    """Judge and mutate a pod that is being created; also the mutation behind the response, for logs and metrics.

    None where there was nothing to mutate. Nothing outside is touched, so a dry run gets the same answer. `plans` are
    those made before, by the same rules.
    """
    if request.kind != "Pod" or request.sub_resource or request.operation is not Operation.CREATE:
        return Allowed(), None
    judged = validate(request, cluster_snapshot.topologies, rules)
    if isinstance(judged, Denied):
        return judged, None
    try:
        mutation = mutate_pod(request.object, cluster_snapshot, rules, plans=plans)
    except UserError as error:
        return Denied(" ".join(map(str, error.faults)), "Invalid"), None
    if mutation.verdict is Verdict.DENY:
        return Denied(mutation.message, mutation.reason, mutation.warnings), mutation
    if mutation.plan is None:
        told = judged.warnings if isinstance(judged, Allowed) else ()
        return Allowed((*told, *mutation.warnings)), mutation
    again = warnings_of(request.object, gated=mutation.plan.gated, constraint=mutation.plan.constraint)
    annotations = annotation_warnings(request.object, cluster_snapshot.topologies, rules)
    return Patched(mutation.operations, (*annotations, *mutation.warnings, *again)), mutation
