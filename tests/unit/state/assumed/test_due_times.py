"""The first of many times, however often each is replaced."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from webhook.state.assumed.derived_reservations import DueTimes

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "put_earlier", "remove", "take"]), st.sampled_from("abcd"), st.integers(0, 9)),
    max_size=200,
)


@given(STEPS)
def test_it_does_what_a_plain_mapping_does(steps: list[tuple[str, str, int]]) -> None:
    times, plain = DueTimes(), dict[str, float]()
    for what, node, at in steps:
        match what:
            case "put":
                times.put(node, at)
                plain[node] = at
            case "put_earlier":
                times.put_earlier(node, at)
                plain[node] = min(at, plain.get(node, inf))
            case "remove":
                times.remove(node)
                plain.pop(node, None)
            case _:
                come = {name for name, time in plain.items() if time <= at}
                taken = times.take(at)
                assert set(taken) == come
                in_order = [plain.pop(name) for name in taken]
                assert in_order == sorted(in_order)
        assert times.first == min(plain.values(), default=inf)
        assert {name for name in "abcd" if name in times} == plain.keys()


def test_a_time_that_is_replaced_all_the_time_does_not_fill_the_memory() -> None:
    times = DueTimes()
    for at in range(10_000):
        times.put("n0", at)
    assert len(times._heap) < 100
    assert times.first == 9_999
