"""The nodes that a pod avoids, by its controller and its gang, and how texts name them."""

from webhook.formats.kubernetes.avoided_node import AvoidedNode, avoided_by, rejections_text, used_again_text
from webhook.formats.kubernetes.membership import controllers_group, named_group

N0 = AvoidedNode("n0", "TopologyAffinityError", 60, 180)
N1 = AvoidedNode("n1", "UnexpectedAdmissionError", 30, 150)
AVOIDED = {controllers_group("a", "u"): (N0,), named_group("a", "g"): (N1,)}


def test_a_pod_avoids_the_nodes_of_its_controller_and_of_its_gang() -> None:
    assert avoided_by(AVOIDED, "a", "u") == (N0,)
    assert avoided_by(AVOIDED, "a", "", named_group("a", "g")) == (N1,)
    assert avoided_by(AVOIDED, "a", "u", named_group("a", "g")) == (N0, N1)


def test_no_other_pod_avoids_them() -> None:
    assert avoided_by(AVOIDED, "a", "another", named_group("a", "h")) == ()
    assert avoided_by(AVOIDED, "b", "u") == ()  # naming the owner of another namespace gains nothing
    assert avoided_by(AVOIDED, "a", "") == ()


def test_the_last_rejection_of_a_node_counts() -> None:
    later = AvoidedNode("n0", "UnexpectedAdmissionError", 90, 210)
    assert avoided_by({"a/owner/u": (N0,), "a/name/g": (later,)}, "a", "u", "a/name/g") == (later,)


def test_a_text_names_three_nodes_and_the_first_time() -> None:
    nodes = [AvoidedNode(f"n{number}", "TopologyAffinityError", number, 120 + number) for number in range(5)]
    assert rejections_text(nodes[:1]) == "n0: TopologyAffinityError at 1970-01-01T00:00:00Z"
    assert rejections_text(nodes).endswith("n2: TopologyAffinityError at 1970-01-01T00:00:02Z and 2 more")
    assert used_again_text(nodes).endswith("the first by 1970-01-01T00:02:00Z")
    assert used_again_text(nodes[1:2]).endswith("at the latest at 1970-01-01T00:02:01Z")
