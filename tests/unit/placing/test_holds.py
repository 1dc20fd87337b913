"""Who is kept off held nodes, and when a hold ends."""

from tests.builders.pods import bound
from webhook.formats.kubernetes.bound_pod import BoundPod
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.placing.preemption.holds import MOST_HOLDS, MOST_OF_NAMESPACE, Hold, Holds, Phase

DELETED_AT = 1_893_456_030  # 2030-01-01T00:00:30Z


def hold(name: str, priority: int, *nodes: str) -> Hold:
    return Hold(name, priority, frozenset(nodes), {f"default/{name}": name}, {"default/v": "v"})


def victim(**metadata: str) -> dict[str, BoundPod]:
    raw = bound(name="v", node="n0", metadata=metadata)
    pod = BoundPod.of(raw, ResidentPod.from_object(raw))
    return {pod.key: pod}


def test_held_nodes_are_closed_to_others_of_the_same_or_a_lower_priority() -> None:
    holds = Holds()
    holds.add(hold("a", 10, "n0", "n1"))
    holds.add(hold("b", 20, "n2"))
    assert holds.closed_to("c", 10) == {"n0", "n1", "n2"}
    assert holds.closed_to("c", 11) == {"n2"}
    assert holds.closed_to("c", 21) == frozenset()
    assert holds.closed_to("a", 10) == {"n2"}


def test_a_hold_of_higher_priority_ends_those_that_need_the_same_nodes() -> None:
    holds = Holds()
    low, beside = hold("low", 1, "n0", "n1"), hold("beside", 1, "n2")
    holds.add(low)
    holds.add(beside)
    assert holds.add(hold("high", 2, "n1")) == [low]
    assert {one.name for one in holds} == {"beside", "high"}
    assert holds.of_member("default/low") is None


def test_victims_have_their_graceful_period_and_a_minute_more() -> None:
    one = hold("a", 10, "n0")
    one.enter(Phase.ENDING, 0.0)
    deleted = victim(deletionTimestamp="2030-01-01T00:00:30Z")
    assert not one.has_expired(600.0, DELETED_AT + 60, 130.0, deleted)
    assert one.has_expired(0.0, DELETED_AT + 61, 130.0, deleted)


def test_an_eviction_that_is_never_seen_ends_the_hold_after_half_a_minute() -> None:
    one = hold("a", 10, "n0")
    one.enter(Phase.ENDING, 100.0)
    assert not one.has_expired(130.0, 0.0, 130.0, victim())
    assert one.has_expired(131.0, 0.0, 130.0, victim())


def test_a_new_pod_of_the_same_name_is_no_victim() -> None:
    one = hold("a", 10, "n0")
    one.enter(Phase.ENDING, 0.0)
    one.update(1.0, victim(uid="another"))
    assert one.phase is Phase.FREED


def test_a_victim_that_others_gave_a_longer_graceful_period_is_not_waited_for() -> None:
    one = hold("a", 10, "n0")
    one.enter(Phase.ENDING, 100.0)
    deleted = victim(deletionTimestamp="2031-01-01T00:00:30Z")
    assert not one.has_expired(760.0, DELETED_AT, 130.0, deleted)
    assert one.has_expired(761.0, DELETED_AT, 130.0, deleted)


def full(*namespaces: str, priority: int = 5) -> Holds:
    """As many places as there may be, held for these namespaces in turn."""
    holds = Holds()
    for number in range(MOST_HOLDS):
        key = f"{namespaces[number % len(namespaces)]}/p{number}"
        holds.add(Hold(key, priority, frozenset({f"n{number}"}), {key: key}, {}))
    return holds


def test_if_there_are_too_many_a_higher_priority_ends_the_lowest() -> None:
    holds = full("a", "b")
    assert holds.must_exceed("c") == 5
    (ended,) = holds.add(Hold("c/p", 6, frozenset({"n"}), {"c/p": "p"}, {}))
    assert ended.priority == 5
    assert len(holds) == MOST_HOLDS


def test_a_namespace_has_half_of_the_places() -> None:
    holds = Holds()
    for number in range(MOST_OF_NAMESPACE):
        key = f"a/p{number}"
        assert holds.must_exceed("a") < 0
        holds.add(Hold(key, 5, frozenset({f"n{number}"}), {key: key}, {}))
    assert holds.must_exceed("a") == 5
    assert holds.must_exceed("b") < 0
    (ended,) = holds.add(Hold("a/p", 6, frozenset({"n"}), {"a/p": "p"}, {}))
    assert ended.namespace == "a"
