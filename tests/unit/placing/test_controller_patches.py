"""What is written into a gated pod: what the API server allows behind a gate, and nothing of the user's changed."""

from typing import Any

from hypothesis import given

from tests.builders.pods import pod
from tests.unit.admission.node_affinity import admits
from tests.unit.admission.pod.patched import ALLOCATION, applied, gated
from tests.unit.admission.strategies import pods
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.formats.patches.affinity_patch import Constraint, NodeRef, none_of, one_of, required_terms
from webhook.formats.patches.managed_fields import ManagedFields, without_ours
from webhook.model.names import (
    MANAGED_FIELDS,
    NUMA_ALLOCATION,
    NUMA_SIGNATURE,
    PLACEMENT,
    POD_GROUP_NAME,
    RESOURCE_STATUS,
)
from webhook.placing.pod.controller_patches import (
    assignment_patch,
    forget_patch,
    narrow_patch,
    status_patch,
    ungate_patch,
)

EXPRESSION = {"key": "x", "operator": "In", "values": ["y"]}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}
REQUIRES_Y = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}}


def test_a_place_is_one_node_and_its_numa_nodes_and_takes_the_gate_away() -> None:
    assigned = applied(gated(), assignment_patch(gated(), ALLOCATION, "placed on b, NUMA 1", {"example.com/rank": "3"}))
    assert assigned["spec"]["schedulingGates"] == []
    assert admits(assigned, "b", {})
    assert not admits(assigned, "a", {})
    annotations = assigned["metadata"]["annotations"]
    zones = '[{"node":1,"resources":{"cpu":"8","memory":"1Gi"}}]'
    assert annotations[NUMA_ALLOCATION] == f'{{"node":"b","numaNodeResources":{zones}}}'
    assert annotations[RESOURCE_STATUS] == f'{{"numaNodeResources":{zones}}}'
    assert annotations[PLACEMENT] == "placed on b, NUMA 1\nnode affinity added: required: b"
    assert annotations["example.com/rank"] == "3"


def test_a_pod_that_is_bound_to_no_numa_node_is_placed_on_its_node_all_the_same() -> None:
    assigned = applied(gated(), assignment_patch(gated(), NUMAAllocation("b", ()), "placed on b"))
    assert assigned["metadata"]["annotations"][NUMA_ALLOCATION] == '{"node":"b","numaNodeResources":[]}'
    assert RESOURCE_STATUS not in assigned["metadata"]["annotations"]


def test_a_node_that_is_pinned_by_node_selector_is_told_likewise() -> None:
    raw = gated(pod(affinity=REQUIRES_Y))
    placed = applied(raw, assignment_patch(raw, ALLOCATION, "placed on b", hostname="host-b"))
    said = placed["metadata"]["annotations"][PLACEMENT]
    assert said == "placed on b\nnode affinity added: required: host-b (in nodeSelector)"


def test_every_patch_names_the_version_it_was_made_from() -> None:
    version = {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    for patch in (
        assignment_patch(gated(), ALLOCATION, "x"),
        ungate_patch(gated(), Constraint(), "x"),
        status_patch(gated(), "x"),
    ):
        assert patch[0] == version


@given(pods)
def test_terms_stay_as_many_and_in_their_place_and_what_is_ours_can_be_told(raw: dict[str, Any]) -> None:
    raw = gated(raw)
    assigned = applied(raw, assignment_patch(raw, ALLOCATION, "x"))
    before, after = required_terms(raw), required_terms(assigned)
    assert after is not None
    assert len(after) == (1 if before is None else len(before))
    managed_fields = ManagedFields.parse(assigned["metadata"]["annotations"].get(MANAGED_FIELDS))
    assert without_nulls(required_terms(without_ours(assigned, managed_fields))) == without_nulls(before)


def without_nulls(terms: list[Any] | None) -> list[dict[str, Any]] | None:
    """A list of requirements that is null or empty is none."""
    if terms is None:
        return None
    return [{name: held for name, held in (term or {}).items() if held} for term in terms]


def test_a_released_pod_is_kept_off_nodes_by_as_many_terms_as_it_has() -> None:
    off = Constraint(none_of([NodeRef("a", "a")]))
    raw = gated(pod(metadata={"ownerReferences": [{"controller": True}]}, affinity=REQUIRES_Y))
    released = applied(raw, ungate_patch(raw, off, "released"))
    assert not admits(released, "a", {"x": "y", "kubernetes.io/hostname": "a"})
    assert admits(released, "b", {"x": "y", "kubernetes.io/hostname": "b"})
    several = Constraint(one_of([NodeRef("a", None), NodeRef("b", None)]))
    assert required_terms(applied(raw, ungate_patch(raw, several, "released"))) == required_terms(raw)


def test_a_pod_that_is_kept_off_nodes_says_so_in_every_later_text() -> None:
    told = applied(gated(), status_patch(gated(), "waiting: a; b"))
    off = applied(told, narrow_patch(told, Constraint(none_of([NodeRef("c", "c")]))))
    assert off["metadata"]["annotations"][PLACEMENT] == "waiting: a\nb\nnode affinity added: excluded: 1 node"
    again = applied(off, narrow_patch(off, Constraint(none_of([NodeRef("d", "d")]))))
    later = applied(again, status_patch(again, "waiting: c"))
    assert later["metadata"]["annotations"][PLACEMENT] == "waiting: c\nnode affinity added: excluded: 2 nodes"
    assert status_patch(later, "waiting: c") == ()
    placed = applied(later, assignment_patch(later, ALLOCATION, "placed on b"))
    assert placed["metadata"]["annotations"][PLACEMENT].endswith("added: required: b; excluded: 2 nodes")


def test_a_member_that_waits_says_in_which_group_and_what_the_pod_says_already_is_not_written_again() -> None:
    told = applied(gated(), status_patch(gated(), "waiting: a; b"))
    assert told["metadata"]["annotations"][PLACEMENT] == "waiting: a\nb"
    assert status_patch(told, "waiting: a; b") == ()
    named = applied(told, status_patch(told, "waiting: a; b", "pg-w"))
    assert named["metadata"]["annotations"][POD_GROUP_NAME] == "pg-w"
    assert status_patch(named, "waiting: a; b", "pg-w") == ()


def test_what_was_assumed_is_taken_back_and_the_pod_stays_held_to_its_node() -> None:
    for allocation in (ALLOCATION, NUMAAllocation("b", ())):
        assigned = applied(gated(), assignment_patch(gated(), allocation, "placed on b"))
        empty = NUMAAllocation.without_reservation("b")
        patch = forget_patch(assigned, empty, "signed", "placed on b, where nothing is reserved for it any more")
        assert patch[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
        after = applied(assigned, patch)
        assert after["spec"] == assigned["spec"]
        annotations = after["metadata"]["annotations"]
        assert (annotations[NUMA_ALLOCATION], annotations[NUMA_SIGNATURE]) == (
            '{"node":"b","reserved":false}',
            "signed",
        )
        assert annotations[PLACEMENT] == (
            "placed on b, where nothing is reserved for it any more\nnode affinity added: required: b"
        )
        assert RESOURCE_STATUS not in annotations
