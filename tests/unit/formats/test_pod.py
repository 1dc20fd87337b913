from typing import Any

import pytest

from webhook.formats.kubernetes.pod import ContainerKind, Owner, Pod, PreferredTerm
from webhook.model.errors import UserError

RAW: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "trainer-0",
        "namespace": "ml",
        "uid": "11aa",
        "labels": {"app": "trainer"},
        "annotations": {"example.com/a": "b"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T01:00:00Z",
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "1"},
            {"apiVersion": "batch/v1", "kind": "Job", "name": "trainer", "uid": "2", "controller": True},
        ],
    },
    "spec": {
        "nodeName": "n1",
        "schedulerName": "kube",
        "priority": 100,
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "schedulingGates": [{"name": "example.com/gate"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}, {}]}
            }
        },
        "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
        "containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}],
    },
    "status": {"phase": "Running"},
}


def test_a_pod_is_read_once_and_whole() -> None:
    pod = Pod.from_object(RAW)
    assert (pod.key, pod.uid, pod.phase) == ("ml/trainer-0", "11aa", "Running")
    assert (pod.labels, pod.annotations) == ({"app": "trainer"}, {"example.com/a": "b"})
    assert [(container.name, container.kind) for container in pod.containers] == [
        ("setup", ContainerKind.INIT),
        ("proxy", ContainerKind.SIDECAR),
        ("main", ContainerKind.APP),
    ]
    assert pod.priority == 100
    assert (pod.node_selector, pod.tolerations) == ({"disk": "ssd"}, ({"operator": "Exists"},))
    assert pod.required_terms == ({"matchExpressions": []}, {})
    assert pod.controller == Owner("batch/v1", "Job", "trainer", "2", True)
    assert (pod.deleting, pod.created) == (True, "2026-01-01T00:00:00Z")


def test_a_pod_that_says_nothing_has_the_defaults() -> None:
    pod = Pod.from_object({})
    assert (pod.name, pod.containers, pod.required_terms, pod.controller) == ("", (), None, None)
    assert (pod.priority, pod.deleting) == (0, False)


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        (None, None),
        ({}, None),
        ({"nodeAffinity": None}, None),
        ({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}, None),
        ({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}, ()),
    ],
)
def test_no_required_affinity_and_one_without_terms_are_told_apart(affinity: Any, terms: Any) -> None:
    assert Pod.from_object({"spec": {"affinity": affinity}}).required_terms == terms


SSD = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}


def preferring(*terms: Any) -> dict[str, Any]:
    """A pod with these preferred terms."""
    return {"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(terms)}}}}


def test_preferred_terms_are_read_with_their_weights() -> None:
    read = Pod.from_object(preferring({"weight": 1, "preference": SSD}, {"weight": 100, "preference": None}))
    assert read.preferred_terms == (PreferredTerm(1, SSD), PreferredTerm(100, {}))
    assert Pod.from_object({"spec": {"affinity": {"nodeAffinity": {}}}}).preferred_terms == ()


@pytest.mark.parametrize("weight", [0, 101, -1, None, "7", 1.5, True, 10**300])
def test_a_weight_that_the_api_server_refuses_is_named(weight: Any) -> None:
    with pytest.raises(UserError) as caught:
        Pod.from_object(preferring({"weight": 1, "preference": SSD}, {"weight": weight, "preference": SSD}))
    assert caught.value.path == "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].weight"
    assert "from 1 to 100" in caught.value.message


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (preferring("x"), "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"),
        (
            preferring({"weight": 1, "preference": "x"}),
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference",
        ),
        ({"spec": "none"}, "spec"),
        ({"metadata": ["x"]}, "metadata"),
        ({"metadata": {"annotations": "x"}}, "metadata.annotations"),
        ({"spec": {"containers": {"name": "main"}}}, "spec.containers"),
        ({"spec": {"containers": ["main"]}}, "spec.containers[0]"),
        ({"spec": {"containers": [{"resources": "2 cpus"}]}}, "spec.containers[0].resources"),
        (
            {"spec": {"initContainers": [{}, {"resources": {"limits": {"cpu": "x"}}}]}},
            "spec.initContainers[1].resources.limits[cpu]",
        ),
        ({"spec": {"overhead": {"cpu": "-1"}}}, "spec.overhead[cpu]"),
        ({"spec": {"resources": {"requests": {"cpu": "?"}}}}, "spec.resources.requests[cpu]"),
        ({"spec": {"tolerations": "all"}}, "spec.tolerations"),
        ({"spec": {"affinity": {"nodeAffinity": "x"}}}, "spec.affinity.nodeAffinity"),
    ],
)
def test_a_fault_names_the_field_it_stands_in(raw: dict[str, Any], path: str) -> None:
    with pytest.raises(UserError) as caught:
        Pod.from_object(raw)
    assert caught.value.path == path
