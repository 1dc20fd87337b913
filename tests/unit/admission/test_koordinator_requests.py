"""Koordinator's CPU bind policies and Reservations at creation: honoured, or named with what happens instead."""

import copy
import json
from typing import Any

import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.koordlet import koordlet_nrt
from tests.builders.nodes import node, nrt
from tests.builders.pods import pod
from tests.builders.reviews import denied, review, warnings
from tests.unit.admission.workloads import job
from webhook.admission.pod.mutation import mutate_pod
from webhook.admission.pod.validate import validate_pod
from webhook.admission.response import Allowed, Denied
from webhook.admission.workload.validate import WorkloadValidator
from webhook.model.names import RESERVATION_AFFINITY, RESOURCE_SPEC
from webhook.placing.pod.decision import PodDecision
from webhook.state.rules import Rules

# a: two NUMA nodes of four cores with two threads each, all free. b [8 8], its cores are not published
CLUSTER = cluster_snapshot(
    node(name="a", cpus=16), node(name="b", cpus=16), koordlet_nrt(node="a"), nrt(node="b", free=[8, 8], cpus=8)
)
RULES = Rules(gate="Never")
LSR = {"koordinator.sh/qosClass": "LSR"}


def asking(cpu: str = "4", labels: dict[str, str] | None = None, **bind: str) -> dict[str, Any]:
    metadata = {"labels": LSR if labels is None else labels}
    return pod(cpu=cpu, annotations={RESOURCE_SPEC: json.dumps(bind)}, metadata=metadata)


def decided(raw: dict[str, Any]) -> PodDecision:
    return mutate_pod(raw, CLUSTER, RULES)


FIELD = f"metadata.annotations[{RESOURCE_SPEC}]"


def test_a_required_policy_says_who_gives_the_cpus() -> None:
    found = decided(asking(requiredCPUBindPolicy="FullPCPUs"))
    assert found.fit_count == 2
    (warning,) = found.warnings
    assert warning == (
        f"{FIELD}.requiredCPUBindPolicy: nodes are chosen by their free cores for FullPCPUs. Which CPUs the pod gets "
        "is chosen by its kubelet, not by Koordinator's scheduler."
    )
    assert "cores for FullPCPUs not known on 1 of them" in found.message


def test_the_text_says_that_cores_were_counted() -> None:
    known = cluster_snapshot(node(name="a", cpus=16), koordlet_nrt(node="a"))
    found = mutate_pod(asking(requiredCPUBindPolicy="SpreadByPCPUs"), known, RULES)
    assert "SingleNUMANode: 1 of 1 node fits; cores for SpreadByPCPUs are counted; best a" in found.message


def test_where_cores_are_too_few_the_text_says_so() -> None:
    known = cluster_snapshot(node(name="a", cpus=16), koordlet_nrt(node="a"))
    found = mutate_pod(asking("5", requiredCPUBindPolicy="SpreadByPCPUs"), known, RULES)
    assert found.fit_count == 0
    assert "1 no single NUMA node with 5 cpu" in found.message
    assert "in free cores for SpreadByPCPUs" in found.message


def test_where_no_node_binds_its_cpus_so_the_pod_is_denied() -> None:
    known = cluster_snapshot(node(name="a", cpus=16), koordlet_nrt(node="a"))
    found = mutate_pod(asking("3", requiredCPUBindPolicy="FullPCPUs"), known, RULES)
    assert (found.verdict, found.reason) == ("deny", "NoCompatibleNode")
    assert "no node binds its CPUs so: 1 CPUs are no multiple of the threads per core" in found.message


@pytest.mark.parametrize("cpu", ["1500m", "500m"])
def test_a_required_policy_denies_a_fraction(cpu: str) -> None:
    found = decided(asking(cpu, requiredCPUBindPolicy="FullPCPUs"))
    assert (found.verdict, found.reason) == ("deny", "InvalidAnnotation")
    assert found.message.startswith(f"{FIELD}.requiredCPUBindPolicy: FullPCPUs binds whole CPUs, and this pod requests")


@pytest.mark.parametrize("labels", [{}, {"koordinator.sh/qosClass": "LS"}])
def test_policies_of_pods_that_koordinator_does_not_bind_have_no_effect(labels: dict[str, str]) -> None:
    found = decided(asking("1500m", labels, requiredCPUBindPolicy="FullPCPUs"))
    assert found.verdict == "allow"
    assert "requiredCPUBindPolicy: FullPCPUs has no effect. Koordinator binds CPUs only for pods" in found.warnings[0]
    assert "cores for" not in found.message


def test_wishes_have_no_effect() -> None:
    found = decided(asking(preferredCPUBindPolicy="SpreadByPCPUs", preferredCPUExclusivePolicy="PCPULevel"))
    assert found.warnings == (
        f"{FIELD}.preferredCPUBindPolicy: SpreadByPCPUs has no effect: only Koordinator's scheduler weighs it.",
        f"{FIELD}.preferredCPUExclusivePolicy: PCPULevel has no effect: only Koordinator's scheduler weighs it.",
    )


# Koordinator reads each of them as a requirement (GetRequiredReservationAffinity).
AFFINITIES = ["", "{}", "{", '{"name": "r"}', '{"reservationSelector": {"a": "b"}}', "x" * 100_000]


@pytest.mark.parametrize("text", AFFINITIES)
def test_a_pod_that_needs_a_reservation_is_denied(text: str) -> None:
    found = decided(pod(annotations={RESERVATION_AFFINITY: text}))
    assert (found.verdict, found.reason) == ("deny", "InvalidAnnotation")
    assert found.message.startswith(f"metadata.annotations[{RESERVATION_AFFINITY}]: ")
    assert "requires a Reservation" in found.message
    assert len(found.message) < 1000


def test_pods_of_koordinators_scheduler_keep_their_reservation() -> None:
    raw = pod(annotations={RESERVATION_AFFINITY: "{}"}, schedulerName="koord-scheduler")
    assert decided(raw).message == "unmanaged: the scheduler koord-scheduler places it"


def test_a_pod_that_asks_nothing_of_us_keeps_its_reservation() -> None:
    assert decided(pod(numa=None, annotations={RESERVATION_AFFINITY: "{}"})).message.startswith("unmanaged: ")


def test_a_reservation_that_is_added_later_is_denied() -> None:
    raw = pod(annotations={RESERVATION_AFFINITY: "{}"})
    assert isinstance(validate_pod(review(raw, pod()), {}, RULES), Denied)
    assert isinstance(validate_pod(review(raw, raw), {}, RULES), Allowed)


def judged(raw: dict[str, Any], before: dict[str, Any] | None = None) -> Allowed | Denied:
    return WorkloadValidator(lambda: CLUSTER, Rules()).handle(review(raw, before))


def of_job(cpu: str, labels: dict[str, str] | None = None, **bind: str) -> dict[str, Any]:
    raw = copy.deepcopy(job({}, {RESOURCE_SPEC: json.dumps(bind)}))
    raw["spec"]["template"]["metadata"]["labels"] = LSR if labels is None else labels
    container = {"name": "main", "image": "none", "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}}
    raw["spec"]["template"]["spec"]["containers"] = [container]
    return raw


def test_a_workload_is_denied_where_its_pods_would_be() -> None:
    verdict = denied(judged(of_job("1500m", requiredCPUBindPolicy="FullPCPUs")))
    assert verdict.message.startswith(f"spec.template.{FIELD}.requiredCPUBindPolicy: FullPCPUs binds whole CPUs")


def test_a_workload_has_the_warnings_of_its_pods_once() -> None:
    raw = of_job("4", {}, requiredCPUBindPolicy="FullPCPUs")
    assert any("has no effect. Koordinator binds CPUs only" in warning for warning in warnings(judged(raw)))
    assert not any("has no effect" in warning for warning in warnings(judged(raw, raw)))


def test_a_workload_whose_pods_need_a_reservation_is_denied() -> None:
    raw = of_job("4", requiredCPUBindPolicy="FullPCPUs")
    raw["spec"]["template"]["metadata"]["annotations"][RESERVATION_AFFINITY] = '{"name": "r"}'
    verdict = denied(judged(raw))
    assert "spec.template.spec.schedulerName" in verdict.message


def test_workloads_of_other_schedulers_are_left_alone() -> None:
    raw = of_job("1500m", requiredCPUBindPolicy="FullPCPUs")
    raw["spec"]["template"]["spec"]["schedulerName"] = "koord-scheduler"
    assert isinstance(judged(raw), Allowed)
