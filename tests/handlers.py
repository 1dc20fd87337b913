"""Handlers in tests: any function as one, and the mutating webhook on pods in front of one cluster."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from webhook.admission.pod.mutate import PodMutator
from webhook.admission.response import Allowed, Response
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules


@dataclass(frozen=True, slots=True)
class HandlerOf:
    """The handler that a function is."""

    answer: Callable[[AdmissionRequest], Response | Awaitable[Response]] = lambda _: Allowed()

    def handle(self, request: AdmissionRequest) -> Response | Awaitable[Response]:
        """What the function returns."""
        return self.answer(request)


def mutated(request: AdmissionRequest, cluster: ClusterSnapshot, rules: Rules) -> Response:
    """The response of the mutating webhook on pods."""
    return PodMutator(lambda: cluster, rules).handle(request)
