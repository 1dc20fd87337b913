"""A Topology from the labels of nodes."""

import pytest

from webhook.views.topology_discovery import TopologyProposal, discover

HOST = "kubernetes.io/hostname"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
TIER = "fabric.topograph.run/tier-"
DOMAIN, SUB_DOMAIN = "accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain"
CLIQUE = "nvidia.com/gpu.clique"
AWS = "topology.k8s.aws/network-node-layer-"
GCE = "cloud.google.com/gce-topology-"
OLD = "network.topology.nvidia.com/"


def proposed(table: str, own: tuple[str, ...] = ()) -> TopologyProposal:
    """Of nodes n0, n1 and so on. table: a label in each line, and its value on each node; - is none."""
    nodes: dict[str, dict[str, str]] = {}
    for line in filter(None, map(str.strip, table.splitlines())):
        label, *values = line.split()
        for number, value in enumerate(values):
            nodes.setdefault(f"n{number}", {HOST: f"n{number}"})
            if value != "-":
                nodes[f"n{number}"][label] = value
    return discover(nodes, "cluster", own)


def labels(proposal: TopologyProposal) -> list[str]:
    return [level.label for level in proposal.levels]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (f"{ZONE} a a b b\n{REGION} r r s s", [REGION, ZONE]),
        (f"{TIER}0 a a b b c c d d\n{TIER}1 e e e e f f f f", [f"{TIER}1", f"{TIER}0"]),
        (f"{AWS}3 a a b b c c d d\n{AWS}1 e e e e f f f f", [f"{AWS}1", f"{AWS}3"]),
        (f"{GCE}host a a b b c c d d\n{GCE}block e e e e f f f f", [f"{GCE}block", f"{GCE}host"]),
        (f"{OLD}leaf a a b b c c d d\n{OLD}spine e e e e f f f f", [f"{OLD}spine", f"{OLD}leaf"]),
        (
            "example.com/rack a a b b c c d d\nexample.com/hall e e e e f f f f",
            ["example.com/hall", "example.com/rack"],
        ),
    ],
)
def test_each_family_is_ordered_from_coarse_to_fine_and_ends_with_the_node(table: str, expected: list[str]) -> None:
    proposal = proposed(table)
    assert labels(proposal) == [*expected, HOST]
    assert proposal.warnings == ()


def test_tiers_are_ordered_by_their_number() -> None:
    table = "\n".join(f"{TIER}{tier} {' '.join(str(node >> tier) for node in range(2048))}" for tier in (10, 9, 2, 1))
    assert labels(proposed(table))[:4] == [f"{TIER}10", f"{TIER}9", f"{TIER}2", f"{TIER}1"]


@pytest.mark.parametrize(
    ("accelerator", "expected"),
    [
        ("a a b b c c d d e e f f g g h h", [f"{TIER}1", f"{TIER}0", CLIQUE]),  # in a switch
        ("a a a a a a a a b b b b b b b b", [f"{TIER}1", CLIQUE, f"{TIER}0"]),  # over two switches
    ],
)
def test_an_accelerators_domain_goes_where_its_nodes_lie(accelerator: str, expected: list[str]) -> None:
    table = f"{TIER}1 r r r r r r r r s s s s s s s s\n{TIER}0 i i i i j j j j k k k k l l l l\n{CLIQUE} {accelerator}"
    proposal = proposed(table)
    # Equal to the level above, it is below it.
    assert sorted(labels(proposal)) == sorted([*expected, HOST])
    assert labels(proposal).index(CLIQUE) == expected.index(CLIQUE)


def test_an_accelerators_domain_that_crosses_switches_is_left_out_with_a_warning() -> None:
    proposal = proposed(f"{TIER}0 a a a b b b\n{DOMAIN} x x y y z z")
    assert labels(proposal) == [f"{TIER}0", HOST]
    (warning,) = proposal.warnings
    assert warning.startswith(f"{DOMAIN} is left out: its domains cross those of {TIER}0")


def test_a_level_of_one_domain_or_of_one_node_each_is_left_out() -> None:
    proposal = proposed(f"{REGION} r r r r\n{ZONE} a a b b\n{GCE}host h i j k")
    assert labels(proposal) == [ZONE, HOST]


def test_nodes_without_a_label_are_named() -> None:
    proposal = proposed("example.com/rack a a b b - -")
    (warning,) = proposal.warnings
    assert warning.startswith("2 nodes have no label example.com/rack: 'n4', 'n5'. Without it")


def test_names_that_are_used_again_are_named() -> None:
    proposal = proposed("example.com/hall a a a a b b b b\nexample.com/rack 1 1 2 2 1 1 2 2")
    (warning,) = proposal.warnings
    assert warning.startswith("example.com/rack uses names again: '1', '2', such as in 'a' and 'b'.")


def test_labels_in_the_wrong_order_are_named() -> None:
    table = "example.com/hall a a a a b b b b\nexample.com/rack 1 1 2 2 3 3 4 4"
    proposal = proposed(table, ("example.com/rack", "example.com/hall"))
    (warning,) = proposal.warnings
    assert warning.startswith("example.com/hall does not lie below example.com/rack, but above it. ")
    assert proposed(table, ("example.com/hall", "example.com/rack")).warnings == ()


def test_the_family_of_most_nodes_is_taken_and_the_others_are_named() -> None:
    proposal = proposed(f"{AWS}3 a a b b -\nexample.com/rack 1 1 2 2 2")
    assert labels(proposal) == ["example.com/rack", HOST]
    assert proposal.warnings == (f"The nodes have labels of AWS, too: {AWS}3. Choose them with --label.",)


def test_without_a_label_there_is_no_proposal() -> None:
    assert proposed("example.com/color a a b b").levels == ()
    assert proposed("example.com/color a a b b", ("example.com/rack",)).warnings == (
        "No node has the label example.com/rack.",
    )


def test_levels_are_counted() -> None:
    (rack, host) = proposed("example.com/rack a a b -").levels
    assert (rack.domains, rack.nodes, host.domains, host.nodes) == (2, 3, 4, 4)
