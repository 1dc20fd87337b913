"""The order in which pods are ungated."""

import random
from collections.abc import Iterator

from webhook.controllers.placement.writes_in_flight import UngateOrder


def _all(order: UngateOrder[None]) -> Iterator[str]:
    """The pods that may go now."""
    while (following := order.pop()) is not None:
        yield following[0]


def _order(*pods: tuple[str, str, str | None]) -> UngateOrder[None]:
    """Queued pods: (node, pod, arrival class)."""
    order = UngateOrder[None]()
    for node, pod, arrival in pods:
        order.put(node, pod, None, arrival)
    return order


# n0: a1 a2 before b1, n1: a3 before b2
def test_a_node_s_next_class_goes_when_all_of_the_one_before_have_arrived() -> None:
    order = _order(("n0", "a1", "a"), ("n0", "a2", "a"), ("n0", "b1", "b"), ("n1", "a3", "a"), ("n1", "b2", "b"))
    assert list(_all(order)) == ["a1", "a3", "a2"]
    assert order.held == 2
    assert not order.arrived("a1")
    assert list(_all(order)) == []
    assert order.arrived("a2")
    assert list(_all(order)) == ["b1"]
    assert order.arrived("a3")
    assert (list(_all(order)), order.held) == (["b2"], 0)


def test_a_class_that_comes_back_waits_for_the_one_between() -> None:
    order = _order(("n0", "a1", "a"), ("n0", "b1", "b"), ("n0", "a2", "a"))
    assert list(_all(order)) == ["a1"]
    order.arrived("a1")
    assert list(_all(order)) == ["b1"]
    assert order.held == 1


def test_a_pod_without_a_class_waits_for_none_and_holds_up_none() -> None:
    order = _order(("n0", "a1", "a"), ("n0", "b1", "b"), ("n0", "free", None))
    assert list(_all(order)) == ["a1", "free"]
    order.arrived("a1")
    assert list(_all(order)) == ["b1"]


def test_a_pod_that_arrived_before_it_was_queued_again_is_waited_for_again() -> None:
    order = _order(("n0", "a1", "a"))
    assert list(_all(order)) == ["a1"]
    order.arrived("a1")
    order.put("n0", "a1", None, "a")
    order.put("n0", "b1", None, "b")
    assert list(_all(order)) == ["a1"]
    assert not order.arrived("unknown")


def test_when_none_is_waited_for_the_next_class_goes() -> None:
    order = _order(("n0", "a1", "a"), ("n0", "b1", "b"), ("n0", "c1", "c"))
    assert list(_all(order)) == ["a1"]
    order.let_all_go()
    assert list(_all(order)) == ["b1"]
    order.clear()
    order.let_all_go()
    assert (list(_all(order)), order.held) == ([], 0)


def test_in_any_sequence_each_pod_goes_once_in_order_and_beside_its_own_class_only() -> None:
    dice = random.Random(3)  # noqa: S311 - not for cryptography
    order, gone = UngateOrder[None](), []
    queued: dict[str, tuple[str, str | None]] = {}
    on_way: dict[str, tuple[str, str | None]] = {}
    for turn in range(3000):
        what = dice.random()
        if what < 0.4:
            node, arrival = f"n{dice.randrange(4)}", dice.choice(["a", "b", None])
            order.put(node, str(turn), None, arrival)
            queued[str(turn)] = node, arrival
        elif what < 0.8 and (following := order.pop()) is not None:
            pod = following[0]
            node, arrival = lane = queued.pop(pod)
            earlier = [one for one, at in queued.items() if at[0] == node and (at[1] is None) == (arrival is None)]
            assert all(int(pod) < int(one) for one in earlier)
            gone.append(pod)
            if arrival is not None:
                assert {at for at in on_way.values() if at[0] == node} <= {lane}
                on_way[pod] = lane
        elif on_way:
            pod = dice.choice(sorted(on_way))
            del on_way[pod]
            order.arrived(pod)
    held = sum(
        arrival is not None and any(at[0] == node for at in on_way.values()) for node, arrival in queued.values()
    )
    assert order.held <= held
    assert len(gone) > 500
