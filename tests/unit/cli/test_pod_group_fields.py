"""Fields and versions of a PodGroup in a file that are not read: a misspelt constraint is no constraint."""

from typing import Any

import pytest

from tests.builders.native_pod_groups import native_pod_group
from tests.builders.pod_groups import constraint, pod_group
from webhook.cli.input.object_reference import NATIVE_POD_GROUP, POD_GROUP
from webhook.cli.offline.pod_group_review import unread_fields, unread_version
from webhook.formats.kubernetes.native_pod_group import CONDITION_TYPES


@pytest.mark.parametrize(
    ("kind", "spec", "told"),
    [
        (NATIVE_POD_GROUP, native_pod_group(minimum=2, level="example.com/rack", priorityClassName="p")["spec"], []),
        (
            NATIVE_POD_GROUP,
            {"schedulingConstraint": {"topology": [{"key": "example.com/rack"}]}},
            ["spec.schedulingConstraint is not read. Did you mean schedulingConstraints?"],
        ),
        (
            NATIVE_POD_GROUP,
            {"schedulingPolicy": {"gang": {"mincount": 2}, "priorityClassName": "p"}},
            [
                "spec.schedulingPolicy.gang.mincount is not read. Did you mean minCount?",
                "spec.schedulingPolicy.priorityClassName is not read.",
            ],
        ),
        (POD_GROUP, pod_group({"name": "a", "topologyConstraint": constraint("rack")}, queue="q")["spec"], []),
        (
            POD_GROUP,
            {"topologyConstraints": {}, "subGroups": [{"name": "a"}, {"minmember": 1, "topologyConstraint": {"x": 1}}]},
            [
                "spec.topologyConstraints is not read. Did you mean topologyConstraint?",
                "spec.subGroups[1].minmember is not read. Did you mean minMember?",
                "spec.subGroups[1].topologyConstraint.x is not read.",
            ],
        ),
        (POD_GROUP, {"subGroups": "odd", "topologyConstraint": [1]}, []),
        (POD_GROUP, None, []),
    ],
)
def test_unknown_fields_are_named_with_what_was_meant(kind: tuple[str, str], spec: Any, told: list[str]) -> None:
    assert list(unread_fields(kind, spec)) == told


def test_many_unknown_fields_are_told_of_ten() -> None:
    found = unread_fields(POD_GROUP, {f"{'x' * 9_000}{n}": n for n in range(10_000)})
    assert len(found) == 10
    assert all(len(text) < 200 for text in found)


def test_a_version_that_is_not_read_is_told() -> None:
    for version in CONDITION_TYPES:
        assert unread_version(NATIVE_POD_GROUP, f"scheduling.k8s.io/{version}") == ()
    (text,) = unread_version(NATIVE_POD_GROUP, "scheduling.k8s.io/v9")
    assert text.startswith("apiVersion: v9 is not read. Versions that are: v1alpha2, v1alpha3, v1beta1.")
    assert unread_version(POD_GROUP, "scheduling.run.ai/v9") == ()
