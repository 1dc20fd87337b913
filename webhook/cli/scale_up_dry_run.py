"""What the cluster autoscaler would be asked for a waiting pod or gang. Nothing is marked.

The rules are the leader's (see `controllers.autoscaling`).
"""

from webhook.cli.offline_cluster import Cluster
from webhook.cli.waiting_unit import lacks_members
from webhook.controllers.autoscaling.answers import Asking, ScaleUpAnswers
from webhook.controllers.autoscaling.provisioning_pod_sets import pod_sets_of, whole_gang, why_no_request
from webhook.controllers.autoscaling.provisioning_texts import request_text
from webhook.controllers.preemption.preemptor import Preemptor
from webhook.model.rules import Rules
from webhook.steps import result_of
from webhook.views.scale_up import ScaleUpView

# One question needs no age of answers.
_NOW = 0.0


def nodes_to_ask_for(unit: Preemptor | None, cluster: Cluster, rules: Rules, asking: Asking) -> ScaleUpView | None:
    """The answer for a single pod or gang that does not fit now; None without an autoscaler, or if members lack.

    unit: None if the members of the gang cannot be read.
    """
    if not asking.is_enabled or unit is None or lacks_members(unit):
        return None
    answers = ScaleUpAnswers(cluster.cache, rules, asking, cluster.clock)
    answers.refresh(_NOW)
    found = result_of(answers.find(unit, _NOW))
    gang, class_name = whole_gang(unit), asking.provisioning_class
    if gang is None or not class_name or not found.is_asked:
        return ScaleUpView(found.is_asked, found.text)
    pod_sets = result_of(pod_sets_of(gang, unit.minimum, class_name))
    if why := why_no_request(gang, pod_sets):
        return ScaleUpView(asked=False, text=why)
    return ScaleUpView(asked=True, text=request_text(class_name, found.text, pod_sets.count))
