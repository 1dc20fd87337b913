"""The paths of the webhooks, each with the reviewer that decides."""

from collections.abc import Awaitable, Callable, Mapping

from webhook.admission.handler import Answer, Reviewer
from webhook.admission.namespace.validate import warn_of_namespace
from webhook.admission.node.validate import validate_node
from webhook.admission.pod.mutate import mutation_of
from webhook.admission.pod.mutation import PodMutation
from webhook.admission.pod.plan import Plans
from webhook.admission.pod.validate import validate
from webhook.admission.workload.mutate import mark_templates
from webhook.admission.workload.validate import validate_workload
from webhook.app.watch_lag import WatchLag
from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.model.admission_review import AdmissionRequest, AdmissionResponse, Denied
from webhook.model.rules import Rules


def reviewers_of(
    rules: Rules,
    snapshot: Callable[[], ClusterSnapshot],
    guard: Reviewer,
    topology_lag: WatchLag | None = None,
    namespace_lag: WatchLag | None = None,
) -> Mapping[str, Reviewer]:
    """Path -> reviewer. snapshot: returns the cluster at the time of a review. guard: reviews Bindings.

    topology_lag, namespace_lag: let workloads wait for topologies, and pods for their namespace, that arrive a moment
    later; None: no wait.
    """
    plans = Plans()

    def mutate_pods(request: AdmissionRequest, deadline: float) -> Answer | Awaitable[Answer]:
        def judge() -> Answer:
            response, mutation = mutation_of(request, snapshot(), rules, plans)
            return _of_response(response) if mutation is None else _of_mutation(response, mutation)

        return judge() if namespace_lag is None else namespace_lag.answer(request, judge, deadline)

    def mutate_workloads(request: AdmissionRequest, _: float) -> Answer:
        return _of_response(mark_templates(request, rules))

    def validate_pods(request: AdmissionRequest, _: float) -> Answer:
        return _of_response(validate(request, snapshot().topologies, rules))

    def validate_nodes(request: AdmissionRequest, _: float) -> Answer:
        return _of_response(validate_node(request))

    def validate_namespaces(request: AdmissionRequest, _: float) -> Answer:
        return _of_response(warn_of_namespace(request))

    def validate_workloads(request: AdmissionRequest, deadline: float) -> Answer | Awaitable[Answer]:
        def judge() -> Answer:
            return _of_response(validate_workload(request, snapshot(), rules))

        return judge() if topology_lag is None else topology_lag.answer(request, judge, deadline)

    return {
        "/mutate/pods": mutate_pods,
        "/mutate/bindings": guard,
        "/mutate/workloads": mutate_workloads,
        "/validate/pods": validate_pods,
        "/validate/namespaces": validate_namespaces,
        "/validate/nodes": validate_nodes,
        "/validate/workloads": validate_workloads,
    }


def _of_mutation(response: AdmissionResponse, mutation: PodMutation) -> Answer:
    plan = mutation.plan
    if plan is None:  # unmanaged, or denied for its annotations
        return _of_response(response, mutation.message)
    excluded = {reason.code: nodes for reason, nodes in plan.excluded.items()}
    not_aligned = plan.not_aligned is not None and plan.not_aligned.warns
    return Answer(
        response,
        mutation.verdict,
        True,
        mutation.message,
        plan.fit_count,
        excluded=excluded,
        not_aligned=not_aligned,
    )


def _of_response(response: AdmissionResponse, message: str = "") -> Answer:
    if isinstance(response, Denied):
        return Answer(response, "deny", decided=True, message=response.message)
    return Answer(response, "allow", message=message)
