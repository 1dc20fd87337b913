"""Nodes in shards: which ones count, which nodes are closed to a leader, and in which order units choose."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.nodes import node
from webhook.formats.kubernetes.node import Node
from webhook.model.shards import MOST_SHARDS
from webhook.state.shards import NodeShards

LABEL = "example.com/shard"
SETTLE_SECONDS = 65.0


class Watched(NodeShards):
    """The shards as one leader sees them, with a clock of its own."""

    def __init__(self, *leads: str, label: str = LABEL) -> None:
        self.now = 0.0
        super().__init__(label, SETTLE_SECONDS, lambda: self.now)
        self.work_on(frozenset(leads))

    def has(self, **values: str) -> None:
        for name, value in values.items():
            self.put(Node.from_object(node(name=name, labels={LABEL: value} if value else {})))

    def open(self) -> set[str]:
        return set(self._values) - self.closed()


def test_without_a_label_nothing_is_closed_and_all_nodes_are_of_the_default_shard() -> None:
    shards = Watched(label="")
    shards.has(n0="a", n1="b")
    assert (shards.closed(), shards.known, shards.of("n0")) == (frozenset(), frozenset(), "")


def test_a_leader_has_the_nodes_of_its_shards_alone() -> None:
    shards = Watched("a", "")
    shards.has(n0="a", n1="b", n2="")
    assert shards.open() == {"n0", "n2"}
    assert shards.work_on(frozenset({"b"}))
    assert shards.open() == {"n1"}
    assert not shards.work_on(frozenset({"b"}))


def test_the_smallest_values_count_and_the_others_are_of_the_default_shard() -> None:
    shards = Watched("")
    shards.has(**{f"n{number:02}": f"s{number:02}" for number in range(MOST_SHARDS + 2)})
    assert len(shards.known) == MOST_SHARDS
    assert shards.surplus == 2
    assert shards.open() == {f"n{MOST_SHARDS}", f"n{MOST_SHARDS + 1}"}
    shards.drop("n00")
    assert shards.of(f"n{MOST_SHARDS}") == f"s{MOST_SHARDS}"
    assert shards.is_moving(f"n{MOST_SHARDS}")


def test_a_node_that_changes_its_shard_is_closed_to_its_new_leader_for_a_time() -> None:
    old, new = Watched("a"), Watched("b")
    for shards in (old, new):
        shards.has(n0="a", n1="b")
        shards.has(n0="b")
    assert old.open() == set()
    assert new.open() == {"n1"}
    new.now = SETTLE_SECONDS
    assert new.open() == {"n0", "n1"}
    assert new.seconds_until_opened is None


def test_a_node_that_was_deleted_and_comes_back_in_another_shard_has_moved() -> None:
    shards = Watched("b")
    shards.has(n0="a")
    shards.drop("n0")
    shards.has(n0="b")
    assert shards.open() == set()
    shards.now = SETTLE_SECONDS
    assert shards.open() == {"n0"}


def test_a_node_that_is_new_or_comes_back_in_its_shard_is_open_at_once() -> None:
    shards = Watched("a")
    shards.has(n0="a")
    shards.drop("n0")
    shards.has(n0="a", n1="a")
    assert shards.open() == {"n0", "n1"}


def test_units_are_spread_over_the_shards_and_stay_if_another_one_goes() -> None:
    shards = Watched()
    shards.has(n0="a", n1="b", n2="c")
    before = {f"unit {number}": shards.first(f"unit {number}") for number in range(300)}
    assert min(Counter(before.values()).values()) > 60
    shards.drop("n2")
    assert all(shards.first(name) == shard for name, shard in before.items() if shard != "c")


changes = st.lists(
    st.tuples(
        st.sampled_from(["n0", "n1", "n2"]), st.sampled_from(["", "a", "b", None]), st.floats(0, 2 * SETTLE_SECONDS)
    ),
    max_size=20,
)


@given(changes)
def test_no_node_is_open_to_a_leader_before_what_another_one_assumed_there_must_show(
    steps: list[tuple[str, str | None, float]],
) -> None:
    """All see each change at once; None deletes the node. Who had it open last must have had it closed for the time."""
    leaders = {shard: Watched(shard) for shard in ("", "a", "b")}
    last: dict[str, tuple[str, float]] = {}
    now = 0.0
    for name, value, seconds in steps:
        for shard, one in leaders.items():
            for known in one.open():
                by, at = last.get(known, (shard, now))
                assert by == shard or now - at >= SETTLE_SECONDS
                last[known] = shard, now
        now += seconds
        for shard, one in leaders.items():
            # Right before the change, the node may still be given pods.
            one.now = now
            if name in one.open():
                last[name] = shard, now
        for one in leaders.values():
            if value is None:
                one.drop(name)
            else:
                one.has(**{name: value})
