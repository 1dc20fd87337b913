"""Allocations of bound pods: removed when the NUMA nodes become uncertain, written when they are known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.builders.records import cpus, resident, topology
from tests.fingerprints import pod_fingerprint
from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.kubernetes.pod_resources import Container, ContainerKind
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.assumed.assumed_pods import AssumedPods
from webhook.state.assumed.free_bounds import Leeway
from webhook.state.assumed.known_placements import Certainty

# n ── NUMA 0 [16]  NUMA 1 [16]      [cpus]
CPUS = 16
NOW = 30


def on(numa_id: int, cpu: int) -> NumaAmounts:
    return {numa_id: {"cpu": 1000 * cpu}}


def pod(name: str, cpu: int, numa_id: int | None = None, *, at: int = 10, started: bool = True) -> ResidentPod:
    """A pod bound to "n" with an allocation that names one NUMA node, or with none."""
    amounts = {"cpu": 1000 * cpu}
    made = resident(name=name, node="n", requests=amounts, numa=None if numa_id is None else on(numa_id, cpu))
    container = Container("main", ContainerKind.APP, amounts, amounts)
    return replace(made, uid=name, bound_at=at, started=started, started_at=at + 1, containers=(container,))


def assumed_pod(pod: ResidentPod, numa_id: int, *alternatives: int, sure: bool = True) -> AssumedPod:
    """A pod whose binding is in progress."""
    numa = on(numa_id, pod.requests["cpu"] // 1000)
    others = frozenset(alternatives)
    return AssumedPod(
        pod.key,
        pod.uid,
        "n",
        numa,
        pod.requests,
        None,
        1e9,
        is_binding=True,
        sure=sure and not others,
        alternatives=others,
    )


class OneNode:
    """The assumed pods of one node, driven by events."""

    def __init__(self, **changes: object) -> None:
        self.keeper = AssumedPods(Ledger())
        self.written = 0
        self._changes = changes
        self.scan((0, 0))

    def scan(self, taken: Sequence[int], *counted: str) -> None:
        """An NRT with so many CPUs taken, by these pods."""
        self.written += 1000
        machine = topology(node="n", free=cpus(*(CPUS - cpu for cpu in taken)), capacity={"cpu": 1000 * CPUS})
        seen = pod_fingerprint(("default", name) for name in counted)
        self.tell(replace(machine, fingerprint=seen, written_at=self.written, **self._changes))  # type: ignore[arg-type]

    def tell(self, *items: ResidentPod | NodeTopology | AssumedPod, now: float = NOW) -> None:
        for item in items:
            match item:
                case ResidentPod():
                    self.keeper.put_pod(item, now=now)
                case NodeTopology():
                    self.keeper.put_topology(item)
                case AssumedPod():
                    self.keeper.assume(item)
            self.keeper.settle(now)

    def end(self, pod: ResidentPod, at: int) -> None:
        self.tell(replace(pod, terminal=True, ended_at=at))

    def bind(
        self, name: str, cpu: int, numa_id: int, *alternatives: int, at: int = 10, started: bool = True
    ) -> ResidentPod:
        """Bind a pod here, with an allocation if it is certain."""
        waiting = pod(name, cpu, at=at)
        self.tell(assumed_pod(waiting, numa_id, *alternatives))
        bound = pod(name, cpu, None if alternatives else numa_id, at=at, started=started)
        self.tell(bound)
        return bound

    def changes(self) -> Mapping[str, list[int] | None]:
        """Pod -> NUMA nodes that its allocation should name, None for none. The changes are applied at once."""
        found = {}
        for change in tuple(self.keeper.allocations.changes()):
            found[change.pod.partition("/")[2]] = (
                None if change.allocation is None else [numa for numa, _ in change.allocation]
            )
            self.keeper.allocations.written(change)
        return found

    def leeway(self) -> Leeway:
        """For another pod."""
        return self.keeper.leeway("n", "default/other", NOW)


def test_an_allocation_that_was_replayed_for_certain_stays() -> None:
    node = OneNode()
    node.bind("a", 5, 0)
    assert node.changes() == {}
    assert not node.leeway()


def test_a_pod_that_is_bound_without_an_allocation_gets_it_when_the_nrt_shows_where_it_is() -> None:
    node = OneNode()
    node.bind("a", 5, 1, 0)
    assert node.leeway().kept == [{**on(0, 5), **on(1, 5)}]
    node.scan((5, 0), "a")
    assert node.changes() == {"a": [0]}
    assert node.changes() == {}
    assert not node.leeway()


def test_an_allocation_is_taken_away_when_a_pod_ends_whose_room_it_may_have_found() -> None:
    node = OneNode()
    ending = node.bind("ending", 10, 0, at=5)
    node.bind("a", 10, 1, started=False)
    node.end(ending, at=11)
    assert node.changes() == {"a": None}
    node.scan((0, 10), "a")
    assert node.changes() == {"a": [1]}


def test_and_put_right_when_it_did() -> None:
    node = OneNode()
    ending = node.bind("ending", 10, 0, at=5)
    node.bind("a", 10, 1, started=False)
    node.end(ending, at=11)
    node.scan((10, 0), "a")
    assert node.changes() == {"a": [0]}


@pytest.mark.parametrize(("ended_at", "doubted"), [(11, True), (12, False)])
def test_one_that_had_started_before_another_ended_has_not_found_its_room(ended_at: int, doubted: bool) -> None:
    # Started in second 11. Within one second nobody knows what was first.
    node = OneNode()
    ending = node.bind("ending", 10, 0, at=5)
    node.bind("a", 10, 1)
    node.end(ending, at=ended_at)
    assert node.changes() == ({"a": None} if doubted else {})


def test_a_rejected_pod_was_never_there_for_those_that_came_after_it() -> None:
    node = OneNode()
    node.bind("before", 4, 1, at=4)
    rejected = node.bind("rejected", 10, 0, at=5)
    node.bind("a", 10, 1)
    node.tell(replace(rejected, terminal=True))
    assert node.changes() == {"a": None}


def test_those_that_came_after_a_displaced_pod_are_in_doubt_with_it() -> None:
    node = OneNode()
    ending = node.bind("ending", 9, 0, at=5)
    node.bind("a", 9, 1, at=10, started=False)
    node.bind("b", 9, 0, at=20)
    node.end(ending, at=11)
    # If a found the room of NUMA 0, b found that of NUMA 1.
    assert node.changes() == {"a": None, "b": None}
    node.scan((9, 9), "a", "b")
    assert node.changes() == {}  # nobody can tell which is which


def test_what_an_nrt_has_counted_is_in_doubt_no_more() -> None:
    node = OneNode()
    ending = node.bind("ending", 10, 0, at=5)
    node.bind("a", 10, 1)
    node.scan((10, 10), "ending", "a")
    node.end(ending, at=11)
    assert node.changes() == {}


def test_a_pod_whose_gift_is_not_known_puts_the_next_one_in_doubt() -> None:
    node = OneNode()
    next_one = pod("a", 10, at=11)
    node.tell(assumed_pod(next_one, 0))
    node.tell(pod("unallocated", 10))
    node.tell(pod("a", 10, 0, at=11))
    assert node.changes() == {"a": None}
    node.scan((10, 10), "unallocated", "a")
    assert node.changes() == {}
    node.end(pod("unallocated", 10), at=1500)
    node.scan((0, 10), "a")
    assert node.changes() == {"a": [1]}


def test_where_a_pod_is_of_which_nothing_is_known_follows_from_the_others() -> None:
    node = OneNode()
    node.tell(pod("unallocated", 7))
    node.bind("a", 10, 0, 1, at=11)
    node.scan((7, 10), "unallocated", "a")
    assert node.changes() == {"a": [1]}


def test_an_nrt_that_shows_a_pod_elsewhere_corrects_its_allocation() -> None:
    node = OneNode()
    node.bind("a", 5, 0)
    node.bind("b", 7, 0)
    node.scan((7, 5), "a", "b")
    assert node.changes() == {"a": [1]}


def test_and_puts_those_in_doubt_that_were_replayed_with_it() -> None:
    node = OneNode()
    node.bind("a", 5, 0)
    node.bind("b", 11, 0, at=20)
    node.scan((0, 5), "a")
    assert node.changes() == {"a": [1], "b": None}


def test_a_contradiction_that_nothing_explains_leaves_no_allocation() -> None:
    node = OneNode()
    node.bind("a", 5, 0)
    node.bind("b", 5, 0)
    node.scan((4, 6), "a", "b")
    assert node.changes() == {"a": None, "b": None}


def test_an_nrt_in_which_something_else_is_taken_contradicts_no_allocation() -> None:
    node = OneNode()
    node.bind("a", 5, 0)
    node.scan((1, 6), "a")
    assert node.changes() == {}


@pytest.mark.parametrize("changes", [{"publisher": Publisher.TOTAL}, {"policy": NUMAPolicy.NONE}])
def test_where_an_agent_does_as_it_is_told_no_allocation_is_in_doubt(changes: Mapping[str, object]) -> None:
    node = OneNode(**changes)
    ending = node.bind("ending", 10, 0, at=5)
    node.bind("a", 10, 1, started=False)
    node.end(ending, at=11)
    assert node.changes() == {}


def unreviewed(name: str, cpu: int, numa_id: int, *, started: bool = True) -> ResidentPod:
    """A bound pod that still has the allocation of its assignment."""
    return replace(pod(name, cpu, numa_id, started=started), unreviewed=True)


def test_a_placed_pod_whose_binding_nobody_judged_has_no_allocation_until_it_is_counted() -> None:
    node = OneNode()
    node.tell(unreviewed("a", 5, 1))
    assert node.changes() == {"a": None}
    node.scan((0, 5), "a")
    assert node.changes() == {"a": [1]}


def test_one_that_is_counted_first_has_the_same_allocation_written_as_certain() -> None:
    node = OneNode()
    node.tell(unreviewed("a", 5, 1))
    node.scan((0, 5), "a")
    assert node.changes() == {"a": [1]}
    assert node.changes() == {}


def test_so_has_one_whose_review_the_binding_did_not_take() -> None:
    node = OneNode()
    node.tell(assumed_pod(pod("a", 5), 1), unreviewed("a", 5, 1))
    assert node.changes() == {"a": [1]}


def test_a_follower_takes_it_for_certain_when_the_leader_has_written_that() -> None:
    node = OneNode()
    node.tell(unreviewed("a", 5, 1))
    assert node.leeway()
    node.tell(pod("a", 5, 1))
    assert not node.leeway()
    assert node.changes() == {}


@pytest.mark.parametrize("nrt_first", [True, False])
def test_where_the_service_chooses_an_allocation_holds_without_a_review(*, nrt_first: bool) -> None:
    node = OneNode(policy=NUMAPolicy.NONE)
    if not nrt_first:
        node.keeper.drop_topology("n")
    node.tell(unreviewed("a", 5, 1))
    node.scan((0, 0))
    assert node.changes() == {}


def test_an_nrt_that_names_a_recreated_pod_may_mean_the_earlier_one() -> None:
    node = OneNode()
    earlier = node.bind("a", 10, 1, at=1000)
    node.scan((0, 10), "a")  # at 2000
    node.end(earlier, at=2000)
    node.tell(replace(pod("a", 10, 0, at=2000), uid="the next"))
    assert node.changes() == {}
    node.scan((10, 0), "a")
    assert node.changes() == {}
    assert node.keeper.allocations.certainty("default/a") is Certainty.CONFIRMED


def test_so_may_one_that_names_a_pod_from_a_list() -> None:
    node = OneNode()
    node.scan((0, 10), "a")  # at 2000
    node.keeper.put_pod(pod("a", 10, 0, at=1995), in_order=False)
    node.keeper.settle(1996)
    assert node.changes() == {}
    node.tell(pod("a", 10, 0, at=1995, started=False), now=1995 + 120)
    assert node.changes() == {"a": [1]}, "nothing followed in time"


def test_and_it_puts_a_pod_in_doubt_whose_binding_is_on_its_way() -> None:
    node = OneNode()
    node.tell(assumed_pod(pod("b", 10), 0))
    node.tell(unreviewed("a", 10, 1), pod("b", 10, 0, at=11))  # the kubelet gives "a" NUMA node 0: it comes first
    assert node.changes() == {"a": None, "b": None}
    node.scan((10, 10), "a", "b")
    assert node.changes() == {}, "either may be on either"


def test_room_that_another_pod_leaves_does_not_narrow_down_where_it_may_be() -> None:
    node = OneNode()
    node.scan((0, 0, 0))
    node.bind("first", 5, 0)
    for name, numa_id in (("a", 1), ("b", 2)):
        node.tell(unreviewed(name, 5, numa_id, started=False))
    assert node.changes() == {"a": None, "b": None}
    node.end(pod("first", 5, 0), at=12)
    node.scan((0, 5, 5), "a", "b")
    assert node.changes() == {}, "either may be on either"


def test_a_follower_goes_by_what_the_pod_shows() -> None:
    node = OneNode()
    node.tell(pod("a", 5, 1))
    node.tell(pod("a", 5, 0))  # the leader has corrected it
    node.scan((5, 0), "a")
    assert node.changes() == {}


def test_a_name_that_comes_again_is_another_pod() -> None:
    node = OneNode()
    node.bind("a", 5, 1, 0)
    node.tell(replace(pod("a", 5, 0), uid="the next"))
    assert node.changes() == {}


def test_a_binding_that_does_not_come_leaves_nothing() -> None:
    node = OneNode()
    node.tell(assumed_pod(pod("a", 5), 1, 0))
    node.keeper.forget("default/a")
    node.tell(pod("a", 5, 1))
    assert node.changes() == {}


def test_of_a_doubt_that_no_nrt_ends_it_is_told() -> None:
    node = OneNode()
    node.bind("a", 5, 1, 0)
    assert [uncertain.key for uncertain in node.keeper.uncertain(10 + 119)] == []
    assert [uncertain.key for uncertain in node.keeper.uncertain(10 + 120)] == ["default/a"]


def test_an_allocation_over_a_blank_one_is_taken_away_altogether() -> None:
    node = OneNode()
    waiting = pod("a", 5)
    node.tell(assumed_pod(waiting, 1, 0), pod("a", 5))
    assert node.changes() == {"a": None}
    assert node.changes() == {}


def test_a_pod_that_its_kubelet_does_not_align_needs_no_allocation() -> None:
    node = OneNode()
    waiting = pod("a", 5)
    node.tell(replace(assumed_pod(waiting, 0), numa={}), pod("a", 5))
    assert node.changes() == {}
    assert tuple(node.keeper.allocations.uncertain(NOW)) == ()


def test_it_may_be_forgotten_which_pods_ended() -> None:
    # Of the pods that ended on a node the last eight are remembered. The NRT has counted more.
    node = OneNode()
    many = [node.bind(f"p{n}", 1, 0, at=5) for n in range(10)]
    node.scan((10, 0), *(f"p{n}" for n in range(10)))
    for bound in many:
        node.end(bound, at=node.written)
    assert node.leeway().maybe_free == [{0: {"cpu": 10_000}, 1: {"cpu": 0}}]


def test_what_an_unmanaged_pod_was_given_is_kept_and_never_allocated() -> None:
    node = OneNode()
    unmanaged = pod("unmanaged", 10)
    node.tell(unmanaged)
    assert [newcomer.key for newcomer in node.keeper.allocations.newcomers()] == ["default/unmanaged"]
    assert not node.keeper.is_counted(unmanaged)
    node.keeper.keep_for(unmanaged, on(0, 10), frozenset(), sure=True)
    node.keeper.settle(NOW)
    assert not node.leeway()
    node.bind("a", 10, 1, 0, at=11)
    # Where one is, the other is not: equal as they are, they can be told apart.
    node.scan((10, 10), "unmanaged", "a")
    assert node.changes() == {"a": [1]}
