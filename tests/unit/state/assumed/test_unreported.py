"""Which pods an NRT has counted, by its fingerprint, its time and what it shows as taken."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.builders.records import GI, cpus, resident, topology
from tests.fingerprints import pod_fingerprint
from webhook.formats.kubernetes.pod import QoS
from webhook.formats.kubernetes.pod_resources import Container, ContainerKind
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import FingerprintMethod, NodeTopology, Publisher
from webhook.state.assumed.node_state import reported_pods
from webhook.state.assumed.unreported import NOTHING, ReportingTimes, Unreported, unreported

ALL = FingerprintMethod.ALL
TIMES = ReportingTimes(settle=10, age=120)
WHOLE = {"cpu": 8000}
WHOLE_A = {"cpu": 2000}


def bound(name: str, at: int | None, numa: int | None = 0, cpu: int = 2000) -> ResidentPod:
    """A pod bound to "n" at a second, with so many millicores of a NUMA node."""
    held = None if numa is None else {numa: {"cpu": cpu}}
    return replace(
        resident(name=name, node="n", requests={"cpu": cpu}, numa=held), bound_at=at, exclusive_beyond_memory=True
    )


def fingerprint(*pods: ResidentPod) -> str:
    return pod_fingerprint((pod.namespace, pod.name) for pod in pods)


def keys(*pods: ResidentPod) -> frozenset[str]:
    return frozenset(pod.key for pod in pods)


A, B, C, D = bound("a", 1), bound("b", 2), bound("c", 3), bound("d", 4)


@pytest.mark.parametrize("seen", [(), (A,), (A, B), (A, B, C), (A, B, C, D)])
def test_pods_bound_after_the_scan_are_told_from_those_before(seen: Sequence[ResidentPod]) -> None:
    assert reported_pods(fingerprint(*seen), ALL, [D, B, A, C], ()) == keys(*seen)


def test_more_pods_than_are_bound_between_two_scans_still_leave_an_empty_scan_readable() -> None:
    many = [bound(f"p{n}", n) for n in range(40)]
    assert reported_pods(fingerprint(), ALL, many, ()) == frozenset()
    assert reported_pods(fingerprint(*many[:24]), ALL, many, ()) == keys(*many[:24])
    assert reported_pods(fingerprint(*many[:23]), ALL, many, ()) is None


def test_a_scan_that_saw_a_pod_which_has_ended_since_is_readable() -> None:
    assert reported_pods(fingerprint(A, B, C), ALL, [A, D], [C, B]) == keys(A, B, C)
    assert reported_pods(fingerprint(A, C), ALL, [A, D], [C, B]) == keys(A, C)


def test_a_scan_that_no_set_of_pods_explains_says_nothing() -> None:
    assert reported_pods(fingerprint(A, C), ALL, [A, B, C, D], ()) is None


def test_an_exporter_may_see_only_pods_with_exclusive_resources() -> None:
    # Without a memory manager a Guaranteed pod with half a CPU has nothing exclusive; the NRT does not say.
    shared = replace(B, qos=QoS.BURSTABLE, exclusive_resources=False, exclusive_beyond_memory=False)
    half = replace(C, exclusive_beyond_memory=False)
    only = FingerprintMethod.WITH_EXCLUSIVE_RESOURCES
    assert reported_pods(fingerprint(A, half), only, [A, shared, half], ()) == keys(A, half)
    assert reported_pods(fingerprint(A), only, [A, shared, half], ()) == keys(A)
    assert reported_pods(fingerprint(A, shared, half), only, [A, shared, half], ()) is None


def node(free: Sequence[int], written: int | None = 100) -> NodeTopology:
    """Two NUMA nodes of 8 CPUs with so many free, last written at a second."""
    return replace(topology(node="n", free=cpus(*free), capacity=WHOLE), written_at=written)


def held(*pods: ResidentPod) -> dict[str, Mapping[int, Mapping[str, int]]]:
    return {pod.key: dict(pod.allocation or ()) for pod in pods}


def test_totals_count_no_pod_and_the_state_takes_them_off() -> None:
    total = replace(node((8, 8)), publisher=Publisher.TOTAL)
    assert unreported(total, [A], None, TIMES, 1000) == NOTHING


def test_what_the_fingerprint_covers_is_counted_and_the_rest_is_not() -> None:
    assert unreported(node((6, 8)), [A, B], keys(A), TIMES, 1000) == Unreported(held(B), None)


def test_a_pod_without_numa_nodes_of_its_own_reserves_nothing() -> None:
    assert unreported(node((8, 8)), [bound("a", 500, None)], None, TIMES, 1000).amounts == {}


def test_without_an_nrt_all_is_unreported() -> None:
    assert unreported(None, [A], None, TIMES, 1000).amounts == held(A)


def test_an_nrt_written_before_the_pod_was_bound_has_not_counted_it_however_old_it_gets() -> None:
    late = bound("a", 101)
    assert unreported(node((6, 8)), [late], None, TIMES, 1e9) == Unreported(held(late), None)
    # A StatefulSet's pod has the name of the one before it.
    assert unreported(node((6, 8)), [late], keys(late), TIMES, 1e9) == Unreported(held(late), None)


def test_without_a_fingerprint_an_nrt_written_long_enough_after_the_binding_has_counted_the_pod() -> None:
    assert unreported(node((6, 8)), [bound("a", 90)], None, TIMES, 101) == NOTHING


def test_without_a_fingerprint_one_written_soon_after_it_has_when_nothing_follows() -> None:
    soon = bound("a", 95)
    assert unreported(node((6, 8)), [soon], None, TIMES, 101) == Unreported(held(soon), 215, maybe_counted=held(soon))
    assert unreported(node((6, 8)), [soon], None, TIMES, 215) == NOTHING


def test_a_covered_name_may_mean_the_earlier_pod_of_a_recreated_one() -> None:
    soon, earlier = bound("a", 95), replace(bound("a", 1, numa=1), uid="earlier", terminal=True, ended_at=95)
    both_may_hold = Unreported(held(soon), 215, maybe_free={0: WHOLE_A, 1: WHOLE_A}, maybe_counted=held(soon))
    assert unreported(node((8, 6)), [soon], keys(soon), TIMES, 101, [earlier]) == both_may_hold
    assert unreported(node((6, 8)), [soon], keys(soon), TIMES, 215, [earlier]).amounts == {}
    assert unreported(node((8, 8)), [soon], frozenset(), TIMES, 101, [earlier]) == Unreported(held(soon), None)


def test_what_an_exporter_cannot_count_stays_reserved() -> None:
    # A pod that we bound to a NUMA node, but to which the kubelet gives nothing exclusive.
    shared = replace(A, qos=QoS.BURSTABLE, exclusive_resources=False)
    assert unreported(node((4, 4)), [shared], keys(shared), TIMES, 1000).amounts == held(shared)


def test_a_resource_that_the_nrt_shows_as_free_is_not_counted_whatever_the_fingerprint_says() -> None:
    # A kubelet without a memory manager: its CPUs are counted, its memory never is.
    free = [{"cpu": 6000, "memory": 64 * GI}]
    machine = replace(topology(node="n", free=free, capacity={"cpu": 8000, "memory": 64 * GI}), written_at=100)
    pod = replace(A, allocation=((0, {"cpu": 2000, "memory": 4 * GI}),))
    assert unreported(machine, [pod], keys(pod), TIMES, 1000).amounts == {pod.key: {0: {"memory": 4 * GI}}}


def test_what_the_nrt_does_not_show_as_taken_is_laid_on_the_pods_bound_last() -> None:
    # 4 pods hold 8 CPUs, 3 are taken.
    assert unreported(node((5, 8)), [A, B, C, D], keys(A, B, C, D), TIMES, 1000).amounts == {
        **held(D, C),
        B.key: {0: {"cpu": 1000}},
    }


def test_what_an_init_container_had_is_what_the_nrt_does_not_show_whatever_was_bound_later() -> None:
    # a: an init container of 6 CPUs, then one of 1, on NUMA 0; c: 2 CPUs on NUMA 1. 1 and 2 are shown as taken.
    first, later = bound("a", 1, cpu=6000), bound("c", 3, numa=1)
    containers = tuple(
        Container(name=name, kind=kind, requests={"cpu": cpu}, limits={"cpu": cpu})
        for name, kind, cpu in (("init", ContainerKind.INIT, 6000), ("main", ContainerKind.APP, 1000))
    )
    first = replace(first, containers=containers)
    found = unreported(node((7, 6)), [first, later], keys(first, later), TIMES, 1000)
    assert found.amounts == {first.key: {0: {"cpu": 5000}}}
    # One more CPU is missing: it is laid on the pod bound last.
    found = unreported(node((8, 6)), [first, later], keys(first, later), TIMES, 1000)
    assert found.amounts == {first.key: {0: {"cpu": 5000}}, later.key: {1: {"cpu": 1000}}}


def test_a_kubelet_may_choose_another_numa_node_than_was_foretold() -> None:
    # a ── NUMA 0 [8]  NUMA 1 [6]      [free cpus of 8]; the allocation says NUMA 0.
    assert unreported(node((8, 6)), [A], keys(A), TIMES, 1000) == NOTHING


def test_pods_of_one_second_are_told_apart_by_the_order_in_which_they_were_seen_bound() -> None:
    late, early = bound("a", 5), bound("b", 5)
    assert reported_pods(fingerprint(early), ALL, [early, late], ()) == keys(early)
    # Who has seen no order goes by name.
    assert reported_pods(fingerprint(late), ALL, [early, late], ()) == keys(late)


def test_what_the_nrt_shows_as_taken_by_pods_that_have_ended_is_given_back() -> None:
    # a, b ── NUMA 0 [4]  NUMA 1 [8]      [free cpus of 8]; b has ended.
    rest = unreported(node((4, 8)), [A], keys(A, B), TIMES, 1000, [B], held(A, B))
    assert rest == Unreported({}, None, {0: {"cpu": 2000}})


def test_nothing_is_given_back_of_a_pod_that_may_be_anywhere() -> None:
    # a, b ── NUMA 0 [6]  NUMA 1 [6]      [free cpus of 8]; both allocations say NUMA 0; b has ended, from either.
    rest = unreported(node((6, 6)), [A], keys(A, B), TIMES, 1000, [B])
    assert rest == Unreported({}, None, maybe_free={0: {"cpu": 2000}, 1: {"cpu": 2000}})


def test_it_is_uncertain_whether_an_nrt_without_fingerprint_still_counts_a_pod_that_ended() -> None:
    # Where its allocation says, for nothing else is known of it.
    assert unreported(node((4, 8)), [A], None, TIMES, 1000, [B]) == Unreported({}, None, maybe_free=held(B)[B.key])


def test_it_may_have_been_anywhere_if_the_fingerprint_stands_for_no_pods_that_are_known() -> None:
    unreadable = replace(node((4, 8)), fingerprint="pfp0v0010000000000000000")
    anywhere = {0: {"cpu": 2000}, 1: {"cpu": 2000}}
    assert unreported(unreadable, [A], None, TIMES, 1000, [B]) == Unreported({}, None, maybe_free=anywhere)
