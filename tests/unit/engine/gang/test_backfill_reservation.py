"""Which domain is kept for a group that has waited long."""

from typing import TYPE_CHECKING

import pytest

from tests.unit.engine.gang.clusters import RACK, TOPOLOGY, ZONE, group, podset, racks
from tests.unit.engine.machines import cpus, node, pod, state, topology
from webhook.engine.gang.backfill_reservation import earliest_domain, nodes_of
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import ANYWHERE, Constraint, PodGroup
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees

if TYPE_CHECKING:
    from webhook.model.node import Node
    from webhook.model.nrt import NodeTopology

# zone-a ─┬─ rack-1 ── n0 [8 2]  n1 [2 2]   of 8 a NUMA node      [free CPUs]
#         ├─ rack-2 ── n2 [8 2]  n3 [2 8]   of 8
#         └─ rack-3 ── n4 [4 4 4 4]         of 4
# zone-b ─── rack-4 ── n5 [8]               of 8
PLACES = racks(
    n0="zone-a/rack-1",
    n1="zone-a/rack-1",
    n2="zone-a/rack-2",
    n3="zone-a/rack-2",
    n4="zone-a/rack-3",
    n5="zone-b/rack-4",
)
FREE = {"n0": (8, 2), "n1": (2, 2), "n2": (8, 2), "n3": (2, 8), "n4": (4, 4, 4, 4), "n5": (8,)}
WHOLE = {"n4": 4}
IN_A_RACK = Constraint(RACK)


def snapshot(**free: tuple[int, ...]) -> Snapshot:
    objects: list[Node | NodeTopology] = []
    for name, (zone, rack) in PLACES.items():
        labels = {"example.com/zone": zone or "", "example.com/rack": rack or ""}
        zones = {**FREE, **free}[name]
        objects.append(node(name, {"cpu": 1_000_000, "memory": 1 << 40, "pods": 110}, labels=labels))
        objects.append(topology(name, cpus(*zones), {"cpu": 1000 * WHOLE.get(name, 8)}))
    return Snapshot(state(*objects).node_arrays())


def gang(count: int, cpu: int = 8, constraint: Constraint = IN_A_RACK) -> PodGroup:
    asked = pod({"cpu": str(cpu), "memory": "1Gi"}, policy="SingleNUMANode")
    return group(podset("w", asked, count), constraint=constraint)


def chosen(asked: PodGroup, now: Snapshot) -> list[str] | None:
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
