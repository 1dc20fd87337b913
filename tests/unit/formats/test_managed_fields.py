"""What is ours in a pod's affinity is recognised, and nothing else."""

from typing import Any

import pytest
from hypothesis import example, given, settings

from tests.unit.admission.strategies import constraints, pods
from webhook.formats.patches.affinity_patch import (
    REQUIRED,
    Constraint,
    NodeRef,
    constrain,
    one_of,
    preference,
    required_terms,
)
from webhook.formats.patches.json_patch import Patch
from webhook.formats.patches.managed_fields import ManagedFields, without_ours

HALF_NULL = {
    "matchExpressions": None,
    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n0"]}],
}
A, B, BARE = NodeRef("a", "host-a"), NodeRef("b", "host-b"), NodeRef("bare", None)


def _mutate(pod: Any, constraint: Constraint) -> tuple[Any, ManagedFields]:
    patch = Patch(pod)
    constrain(patch, constraint)
    return patch.document, ManagedFields.of(constraint, len(required_terms(pod) or ()))


def _bare(held: Any) -> Any:
    """A pod without empty and null parts, which mean the same as absent ones. Terms keep their emptiness."""
    if isinstance(held, dict):
        return {key: below for key, value in held.items() if (below := _bare(value)) not in (None, {}, [])}
    if isinstance(held, list):
        return [_bare(value) for value in held]
    return held


@given(pods, constraints)
@settings(max_examples=300)
def test_taking_out_what_is_ours_gives_the_pod_as_it_was(pod: dict[str, Any], constraint: Constraint) -> None:
    mutated_pod, managed_fields = _mutate(pod, constraint)
    assert _bare(without_ours(mutated_pod, managed_fields)) == _bare(pod)


@given(pods, constraints)
@example(
    {"spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [HALF_NULL]}}}}},
    Constraint(one_of([A, BARE])),
)
@settings(max_examples=300)
def test_a_second_pass_changes_nothing(pod: dict[str, Any], constraint: Constraint) -> None:
    mutated_pod, managed_fields = _mutate(pod, constraint)
    again, managed_fields_again = _mutate(without_ours(mutated_pod, managed_fields), constraint)
    assert managed_fields_again == managed_fields
    assert again["spec"].get("affinity") == mutated_pod["spec"].get("affinity")


@given(constraints)
def test_managed_fields_survives_its_annotation(constraint: Constraint) -> None:
    managed_fields = ManagedFields.of(constraint, 2)
    assert ManagedFields.parse(managed_fields.text()) == managed_fields


def test_managed_fields_of_the_largest_constraint_stays_below_a_kibibyte() -> None:
    nodes = [NodeRef(f"{i}" * 100, None) for i in range(64)]
    managed_fields = ManagedFields.of(Constraint(one_of(nodes), tuple(preference(node, 5) for node in nodes[:10])), 9)
    assert len(managed_fields.text()) < 1024


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "7", '{"required": 3}', '{"required": [3]}', '{"terms": "x"}', "null"]
)
def test_what_is_no_managed_field_marks_nothing(text: str | None) -> None:
    assert not ManagedFields.parse(text)


def test_the_users_own_requirement_stays_when_it_equals_ours() -> None:
    mine = one_of([A, B])[0]
    pod = {"spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [mine]}}}}}
    mutated_pod, managed_fields = _mutate(pod, Constraint(one_of([A, B])))
    assert len(required_terms(mutated_pod)[0]["matchExpressions"]) == 2  # type: ignore[index]
    assert without_ours(mutated_pod, managed_fields) == pod


def test_what_another_webhook_added_in_between_stays() -> None:
    other = {"key": "arch", "operator": "In", "values": ["arm64"]}
    mutated_pod, managed_fields = _mutate({"spec": {}}, Constraint(one_of([A, BARE])))
    for term in required_terms(mutated_pod) or ():
        term.setdefault("matchExpressions", []).append(other)
    assert required_terms(without_ours(mutated_pod, managed_fields)) == [
        {"matchExpressions": [other]},
        {"matchExpressions": [other]},
    ]


def test_a_term_that_only_we_are_left_in_goes_away() -> None:
    pod = {
        "spec": {
            "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "x"}]}]}}}
        }
    }
    mutated_pod, managed_fields = _mutate(pod, Constraint(one_of([A, B])))
    del required_terms(mutated_pod)[0]["matchExpressions"][0]  # type: ignore[index]
    assert without_ours(mutated_pod, managed_fields) == {"spec": {}}
