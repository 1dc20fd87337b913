"""Where placed pods find room when others were bound before them, out of order."""

from tests.engine.machines import resident
from webhook.engine.reseat import Free, reseated
from webhook.engine.sums import NumaAmounts
from webhook.model.resident import ResidentPod


def placed(name: str, *numa_ids: int, cpu: int = 9) -> ResidentPod:
    return resident(name, "", {"cpu": cpu}, {numa_id: {"cpu": cpu} for numa_id in numa_ids})


def free(*cpus: int) -> Free:
    return {numa_id: {"cpu": amount} for numa_id, amount in enumerate(cpus)}


def seats(left: Free, *pods: ResidentPod) -> dict[str, NumaAmounts]:
    return {pod.name: numa for pod, numa in reseated(left, pods)}


def test_a_pod_whose_numa_node_has_room_keeps_it() -> None:
    assert seats(free(16, 16), placed("a", 1)) == {"a": {1: {"cpu": 9}}}


def test_a_pod_whose_room_was_taken_has_it_where_there_is_some_now() -> None:
    # a, of 9, was placed on NUMA node 0; another one of 9 was bound before it and got that: [7 16] left.
    assert seats(free(7, 16), placed("a", 0)) == {"a": {1: {"cpu": 9}}}


def test_it_takes_no_room_that_is_kept_for_another_one() -> None:
    assert seats(free(7, 16, 16), placed("a", 0), placed("b", 1)) == {"a": {2: {"cpu": 9}}, "b": {1: {"cpu": 9}}}


def test_a_pod_for_which_there_is_no_room_stays_as_one_on_several_numa_nodes_does() -> None:
    assert seats(free(7, 7), placed("a", 0)) == {"a": {0: {"cpu": 9}}}
    assert seats(free(7, 16, 16), placed("a", 0, 1)) == {"a": {0: {"cpu": 9}, 1: {"cpu": 9}}}
