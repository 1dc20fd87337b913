"""Labels and annotations of a namespace that concern its pods, and their faults."""

from typing import Any

import pytest

from webhook.formats.koordinator.intent import NUMASpec
from webhook.formats.kubernetes.namespace import Namespace
from webhook.model.options import Manage
from webhook.model.policy import Exclusive, NUMAPolicy

LABEL = "topology-webhook.dev/manage"
SPEC = "scheduling.koordinator.sh/numa-topology-spec"
PROPOSED = "scheduling.koordinator.sh/resource-spec"


def namespace(**metadata: Any) -> Namespace:
    return Namespace.from_object({"metadata": {"name": "team-a", **metadata}})


def test_a_namespace_that_says_nothing_leaves_everything_to_the_settings() -> None:
    assert namespace() == namespace(labels=None, annotations=None) == Namespace("team-a")
    assert namespace(labels={"a": "b"}, annotations={"a": "b"}).problems == ()


@pytest.mark.parametrize(
    ("value", "manage"), [("annotated", Manage.ANNOTATED), ("aligned", Manage.ALIGNED), ("all", Manage.ALL)]
)
def test_the_label_says_which_pods_are_managed(value: str, manage: Manage) -> None:
    assert namespace(labels={LABEL: value}) == Namespace("team-a", manage)


@pytest.mark.parametrize(
    ("value", "meant"), [("Aligned", " Did you mean aligned?"), ("alll", " Did you mean all?"), ("", ""), ("yes", "")]
)
def test_an_unknown_label_counts_as_none_and_is_named_with_what_is_allowed(value: str, meant: str) -> None:
    found = namespace(labels={LABEL: value})
    assert found.manage is None
    assert found.problems == found.warnings
    (warning,) = found.warnings
    assert warning == (
        f"namespace team-a: metadata.labels[{LABEL}]: '{value}' is unknown, so the setting manage applies. "
        f"Allowed are annotated, aligned, all.{meant}"
    )


def test_a_hostile_label_is_quoted_and_cut() -> None:
    (warning,) = namespace(labels={LABEL: "x\n" * 10_000}).warnings
    assert len(warning) < 400
    assert "\n" not in warning
    (warning,) = namespace(labels={LABEL: 1}).warnings
    assert "1 is unknown" in warning


@pytest.mark.parametrize("annotation", [SPEC, PROPOSED])
def test_annotations_state_defaults_field_by_field(annotation: str) -> None:
    both = '{"numaTopologyPolicy": "Restricted", "singleNUMANodeExclusive": "Preferred"}'
    assert namespace(annotations={annotation: both}).defaults == NUMASpec(NUMAPolicy.RESTRICTED, Exclusive.PREFERRED)
    policy = '{"numaTopologyPolicy": "Restricted"}'
    assert namespace(annotations={annotation: policy}).defaults == NUMASpec(NUMAPolicy.RESTRICTED, None)


def test_an_empty_policy_is_stated_and_an_absent_one_is_open() -> None:
    assert namespace(annotations={SPEC: '{"numaTopologyPolicy": ""}'}).defaults == NUMASpec(NUMAPolicy.NONE, None)
    for text in ("{}", "null", '{"numaTopologyPolicy": null}', '{"singleNUMANodeExclusive": ""}'):
        assert namespace(annotations={SPEC: text}).defaults == NUMASpec()


def test_a_wrong_annotation_is_a_fault_that_names_namespace_key_value_and_what_is_allowed() -> None:
    found = namespace(annotations={SPEC: '{"numaTopologyPolicy": "SingleNumaNode"}'})
    assert found.defaults == NUMASpec()
    assert found.problems == (found.fault,)
    assert found.fault == (
        f'namespace team-a: metadata.annotations[{SPEC}].numaTopologyPolicy: "SingleNumaNode" is unknown. '
        'Allowed are BestEffort, Restricted, SingleNUMANode, and "" for no requirement. Did you mean SingleNUMANode?'
    )


def test_what_is_odd_in_an_annotation_is_a_warning() -> None:
    found = namespace(annotations={SPEC: '{"numaTopologyPolicy": "Restricted", "other": 1}'})
    assert found.defaults.policy is NUMAPolicy.RESTRICTED
    assert found.warnings == (f"namespace team-a: metadata.annotations[{SPEC}]: unknown field other is ignored.",)


@pytest.mark.parametrize("text", [1, None, [], "{" * 100_000, '{"numaTopologyPolicy": "' + "x" * 200_000 + '"}'])
def test_no_annotation_makes_reading_fail(text: object) -> None:
    found = namespace(annotations={SPEC: text})
    assert found.fault
    assert len(found.fault) < 3_000
