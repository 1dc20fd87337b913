"""What is added to a pod is what a repeated apply of its manifest keeps; where it cannot be, its user is told."""

import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import SINGLE, pod
from tests.handlers import mutated
from tests.unit.admission.pod.patched import ALLOCATION, applied, gated
from tests.unit.admission.strategies import constraints, pods
from webhook.admission.pod.mutation import mutate_pod
from webhook.admission.response import Patched
from webhook.formats.kubernetes.admission_review import AdmissionRequest, Operation
from webhook.formats.patches.affinity_patch import (
    Constraint,
    NodeRef,
    kept_by_a_merge,
    node_affinity,
    one_of,
    required_terms,
    selects,
    warnings_of,
)
from webhook.formats.patches.managed_fields import ManagedFields, without_ours
from webhook.model.names import HOSTNAME_LABEL, MANAGED_FIELDS, NUMA_TOPOLOGY_SPEC, PLACEMENT_GATE
from webhook.placing.pod.controller_patches import assignment_patch, ungate_patch
from webhook.state.rules import GateMode, Rules

# a [7 7]  b [2 9]   single-numa-node, 16 cpus each       [free cpus per NUMA node]
CLUSTER = cluster_snapshot(node(name="a"), node(name="b"), nrt(node="a", free=[7, 7]), nrt(node="b", free=[2, 9]))
ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ZONE, ZONE]}}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": ZONE}]}
CONTROLLED = {"ownerReferences": [{"kind": "Job", "name": "j", "uid": "u", "controller": True}]}
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
TWO = Constraint(one_of([NodeRef("a", "a"), NodeRef("b", "b")]))


def with_affinity(**held: Any) -> dict[str, Any]:
    return pod(affinity={"nodeAffinity": held})


@pytest.mark.parametrize("selector", [None, {}, {"disk": "ssd"}], ids=repr)
def test_a_bare_pods_own_terms_stay_and_its_node_selector_names_the_node(selector: dict[str, str] | None) -> None:
    raw = gated(pod(affinity={"nodeAffinity": REQUIRED | PREFERRED}, nodeSelector=selector))
    assigned = applied(raw, assignment_patch(raw, ALLOCATION, "x", hostname="host-b"))
    assert assigned["spec"]["affinity"] == raw["spec"]["affinity"]
    assert assigned["spec"]["nodeSelector"] == {**(selector or {}), HOSTNAME_LABEL: "host-b"}
    managed_fields = ManagedFields.parse(assigned["metadata"]["annotations"][MANAGED_FIELDS])
    assert selects(without_ours(assigned, managed_fields)) == (selector or {})


def test_a_bare_pod_that_selects_its_node_itself_is_given_nothing_more() -> None:
    raw = gated(pod(affinity={"nodeAffinity": REQUIRED}, nodeSelector={HOSTNAME_LABEL: "host-b"}))
    assigned = applied(raw, assignment_patch(raw, ALLOCATION, "x", hostname="host-b"))
    assert {**assigned["spec"], "schedulingGates": raw["spec"]["schedulingGates"]} == raw["spec"]
    assert MANAGED_FIELDS not in assigned["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("raw", "hostname"),
    [
        pytest.param(pod(affinity={"nodeAffinity": REQUIRED}), None, id="its node has no hostname of its own"),
        pytest.param(pod(metadata=CONTROLLED, affinity={"nodeAffinity": REQUIRED}), "host-b", id="a controller's"),
        pytest.param(
            pod(affinity={"nodeAffinity": REQUIRED}, nodeSelector={HOSTNAME_LABEL: "b"}), "host-b", id="relabelled"
        ),
    ],
)
def test_other_pods_terms_are_added_to(raw: dict[str, Any], hostname: str | None) -> None:
    raw = gated(raw)
    assigned = applied(raw, assignment_patch(raw, ALLOCATION, "x", hostname=hostname))
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    assert required_terms(assigned) == [{**ZONE, **named}, {**ZONE, **named}]
    assert selects(assigned) == selects(raw)


@given(pods, st.sampled_from([None, "host-b"]), st.sampled_from([None, {}, {"disk": "ssd"}]))
def test_what_a_place_adds_is_told_from_what_the_user_wrote(
    raw: dict[str, Any], hostname: str | None, selector: dict[str, str] | None
) -> None:
    raw = gated(raw)
    raw = {**raw, "spec": {**raw["spec"], "nodeSelector": selector}}
    assigned = applied(raw, assignment_patch(raw, ALLOCATION, "x", hostname=hostname))
    back = without_ours(assigned, ManagedFields.parse(assigned["metadata"]["annotations"].get(MANAGED_FIELDS)))
    assert selects(back) == selects(raw)
    if hostname is not None and required_terms(raw) is not None:
        assert node_affinity(assigned) == node_affinity(raw)


@given(pods, constraints)
def test_a_bare_pod_that_is_ungated_keeps_each_of_its_own_lists(raw: dict[str, Any], constraint: Constraint) -> None:
    raw = gated(raw)
    after = node_affinity(applied(raw, ungate_patch(raw, constraint, "x")))
    for name, held in node_affinity(raw).items():
        assert not held or after[name] == held


@pytest.mark.parametrize("held", [REQUIRED, PREFERRED], ids=["required", "preferred"])
@pytest.mark.parametrize(
    ("gate", "bare", "controlled"), [("Always", True, True), ("WhenNeeded", True, False), ("Never", False, False)]
)
def test_with_node_affinity_of_its_own_a_bare_pod_waits_for_one_node(
    gate: GateMode, held: dict[str, Any], bare: bool, controlled: bool
) -> None:
    free = {"nodeAffinity": held if held is PREFERRED else {next(iter(REQUIRED)): {"nodeSelectorTerms": [B_ALONE]}}}
    metadata = {"annotations": {NUMA_TOPOLOGY_SPEC: SINGLE}}
    for raw, waits in (
        (pod(affinity=free), bare),
        (pod(affinity=free, metadata=metadata | CONTROLLED), controlled),
    ):
        rules = Rules(gate=gate)
        mutation = mutate_pod(raw, CLUSTER, rules)
        assert ({"name": PLACEMENT_GATE} in mutation.mutated["spec"].get("schedulingGates", [])) == waits
        assert mutate_pod(mutation.mutated, CLUSTER, rules).operations == ()


B_ALONE = {"matchExpressions": [{"key": HOSTNAME_LABEL, "operator": "In", "values": ["b"]}]}


def test_a_hostname_that_an_earlier_placement_added_is_taken_out_at_creation() -> None:
    raw = gated(pod(affinity={"nodeAffinity": REQUIRED}, nodeSelector={"disk": "ssd"}))
    assigned = applied(raw, assignment_patch(raw, ALLOCATION, "x", hostname="b"))
    exported = {**assigned, "metadata": {**assigned["metadata"], "name": "q"}}
    for gate in ("Always", "Never"):
        mutation = mutate_pod(exported, CLUSTER, Rules(gate=gate))
        if mutation.operations:
            assert jsonpatch.apply_patch(exported, list(mutation.operations)) == mutation.mutated
            assert mutation.mutated["spec"]["nodeSelector"] == {"disk": "ssd"}
        assert "node selector" in mutation.message  # no node has the disk, one has the hostname


def test_the_only_selector_goes_with_the_hostname() -> None:
    raw = gated(pod(affinity={"nodeAffinity": {next(iter(REQUIRED)): {"nodeSelectorTerms": [B_ALONE]}}}))
    assigned = applied(raw, assignment_patch(raw, ALLOCATION, "x", hostname="a"))
    mutation = mutate_pod(assigned, CLUSTER, Rules())
    assert "nodeSelector" not in mutation.mutated["spec"]
    assert jsonpatch.apply_patch(assigned, list(mutation.operations)) == mutation.mutated
    assert mutation.message.startswith("SingleNUMANode: 1 of 2 nodes fits")


def applied_by(how: str, raw: dict[str, Any], text: str = "{}") -> dict[str, Any]:
    metadata = raw["metadata"]
    if how == "client":
        return {**raw, "metadata": {**metadata, "annotations": {**metadata["annotations"], APPLIED: text}}}
    if how == "server":
        entry = {"manager": "kubectl", "operation": "Apply", "fieldsV1": {f"f:{text}": {}}}
        return {**raw, "metadata": {**metadata, "managedFields": [entry]}}
    return {**raw, "metadata": {**metadata, "managedFields": [{"manager": "kubectl-create", "operation": "Update"}]}}


BOTH = pod(affinity={"nodeAffinity": REQUIRED}, nodeSelector={"disk": "ssd"})


@pytest.mark.parametrize(
    ("raw", "how", "gated", "warned"),
    [
        pytest.param(BOTH, "server", True, "with --server-side once the pod is placed", id="both"),
        pytest.param(BOTH, "client", True, "", id="both, client-side: maps are merged by key"),
        pytest.param(BOTH, "create", True, "", id="both, not applied"),
        pytest.param(with_affinity(**REQUIRED), "server", True, "", id="required"),
        pytest.param(pod(nodeSelector={"disk": "ssd"}), "server", True, "", id="selector"),
        pytest.param(with_affinity(**REQUIRED), "client", False, "cannot be applied again: the nodes", id="ungated"),
        pytest.param(
            with_affinity(**REQUIRED), "server", False, "cannot be applied again: the nodes", id="ungated, SSA"
        ),
        pytest.param(with_affinity(**PREFERRED), "client", False, "", id="ungated, required is written beside"),
        pytest.param(pod(), "client", False, "", id="ungated, no affinity"),
        pytest.param(with_affinity(**REQUIRED), "create", False, "", id="ungated, not applied"),
        pytest.param(
            pod(metadata={**CONTROLLED, "annotations": {}}, affinity=REQUIRED), "client", False, "", id="a controller's"
        ),
    ],
)
def test_whoever_applies_what_cannot_be_applied_again_is_told(
    raw: dict[str, Any], how: str, gated: bool, warned: str
) -> None:
    warnings = [*warnings_of(applied_by(how, raw), gated=gated, constraint=Constraint() if gated else TWO)]
    assert len(warnings) == bool(warned)
    assert warned in "".join(warnings)


@pytest.mark.parametrize("how", ["client", "server"])
def test_whoever_applies_an_exported_pod_is_told(how: str) -> None:
    (warning,) = warnings_of(applied_by(how, pod(), MANAGED_FIELDS), gated=True, constraint=Constraint())
    assert "it was exported" in warning


def test_the_warning_is_in_the_answer_to_the_api_server() -> None:
    raw = applied_by("client", with_affinity(**{next(iter(REQUIRED)): {"nodeSelectorTerms": [B_ALONE]}}))
    raw["spec"]["containers"][0]["resources"] = json.loads(json.dumps(raw["spec"]["containers"][0]["resources"]))
    review = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {"uid": "u", "operation": Operation.CREATE.value, "kind": {"kind": "Pod"}, "object": raw},
    }
    answer = mutated(AdmissionRequest.from_object(review), CLUSTER, Rules(gate="Never"))
    assert isinstance(answer, Patched)
    assert any("cannot be applied again" in warning for warning in answer.warnings)


def test_without_node_affinity_of_its_own_nothing_is_held_back() -> None:
    for raw in (pod(), pod(nodeSelector={"a": "b"}), pod(metadata=CONTROLLED, affinity={"nodeAffinity": REQUIRED})):
        assert kept_by_a_merge(raw, TWO) == TWO
