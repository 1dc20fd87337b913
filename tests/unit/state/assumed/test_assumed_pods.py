"""The ledger follows the cluster: when a pod is assumed, when its reservation ends, and when its time comes."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.records import cpus, resident, topology
from tests.fingerprints import pod_fingerprint
from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.model.policy import NUMAPolicy
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.assumed.assumed_pods import AssumedPods
from webhook.state.assumed.derived_reservations import DueTimes

NUMA = {0: {"cpu": 2000}}
ALL_OF_IT = {"cpu": 2000, "pods": 1}


def waiting(name: str = "p") -> ResidentPod:
    return resident(name=name, node="", requests={"cpu": 2000})


def assigned(name: str = "p", node: str = "n") -> ResidentPod:
    return replace(resident(name=name, node="", requests={"cpu": 2000}, numa=NUMA), assigned_node=node)


def bound(name: str = "p", node: str = "n") -> ResidentPod:
    return replace(resident(name=name, node=node, requests={"cpu": 2000}, numa=NUMA), bound_at=50)


def scanned(*pods: ResidentPod, written: int = 100) -> NodeTopology:
    """The NRT of "n" by an exporter that saw these pods, all on the first of two NUMA nodes of 8 CPUs."""
    seen = pod_fingerprint((pod.namespace, pod.name) for pod in pods)
    free = topology(node="n", free=cpus(8 - 2 * len(pods), 8), capacity={"cpu": 8000})
    return replace(free, fingerprint=seen, written_at=written)


def assumed_pod(pod: ResidentPod, node: str = "n", expires: float = 70) -> AssumedPod:
    return AssumedPod(pod.key, pod.uid, node, NUMA, {"cpu": 2000}, None, expires)


class Keeping:
    """The assumed pods of a cluster that has told of these."""

    def __init__(self, *told: ResidentPod | NodeTopology) -> None:
        self.ledger = Ledger()
        self.keeper = AssumedPods(self.ledger)
        self.tell(*told)

    def tell(self, *items: ResidentPod | NodeTopology) -> None:
        for item in items:
            if isinstance(item, ResidentPod):
                self.keeper.put_pod(item)
            else:
                self.keeper.put_topology(item)

    def reserved(self, node: str = "n", now: float = 1000) -> tuple[dict[int, dict[str, int]], dict[str, int]]:
        """What the ledger holds on the node, after settling."""
        self.keeper.settle(now)
        sums = self.ledger.sums(node)
        return sums.numa, sums.requests

    def given_back(self) -> NumaAmounts:
        """What is free before the NRT says so, after settling."""
        self.keeper.settle(1000)
        return self.ledger.sums("n").ended

    def held(self, name: str) -> NumaAmounts:
        """What is reserved for one pod."""
        reservation = self.ledger.get(f"default/{name}")
        assert reservation is not None
        return reservation.numa


def test_the_node_of_an_assumed_pod_that_is_only_renewed_need_not_be_settled() -> None:
    cluster = Keeping()
    cluster.keeper.assume(assumed_pod(waiting()))
    cluster.reserved()
    renewed = assumed_pod(waiting(), expires=90)
    cluster.keeper.assume(renewed)
    assert not cluster.keeper._marked
    assert cluster.reserved() == (NUMA, ALL_OF_IT)
    assert cluster.keeper.assumed_by("default/p") is renewed
    assert (cluster.keeper.expired(80), cluster.keeper.expired(95)) == ((), (renewed,))
    cluster.keeper.forget("default/p")
    assert cluster.reserved() == ({}, {})


def test_many_nodes_can_be_settled_in_parts() -> None:
    keeping = Keeping()
    for node in "abc":
        keeping.tell(assigned(f"p-{node}", node))
    assert not keeping.keeper.settle_some(2, 1000)
    assert len(keeping.ledger) == 2
    assert keeping.keeper.settle_some(2, 1000)
    assert len(keeping.ledger) == 3
    assert keeping.keeper.settle_some(2, 1000)


def test_a_placed_pod_is_assumed_all_it_asks_for() -> None:
    keeping = Keeping(waiting(), scanned())
    assert keeping.reserved() == ({}, {})
    keeping.tell(assigned())
    assert keeping.reserved() == (NUMA, ALL_OF_IT)


def test_a_bound_pod_is_assumed_its_numa_nodes_until_its_nrt_counts_it() -> None:
    keeping = Keeping(assigned(), scanned(), bound())
    assert keeping.reserved() == (NUMA, {})
    keeping.tell(scanned(bound(), written=101))
    assert keeping.reserved() == ({}, {})
    # What the fingerprint stands for is known; another pod does not unsettle it.
    keeping.tell(bound("q"))
    assert keeping.reserved() == (NUMA, {})


def test_where_totals_are_published_only_the_state_counts_bound_pods() -> None:
    keeping = Keeping(replace(scanned(), publisher=Publisher.TOTAL), assigned())
    assert keeping.reserved() == (NUMA, ALL_OF_IT)
    keeping.tell(bound())
    assert keeping.reserved() == ({}, {})


@pytest.mark.parametrize("end", [replace(bound(), terminal=True), None], ids=["ends", "goes"])
def test_a_pod_that_ends_or_goes_gives_back_what_it_was_assumed(end: ResidentPod | None) -> None:
    keeping = Keeping(scanned(), bound())
    keeping.keeper.settle(1000)
    if end is None:
        keeping.keeper.drop_pod("default/p")
    else:
        keeping.tell(end)
    assert keeping.reserved() == ({}, {})


def test_a_name_that_comes_again_is_another_pod() -> None:
    keeping = Keeping(scanned(bound()), bound())
    assert keeping.reserved() == ({}, {})
    keeping.tell(replace(bound(), uid="the next", bound_at=101))
    assert keeping.reserved() == (NUMA, {})


def test_an_assumed_pod_holds_until_its_pod_is_seen_bound() -> None:
    keeping = Keeping(scanned(), waiting())
    keeping.keeper.assume(assumed_pod(waiting()))
    assert keeping.reserved() == (NUMA, ALL_OF_IT)
    keeping.tell(waiting())
    assert keeping.reserved() == (NUMA, ALL_OF_IT)
    keeping.tell(bound())
    assert keeping.reserved() == (NUMA, {})
    assert keeping.keeper.expired(1e9) == ()


@pytest.mark.parametrize("gone", [None, replace(waiting(), uid="the next")], ids=["its pod", "that incarnation of it"])
def test_an_assumed_pod_is_released_with_its_pod_and_with_that_incarnation_of_it(gone: ResidentPod | None) -> None:
    keeping = Keeping(waiting())
    keeping.keeper.assume(assumed_pod(waiting()))
    if gone is None:
        keeping.keeper.drop_pod("default/p")
    else:
        keeping.tell(gone)
    assert keeping.reserved() == ({}, {})


def test_an_assumed_pod_leaves_its_node_for_another_one_that_its_pod_came_to_or_was_assumed_on() -> None:
    keeping = Keeping()
    keeping.keeper.assume(assumed_pod(waiting()))
    keeping.keeper.assume(assumed_pod(waiting(), node="m"))
    assert (keeping.reserved("n"), keeping.reserved("m")) == (({}, {}), (NUMA, ALL_OF_IT))
    keeping.tell(bound(node="o"))
    assert (keeping.reserved("m"), keeping.reserved("o")) == (({}, {}), (NUMA, {}))


def test_a_pod_that_shows_what_it_was_granted_needs_no_assumed_pod_and_is_what_is_left_of_a_later_one() -> None:
    keeping = Keeping(waiting())
    keeping.keeper.assume(assumed_pod(waiting()))
    keeping.tell(assigned())
    assert keeping.keeper.assumed_by("default/p") is None
    assert keeping.reserved() == (NUMA, ALL_OF_IT)
    keeping.keeper.assume(replace(assumed_pod(waiting()), numa=ON_1))
    assert keeping.reserved() == (ON_1, ALL_OF_IT)
    keeping.keeper.forget("default/p")
    assert keeping.reserved() == (NUMA, ALL_OF_IT)


def test_what_a_pod_was_assigned_is_kept_for_it_while_a_binding_gives_it_another_numa_node() -> None:
    keeping = Keeping(assigned())
    other = replace(assumed_pod(assigned()), numa={1: {"cpu": 2000}}, is_binding=True)
    keeping.keeper.assume(other)
    assert keeping.reserved() == ({0: {"cpu": 2000}, 1: {"cpu": 2000}}, ALL_OF_IT)
    keeping.tell(replace(bound(), allocation=((1, {"cpu": 2000}),)))
    assert keeping.reserved()[0] == {1: {"cpu": 2000}}


def test_an_assumed_pod_is_expired_after_its_time_and_given_back_on_request() -> None:
    keeping = Keeping(waiting())
    keeping.keeper.assume(assumed_pod(waiting(), expires=70))
    assert keeping.keeper.expired(69.9) == ()
    (expired,) = keeping.keeper.expired(70)
    assert keeping.reserved() == (NUMA, ALL_OF_IT)
    keeping.keeper.forget(expired.pod)
    assert keeping.reserved() == ({}, {})


def test_time_alone_settles_what_has_no_fingerprint() -> None:
    keeping = Keeping(replace(scanned(bound(), written=55), fingerprint=None), bound())
    keeping.keeper.settle(100)
    assert keeping.ledger.sums("n").numa == NUMA
    keeping.keeper.settle(169)
    assert keeping.ledger.sums("n").numa == NUMA
    keeping.keeper.settle(170)
    assert not keeping.ledger.sums("n")


def test_nothing_is_reserved_again_while_nothing_changes() -> None:
    keeping = Keeping(scanned(), bound())
    keeping.keeper.settle(1000)
    before = keeping.ledger.get("default/p")
    keeping.tell(scanned(written=101))
    keeping.keeper.settle(1000)
    assert keeping.ledger.get("default/p") is before


def ended(name: str = "p", at: int = 99) -> ResidentPod:
    return replace(bound(name), terminal=True, ended_at=at)


# n ── NUMA 0 [2]  NUMA 1 [8]      [cpus]: p, of 2, is on NUMA 0; q, of 2, comes and is given NUMA 1.
ON_1 = {1: {"cpu": 2000}}


def on_the_way(name: str = "q") -> ResidentPod:
    return replace(resident(name=name, node="n", requests={"cpu": 2000}, numa=ON_1), bound_at=990, started=False)


def test_what_a_pod_held_that_ended_is_free_before_its_nrt_says_so() -> None:
    keeping = Keeping(bound(), bound("q"), scanned(bound(), bound("q")))
    assert keeping.given_back() == {}
    keeping.tell(ended())
    assert keeping.given_back() == NUMA
    keeping.tell(scanned(bound("q"), written=101))
    assert keeping.given_back() == {}
    # A replica that starts learns of it from the ended pod.
    assert Keeping(scanned(bound(), bound("q")), ended(), bound("q")).given_back() == NUMA


def test_a_pod_on_its_way_to_a_node_where_another_one_ends_may_be_on_either_numa_node() -> None:
    keeping = Keeping(scanned(bound()), bound(), on_the_way())
    assert keeping.reserved()[0] == ON_1
    keeping.tell(ended())
    assert keeping.reserved()[0] == {**NUMA, **ON_1}
    keeping.tell(scanned(on_the_way(), written=991))
    assert keeping.reserved()[0] == {}
    # One that has started is where its allocation says.
    started = replace(on_the_way(), started=True)
    assert Keeping(scanned(bound()), bound(), started, ended()).reserved()[0] == ON_1
    # And so may one whose binding is under way.
    keeping = Keeping(scanned(bound()), bound(), waiting("q"))
    keeping.keeper.assume(replace(assumed_pod(waiting("q")), numa=ON_1, is_binding=True))
    for news in (ended(), on_the_way()):
        keeping.tell(news)
        assert keeping.reserved()[0] == {**NUMA, **ON_1}


def test_what_nobody_answers_in_time_is_no_doubt_any_more() -> None:
    for started, end in ((False, 990 + 30), (True, 990 + 120)):
        keeping = Keeping()
        keeping.tell(scanned(bound()), bound(), on_the_way(), ended())
        keeping.tell(replace(on_the_way(), started=started))
        assert keeping.reserved(now=end - 1)[0] == {**NUMA, **ON_1}
        assert keeping.reserved(now=end)[0] == ON_1


def test_a_pod_for_which_its_kubelet_may_choose_otherwise_is_kept_all_of_it_everywhere() -> None:
    keeping = Keeping(scanned(), waiting())
    unsure = replace(assumed_pod(waiting()), numa=ON_1, is_binding=True, sure=False, alternatives=frozenset({0}))
    keeping.keeper.assume(unsure)
    assert keeping.held("p") == {**NUMA, **ON_1}
    # The same when it is seen bound, without an allocation.
    keeping.tell(replace(resident(name="p", node="n", requests={"cpu": 2000}), bound_at=990, unallocated=True))
    assert keeping.reserved()[0] == {**NUMA, **ON_1}


def test_an_allocation_that_no_kubelet_obeys_is_not_written_once_the_pod_is_bound() -> None:
    pod = resident(name="p", node="n", requests={"cpu": 2000})
    for sure, allocation in ((True, tuple(ON_1.items())), (False, None)):  # koordlet; a kubelet with policy none
        keeping = Keeping()
        keeping.tell(replace(scanned(), policy=NUMAPolicy.NONE), waiting())
        others = frozenset() if sure else frozenset({0})
        given = replace(assumed_pod(waiting()), numa=ON_1, is_binding=True, chosen=True, sure=sure, alternatives=others)
        keeping.keeper.assume(given)
        keeping.tell(replace(pod, bound_at=990))
        assert [change.allocation for change in keeping.keeper.allocations.changes()] == [allocation]


def test_bindings_under_way_and_placed_pods_are_told_apart() -> None:
    keeping = Keeping(assigned(), waiting("q"), waiting("r"))
    keeping.keeper.assume(assumed_pod(waiting("q")))
    keeping.keeper.assume(replace(assumed_pod(waiting("r")), is_binding=True))
    keeping.keeper.settle(1000)
    assert [assumed.pod for assumed in keeping.keeper.assigned("n")] == ["default/p", "default/q"]
    assert [binding_to.pod for binding_to in keeping.keeper.binding_to("n")] == ["default/r"]


def test_the_room_of_a_nominated_pod_is_kept_by_the_sums_until_it_is_bound_or_nominated_elsewhere_or_gone() -> None:
    nominated = replace(waiting(), nominated="n")
    for end in (bound(), replace(waiting(), nominated="m"), waiting()):
        cluster = Keeping()
        cluster.tell(nominated)
        assert cluster.reserved() == ({}, ALL_OF_IT)
        cluster.tell(end)
        assert "pods" not in cluster.reserved()[1]
    cluster.tell(nominated)
    cluster.keeper.drop_pod(nominated.key)
    assert cluster.reserved() == ({}, {})


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
