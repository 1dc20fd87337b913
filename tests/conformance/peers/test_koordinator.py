"""Koordinator's gangs in a network topology: its layers are levels, a multiple of a layer is a segment.

Facts of `docs/proposals/scheduling/20250611-networktopology-aware-scheduling.md` and of the tests of
`pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go`.
"""

import pytest

from tests.conformance.peers.bed import Bed, job, minimum, preferred, required, segments

# s1 ─┬─ b1 ── n0 [5]  n1 [7]
#     └─ b2 ── n2 [6]  n3 [4]
SPINE = {"s1": {"b1": [5, 7], "b2": [6, 4]}}


def test_fifteen_pods_need_three_nodes() -> None:
    answer = Bed(SPINE, "spine", "block", "hostname").review(job(15, required("spine")))
    assert (len(answer.per("block")), len(answer.per("node"))) == (2, 3)


def test_of_twenty_pods_in_multiples_of_four_a_node_sixteen_go() -> None:
    bed = Bed(SPINE, "spine", "block", "hostname")
    asked = required("spine") | segments(4, "hostname")
    assert bed.review(job(20, asked)).verdict == "wait"
    assert bed.review(job(20, asked | minimum(16))).per("node") == {"n0": 4, "n1": 4, "n2": 4, "n3": 4}


def test_of_twenty_pods_in_multiples_of_eight_a_block_all_go() -> None:
    """Koordinator places sixteen. Here the last segment may be smaller, and the larger block has room for it."""
    answer = Bed(SPINE, "spine", "block", "hostname").review(job(20, required("spine") | segments(8, "block")))
    assert answer.per("block") == {"s1/b1": 12, "s1/b2": 8}


# Twelve a spine, six a block and three a host: the per-layer multiples of one gang.
def test_multiples_of_each_layer_hold_together() -> None:
    asked = required("spine") | segments("6,3", "block,hostname")
    answer = Bed(SPINE, "spine", "block", "hostname").review(job(12, asked))
    assert answer.per("block") == {"s1/b1": 6, "s1/b2": 6}
    assert all(pods % 3 == 0 for pods in answer.per("node").values())
    assert Bed(SPINE, "spine", "block", "hostname").review(job(18, asked)).verdict == "wait"


# Each accelerator domain has one node. s1 ─┬─ b1 ── a1 [2]      s2 ─── b3 ─┬─ a3 [2]
#                                           └─ b2 ── a2 [1]                 └─ a4 [2]
LAYERS = {"s1": {"b1": {"a1": [2]}, "b2": {"a2": [1]}}, "s2": {"b3": {"a3": [2], "a4": [2]}}}


@pytest.mark.parametrize(
    ("pods", "level", "where"),
    [
        # Of equal domains the one whose parent has least room.
        (2, "accelerator", {"s1/b1/a1": 2}),
        # The lowest layer with a domain that holds all.
        (3, "spine", {"s1": 3}),
        (4, "block", {"s2/b3": 4}),
    ],
)
def test_the_lowest_layer_that_holds_all_is_taken_and_there_the_tightest_domain(
    pods: int, level: str, where: dict[str, int]
) -> None:
    # A block of three in s2 would come before the spine of three.
    layers = LAYERS if pods != 3 else LAYERS | {"s2": {"b3": {"a3": [2]}, "b4": {"a4": [2]}}}
    answer = Bed(layers, "spine", "block", "accelerator").review(job(pods, preferred("accelerator")))
    assert answer.per(level) == where


@pytest.mark.parametrize(("pods", "verdict"), [(4, "allow"), (5, "wait")])
def test_a_gang_that_must_be_gathered_waits_where_no_domain_holds_it(pods: int, verdict: str) -> None:
    assert Bed(LAYERS, "spine", "block", "accelerator").review(job(pods, required("spine"))).verdict == verdict
