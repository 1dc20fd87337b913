"""The events about pods that mode Observe reports when they are bound."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache
from tests.builders.nodes import node, nrt
from tests.builders.pods import pod
from webhook.admission.response import Allowed, Denied, Patched, Response
from webhook.app.webhooks import ObservedBindings
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.kube.events import PodEvent
from webhook.model.names import NUMA_TOPOLOGY_SPEC, PLACEMENT
from webhook.state.rules import Rules

SINGLE = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
REFUSED = Denied("n0 is full", "InsufficientCapacity")


def events(
    annotations: dict[str, str] | None, decided: Response, rules: Rules | None = None, **more: Any
) -> list[PodEvent]:
    # n0 ── NUMA 0 [2]  NUMA 1 [2]      [free cpus of 16]
    raw = pod(cpu=8, metadata={"name": "p", "uid": "u", "annotations": annotations or {}})
    cache = cluster_cache(node(name="n0"), nrt(node="n0", free=(2, 2)), raw)
    told: list[PodEvent] = []
    request = {"uid": "1", "kind": {"kind": "Binding"}, "operation": "CREATE", "namespace": "default", "name": "p"}
    request |= {"object": {"metadata": {"name": "p", "uid": "u"}, "target": {"name": "n0"}}, "userInfo": {}, **more}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    report = ObservedBindings(cache, rules or Rules(), told.append).report
    report(replace(AdmissionRequest.from_object(review), deadline=0.0), decided)
    return told


def reasons(told: list[PodEvent]) -> list[tuple[str, str]]:
    return [(event.reason, event.type) for event in told]


def test_a_refusal_and_what_became_of_the_pod_at_its_creation_are_events_of_the_pod() -> None:
    creation, binding = events(SINGLE, REFUSED)
    assert (creation.key, creation.uid, creation.reason, creation.type) == (
        "default/p",
        "u",
        "PodWouldBeGated",
        "Normal",
    )
    assert creation.note.startswith("mode Observe, not applied: waiting: SingleNUMANode: none of 1 node")
    note = "mode Observe, not applied: n0 is full"
    assert binding == PodEvent("default/p", "u", "BindingWouldBeRefused", note, "Binding", "Warning")


def test_an_invalid_annotation_is_a_warning_event() -> None:
    (creation, _) = events({NUMA_TOPOLOGY_SPEC: "not JSON"}, Patched((), message="bound to n0"))
    assert (creation.reason, creation.type) == ("PodWouldBeDenied", "Warning")
    assert NUMA_TOPOLOGY_SPEC in creation.note


def test_a_pod_without_gate_has_the_event_of_its_binding_alone() -> None:
    decided = Patched((), message="bound to n0 on NUMA node 1")
    (binding,) = events(SINGLE, decided, Rules(no_capacity="Allow"))
    note = "mode Observe, not applied: bound to n0 on NUMA node 1"
    assert (binding.reason, binding.type, binding.note) == ("BindingWouldBeAllowed", "Normal", note)


@pytest.mark.parametrize("annotations", [None, {**SINGLE, PLACEMENT: "placed before"}])
def test_the_creation_of_unmanaged_pods_and_of_those_decided_before_is_not_reported(
    annotations: dict[str, str] | None,
) -> None:
    assert events(annotations, Allowed()) == []


def test_dry_runs_and_other_objects_have_no_events() -> None:
    assert events(SINGLE, REFUSED, dryRun=True) == []
    assert events(SINGLE, REFUSED, kind={"kind": "Pod"}) == []


def test_a_binding_of_an_unknown_pod_has_no_event_of_a_creation() -> None:
    other = {"metadata": {"name": "p", "uid": "another"}, "target": {"name": "n0"}}
    assert reasons(events(SINGLE, REFUSED, object=other)) == [("BindingWouldBeRefused", "Warning")]
