"""Kueue's topology annotations read as ours: what they stand for, and what of them is refused with which words."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders.gangs import topology_of
from webhook.formats.kueue import as_ours, left_to_kueue, why_kueues
from webhook.formats.topology import Topology
from webhook.model.errors import UserError

K = "kueue.x-k8s.io/podset-"
TOPOLOGIES = {"network": topology_of("example.com/zone", "example.com/rack", "kubernetes.io/hostname")}
OTHER = Topology("other", TOPOLOGIES["network"].source, topology_of("example.com/rack").levels)


def read(topologies: Mapping[str, Topology] = TOPOLOGIES, **annotations: Any) -> dict[str, str]:
    return dict(as_ours(kueues(**annotations), "metadata.annotations", topologies).added)


def kueues(**annotations: Any) -> dict[str, Any]:
    """required_topology="x" is kueue.x-k8s.io/podset-required-topology: x."""
    return {f"{K}{key.replace('_', '-')}": text for key, text in annotations.items()}


def layers(*of: tuple[int, str], quoted: bool = False) -> str:
    """Kueue's list of layers: sizes and levels."""
    return json.dumps([{"topology": label, "size": str(size) if quoted else size} for size, label in of])


def test_a_required_and_a_preferred_level_are_ours_of_the_topology_that_has_the_level() -> None:
    assert read(required_topology="example.com/rack") == {
        "kai.scheduler/topology": TOPOLOGIES["network"].name,
        "kai.scheduler/topology-required-placement": "example.com/rack",
    }
    assert read(preferred_topology="example.com/zone") == {
        "kai.scheduler/topology": TOPOLOGIES["network"].name,
        "kai.scheduler/topology-preferred-placement": "example.com/zone",
    }


def test_slices_are_segments() -> None:
    asked: dict[str, Any] = {"slice_required_topology": "kubernetes.io/hostname", "slice_size": "2"}
    segments = {
        "kai.scheduler/topology": TOPOLOGIES["network"].name,
        "kai.scheduler/segment-topology-required-placement": "kubernetes.io/hostname",
        "kai.scheduler/segment-size": "2",
    }
    assert read(**asked) == segments
    assert read(required_topology="example.com/zone", **asked) == {
        **segments,
        "kai.scheduler/topology-required-placement": "example.com/zone",
    }


@pytest.mark.parametrize("quoted", [False, True])
def test_slices_inside_slices_are_segments_inside_segments_and_can_be_taken_back(quoted: bool) -> None:
    text = layers((16, "example.com/rack"), (2, "kubernetes.io/hostname"), quoted=quoted)
    assert read(slice_required_topology_constraints=text) == {
        "kai.scheduler/topology": TOPOLOGIES["network"].name,
        "kai.scheduler/segment-size": "16,2",
        "kai.scheduler/segment-topology-required-placement": "example.com/rack,kubernetes.io/hostname",
    }
    asked = kueues(slice_required_topology_constraints=text)
    both = {**asked, **as_ours(asked, "", TOPOLOGIES).added}
    assert as_ours(both, "", TOPOLOGIES).warnings == ()
    assert left_to_kueue(both) == asked


def test_unconstrained_makes_a_pod_managed_without_a_level() -> None:
    assert read(unconstrained_topology="true") == {"topology-webhook.dev/managed": "all"}
    assert read(unconstrained_topology="false") == {}


@pytest.mark.parametrize(
    ("asked", "field", "says"),
    [
        (
            {"required_topology": "rack"},
            "required-topology",
            '"rack" is no level of Topology network. Its node labels: ',
        ),
        ({"required_topology": ""}, "required-topology", "The level is empty."),
        ({"required_topology": 3}, "required-topology", "This must be text, not 3."),
        ({"slice_required_topology": "example.com/rack"}, "slice-size", "needs a size"),
        ({"slice_size": "2"}, "slice-size", "needs a level"),
        *(
            (
                {"slice_required_topology": "example.com/rack", "slice_size": size},
                "slice-size",
                f'"{size}" is not a size. Write a whole number of pods from 1 to 150000',
            )
            for size in ("0", "-1", "two", "1.5", "150001", "")
        ),
        (
            {"unconstrained_topology": "yes"},
            "unconstrained-topology",
            '"yes" is not a boolean. Write "true" or "false".',
        ),
        ({"group_name": "g"}, "group-name", "A pod set group needs "),
        ({"required_topology": "example.com/rack", "group_name": "7"}, "group-name", '"7" is not a name'),
        *(
            ({"slice_required_topology_constraints": text}, "slice-required-topology-constraints", says)
            for text, says in (
                ("[]", "a list of 1 to 3 layers, not 0 layers"),
                ("{}", 'a list of 1 to 3 layers, not "{}"'),
                ("", '"" is not valid JSON at line 1, column 1'),
                ("[" * 100_000, "nested too deeply"),
                ("[7]", "Layer 0 is not an object with topology and size."),
                (
                    '[{"topology": "example.com/rack", "size": 0}]',
                    "has the size 0. Write a whole number of pods from 1",
                ),
                ('[{"topology": "example.com/rack", "size": true}]', "has the size true."),
                ('[{"topology": "example.com/rack"}]', "has the size null."),
                ('[{"size": 4}]', "Layer 0 has no topology."),
                ('[{"topology": "example.com/rack", "sizes": [1, 3]}]', "Slices of different sizes are not supported"),
                (layers((16, "example.com/rack"), (5, "kubernetes.io/hostname")), "Slices of 5 pods do not divide"),
                (layers((4, "example.com/rack"), (2, "example.com/rack")), "Two layers have the same level."),
                (layers(*((64 >> each, "example.com/rack") for each in range(4))), "not 4 layers"),
                (layers((4, "example.com/rak")), '"example.com/rak" is no level of Topology network.'),
            )
        ),
        (
            {"slice_required_topology_constraints": layers((4, "example.com/rack")), "slice_size": "4"},
            "slice-size",
            "Keep one of the two.",
        ),
        (
            {
                "required_topology": "example.com/zone",
                "slice_required_topology_constraints": layers((4, "example.com/rack")),
                "group_name": "g",
            },
            "group-name",
            "A pod set group has no slices.",
        ),
    ],
)
def test_a_bad_value_is_refused_by_field_value_and_what_is_allowed(
    asked: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(UserError) as refused:
        read(**asked)
    assert any(
        fault.path == f"metadata.annotations[{K}{field}]" and says in fault.message for fault in refused.value.faults
    )


def test_required_and_preferred_contradict_each_other() -> None:
    with pytest.raises(UserError, match="Keep one of them") as refused:
        read(required_topology="example.com/zone", preferred_topology="example.com/rack")
    assert refused.value.faults[0].path == "metadata.annotations"


def test_of_several_topologies_with_the_level_one_has_to_be_named() -> None:
    both = {**TOPOLOGIES, "other": OTHER}
    with pytest.raises(UserError, match=r"2 Topologies have the level .*: network, other"):
        read(both, required_topology="example.com/rack")
    named = {"kai.scheduler/topology": "other", **kueues(required_topology="example.com/rack")}
    assert as_ours(named, "", both).added == {"kai.scheduler/topology-required-placement": "example.com/rack"}
    same = Topology("also", OTHER.source, OTHER.levels)
    assert (
        read({"other": OTHER, "also": same}, required_topology="example.com/rack")["kai.scheduler/topology"] == "also"
    )


def test_ours_beside_kueues_counts_with_a_warning_and_what_was_read_before_is_no_contradiction() -> None:
    ours = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "example.com/zone"}
    both = {**ours, **kueues(required_topology="example.com/rack")}
    found = as_ours(both, "metadata.annotations", TOPOLOGIES)
    assert found.added == {}
    (warning,) = found.warnings
    assert warning == (
        "metadata.annotations[kai.scheduler/topology-required-placement] counts, and "
        "metadata.annotations[kueue.x-k8s.io/podset-required-topology] is not read. Keep one of the two."
    )
    once = kueues(required_topology="example.com/rack")
    twice = as_ours({**once, **as_ours(once, "", TOPOLOGIES).added}, "", TOPOLOGIES)
    assert (twice.added, twice.warnings) == ({}, ())
    assert as_ours({**ours, **kueues(slice_size="0")}, "", TOPOLOGIES).warnings  # no reason to deny


def test_what_stands_for_kueues_can_be_taken_back() -> None:
    asked = {"a": "b", **kueues(required_topology="example.com/rack")}
    assert left_to_kueue({**asked, **as_ours(asked, "", TOPOLOGIES).added}) == asked
    other = {
        **asked,
        "kai.scheduler/topology": "network",
        "kai.scheduler/topology-required-placement": "example.com/zone",
    }
    assert left_to_kueue(other) == other


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}}, "label kueue.x-k8s.io/queue-name"),
        ({"metadata": {"labels": {"kueue.x-k8s.io/managed": "true"}}}, "label kueue.x-k8s.io/managed"),
        ({"metadata": {"annotations": {"kueue.x-k8s.io/workload": "w"}}}, "annotation kueue.x-k8s.io/workload"),
        ({"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}}, "gate kueue.x-k8s.io/topology"),
        ({"metadata": {"labels": {"kueue.x-k8s.io/managed": "false"}}, "spec": {"schedulingGates": []}}, None),
        ({}, None),
    ],
)
def test_what_kueue_manages_is_told_by_its_label_annotation_or_gate(raw: dict[str, Any], why: str | None) -> None:
    assert why_kueues(raw) == why


@pytest.mark.parametrize("spec", [2, [], None, *({"schedulingGates": gates} for gates in (2, [2], [{"name": 2}]))])
def test_a_spec_that_is_no_pods_shows_nothing(spec: Any) -> None:
    assert why_kueues({"spec": spec}) is None
