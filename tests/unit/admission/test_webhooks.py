"""The mutating and the validating webhook on pods, called without a socket."""

import base64
import json
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import SINGLE, pod
from tests.handlers import mutated
from webhook.admission.pod.validate import validate_pod
from webhook.admission.response import Allowed, Denied, Patched
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.formats.topology import Topology
from webhook.model.names import (
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    MIN_MEMBER,
    NUMA_HINT,
    NUMA_TOPOLOGY_SPEC,
    POD_GROUP_NAME,
    STRATEGY,
)
from webhook.state.rules import Rules

CLUSTER = cluster_snapshot(node(name="a"), node(name="b"), nrt(node="a", free=[16, 2]), nrt(node="b", free=[2, 2]))
BAD = '{"numaTopologyPolicy": "Best"}'


def _request(raw: Any, old: Any = None, operation: str = "CREATE", **more: Any) -> AdmissionRequest:
    request = {
        "uid": "7",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": operation,
        "object": raw,
        "oldObject": raw if operation == "UPDATE" and old is None else old,
        **more,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return AdmissionRequest.from_object(review)


def test_a_created_pod_is_patched() -> None:
    raw = pod()
    response = mutated(_request(raw), CLUSTER, Rules()).to_object("7")["response"]
    patched = jsonpatch.apply_patch(raw, json.loads(base64.b64decode(response["patch"])))
    assert (response["uid"], response["allowed"]) == ("7", True)
    assert patched["metadata"]["annotations"]["topology-webhook.dev/placement"].startswith(
        "to be placed: SingleNUMANode: 1 of 2 "
    )


def test_a_dry_run_gets_the_same_answer() -> None:
    assert mutated(_request(pod(), dryRun=True), CLUSTER, Rules()) == mutated(_request(pod()), CLUSTER, Rules())


def test_a_pod_whose_name_is_to_be_generated_is_patched() -> None:
    raw = pod()
    raw["metadata"] |= {"name": "", "generateName": "p-"}
    assert isinstance(mutated(_request(raw), CLUSTER, Rules()), Patched)


@pytest.mark.parametrize("more", [{"operation": "UPDATE"}, {"operation": "DELETE"}, {"subResource": "status"}])
def test_only_creations_of_pods_are_mutated(more: dict[str, Any]) -> None:
    assert mutated(_request(pod(), **more), CLUSTER, Rules()) == Allowed()
    assert mutated(_request(pod(), kind={"kind": "Service"}), CLUSTER, Rules()) == Allowed()


def test_an_unmanaged_pod_is_let_through_even_if_it_is_unreadable() -> None:
    raw = pod(cpu="abc", metadata={"annotations": {}})
    assert mutated(_request(raw), CLUSTER, Rules()) == Allowed()


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (pod(numa=BAD), "InvalidAnnotation"),
        (pod(numa=BAD, nodeName="a"), "InvalidAnnotation"),
        (pod(metadata={"annotations": {NUMA_HINT: "{}"}}), "ReservedField"),
        (pod(cpu="abc"), "Invalid"),
        (pod(cpu="17"), "Unalignable"),
    ],
)
def test_what_cannot_be_placed_is_denied_with_a_reason(raw: Any, reason: str) -> None:
    response = mutated(_request(raw), CLUSTER, Rules())
    assert isinstance(response, Denied)
    assert response.reason == reason


RACK: dict[str, str] = {KAI_TOPOLOGY: "racks", KAI_REQUIRED_PLACEMENT: "rack"}


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ({MIN_MEMBER: "many"}, f'[{MIN_MEMBER}]: "many" is not a number of pods. Write a whole number from 1.'),
        ({KAI_REQUIRED_PLACEMENT: "rack"}, f"[{KAI_REQUIRED_PLACEMENT}]: A level needs a topology."),
        ({**RACK, KAI_SEGMENT_SIZE: "0"}, f'[{KAI_SEGMENT_SIZE}]: "0" is not a size.'),
        ({**RACK, KAI_REQUIRED_PLACEMENT: "rak"}, "Did you mean"),
        ({**RACK, STRATEGY: "balanced"}, f'[{STRATEGY}]: "balanced" is not a strategy. Write one of BinPack, Spread, '),
    ],
)
def test_a_pod_that_nobody_owns_is_refused_for_what_it_asks_wrongly_of_its_group(
    asked: dict[str, str], fault: str
) -> None:
    racks = Topology.from_object(
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "metadata": {"name": "racks"},
            "spec": {"levels": [{"nodeLabel": "example.com/rack"}]},
        }
    )
    cluster = replace(CLUSTER, topologies={"racks": racks})
    raw = pod(metadata={"annotations": {NUMA_TOPOLOGY_SPEC: SINGLE, POD_GROUP_NAME: "g", **asked}})
    response = mutated(_request(raw), cluster, Rules())
    assert isinstance(response, Denied)
    assert fault in response.message
    assert validate_pod(_request(raw, pod(), "UPDATE"), cluster.topologies, Rules()) == response
    assert validate_pod(_request(raw, raw, "UPDATE"), cluster.topologies, Rules()) == Allowed()
    for kind, answer in (("Job", Patched), ("Notebook", Denied)):
        owner = {"apiVersion": "batch/v1", "kind": kind, "controller": True}
        owned = {**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}
        response = mutated(_request(owned), cluster, Rules())
        # The topology that a level needs may stand on an owner of a kind that is not read.
        is_completed = kind == "Notebook" and KAI_REQUIRED_PLACEMENT in asked and KAI_TOPOLOGY not in asked
        assert isinstance(response, Patched if is_completed else answer)


def test_a_topology_that_is_not_there_yet_may_come() -> None:
    raw = pod(metadata={"annotations": {NUMA_TOPOLOGY_SPEC: SINGLE, **RACK}})
    assert isinstance(mutated(_request(raw), CLUSTER, Rules()), Patched)


def test_a_created_pod_with_broken_annotations_is_refused() -> None:
    response = mutated(_request(pod(numa=BAD)), CLUSTER, Rules())
    assert isinstance(response, Denied)
    assert "Allowed are BestEffort, Restricted, SingleNUMANode" in response.message


@pytest.mark.parametrize(("bound", "response"), [({}, Patched), ({"nodeName": "a"}, Allowed)])
def test_warnings_reach_the_user(bound: dict[str, Any], response: type[Patched | Allowed]) -> None:
    given = mutated(_request(pod(numa='{"numaTopologyPolicies": "SingleNUMANode"}', **bound)), CLUSTER, Rules())
    assert isinstance(given, response)
    assert "numaTopologyPolicies" in given.warnings[0]


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        (BAD, BAD, True),  # it was let in once, by whatever way
        (SINGLE, BAD, False),
        (None, BAD, False),
        (BAD, SINGLE, True),
        (BAD, None, True),
        (None, None, True),
    ],
)
@pytest.mark.parametrize("bound", [{}, {"nodeName": "a"}])
def test_an_update_is_judged_only_when_it_changes_the_annotations(
    before: str | None, after: str | None, allowed: bool, bound: dict[str, Any]
) -> None:
    old, new = (
        pod(metadata={"annotations": {} if spec is None else {NUMA_TOPOLOGY_SPEC: spec}}, **bound)
        for spec in (before, after)
    )
    new["metadata"]["labels"] = {"touched": "yes"}
    assert isinstance(validate_pod(_request(new, old, "UPDATE"), {}, Rules()), Allowed) == allowed


@pytest.mark.parametrize(
    "more", [{"operation": "DELETE"}, {"subResource": "ephemeralcontainers"}, {"kind": {"kind": "Job"}}]
)
def test_nothing_else_is_validated(more: dict[str, Any]) -> None:
    assert validate_pod(_request(pod(numa=BAD), **more), {}, Rules()) == Allowed()


def test_a_write_to_a_pods_status_is_judged_for_the_annotations_it_may_bring() -> None:
    review = _request(pod(metadata={"annotations": {NUMA_HINT: "{}"}}), pod(), "UPDATE", subResource="status")
    assert isinstance(validate_pod(review, {}, Rules()), Denied)


def test_pods_of_other_schedulers_are_not_validated() -> None:
    assert validate_pod(_request(pod(numa=BAD, schedulerName="koord-scheduler")), {}, Rules()) == Allowed()
