"""Which owner is read next: bounded, and in turns by namespace."""

from webhook.controllers.owner_chains import Key, ReadQueue
from webhook.formats.kubernetes.pod import Owner


def key(namespace: str, number: int) -> Key:
    return namespace, Owner("batch/v1", "Job", f"j{number}", f"uid-{number}", True)


def test_a_namespace_has_a_few_reads_at_a_time_and_the_next_when_one_ends() -> None:
    queue = ReadQueue()
    for number in range(10):
        queue.put(key("a", number), 0.0)
    begun = list(queue.take(0.0))
    assert begun == [key("a", number) for number in range(4)]
    assert list(queue.take(0.0)) == []
    assert queue.next_at() is None
    queue.done(begun[2], 0.0, in_time=True)
    assert list(queue.take(0.0)) == [key("a", 4)]


def test_namespaces_have_their_turn_one_after_the_other() -> None:
    queue = ReadQueue()
    for number in range(1000):
        queue.put(key("hostile", number), 0.0)
    queue.put(key("honest", 0), 0.0)
    assert [one[0] for one in queue.take(0.0)] == ["hostile", "honest", "hostile", "hostile", "hostile"]


def test_all_together_have_a_bound() -> None:
    queue = ReadQueue()
    for namespace in range(100):
        queue.put(key(f"ns{namespace}", 0), 0.0)
    assert len(list(queue.take(0.0))) == 16


def test_slow_namespaces_leave_places_to_the_others_however_many_they_are() -> None:
    queue = ReadQueue()
    slow = [key(f"slow{namespace}", number) for namespace in range(40) for number in range(4)]
    for one in slow:
        queue.put(one, 0.0)
    begun = list(queue.take(0.0))
    while begun:
        for one in begun:
            queue.done(one, 5.0, in_time=False)
        begun = list(queue.take(5.0))
        if {one[0] for one in begun} and len(begun) <= 4:
            break
    assert len(begun) == 4  # of all that are slow together
    for number in range(12):
        queue.put(key(f"honest{number}", 0), 5.0)
    assert len(list(queue.take(5.0))) == 12


def test_a_slow_namespace_is_as_the_others_after_a_while() -> None:
    queue = ReadQueue()
    queue.put(key("a", 0), 0.0)
    (begun,) = queue.take(0.0)
    queue.done(begun, 5.0, in_time=False)
    for number in range(10):
        queue.put(key("a", number), 5.0)
        queue.put(key("b", number), 5.0)
    assert len(list(queue.take(66.0))) == 8


def test_what_is_due_later_or_was_forgotten_is_not_read_now() -> None:
    queue = ReadQueue()
    queue.put(key("a", 0), 3.0)
    queue.put(key("a", 1), 0.0)
    queue.forget(key("a", 1))
    assert list(queue.take(0.0)) == []
    assert queue.next_at() == 3.0
    queue.put(key("a", 0), 7.0)
    assert queue.next_at() == 7.0
    assert list(queue.take(7.0)) == [key("a", 0)]
