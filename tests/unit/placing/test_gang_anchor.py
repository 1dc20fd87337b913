"""Where members with a place hold the others, though their nodes moved or are gone."""

import json

import pytest

from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.kubernetes.node import Node
from webhook.formats.topology import Level, Topology, TopologySource
from webhook.placing.gang.gang_anchor import Anchors, Unknown

ZONE, RACK = "example.com/zone", "example.com/rack"
TOPOLOGY = Topology("dc", TopologySource.KAI, (Level(ZONE), Level(RACK)))
# z ── r1 ── n0, n1      z ── r2 ── n2      n3 has no rack any more
NODES = {"n0": "r1", "n1": "r1", "n2": "r2", "n3": None}


def node_arrays() -> NodeArrays:
    state = ClusterState()
    for name, rack in NODES.items():
        labels = {ZONE: "z", **({RACK: rack} if rack else {})}
        state.upsert_node(Node.from_object({"metadata": {"name": name, "labels": labels}}))
    return state.node_arrays()


def seat(node: str, rack: str = "") -> AssignedMember:
    """A member on a node, placed when that was in this rack; empty: nothing is recorded."""
    return AssignedMember(node, 0, domain=json.dumps({ZONE: "z", RACK: rack}) if rack else "", assigned=True)


def held(*seats: AssignedMember, level: int = 2) -> str:
    now = node_arrays()
    tree = TopologyTrees().tree(TOPOLOGY, now)
    found = Anchors(tree, now).of(seats, level)
    return found.why if isinstance(found, Unknown) else tree.path(found)[-1][1] if found else ""


@pytest.mark.parametrize(
    ("seats", "where"),
    [
        ([], ""),
        ([seat("n0", "r1")], "r1"),
        ([seat("n2", "r1")], "r2"),  # relabelled: it runs where it is
        ([seat("n0", "r1"), seat("n2", "r1")], "r1"),  # undecided: as it was placed
        ([seat("n0", "r2"), seat("n2", "r2")], "r2"),
        ([seat("n0", "r1"), seat("gone", "r2"), seat("gone-too", "r2")], "r1"),  # who runs for certain comes first
        ([seat("gone", "r2")], "r2"),
        ([seat("n3", "r1")], "r1"),
    ],
)
def test_members_hold_others_where_most_of_them_run_else_where_they_were_placed(
    seats: list[AssignedMember], where: str
) -> None:
    assert held(*seats) == where


@pytest.mark.parametrize(
    "seats",
    [
        [seat("gone")],
        [seat("gone", "r1"), seat("gone-too")],
        [seat("gone", "r1"), seat("gone-too", "r2")],
        [AssignedMember("gone", 0, domain="[" * 100_000)],
        [AssignedMember("gone", 0, domain='{"example.com/rack": "r1"}')],
        [
            AssignedMember("gone", 0, domain='{"example.com/zone": {"a": 1}, "example.com/rack": null}'),
            seat("gone", "r1"),
        ],
    ],
)
def test_what_is_recorded_nowhere_or_differently_cannot_be_known(seats: list[AssignedMember]) -> None:
    assert held(*seats) == "the nodes of its running pods are gone, and it is not known in which rack they run"


def test_a_domain_without_nodes_is_named() -> None:
    assert held(seat("gone", "r9")) == "its pods run in rack r9, which has no nodes any more"
    assert held(seat("gone", "r9"), level=1) == "z"
