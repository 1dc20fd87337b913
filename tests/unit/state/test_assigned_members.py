"""Which gangs lost a member with its node."""

from tests.builders.clusters import cluster_cache, put
from tests.builders.nodes import node
from tests.builders.pods import bound
from webhook.formats.kubernetes.membership import AssignedMember, named_group
from webhook.state.pod_indexes import LostMembers

G = named_group("default", "g")
NOT_READY = {"allocatable": {"cpu": "8", "pods": "110"}, "conditions": [{"type": "Ready", "status": "Unknown"}]}


def test_a_member_whose_node_is_not_ready_or_gone_is_lost() -> None:
    cache = cluster_cache(*(node(name=f"n{n}") for n in range(3)))
    for n in range(3):
        put(cache, bound(name=f"p{n}", node=f"n{n}", group="g"))
    cache.pods.delete("default/p0")
    assert cache.lost_members.nodes(G) == set()
    put(cache, {**node(name="n1"), "status": NOT_READY})
    deleting = bound(name="p1", node="n1", group="g", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"})
    put(cache, deleting)
    assert cache.lost_members.nodes(G) == {"n1"}
    cache.nodes.delete("n2")
    cache.pods.delete("default/p2")
    assert cache.lost_members.nodes(G) == {"n1", "n2"}
    cache.lost_members.forget(G)
    assert cache.lost_members.nodes(G) == set()


def test_a_gang_that_has_as_many_members_again_or_of_which_one_only_changed_has_lost_none() -> None:
    cache = cluster_cache(node(name="n0"))
    for name, place in (("a", "n0"), ("b", "gone"), ("c", "gone")):
        put(cache, bound(name=name, node=place, group="g"))
    put(cache, bound(name="c", node="gone", group="g", metadata={"resourceVersion": "2"}))
    assert cache.lost_members.nodes(G) == set()
    for name in "bc":
        cache.pods.delete(f"default/{name}")
    put(cache, bound(name="b2", node="n0", group="g"))
    assert cache.lost_members.nodes(G) == {"gone"}
    put(cache, bound(name="c2", node="n0", group="g"))
    assert cache.lost_members.nodes(G) == set()


def test_the_number_of_gangs_is_bounded() -> None:
    lost = LostMembers(lambda _: False, lambda _: 1)
    for number in range(1100):
        lost.left(f"g{number}", AssignedMember("n", None))
    assert lost.nodes("g0") == set()
    assert lost.nodes("g1099") == {"n"}


def test_the_gangs_of_one_tenant_do_not_displace_those_of_others() -> None:
    lost = LostMembers(lambda _: False, lambda _: 0)
    lost.restore(G, frozenset({"n0"}))
    for number in range(2000):
        lost.restore(named_group("flood", str(number)), frozenset({"nowhere"}))
    assert lost.nodes(G) == {"n0"}
    assert not lost.nodes(named_group("flood", "0"))
    assert lost.nodes(named_group("flood", "1999"))
