"""The domain that is kept for a gang that has waited too long."""

import pytest

from tests.builders.gangs import RACK, TOPOLOGY, ZONE, group, podset
from tests.builders.records import pod
from tests.unit.engine.gang.reserved import snapshot
from webhook.engine.gang.backfill_reservation import earliest_domain, nodes_of
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import ANYWHERE, Constraint, Gang
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees

IN_A_RACK = Constraint(RACK)


def gang(count: int, cpu: int = 8, constraint: Constraint = IN_A_RACK) -> Gang:
    asked = pod({"cpu": str(cpu), "memory": "1Gi"}, policy="SingleNUMANode")
    return group(podset(name="w", of=asked, count=count), constraint=constraint)


def chosen(asked: Gang, now: Snapshot) -> list[str] | None:
    tree = TopologyTrees().tree(TOPOLOGY, now.node_arrays)
    domain = earliest_domain(now, tree, asked)
    return None if domain is None else [value for _, value in tree.path(domain)]


def test_the_domain_that_holds_most_of_the_group_now_is_kept() -> None:
    assert chosen(gang(3), snapshot()) == ["zone-a", "rack-2"]
    assert chosen(gang(3), snapshot(n1=(8, 8))) == ["zone-a", "rack-1"]


def test_of_equal_domains_it_is_the_first_in_the_trees_order() -> None:
    assert chosen(gang(3), snapshot(n1=(2, 8))) == ["zone-a", "rack-1"]


def test_a_domain_that_could_not_hold_the_group_if_it_were_empty_is_not_kept() -> None:
    # rack-3 holds four now, more than any other, and no more ever.
    assert chosen(gang(8, cpu=4), snapshot(n2=(2, 2), n3=(2, 2))) == ["zone-a", "rack-1"]
    assert chosen(gang(5), snapshot()) is None
    assert chosen(gang(2), snapshot(n0=(2, 2), n2=(2, 2), n3=(2, 2))) == ["zone-a", "rack-1"]


@pytest.mark.parametrize("constraint", [ANYWHERE, Constraint(None, RACK)])
def test_a_group_that_requires_no_domain_has_none_kept(constraint: Constraint) -> None:
    assert chosen(gang(30, constraint=constraint), snapshot()) is None


def test_the_level_that_is_required_counts_not_the_preferred_one() -> None:
    assert chosen(gang(7, constraint=Constraint(ZONE, RACK)), snapshot()) == ["zone-a"]


def test_a_closed_node_takes_no_pod_of_any_group() -> None:
    now = snapshot()
    tree = TopologyTrees().tree(TOPOLOGY, now.node_arrays)
    asked = gang(2)
    domain = earliest_domain(now, tree, asked)
    assert domain is not None
    assert assign_gang(now, tree, asked).assigned
    assert not assign_gang(now.closed(nodes_of(tree, domain)), tree, asked).assigned
