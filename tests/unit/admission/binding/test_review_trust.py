"""How long reviews that may be forged are believed."""

from webhook.admission.binding.review_trust import Doubts


def test_a_pod_whose_reviews_come_to_nothing_is_believed_less_each_time_and_then_not_at_all() -> None:
    doubts = Doubts()
    seconds = []
    for now in range(4):
        seconds.append(doubts.believed_seconds("ns/p", "u", now))
        doubts.came_to_nothing("ns/p", "u", now)
    assert seconds == [1.5, 0.3, 0.0, 0.0]


def test_many_pods_of_one_namespace_are_believed_no_more_than_one_and_others_are() -> None:
    doubts = Doubts()
    seconds = []
    for now in range(5):
        seconds.append(doubts.believed_seconds(f"ns/p{now}", "u", now))
        doubts.came_to_nothing(f"ns/p{now}", "u", now)
    assert seconds == [1.5, 0.3, 0.3, 0.0, 0.0]
    assert doubts.believed_seconds("other/p", "u", 5) == 1.5


def test_another_pod_of_that_name_is_no_worse_than_its_namespace() -> None:
    doubts = Doubts()
    for _ in range(2):
        doubts.came_to_nothing("ns/p", "u", 0)
    assert (doubts.believed_seconds("ns/p", "u", 1), doubts.believed_seconds("ns/p", "v", 1)) == (0.0, 0.3)


def test_doubt_lasts_as_long_as_the_attack_and_a_minute() -> None:
    doubts = Doubts()
    for _ in range(3):
        doubts.came_to_nothing("ns/p", "u", 0)
    assert [doubts.believed_seconds("ns/p", "u", now) for now in (50, 100, 150, 210)] == [0.0, 0.0, 0.0, 1.5]


def test_what_is_remembered_is_bounded() -> None:
    doubts = Doubts()
    for number in range(10_000):
        doubts.came_to_nothing(f"ns{number}/p", "u", 0)
    assert len(doubts) == 2 * 4096
