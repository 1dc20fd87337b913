"""Waiting pods as a metric: by namespace and reason, and never more namespaces than the monitoring can take."""

from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from tests.unit.controllers.leader import Leader
from webhook.controllers.waiting_pods import REST, waiting_pods


def test_pods_are_counted_by_namespace_and_reason() -> None:
    reasons = {"a/p": "NoNode", "a/q": "NoNode", "a/r": "Pending", "b/p": "NoNode"}
    assert waiting_pods(reasons, reasons.__getitem__) == {("a", "NoNode"): 2, ("a", "Pending"): 1, ("b", "NoNode"): 1}


def test_the_namespaces_with_the_fewest_pods_are_counted_together() -> None:
    reasons = {"a/p": "x", "b/p": "x", "b/q": "y", "c/p": "x", "d/p": "x", "d/q": "y"}
    found = waiting_pods(reasons, reasons.__getitem__, most=2)
    assert found == {("b", "x"): 1, ("b", "y"): 1, ("d", "x"): 1, ("d", "y"): 1, (REST, "x"): 2}
    assert sum(found.values()) == len(reasons)


async def test_a_pod_that_fits_nowhere_has_the_reason_of_the_nodes_that_came_closest() -> None:
    # n0 [1 1]  n1 cordoned      [free cpus per NUMA node]
    leader = Leader(node(name="n0"), nrt(node="n0", free=(1, 1)), node(name="n1", unschedulable=True))
    leader.api.has(gated(cpu="2"))
    reason_of = leader.controller._status_reporter.reason_of
    assert waiting_pods(leader.cache.gated_pods(), reason_of) == {("default", "Pending"): 1}
    await leader.cycle()
    assert waiting_pods(leader.cache.gated_pods(), reason_of) == {("default", "NoSingleNUMANode"): 1}
