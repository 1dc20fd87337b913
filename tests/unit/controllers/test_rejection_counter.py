"""Rejections are counted once in the cluster, also around a change of leaders."""

from math import inf

import pytest

from tests.unit.controllers.leader import metrics
from webhook.controllers.rejection_reports import RejectionCounter
from webhook.formats.kubernetes.rejected_pod import KubeletRejection, RejectionReason
from webhook.kube.election import Term

REJECTION = KubeletRejection(RejectionReason.TOPOLOGY_AFFINITY, managed=True)


class Replica:
    """A replica and its counter; `now` is its clock."""

    def __init__(self) -> None:
        self.leads = False
        self.now = 0.0
        self.metrics = metrics()
        self.counter = RejectionCounter(self.metrics, lambda: self.leads, lambda: self.now)

    @property
    def counted(self) -> float:
        """Managed pods that it counted."""
        return float(self.metrics.kubelet_rejections.labels("TopologyAffinityError", "true")._value.get())

    def saw_at(self, *times: float) -> None:
        for self.now in times:
            self.counter.saw(REJECTION)

    def leads_since(self, since: float, alone_since: float) -> None:
        self.leads = True
        self.counter.started(Term(1, "term", since, alone_since))


def test_the_leader_counts_and_the_others_do_not() -> None:
    leader, follower = Replica(), Replica()
    leader.leads_since(0.0, -inf)
    for replica in (leader, follower):
        replica.saw_at(1.0, 2.0)
    assert (leader.counted, follower.counted) == (2, 0)


@pytest.mark.parametrize(("alone_since", "counted"), [(10.0, 2), (-inf, 0)])
def test_a_new_leader_counts_what_came_after_the_last_one_was_killed(alone_since: float, counted: int) -> None:
    replica = Replica()
    replica.saw_at(9.0, 10.0, 14.0)  # the last leader counted the first
    replica.leads_since(15.0, alone_since)
    assert replica.counted == counted
    replica.leads_since(20.0, 1.0)  # another term
    assert replica.counted == counted
