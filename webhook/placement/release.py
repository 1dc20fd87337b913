"""Letting a pod go that has waited long enough: without a place, kept off the nodes that never can take it.

A cluster autoscaler adds nodes for pods that the scheduler cannot place, and never sees one with a gate. Nodes to come
stay open to the pod; where it goes then is judged when it is bound.
"""

from time import time

from webhook.admission.node_set import keep_off_others
from webhook.admission.outlook import look_ahead
from webhook.admission.patch import Operation
from webhook.admission.placement_text import nowhere
from webhook.admission.placing import releasing
from webhook.admission.rules import Rules
from webhook.engine.decide import Decision, decide
from webhook.engine.view import View
from webhook.model.timestamps import epoch_seconds
from webhook.placement.gated import GatedPod


def seconds_waited(gated: GatedPod) -> float:
    """How long ago the pod was created; the API server stamps it in whole seconds of its own clock."""
    created = epoch_seconds(gated.pod.created)
    return 0.0 if created is None else max(0.0, time() - created)


def release(view: View, gated: GatedPod, rules: Rules, seconds: float) -> tuple[Operation, ...]:
    """The patch that lets the pod go."""
    decision: Decision = decide(view, gated.pod, gated.intent, rules.engine)
    outlook = look_ahead(view.snapshot, gated.pod, gated.intent, rules.engine)
    constraint = keep_off_others(view.snapshot, outlook, rules.max_affinity_values)
    text = nowhere(gated.pod, gated.intent, decision, outlook.message)
    return releasing(gated.raw, constraint, f"released without a place after {seconds:g} s; {text}")
