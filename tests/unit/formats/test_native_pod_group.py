"""What a PodGroup of Kubernetes itself requests of its pods, and what is wrong with it."""

from typing import Any

import pytest

from tests.builders.native_pod_groups import native_pod_group
from tests.builders.topologies import topology
from webhook.formats.dra import PodClaim
from webhook.formats.kubernetes.native_pod_group import CONDITION_TYPES, NativePodGroup, scheduling_group_of
from webhook.formats.topology import Topology
from webhook.model.errors import UserError
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, MIN_MEMBER, POD_GROUP_NAME

ZONE, RACK, HOST = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"


def topologies(**labels: list[str]) -> dict[str, Topology]:
    return {name: Topology.from_object(topology(name=name, labels=levels)) for name, levels in labels.items()}


NETWORK = topologies(network=[ZONE, RACK])


def read(**how: Any) -> NativePodGroup:
    return NativePodGroup.from_object(native_pod_group(**how))


@pytest.mark.parametrize("version", CONDITION_TYPES)
def test_min_count_and_the_key_are_the_minimum_and_the_required_level(version: str) -> None:
    group = read(minimum=4, level=RACK, version=version)
    assert (group.key, group.minimum, group.level, group.constrained, group.problems) == (
        "default/g",
        4,
        RACK,
        True,
        (),
    )
    expected = {MIN_MEMBER: "4", KAI_TOPOLOGY: "network", KAI_REQUIRED_PLACEMENT: RACK}
    assert group.request({}, NETWORK) == expected


def test_a_basic_group_has_no_minimum_and_without_a_constraint_requests_nothing() -> None:
    assert read().request({}, NETWORK) == {}
    assert read(level=ZONE).request({}, NETWORK) == {KAI_TOPOLOGY: "network", KAI_REQUIRED_PLACEMENT: ZONE}
    assert read(minimum=2).request({}, {}) == {MIN_MEMBER: "2"}
    assert not read(minimum=2).constrained


def test_of_several_topologies_that_divide_the_nodes_alike_the_first_by_name_is_taken() -> None:
    known = topologies(b=[ZONE, RACK, HOST], a=[ZONE, RACK])
    assert read(level=RACK).request({}, known)[KAI_TOPOLOGY] == "a"


def test_of_several_that_divide_them_differently_the_pods_name_one() -> None:
    known = topologies(a=[ZONE, RACK], b=[RACK, HOST])
    with pytest.raises(UserError, match="a level of several Topologies, below different levels: a, b") as error:
        read(level=RACK).request({}, known)
    assert error.value.path == "PodGroup g: spec.schedulingConstraints.topology[0].key"
    assert read(level=RACK).request({KAI_TOPOLOGY: "b"}, known)[KAI_TOPOLOGY] == "b"


@pytest.mark.parametrize(
    ("known", "asked", "text"),
    [
        ({}, {}, '"example.com/rack" is a level of no Topology. There are no Topologies.'),
        (topologies(t=["example.com/racks"]), {}, "Levels are: example.com/racks. Did you mean example.com/racks?"),
        (NETWORK, {KAI_TOPOLOGY: "netwerk"}, 'There is no topology "netwerk". Did you mean network?'),
        (NETWORK, {KAI_REQUIRED_PLACEMENT: "zone"}, '"zone" is not "example.com/rack", which is'),
        (NETWORK, {KAI_REQUIRED_PLACEMENT: "x" * 9_000}, 'topology-required-placement]: "xxx'),
        (NETWORK, {POD_GROUP_NAME: "other"}, '"other" is not "g", which is spec.schedulingGroup.podGroupName'),
        (NETWORK, {MIN_MEMBER: "3"}, '"3" is not "2", which is spec.schedulingPolicy.gang.minCount of PodGroup g'),
    ],
)
def test_what_cannot_be_resolved_or_contradicts_the_pod_is_a_fault(
    known: dict[str, Topology], asked: dict[str, str], text: str
) -> None:
    with pytest.raises(UserError) as error:
        read(minimum=2, level=RACK).request(asked, known)
    assert text in str(error.value)
    assert error.value.path
    assert len(str(error.value)) < 2_600


def test_annotations_that_say_the_same_are_accepted() -> None:
    asked = {MIN_MEMBER: "02", KAI_REQUIRED_PLACEMENT: "rack", POD_GROUP_NAME: "g"}
    assert read(minimum=2, level=RACK).request(asked, NETWORK)[KAI_REQUIRED_PLACEMENT] == RACK


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"minimum": 2**31 - 1}, "spec.schedulingPolicy.gang.minCount"),
        ({"minimum": 0}, "spec.schedulingPolicy.gang.minCount"),
        ({"minimum": "4"}, "spec.schedulingPolicy.gang.minCount"),
        ({"minimum": True}, "spec.schedulingPolicy.gang.minCount"),
        ({"schedulingPolicy": {"gang": 1}}, "spec.schedulingPolicy.gang"),
        ({"level": "x" * 400}, "spec.schedulingConstraints.topology[0].key"),
        ({"level": 5}, "spec.schedulingConstraints.topology[0].key"),
        (
            {"schedulingConstraints": {"topology": [{"key": ZONE}, {"key": RACK}]}},
            "spec.schedulingConstraints.topology",
        ),
        ({"schedulingConstraints": {"topology": "rack"}}, "spec.schedulingConstraints.topology"),
        ({"parentCompositePodGroupName": ["all"]}, "spec.parentCompositePodGroupName"),
        ({"schedulingPolicy": {}}, "spec.schedulingPolicy"),
        ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 2}}}, "spec.schedulingPolicy"),
    ],
)
def test_an_invalid_group_is_kept_with_its_fault_which_its_pods_report(spec: dict[str, Any], path: str) -> None:
    group = read(**spec)
    (problem,) = group.problems
    assert problem.startswith(f"PodGroup g: {path}: ")
    with pytest.raises(UserError) as error:
        group.request({}, NETWORK)
    assert str(error.value) == problem


@pytest.mark.parametrize("topology", [[{"key": 5}], [{"key": ZONE}, {"key": RACK}], "rack"])
def test_a_group_with_an_invalid_constraint_is_constrained_so_that_its_pods_do_not_start_anywhere(
    topology: Any,
) -> None:
    assert read(schedulingConstraints={"topology": topology}).constrained
    assert not read(schedulingConstraints={"topology": []}).constrained


def test_fields_without_effect_here_are_named() -> None:
    assert read(disruptionMode="PodGroup").ignored == ()
    assert [text.split()[0] for text in read(resourceClaims=[{}]).ignored] == ["spec.resourceClaims"]
    below = read(parentCompositePodGroupName="all")
    assert below.parent == "all"
    assert [text.split()[0] for text in below.ignored] == ["spec.parentCompositePodGroupName"]


def test_the_claims_that_its_pods_share_are_read() -> None:
    claims = [{"name": "net", "resourceClaimName": "shared"}, {"name": "gpu", "resourceClaimTemplateName": "t"}]
    raw = native_pod_group(resourceClaims=claims)
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "g-gpu-x"}]}
    read_claims = NativePodGroup.from_object({**raw, "status": status}).claims
    assert read_claims == (PodClaim("net", "shared", ""), PodClaim("gpu", "g-gpu-x", "t"))


@pytest.mark.parametrize(
    ("spec", "ends_whole"),
    [
        ({}, False),
        ({"disruptionMode": "Pod"}, False),
        ({"disruptionMode": {"single": {}}}, False),
        ({"disruptionMode": "PodGroup"}, True),
        ({"disruptionMode": {"all": {}}}, True),
    ],
)
def test_the_disruption_mode_says_whether_preemption_ends_the_group_as_a_whole(
    spec: dict[str, Any], ends_whole: bool
) -> None:
    assert read(**spec).ends_whole is ends_whole


def test_records_that_differ_in_their_status_alone_are_equal() -> None:
    raw = native_pod_group(minimum=2)
    told = {**raw, "status": {"conditions": [{"type": "PodGroupScheduled"}]}}
    assert NativePodGroup.from_object(raw) == NativePodGroup.from_object(told)
    assert NativePodGroup.from_object(raw) != read(minimum=3)


@pytest.mark.parametrize("spec", [None, [], {}, {"schedulingGroup": None}, {"schedulingGroup": {"podGroupName": 5}}])
def test_a_pod_without_a_group_names_none(spec: Any) -> None:
    assert scheduling_group_of({"spec": spec}) == ""
