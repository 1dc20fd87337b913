"""Node affinity that is added to a pod: what it admits, what it leaves alone, what the API server says to it."""

from typing import Any

import pytest
from hypothesis import given

from tests.unit.admission.node_affinity import admits, faults
from tests.unit.admission.strategies import NODES, constraints, pods
from webhook.formats.patches.affinity_patch import (
    PREFERRED,
    REQUIRED,
    Constraint,
    NodeRef,
    check_only_appended,
    constrain,
    none_of,
    one_of,
    preference,
)
from webhook.formats.patches.json_patch import Patch, PatchError

A, B, C = (NodeRef(name, f"host-{name}") for name in "abc")
BARE, TWIN = NodeRef("bare", None), NodeRef("twin", None)


def _mutated(affinity: Any, constraint: Constraint) -> Any:
    patch = Patch({"spec": {"affinity": affinity}})
    constrain(patch, constraint)
    return patch.document["spec"]["affinity"]


def _hostname(operator: str, *values: str) -> dict[str, Any]:
    return {"key": "kubernetes.io/hostname", "operator": operator, "values": list(values)}


def _name(operator: str, value: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": operator, "values": [value]}


def test_one_node_is_named_by_the_field_the_scheduler_looks_up_first() -> None:
    assert one_of([A]) == ({"matchFields": [_name("In", "a")]},)


def test_several_nodes_are_one_requirement_on_the_hostname_label() -> None:
    assert one_of([C, A]) == ({"matchExpressions": [_hostname("In", "host-a", "host-c")]},)


def test_nodes_that_no_hostname_label_singles_out_are_alternatives_of_their_own() -> None:
    assert one_of([A, BARE, TWIN]) == (
        {"matchExpressions": [_hostname("In", "host-a")]},
        {"matchFields": [_name("In", "bare")]},
        {"matchFields": [_name("In", "twin")]},
    )


def test_nodes_to_avoid_are_anded_in_one_alternative() -> None:
    assert none_of([A, BARE, TWIN]) == (
        {
            "matchExpressions": [_hostname("NotIn", "host-a")],
            "matchFields": [_name("NotIn", "bare"), _name("NotIn", "twin")],
        },
    )
    assert none_of([]) == ()


@pytest.mark.parametrize(("score", "weight"), [(-5, 1), (0, 1), (1, 1), (55, 55), (100, 100), (110, 100)])
def test_a_preference_weighs_its_score_within_the_allowed_range(score: int, weight: int) -> None:
    assert preference(A, score) == {"weight": weight, "preference": {"matchExpressions": [_hostname("In", "host-a")]}}
    assert preference(BARE, score)["preference"] == {"matchFields": [_name("In", "bare")]}


def test_requirements_go_into_every_term_and_empty_terms_stay_empty() -> None:
    gpu = {"key": "gpu", "operator": "Exists"}
    mutated_pod = _mutated(
        {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [{"matchExpressions": [gpu]}, {}, {"matchFields": [_name("NotIn", "b")]}]
                }
            }
        },
        Constraint(one_of([A, B])),
    )
    ours = _hostname("In", "host-a", "host-b")
    assert mutated_pod["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [gpu, ours]},
        {},
        {"matchFields": [_name("NotIn", "b")], "matchExpressions": [ours]},
    ]


def test_further_alternatives_are_copies_of_every_term_that_has_requirements() -> None:
    gpu, arm = {"key": "gpu", "operator": "Exists"}, {"key": "arm", "operator": "Exists"}
    mutated_pod = _mutated(
        {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [gpu]}, {}, {"matchExpressions": [arm]}]}
            }
        },
        Constraint(one_of([A, BARE])),
    )
    ours = _hostname("In", "host-a")
    assert mutated_pod["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [gpu, ours]},
        {},
        {"matchExpressions": [arm, ours]},
        {"matchExpressions": [gpu], "matchFields": [_name("In", "bare")]},
        {"matchExpressions": [arm], "matchFields": [_name("In", "bare")]},
    ]


@pytest.mark.parametrize("terms", [[], [{}], [None], [{"matchExpressions": [], "matchFields": None}]])
def test_terms_that_match_nothing_go_on_matching_nothing(terms: list[Any]) -> None:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    assert _mutated(affinity, Constraint(one_of([A, BARE]))) == affinity


@pytest.mark.parametrize(
    "affinity", [None, {}, {"nodeAffinity": None}, {"nodeAffinity": {REQUIRED: None, PREFERRED: None}}]
)
def test_missing_and_null_parents_are_filled_in(affinity: Any) -> None:
    assert _mutated(affinity, Constraint(one_of([A]), (preference(A, 7),)))["nodeAffinity"] == {
        REQUIRED: {"nodeSelectorTerms": [{"matchFields": [_name("In", "a")]}]},
        PREFERRED: [preference(A, 7)],
    }


def test_preferences_are_appended_to_the_users() -> None:
    mine = {"weight": 3, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}
    mutated_pod = _mutated({"nodeAffinity": {PREFERRED: [mine]}}, Constraint((), (preference(A, 7), preference(B, 6))))
    assert mutated_pod == {"nodeAffinity": {PREFERRED: [mine, preference(A, 7), preference(B, 6)]}}


@pytest.mark.parametrize(
    "after",
    [
        {},
        {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [_name("In", "a")]}, {}]}, PREFERRED: [preference(A, 1)]},
        {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [_hostname("In", "x")]}]},
            PREFERRED: [preference(A, 1)],
        },
        {
            REQUIRED: {
                "nodeSelectorTerms": [{"matchExpressions": [_hostname("In", "x")]}, {"matchFields": [_name("In", "a")]}]
            },
            PREFERRED: [preference(A, 1)],
        },
        {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [_hostname("In", "x")]}, {}]},
            PREFERRED: [preference(B, 1)],
        },
    ],
)
def test_a_patch_that_changes_what_the_user_wrote_is_an_error_of_ours(after: Any) -> None:
    before = {
        REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [_hostname("In", "x")]}, {}]},
        PREFERRED: [preference(A, 1)],
    }
    check_only_appended(
        {"spec": {"affinity": {"nodeAffinity": before}}}, {"spec": {"affinity": {"nodeAffinity": before}}}
    )
    with pytest.raises(PatchError):
        check_only_appended(
            {"spec": {"affinity": {"nodeAffinity": before}}}, {"spec": {"affinity": {"nodeAffinity": after}}}
        )


# The nodes of the property tests: n5's hostname label is also n3's.
_LABELS = {
    **{node.name: {"kubernetes.io/hostname": node.hostname} for node in NODES if node.hostname},
    "n4": {},
    "n5": {"kubernetes.io/hostname": "host-n3"},
}


@given(pods, constraints)
def test_a_constraint_admits_what_both_it_and_the_user_admit(pod: dict[str, Any], constraint: Constraint) -> None:
    alone = Patch({"spec": {}})
    constrain(alone, constraint)
    mutated_pod = Patch(pod)
    constrain(mutated_pod, constraint)
    for name, labels in _LABELS.items():
        both = admits(pod, name, labels) and admits(alone.document, name, labels)
        assert admits(mutated_pod.document, name, labels) == both


@given(pods, constraints)
def test_the_api_server_accepts_what_is_added(pod: dict[str, Any], constraint: Constraint) -> None:
    mutated_pod = Patch(pod)
    constrain(mutated_pod, constraint)
    assert faults(mutated_pod.document) == faults(pod)


@given(pods, constraints)
def test_constraining_only_adds(pod: dict[str, Any], constraint: Constraint) -> None:
    mutated_pod = Patch(pod)
    constrain(mutated_pod, constraint)
    check_only_appended(pod, mutated_pod.document)
    assert {operation["op"] for operation in mutated_pod.operations} <= {"add"}
