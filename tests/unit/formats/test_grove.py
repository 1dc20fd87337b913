"""Grove's PodGangs as they are read: the tree of subgroups, and the faults of what a tenant may write."""

from typing import Any

import pytest

from tests.builders.grove import binding, config, labels, pack, pod_gang, podgroup
from webhook.formats.grove import gang_of_pod, read_pod_gang
from webhook.formats.topology import Topology
from webhook.formats.user_pod_group import MAX_SUBGROUPS, SubGroup, UserPodGroup, subgroup_label, subgroup_of
from webhook.model.errors import UserError

ZONE, RACK, HOST = "example.com/zone", "example.com/rack", "kubernetes.io/hostname"


def tree(part: SubGroup) -> Any:
    """(name, minimum, required, preferred, the same of those below)."""
    return part.name, part.minimum, part.required, part.preferred, [tree(each) for each in part.parts]


def test_the_gang_its_group_configs_and_its_podgroups_are_nested_each_with_its_own_levels() -> None:
    # g ─ zone ─┬─ decode-0 ─ rack ─┬─ leader
    #           │                   └─ worker ─ host
    #           └─ router ─ prefers a rack
    gang = read_pod_gang(
        pod_gang(
            podgroup("router", 2, preferred=RACK),
            podgroup("leader", 1),
            podgroup("worker", 4, HOST),
            configs=[config("decode-0", ["leader", "worker"], RACK)],
            **pack(ZONE),
        )
    )
    assert gang.problems == ()
    assert tree(gang.whole) == (
        "",
        7,
        ZONE,
        "",
        [
            ("decode-0", 5, RACK, "", [("leader", 1, "", "", []), ("worker", 4, HOST, "", [])]),
            ("router", 2, "", RACK, []),
        ],
    )
    assert (gang.shown, gang.topologies) == ("PodGang g", ("network",))
    topology = Topology.from_object(binding(ZONE, RACK, HOST))
    assert gang.topology_in({"network": topology}) is topology


def test_a_podgroup_may_need_no_pod_at_once_as_during_an_update() -> None:
    assert tree(read_pod_gang(pod_gang(podgroup("a", 0), podgroup("b", 0))).whole)[:2] == ("", 0)


def test_a_topology_may_be_named_as_for_kai_scheduler() -> None:
    raw = pod_gang(podgroup("a", 1, RACK))
    raw["metadata"]["annotations"] = {"kai.scheduler/topology": "network"}
    assert read_pod_gang(raw).topology == "network"


MANY = [podgroup(f"p{n}", 1) for n in range(1000)]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (pod_gang(), "spec.podgroups: There are none"),
        (pod_gang(*MANY), f"spec.podgroups: There are 1000 of them. A PodGang may have at most {MAX_SUBGROUPS} here."),
        (
            pod_gang(podgroup("a", 1), configs=[config(f"c{n}", []) for n in range(1000)]),
            "spec.topologyConstraintGroupConfigs: There are 1000 of them",
        ),
        (
            pod_gang(podgroup("a", 1), configs=[config("c", ["a"] * 1000)]),
            "spec.topologyConstraintGroupConfigs: They list 1000 podgroups, and there are 1",
        ),
        (
            pod_gang(podgroup("a", 1), podgroup("b", 1), configs=[config("c", ["a"]), config("d", ["a"])]),
            '"a" is in spec.topologyConstraintGroupConfigs[0].podGroupNames already',
        ),
        (
            pod_gang(podgroup("worker", 1), configs=[config("c", ["wroker"])]),
            'Configs[0].podGroupNames: There is no podgroup "wroker". Did you mean worker?',
        ),
        (pod_gang(podgroup("a", 1), podgroup("a", 1)), 'spec.podgroups[1].name: "a" is the name of spec.podgroups[0]'),
        (pod_gang(podgroup("a" * 64, 1)), "spec.podgroups[0].name: "),
        (pod_gang(podgroup("a", -1)), "spec.podgroups[0].minReplicas: -1 is not a number of pods"),
        (pod_gang(podgroup("a", 2**31)), "spec.podgroups[0].minReplicas: 2147483648 is not a number of pods"),
        (pod_gang(podgroup("a", 1) | {"minReplicas": True}), "spec.podgroups[0].minReplicas: True is not a number"),
        (pod_gang(*(podgroup(f"p{n}", 100_000) for n in range(2))), "Together their minReplicas are 200000 pods"),
        (
            pod_gang(podgroup("a", 1, RACK), topology=""),
            "packConstraint.required: A level needs a topology. Name a ClusterTopologyBinding in metadata.annotations[",
        ),
        (
            pod_gang(podgroup("a", 1), topologyConstraint={"packConstraint": {"required": "r" * 400}}),
            "spec.topologyConstraint.packConstraint.required: ",
        ),
        (
            pod_gang(podgroup("a", 1), topologyConstraint=["rack"]),
            "spec.topologyConstraint: This must be an object",
        ),
        (pod_gang(podgroup("a", 1)) | {"spec": {"podgroups": "a"}}, "spec.podgroups: This must be a list"),
        (pod_gang(podgroup("a", 1)) | {"spec": 7}, "spec: This must be an object"),
    ],
)
def test_what_cannot_be_placed_is_a_fault_with_its_field(raw: dict[str, Any], says: str) -> None:
    gang = read_pod_gang(raw)
    assert gang.problems
    assert all(problem.startswith("PodGang g: ") for problem in gang.problems)
    assert says in " ".join(gang.problems)
    assert len(" ".join(gang.problems)) < 100_000


@pytest.mark.parametrize(
    ("gang", "says"),
    [
        (pod_gang(podgroup("a", 1, ZONE, RACK), topology="other"), "metadata.annotations[grove.io/topology-name]: "),
        (
            pod_gang(podgroup("a", 1, "example.com/rock")),
            'spec.podgroups[0].topologyConstraint.packConstraint.required: "example.com/rock" is no level',
        ),
        (
            pod_gang(podgroup("a", 1, RACK, ZONE)),
            f'[0].topologyConstraint.packConstraint.preferred: "{ZONE}" is coarser than the required level "{RACK}"',
        ),
    ],
)
def test_levels_are_checked_against_the_topology_that_the_podgang_names(gang: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as refused:
        read_pod_gang(gang).topology_in({"network": Topology.from_object(binding(ZONE, RACK, HOST))})
    assert says in str(refused.value)


def test_what_has_no_effect_here_is_named() -> None:
    reused: dict[str, Any] = {"reuseReservationRef": {"namespace": "ns", "name": "before"}}
    gang = read_pod_gang(pod_gang(podgroup("a", 1), priorityClassName="high", **reused))
    both = 'not used of PodGang g: spec.reuseReservationRef, its priority class "high" (that of each pod counts)'
    assert gang.not_used({""}) == gang.not_used({"high", "low"}) == both
    assert gang.not_used({"high"}) == "not used of PodGang g: spec.reuseReservationRef"
    assert read_pod_gang(pod_gang(podgroup("a", 1))).not_used({"low"}) == ""


def test_a_change_of_its_pods_and_its_status_is_no_change_of_the_record() -> None:
    raw = pod_gang(podgroup("a", 1))
    later = pod_gang({**podgroup("a", 1), "podReferences": [{"namespace": "elsewhere", "name": "a-x"}]})
    later["status"] = {"phase": "Running"}
    assert read_pod_gang(raw) == read_pod_gang(later)
    assert isinstance(read_pod_gang(raw), UserPodGroup)


def test_a_pod_is_in_the_podgang_and_the_podclique_of_its_labels() -> None:
    of_grove = labels("a", 0)
    assert gang_of_pod(of_grove, {}) == {"pod-group-name": "g"}
    assert gang_of_pod(of_grove, {"pod-group-name": "mine"}) == {}
    assert gang_of_pod({"grove.io/podgang": "g"}, {}) == gang_of_pod({}, {}) == {}
    assert gang_of_pod({"grove.io/podgang": 7, "grove.io/podclique": "a"}, {}) == {}
    member = {"pod-group-name": "g"}
    assert subgroup_of(of_grove, member) == "a"
    assert subgroup_label(of_grove, member) == "grove.io/podclique"


def test_groves_label_names_no_subgroup_of_a_gang_that_somebody_else_defines() -> None:
    assert subgroup_of(labels("a", 0), {"pod-group-name": "mine"}) == ""
    assert subgroup_of(labels("a", 0), {}) == ""
    both = {**labels("a", 0), "kai.scheduler/subgroup-name": "b"}
    assert subgroup_of(both, {"pod-group-name": "g"}) == "b"


def test_a_cluster_topology_binding_is_a_topology_whose_domains_are_other_names_of_its_levels() -> None:
    topology = Topology.from_object(binding(ZONE, RACK, HOST))
    assert topology.node_labels == (ZONE, RACK, HOST)
    assert [topology.level(name) for name in (ZONE, "rack", "hostname")] == [0, 1, 2]
    faulty = binding(RACK)
    faulty["spec"]["levels"] = [{"domain": "rack"}]
    with pytest.raises(UserError, match=r"spec.levels\[0\].key"):
        Topology.from_object(faulty)
