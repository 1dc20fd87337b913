import json
from typing import Any

import pytest

from webhook.model.errors import UserError
from webhook.model.pod import QoS, ResidentPod
from webhook.model.policy import Exclusive, NUMAPolicy

SPEC = "scheduling.koordinator.sh/numa-topology-spec"
HINT = "topology-webhook.dev/numa"
STATUS = "scheduling.koordinator.sh/resource-status"


def resident(
    annotations: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    **status: Any,
) -> ResidentPod:
    return ResidentPod.from_object(
        {
            "metadata": {"namespace": "ml", "name": "a", "uid": "1", "annotations": annotations},
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "main", "resources": {"requests": requests, "limits": limits}}],
                "overhead": {"cpu": "100m"},
            },
            "status": status,
        }
    )


def test_a_bound_pod_is_kept_as_a_slim_record() -> None:
    read = resident({SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}, limits={"cpu": "2", "memory": "1Gi"})
    assert (read.key, read.namespace, read.name, read.uid, read.node) == ("ml/a", "ml", "a", "1", "n1")
    assert read.requests == {"cpu": 2100, "memory": 2**30}
    assert (read.qos, read.policy, read.exclusive) == (
        QoS.GUARANTEED,
        NUMAPolicy.SINGLE_NUMA_NODE,
        Exclusive.REQUIRED,
    )
    assert (read.hint, read.terminal, read.deleting) == (None, False, False)


@pytest.mark.parametrize(("phase", "terminal"), [("Pending", False), ("Succeeded", True), ("Failed", True)])
def test_a_finished_pod_is_terminal(phase: str, terminal: bool) -> None:
    assert resident(phase=phase).terminal is terminal


def test_a_pod_being_deleted_says_so() -> None:
    raw = {"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"containers": []}}
    assert ResidentPod.from_object(raw).deleting


def numa_nodes(numa_id: int, **resources: str) -> dict[str, Any]:
    return {"numaNodeResources": [{"node": numa_id, "resources": resources}]}


def test_the_hint_is_ours_if_it_is_about_the_pods_node() -> None:
    ours = json.dumps({"node": "n1", **numa_nodes(3, cpu="2")})
    theirs = json.dumps(numa_nodes(1, cpu="2"))
    assert resident({HINT: ours}).hint == ((3, {"cpu": 2000}),)
    assert resident({HINT: ours, STATUS: theirs}).hint == ((3, {"cpu": 2000}),)


def test_the_hint_is_koordinators_where_ours_is_absent_or_about_another_node() -> None:
    elsewhere = json.dumps({"node": "n2", **numa_nodes(3, cpu="2")})
    theirs = json.dumps(numa_nodes(1, cpu="2"))
    assert resident({STATUS: theirs}).hint == ((1, {"cpu": 2000}),)
    assert resident({HINT: elsewhere, STATUS: theirs}).hint == ((1, {"cpu": 2000}),)
    assert resident({HINT: elsewhere}).hint is None
    assert resident({STATUS: '{"cpuset": "0-3"}'}).hint is None


@pytest.mark.parametrize("annotation", [HINT, STATUS, SPEC])
@pytest.mark.parametrize("text", ["", "{", "[]", '{"node": "n1", "numaNodeResources": [{"node": -1}]}'])
def test_broken_annotations_of_a_running_pod_count_as_absent(annotation: str, text: str) -> None:
    read = resident({annotation: text})
    assert (read.hint or None, read.policy) == (None, None)


def test_unreadable_resources_are_an_error() -> None:
    with pytest.raises(UserError, match="is no quantity"):
        resident(requests={"cpu": "x"})


@pytest.mark.parametrize(
    ("requests", "limits", "exclusive"),
    [
        (None, {"cpu": "2", "memory": "1Gi"}, True),
        ({"cpu": "2"}, None, False),
        (None, {"nvidia.com/gpu": "1"}, True),
        (None, None, False),
    ],
)
def test_guaranteed_pods_and_pods_with_devices_may_have_resources_of_their_own(
    requests: dict[str, str] | None, limits: dict[str, str] | None, exclusive: bool
) -> None:
    assert resident(requests=requests, limits=limits).exclusive_resources is exclusive


# spec 2 cpu, what the kubelet has allocated, what is in effect -> what counts
@pytest.mark.parametrize(
    ("allocated", "in_effect", "infeasible", "cpu"),
    [
        ("2", "2", False, 2000),
        ("1", "1", False, 2000),
        ("4", "1", False, 4000),
        ("1", "4", False, 4000),
        ("1", "1", True, 1000),
        (None, "3", False, 3000),
        ("1", None, True, 1000),
    ],
)
def test_a_pod_resized_in_place_holds_the_largest_of_its_numbers(
    allocated: str | None, in_effect: str | None, infeasible: bool, cpu: int
) -> None:
    status: dict[str, Any] = {"name": "main"}
    if allocated is not None:
        status["allocatedResources"] = {"cpu": allocated}
    if in_effect is not None:
        status["resources"] = {"requests": {"cpu": in_effect}}
    conditions = [{"type": "PodResizePending", "reason": "Infeasible"}] if infeasible else []
    read = resident(requests={"cpu": "2"}, containerStatuses=[status], conditions=conditions)
    assert read.requests == {"cpu": cpu + 100}
