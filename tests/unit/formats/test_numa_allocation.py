import json
from dataclasses import replace

import pytest

from webhook.formats.koordinator.numa_allocation import NUMAAllocation, parse_resource_status, resource_status_to_json
from webhook.model.errors import UserError

ALLOCATION = NUMAAllocation("n1", ((0, {"cpu": 8000, "memory": 2**34}), (3, {"nvidia.com/gpu": 1})))


def test_an_allocation_is_written_as_koordinator_writes_its_own_and_reads_back() -> None:
    text = ALLOCATION.to_json()
    assert json.loads(text) == {
        "node": "n1",
        "numaNodeResources": [
            {"node": 0, "resources": {"cpu": "8", "memory": "16Gi"}},
            {"node": 3, "resources": {"nvidia.com/gpu": "1"}},
        ],
    }
    assert NUMAAllocation.parse(text) == ALLOCATION


def test_without_a_reservation_it_names_the_node_alone_whatever_else_it_says() -> None:
    without = NUMAAllocation.without_reservation("n1")
    assert json.loads(without.to_json()) == {"node": "n1", "reserved": False}
    assert NUMAAllocation.parse(without.to_json()) == without
    assert NUMAAllocation.parse(json.dumps({**json.loads(ALLOCATION.to_json()), "reserved": False})) == without


def test_that_of_an_assignment_says_that_its_binding_is_not_reviewed() -> None:
    assigned = replace(ALLOCATION, reviewed=False)
    assert json.loads(assigned.to_json()) == {**json.loads(ALLOCATION.to_json()), "reviewed": False}
    none = replace(ALLOCATION, numa_nodes=())
    assert replace(none, reviewed=False).to_json() == none.to_json(), "its kubelet gives it none, reviewed or not"
    assert NUMAAllocation.parse(assigned.to_json()) == assigned


def test_a_resource_status_names_numa_nodes_and_no_cpuset() -> None:
    text = resource_status_to_json(ALLOCATION.numa_nodes)
    assert set(json.loads(text)) == {"numaNodeResources"}
    assert parse_resource_status(text) == ALLOCATION.numa_nodes


def test_koordinators_own_status_is_read() -> None:
    assert parse_resource_status('{"cpuset": "0-3", "numaNodeResources": [{"node": 1}]}') == ((1, {}),)
    assert parse_resource_status("{}") == ()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "1", '{"numaNodeResources": []}', '{"node": 1}'),
        '{"node": "n1", "numaNodeResources": "all"}',
        '{"node": "n1", "numaNodeResources": [{"node": "0"}]}',
        '{"node": "n1", "numaNodeResources": [{"node": -1}]}',
        '{"node": "n1", "numaNodeResources": [{"node": 0, "resources": {"cpu": "x"}}]}',
        "[" * 100_000,
    ],
)
def test_anything_else_is_no_allocation(text: str) -> None:
    with pytest.raises(UserError) as caught:
        NUMAAllocation.parse(text)
    assert caught.value.path.startswith("metadata.annotations[topology-webhook.dev/numa]")
