"""Before a pod is bound, its allocation counts only if this service signed it for this pod."""

import json
from typing import Any

import pytest

from tests.builders.pods import bound, created, plain
from webhook.formats.koordinator.numa_allocation import AllocationKey
from webhook.model.names import NUMA_ALLOCATION, NUMA_SIGNATURE

KEY = AllocationKey(b"k" * 32)
ALLOCATION = json.dumps({"node": "n1", "numaNodeResources": [{"node": 0, "resources": {"cpu": "8"}}]})


def noted(uid: str = "u", **annotations: str) -> dict[str, Any]:
    """A pod with these annotations and one of its user."""
    return created(numa=None, annotations={"team": "x", **annotations}, metadata={"uid": uid})


def signed(**changes: Any) -> dict[str, Any]:
    annotations = {NUMA_ALLOCATION: ALLOCATION, NUMA_SIGNATURE: KEY.sign("u", ALLOCATION)}
    return noted(**{**annotations, **changes})


def test_what_we_signed_is_believed() -> None:
    assert KEY.believed(signed()) == signed()


@pytest.mark.parametrize(
    "forged",
    [
        noted(**{NUMA_ALLOCATION: ALLOCATION}),
        signed(uid="another"),
        signed(uid=""),
        signed(**{NUMA_ALLOCATION: ALLOCATION.replace("8", "9")}),
        signed(**{NUMA_SIGNATURE: ""}),
        signed(**{NUMA_SIGNATURE: "\ud800 no ascii \u00e9"}),
        signed(**{NUMA_SIGNATURE: AllocationKey(b"o" * 32).sign("u", ALLOCATION)}),
    ],
    ids=["unsigned", "copied", "no uid", "changed", "empty", "odd", "of another key"],
)
def test_any_other_allocation_of_a_pod_that_is_not_bound_is_not_there(forged: dict[str, Any]) -> None:
    before = json.loads(json.dumps(forged))
    assert NUMA_ALLOCATION not in KEY.believed(forged)["metadata"]["annotations"]
    assert KEY.believed(forged)["metadata"]["annotations"]["team"] == "x"
    assert forged == before


def test_the_binding_proves_a_bound_pods_node_and_pods_without_allocations_need_no_proof() -> None:
    for raw in (bound(node="n1", annotations={NUMA_ALLOCATION: ALLOCATION}), noted(), plain()):
        assert KEY.believed(raw) is raw


def test_the_key_goes_through_its_secret_and_shows_itself_nowhere_else() -> None:
    key = AllocationKey.create()
    assert AllocationKey.from_secret_data(key.to_secret_data()) == key
    assert key != AllocationKey.create()
    assert "secret" not in repr(key)


@pytest.mark.parametrize("data", [{}, {"hint.key": ""}, {"hint.key": "%"}, {"hint.key": "Y2E="}, {"other": "x"}])
def test_what_is_no_key_is_not_taken_for_one(data: dict[str, str]) -> None:
    assert AllocationKey.from_secret_data(data) is None
