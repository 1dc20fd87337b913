"""The webhooks' paths and the pure decisions behind them, by the settings' rules."""

from collections.abc import Callable, Mapping

from webhook.admission.mutate import mutate
from webhook.admission.rules import Rules
from webhook.admission.validate import validate
from webhook.admission.world import World
from webhook.model.review import AdmissionRequest, AdmissionResponse, Denied
from webhook.server.reviews import Answer, Reviewer
from webhook.settings import Settings


def reviewers_of(settings: Settings, world: Callable[[], World]) -> Mapping[str, Reviewer]:
    """Path -> decision; `world` gives the cluster as it is when a review comes."""
    rules = Rules(
        no_compatible_node=settings.no_compatible_node,
        max_affinity_values=settings.max_affinity_values,
        preferred_nodes=settings.preferred_nodes,
    )

    def mutate_pods(request: AdmissionRequest) -> Answer:
        return _answer(mutate(request, world(), rules))

    def validate_pods(request: AdmissionRequest) -> Answer:
        return _answer(validate(request, rules))

    return {"/mutate/pods": mutate_pods, "/validate/pods": validate_pods}


def _answer(response: AdmissionResponse) -> Answer:
    denied = isinstance(response, Denied)
    return Answer(response, "deny" if denied else "allow", decided=denied)
