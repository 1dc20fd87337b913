"""Which pods of lower priority would have to end for a waiting pod or gang. Nothing is ended.

The rules are the leader's (see `controllers.preemption`). A gang is judged with its waiting members, and only as a
whole.
"""

from webhook.cli.judgement_context import JudgementContext
from webhook.cli.offline_cluster import Cluster
from webhook.cli.waiting_unit import lacks_members
from webhook.controllers.preemption.preemptor import Preemptor
from webhook.controllers.preemption.search import PreemptionSearch
from webhook.steps import result_of
from webhook.views.preemption import PreemptionView, Preempts, preemption_view


def pods_to_end(preemptor: Preemptor | None, cluster: Cluster, around: JudgementContext) -> PreemptionView:
    """The pods for a single pod or gang that does not fit now. None: its members cannot be read."""
    if preemptor is None:
        return PreemptionView(Preempts.UNKNOWN)
    if (why := preemptor.why_not) is not None:
        return PreemptionView(Preempts.NEVER, why=why)
    if lacks_members(preemptor):
        return PreemptionView(Preempts.UNKNOWN)
    found = result_of(PreemptionSearch(cluster.cache, around.rules, around.trees).run(preemptor))
    if found.victims is None:
        return PreemptionView(Preempts.UNKNOWN)
    return preemption_view(found.victims, found.candidates)
