"""A queue that serves namespaces in turn."""

from webhook.kube.pacing import FairQueue


def drained(queue: FairQueue[str, int]) -> list[tuple[str, int]]:
    return [queue.pop() for _ in range(len(queue))]


def test_namespaces_have_turns_and_the_oldest_of_each_is_first() -> None:
    queue: FairQueue[str, int] = FairQueue()
    for number in range(4):
        queue.put("busy", f"b{number}", number)
    queue.put("honest", "h0", 0)
    queue.put("honest", "h1", 1)
    assert [key for key, _ in drained(queue)] == ["b0", "h0", "b1", "h1", "b2", "b3"]


def test_who_puts_the_same_again_and_again_waits_behind_the_others() -> None:
    queue: FairQueue[str, int] = FairQueue()
    for number in range(300):
        queue.put("busy", f"b{number}", 0)
    queue.pop()
    queue.put("honest", "h", 0)
    queue.put("busy", "b0", 1)
    assert [queue.pop()[0], queue.pop()[0]] == ["b1", "h"]


def test_an_item_that_is_replaced_keeps_its_place_and_one_that_is_discarded_is_gone() -> None:
    queue: FairQueue[str, int] = FairQueue()
    for number, key in enumerate("abc"):
        queue.put("n", key, number)
    queue.put("n", "a", 9)
    queue.discard("n", "b")
    queue.discard("n", "none")
    queue.discard("none", "a")
    assert (queue.get("n", "a"), queue.get("n", "b"), queue.get("none", "a"), len(queue)) == (9, None, None, 2)
    assert drained(queue) == [("a", 9), ("c", 2)]
    assert not queue


def test_of_too_many_the_oldest_of_who_has_most_goes() -> None:
    queue: FairQueue[str, int] = FairQueue(3)
    queue.put("honest", "h", 0)
    for number in range(10):
        queue.put("busy", f"b{number}", number)
    assert [key for key, _ in drained(queue)] == ["h", "b8", "b9"]
