"""Small parts of the engine: change log, name order, resource rows, requests, arrays."""

import numpy as np
import pytest

from tests.builders.records import GI, node, pod, state
from webhook.engine.arrays import Picker
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.cluster_state import NameOrder
from webhook.engine.snapshot.node_arrays import ChangeLog
from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.formats.koordinator.intent import NO_INTENT, NUMAIntent
from webhook.formats.kubernetes.pod import ContainerKind, QoS
from webhook.model.policy import NUMAPolicy


def test_a_change_log_tells_what_changed_since_a_version() -> None:
    log: ChangeLog[str] = ChangeLog()
    assert [log.append(changed) for changed in (["a"], ["b", "c"], [], ["a"])] == [1, 2, 3, 4]
    assert [log.since(version) for version in range(5)] == [{"a", "b", "c"}, {"a", "b", "c"}, {"a"}, {"a"}, set()]


def test_a_change_log_says_so_when_it_has_forgotten() -> None:
    log: ChangeLog[int] = ChangeLog()
    for number in range(2000):
        log.append([number])
    assert log.since(0) is None
    assert log.since(1990) == set(range(1990, 2000))


@pytest.mark.parametrize("burst", [1, 100])
def test_names_stay_in_order_through_additions_moves_and_removals(burst: int) -> None:
    order = NameOrder()
    expected: dict[str, int] = {}
    numbers = np.random.default_rng(7)
    for step in range(400):
        name = f"n{numbers.integers(60)}"
        if name in expected and step % 3 == 0:
            del expected[name]
            order.remove(name)
        else:
            expected[name] = step
            order.put(name, step)
        if step % burst == 0:
            assert order.columns().tolist() == [expected[name] for name in sorted(expected)]


def test_a_longer_resource_index_keeps_the_rows_of_the_shorter() -> None:
    short = ResourceIndex(["cpu", "memory"])
    longer = short.with_names(["gpu", "cpu"])
    assert longer.names == ("cpu", "memory", "gpu")
    assert (short.find("gpu"), longer.find("gpu"), len(short)) == (-1, 2, 2)


def test_a_request_has_a_column_for_every_resource_the_pod_names() -> None:
    resources = state(node(name="a")).node_arrays().resources
    spec = {
        "initContainers": [{"name": "init", "resources": {"requests": {"cpu": "1500m"}}}],
        "overhead": {"memory": "1Gi"},
    }
    request = PodRequest.of(pod({"cpu": "2", "x.io/gpu": "0"}, spec=spec), NO_INTENT, resources)
    assert request.resources == ("cpu", "memory", "x.io/gpu")
    assert request.rows == (resources.find("cpu"), resources.find("memory"), -1)
    assert request.names == ("init", "c0")
    assert request.kinds == (ContainerKind.INIT, ContainerKind.APP)
    assert request.containers == ((1500, -1, -1), (2000, -1, 0))
    assert request.integral_cpu == (False, True)
    assert request.overhead == (-1, GI, -1)
    assert request.node == (2000, GI, 0)
    assert request.qos is QoS.BURSTABLE
    assert not request.strict


def test_a_pod_that_asks_for_nothing_has_an_empty_request() -> None:
    request = PodRequest.of(pod({}), NO_INTENT, ResourceIndex())
    assert request.containers == ((),)
    assert request.node == ()


@pytest.mark.parametrize(
    ("policy", "strict"),
    [
        (None, False),
        (NUMAPolicy.BEST_EFFORT, False),
        (NUMAPolicy.RESTRICTED, True),
        (NUMAPolicy.SINGLE_NUMA_NODE, True),
    ],
)
def test_a_strict_pod_insists_on_alignment(policy: NUMAPolicy | None, strict: bool) -> None:
    assert PodRequest.of(pod({}), NUMAIntent(policy), ResourceIndex()).strict is strict


def test_a_picker_reads_one_position_of_each_node_in_any_layout() -> None:
    whole = np.arange(4 * 10).reshape(4, 10)
    zones = np.array([3, 0, 2, 1, 3], dtype=np.uint8)
    picker = Picker(zones, np.arange(5))
    for plane in (whole[:, :5], whole[:, :5].copy(), whole[:, 5:]):
        assert picker.of(plane).tolist() == plane[zones, np.arange(5)].tolist()
