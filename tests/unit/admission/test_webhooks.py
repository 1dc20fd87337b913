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
from tests.builders.reviews import denied, review
from tests.builders.topologies import topology
from tests.handlers import mutated
from webhook.admission.pod.validate import validate_pod
from webhook.admission.response import Allowed, Denied, Patched
from webhook.formats.topology import Topology
from webhook.model.names import (
    KAI_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    MIN_MEMBER,
    NUMA_ALLOCATION,
    NUMA_TOPOLOGY_SPEC,
    POD_GROUP_NAME,
    STRATEGY,
)
from webhook.state.rules import Rules

CLUSTER = cluster_snapshot(node(name="a"), node(name="b"), nrt(node="a", free=[16, 2]), nrt(node="b", free=[2, 2]))
BAD = '{"numaTopologyPolicy": "Best"}'


def test_a_created_pod_is_patched() -> None:
    raw = pod()
    response = mutated(review(raw), CLUSTER, Rules()).to_object("7")["response"]
    patched = jsonpatch.apply_patch(raw, json.loads(base64.b64decode(response["patch"])))
    assert (response["uid"], response["allowed"]) == ("7", True)
    assert patched["metadata"]["annotations"]["topology-webhook.dev/placement"].startswith(
        "to be placed: SingleNUMANode: 1 of 2 "
    )


def test_a_dry_run_gets_the_same_answer_and_a_pod_whose_name_is_to_be_generated_is_patched_too() -> None:
    assert mutated(review(pod(), dryRun=True), CLUSTER, Rules()) == mutated(review(pod()), CLUSTER, Rules())
    raw = pod(metadata={"name": "", "generateName": "p-"})
    assert isinstance(mutated(review(raw), CLUSTER, Rules()), Patched)


@pytest.mark.parametrize("more", [{"before": pod()}, {"operation": "DELETE"}, {"subResource": "status"}])
def test_only_creations_of_pods_are_mutated(more: dict[str, Any]) -> None:
    assert mutated(review(pod(), **more), CLUSTER, Rules()) == Allowed()
    assert mutated(review(pod(), kind={"kind": "Service"}), CLUSTER, Rules()) == Allowed()


def test_an_unmanaged_pod_is_let_through_even_if_it_is_unreadable() -> None:
    raw = pod(cpu="abc", metadata={"annotations": {}})
    assert mutated(review(raw), CLUSTER, Rules()) == Allowed()


@pytest.mark.parametrize(
    ("raw", "reason", "says"),
    [
        (pod(numa=BAD), "InvalidAnnotation", "Allowed are BestEffort, Restricted, SingleNUMANode"),
        (pod(numa=BAD, nodeName="a"), "InvalidAnnotation", ""),
        (pod(metadata={"annotations": {NUMA_ALLOCATION: "{}"}}), "ReservedField", ""),
        (pod(cpu="abc"), "Invalid", ""),
        (pod(cpu="17"), "Unalignable", ""),
    ],
)
def test_what_cannot_be_placed_is_denied_with_a_reason(raw: Any, reason: str, says: str) -> None:
    response = denied(mutated(review(raw), CLUSTER, Rules()))
    assert response.reason == reason
    assert says in response.message


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
    cluster = replace(
        CLUSTER, topologies={"racks": Topology.from_object(topology(name="racks", labels=["example.com/rack"]))}
    )
    raw = pod(metadata={"annotations": {NUMA_TOPOLOGY_SPEC: SINGLE, POD_GROUP_NAME: "g", **asked}})
    response = denied(mutated(review(raw), cluster, Rules()))
    assert fault in response.message
    assert validate_pod(review(raw, pod()), cluster.topologies, Rules()) == response
    assert validate_pod(review(raw, raw), cluster.topologies, Rules()) == Allowed()
    for kind, answer in (("Job", Patched), ("Notebook", Denied)):
        owner = {"apiVersion": "batch/v1", "kind": kind, "controller": True}
        owned = {**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}
        of_owned = mutated(review(owned), cluster, Rules())
        # The topology that a level needs may stand on an owner of a kind that is not read.
        is_completed = kind == "Notebook" and KAI_REQUIRED_PLACEMENT in asked and KAI_TOPOLOGY not in asked
        assert isinstance(of_owned, Patched if is_completed else answer)


def test_a_topology_that_is_not_there_yet_may_come() -> None:
    raw = pod(metadata={"annotations": {NUMA_TOPOLOGY_SPEC: SINGLE, **RACK}})
    assert isinstance(mutated(review(raw), CLUSTER, Rules()), Patched)


@pytest.mark.parametrize(("bound", "response"), [({}, Patched), ({"nodeName": "a"}, Allowed)])
def test_warnings_reach_the_user(bound: dict[str, Any], response: type[Patched | Allowed]) -> None:
    given = mutated(review(pod(numa='{"numaTopologyPolicies": "SingleNUMANode"}', **bound)), CLUSTER, Rules())
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
    assert isinstance(validate_pod(review(new, old), {}, Rules()), Allowed) == allowed


@pytest.mark.parametrize(
    "more", [{"operation": "DELETE"}, {"subResource": "ephemeralcontainers"}, {"kind": {"kind": "Job"}}]
)
def test_nothing_else_is_validated_and_no_pod_of_another_scheduler(more: dict[str, Any]) -> None:
    assert validate_pod(review(pod(numa=BAD), **more), {}, Rules()) == Allowed()
    assert validate_pod(review(pod(numa=BAD, schedulerName="koord-scheduler")), {}, Rules()) == Allowed()


def test_a_write_to_a_pods_status_is_judged_for_the_annotations_it_may_bring() -> None:
    request = review(pod(metadata={"annotations": {NUMA_ALLOCATION: "{}"}}), pod(), subResource="status")
    assert isinstance(validate_pod(request, {}, Rules()), Denied)
