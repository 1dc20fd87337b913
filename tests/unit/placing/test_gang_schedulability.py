"""What a group that waits is told of ever having a place, and that this is worked out only when it may have changed."""

from typing import Any

import pytest

from tests.builders.gangs import GPU, RACK, TOPOLOGY, gpus, group, podset, racks, whole_nodes
from tests.builders.records import node, resident, tell
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.gang_spec import Constraint, Gang
from webhook.engine.gang.resolvable import assign_when_empty
from webhook.engine.gang.result import GangAssignment
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.model.options import GangStrategy
from webhook.placing.gang.gated_gang import GangSchedulability

# zone-a ── rack-1 ── n0 [4]  n1 [4]        [GPUs]
PLACES = racks(n0="zone-a/rack-1", n1="zone-a/rack-1")


def gang(count: int) -> Gang:
    return group(podset(name="w", of=gpus(), count=count), constraint=Constraint(RACK))


class Site:
    """A cluster whose groups wait; `asked` counts the placements on the empty one."""

    def __init__(self) -> None:
        self.cluster = whole_nodes(places=PLACES, free={name: {GPU: 4} for name in PLACES})
        self.trees = TopologyTrees()
        self.schedulability = GangSchedulability(GangStrategy.BIN_PACK, self.assign)
        self.asked = 0

    def assign(self, *asked: Any) -> GangAssignment:
        self.asked += 1
        return assign_when_empty(*asked)

    def text(self, asked: Gang) -> str:
        snapshot = Snapshot(self.cluster.node_arrays())
        placement = assign_gang(snapshot, self.trees.tree(TOPOLOGY, snapshot.node_arrays), asked)
        assert not placement.assigned
        return self.schedulability.text("g", placement, asked, None)


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_group_that_is_too_large_is_told_what_it_needs_and_one_that_waits_for_others_nothing(site: Site) -> None:
    assert site.text(gang(9)) == (
        "not even an empty cluster has a place for it: the best rack, rack-1, would hold 8 of 9 pods; "
        f"needed: at least 1 more {GPU} there"
    )
    tell(site.cluster, resident(name="other", node="n0", requests={GPU: 4}))
    assert site.text(gang(8)) == ""


def test_pods_that_come_and_go_do_not_have_it_worked_out_again(site: Site) -> None:
    first = site.text(gang(9))
    tell(site.cluster, resident(name="other", node="n0", requests={GPU: 4}))
    assert site.text(gang(9)) == first
    assert site.asked == 1


def test_a_node_that_comes_or_grows_and_a_group_that_changes_do(site: Site) -> None:
    site.text(gang(9))
    site.text(gang(10))
    assert site.asked == 2
    labels = {"example.com/zone": "zone-a", "example.com/rack": "rack-1"}
    tell(
        site.cluster, node(name="n0", allocatable={"cpu": 10**6, "memory": 1 << 40, "pods": 110, GPU: 5}, labels=labels)
    )
    assert "would hold 9 of 10 pods" in site.text(gang(10))
    tell(
        site.cluster, node(name="n2", allocatable={"cpu": 10**6, "memory": 1 << 40, "pods": 110, GPU: 0}, labels=labels)
    )
    site.text(gang(10))
    assert site.asked == 4


def test_of_groups_that_wait_no_more_nothing_is_kept(site: Site) -> None:
    site.text(gang(9))
    site.schedulability.keep({"g"})
    site.text(gang(9))
    assert site.asked == 1
    site.schedulability.keep(())
    site.text(gang(9))
    assert site.asked == 2
