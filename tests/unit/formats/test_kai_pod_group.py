"""KAI-Scheduler's PodGroups that users write: the tree of subgroups, and what of it is refused with which words."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders.gangs import topology_of
from tests.builders.pod_groups import constraint, pod_group
from webhook.formats.kai import MAX_DEPTH, is_kept_by_us, read_pod_group
from webhook.formats.user_pod_group import MAX_SUBGROUPS, SubGroup, UserPodGroup
from webhook.model.errors import UserError

TOPOLOGIES = {"network": topology_of("topology/zone", "topology/spine", "topology/rack")}

LABEL = "metadata.labels[kai.scheduler/subgroup-name]"


def read(*subgroups: Mapping[str, Any], **spec: Any) -> UserPodGroup:
    return read_pod_group(pod_group(*subgroups, **spec))


def tree(part: SubGroup) -> Any:
    """name:minimum, with those below."""
    text = f"{part.name}:{part.minimum}"
    return {text: [tree(each) for each in part.parts]} if part.parts else text


def test_without_subgroups_min_member_pods_start_together() -> None:
    assert tree(read().whole) == tree(read(minMember=0).whole) == ":1"
    group = read(minMember=4, topologyConstraint=constraint("topology/rack", "topology/rack"))
    assert (tree(group.whole), group.topology, group.problems) == (":4", "network", ())
    assert group.whole.resolve(TOPOLOGIES["network"]).required == 2


def test_subgroups_make_a_tree_of_any_order_and_the_sums_of_their_minimums() -> None:
    group = read(
        {"name": "a", "parent": "ab", "minMember": 1},
        {"name": "c", "minMember": 3},
        {"name": "ab"},
        {"name": "b", "parent": "ab", "minMember": 2},
        {"name": "d"},
        minMember=7,
    )
    assert tree(group.whole) == {":7": ["c:3", {"ab:3": ["a:1", "b:2"]}, "d:1"]}
    assert group.problems == ()


def test_the_spelling_of_kais_documentation_is_read_with_a_warning() -> None:
    raw = pod_group()
    raw["spec"]["subgroups"] = [{"name": "a", "minMember": 2}]
    group = read_pod_group(raw)
    assert tree(group.whole) == {":2": ["a:2"]}
    assert "Write it so: the API server drops the other spelling." in group.warnings[0]


def test_a_minimum_that_those_below_exceed_is_told_to_have_no_effect() -> None:
    group = read({"name": "ab", "minMember": 2}, {"name": "a", "parent": "ab", "minMember": 3}, minMember=3)
    assert group.warnings == (
        "spec.subGroups[0].minMember: 2 has no effect, because the subgroups below start together with 3 pods.",
    )


@pytest.mark.parametrize(
    ("subgroups", "spec", "says"),
    [
        ([], {"minMember": -2}, "spec.minMember: -2 is not a number of pods. Write a whole number from 1 to 150000."),
        ([], {"minMember": "4"}, "spec.minMember: '4' is not a number of pods."),
        ([], {"minMember": 2**31}, "spec.minMember: 2147483648 is not a number of pods."),
        ([{"name": "a", "minMember": -1}], {}, "spec.subGroups[0].minMember: -1 is not a number of pods."),
        (
            [{"name": "a", "minMember": 2}],
            {"minMember": 3},
            "spec.minMember: 3 is more than the 2 of the subgroups below",
        ),
        (
            [{"name": "a", "minMember": 9}, {"name": "b", "parent": "a", "minMember": 2}],
            {},
            "spec.subGroups[0].minMember: 9 is more than the 2 of the subgroups below together.",
        ),
        ([{"name": f"s{i}", "minMember": 150_000} for i in range(2)], {}, "Together these are 300000 pods."),
        ([{"name": "a"}, {"name": "a"}], {}, 'spec.subGroups[1].name: "a" is the name of spec.subGroups[0] already.'),
        ([{"minMember": 1}], {}, "spec.subGroups[0].name: This is missing. Every subgroup needs a name."),
        ([{"name": "x" * 64}], {}, "is not a name of 1 to 63 characters."),
        (
            [{"name": "worker"}, {"name": "b", "parent": "wrker"}],
            {},
            "There is no subgroup 'wrker'. Did you mean worker?",
        ),
        ([{"name": "a", "parent": "a"}], {}, 'spec.subGroups[0].parent: The parents of "a" lead in a circle.'),
        (
            [{"name": "a", "parent": "b"}, {"name": "b", "parent": "c"}, {"name": "c", "parent": "a"}],
            {},
            'spec.subGroups[0].parent: The parents of "a" lead in a circle. Leave one of them out.',
        ),
        ([{"name": f"s{i}"} for i in range(MAX_SUBGROUPS + 1)], {}, "A PodGroup may have at most 64."),
        (
            [{"name": f"s{i}", "parent": f"s{i - 1}" if i else None} for i in range(MAX_DEPTH + 1)],
            {},
            "spec.subGroups[4].parent: This is level 5 of subgroups within each other. At most 4 are supported.",
        ),
        (
            [{"name": "a", "minSubGroup": 1}],
            {},
            "spec.subGroups[0].minSubGroup: 1 is not supported: all subgroups start together, and none are below",
        ),
        ([], {"subGroups": {"a": 1}}, "spec.subGroups: This must be a list"),
        ([], {"topologyConstraint": ["rack"]}, "spec.topologyConstraint: This must be an object"),
        (
            [{"name": "a", "topologyConstraint": {"requiredTopologyLevel": "rack"}}],
            {},
            "spec.subGroups[0].topologyConstraint.requiredTopologyLevel: A level needs a topology.",
        ),
        (
            [
                {"name": "a", "topologyConstraint": {"topology": "network"}},
                {"name": "b", "parent": "a"},
                {"name": "c", "parent": "b", "topologyConstraint": {"topology": "other"}},
            ],
            {},
            'spec.subGroups[2].topologyConstraint.topology: "other" is another topology than "network" of a subgroup',
        ),
        (
            [{"name": f"s{n}", "topologyConstraint": {"topology": f"t{n}"}} for n in range(64)],
            {},
            "spec.subGroups: The parts name 64 topologies: t0, t1, t10, …. Parts that start together may name at most",
        ),
        ([], {"topologyConstraint": {"topology": "x" * 300}}, "is not a name of at most 253 characters."),
    ],
)
def test_a_faulty_pod_group_is_kept_with_its_faults(subgroups: list[Any], spec: dict[str, Any], says: str) -> None:
    group = read(*subgroups, **spec)
    assert any(says in problem for problem in group.problems), group.problems
    assert all(problem.startswith("PodGroup g: ") for problem in group.problems)
    assert group.whole.parts == ()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (constraint("topology/row"), 'spec.topologyConstraint.requiredTopologyLevel: "topology/row" is no level of'),
        (
            constraint("topology/rack", "topology/zone"),
            '"topology/zone" is coarser than the required level "topology/rack"',
        ),
        (constraint("topology/rack", topology="netwrok"), 'There is no topology "netwrok".'),
    ],
)
def test_a_level_or_a_topology_that_does_not_exist_is_a_fault_of_the_moment(asked: Any, says: str) -> None:
    group = read(topologyConstraint=asked)
    assert group.problems == ()
    with pytest.raises(UserError) as refused:
        group.topology_in(TOPOLOGIES)
    assert says in str(refused.value)


def test_a_topology_that_only_a_subgroup_names_and_that_does_not_exist_is_a_fault_too() -> None:
    group = read({"name": "a"}, {"name": "b", "topologyConstraint": constraint("rack", topology="netwrok")})
    for topologies in (TOPOLOGIES, {}):
        with pytest.raises(UserError) as refused:
            group.topology_in(topologies)
        assert refused.value.path == "spec.subGroups[1].topologyConstraint.topology"


@pytest.mark.parametrize(
    ("label", "says"),
    [
        ("", "This is missing. PodGroup g has the subgroups leader, worker. Name one of them."),
        ("workr", '"workr" is no subgroup of PodGroup g. Pods may be in: leader, worker. Did you mean worker?'),
        ("all", '"all" has subgroups itself. Pods may be in: leader, worker.'),
    ],
)
def test_a_pod_has_to_be_in_a_subgroup_without_children(label: str, says: str) -> None:
    group = read({"name": "all"}, {"name": "leader", "parent": "all"}, {"name": "worker", "parent": "all"})
    with pytest.raises(UserError, match="subgroup-name") as refused:
        group.leaf(label, LABEL)
    assert says in str(refused.value)
    assert group.leaf("leader", LABEL) == "leader"
    with pytest.raises(UserError, match="PodGroup g has none"):
        read().leaf("leader", LABEL)


def test_ours_are_told_by_the_status_that_we_write() -> None:
    raw = pod_group()
    assert not is_kept_by_us(raw)
    raw["metadata"]["annotations"] = {"topology-webhook.dev/placement": "no pods"}
    assert is_kept_by_us(raw)
    assert not is_kept_by_us({"metadata": {"annotations": ["odd"]}})
