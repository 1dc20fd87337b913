"""A pod at its creation: what is decided, what is written, and that a second pass changes nothing."""

import copy
from typing import Any, Literal

import jsonpatch
import pytest
from hypothesis import given

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import guaranteed, pod
from tests.builders.topologies import topology
from tests.unit.admission.node_affinity import admits, faults
from tests.unit.admission.strategies import pods
from webhook.admission.pod.mutation import inject_environment, mutate_pod
from webhook.formats.patches.affinity_patch import PREFERRED, REQUIRED, node_affinity, required_terms
from webhook.formats.patches.json_patch import Patch
from webhook.formats.topology import Topology
from webhook.model.errors import UserError
from webhook.model.names import INHERIT, MANAGED_FIELDS, NUMA_TOPOLOGY_SPEC, PLACEMENT, RESOURCE_SPEC
from webhook.model.options import Options
from webhook.placing.pod.decision import PodDecision, Verdict
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules

NEVER = Rules(gate="Never")

# a [7 7]  b [2 9]  c [0 12]   single-numa-node              [free cpus per NUMA node]
# d [8 8]           restricted
# e                 no NodeResourceTopology
CLUSTER = cluster_snapshot(
    *(node(name=name) for name in "abcde"),
    nrt(node="a", free=[7, 7]),
    nrt(node="b", free=[2, 9]),
    nrt(node="c", free=[0, 12]),
    nrt(node="d", free=[8, 8], policy="restricted"),
)
LABELS = {name: {"kubernetes.io/hostname": name} for name in "abcde"}


def _applied(raw: Any, mutation: PodDecision) -> Any:
    """The pod as the API server makes it from the patch."""
    return jsonpatch.apply_patch(raw, list(mutation.operations))


def _allowed_nodes(raw: Any, mutation: PodDecision) -> set[str]:
    mutated_pod = _applied(raw, mutation)
    return {name for name, labels in LABELS.items() if admits(mutated_pod, name, labels)}


def _only_requirement(mutation: PodDecision) -> Any:
    terms = required_terms(mutation.mutated)
    assert terms is not None
    ((requirement,),) = (term["matchExpressions"] for term in terms)
    return requirement


def _annotation(raw: Any, mutation: PodDecision) -> str:
    return str(_applied(raw, mutation)["metadata"]["annotations"][PLACEMENT])


def test_a_pod_is_held_to_the_nodes_where_one_numa_node_holds_it() -> None:
    raw = pod(cpu="8")
    mutation = mutate_pod(raw, CLUSTER, NEVER)
    assert mutation.verdict is Verdict.ALLOW
    assert _allowed_nodes(raw, mutation) == {"b", "c"}
    assert [term["preference"] for term in node_affinity(mutation.mutated)[PREFERRED]] == [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]} for name in "bc"
    ]


def test_the_placement_is_written_down_with_a_clause_a_line() -> None:
    raw = pod(cpu="8")
    mutation = mutate_pod(raw, CLUSTER, NEVER)
    *lines, last = _annotation(raw, mutation).splitlines()
    assert lines == mutation.message.split("; ")
    assert last == "node affinity added: required: b, c; preferred: b 94, c 93"
    assert mutation.message.startswith("SingleNUMANode: 2 of 5 nodes fit; best b (score ")
    assert mutation.message.endswith(
        "; excluded: 1 no NUMA topology known, 1 NUMA policy mismatch, 1 no single NUMA node with 8 cpu, 1Gi memory"
    )


@pytest.mark.parametrize("name", [NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC])
def test_either_annotation_is_obeyed(name: str) -> None:
    raw = pod(metadata={"annotations": {name: '{"numaTopologyPolicy": "SingleNUMANode"}'}})
    assert _allowed_nodes(raw, mutate_pod(raw, CLUSTER, NEVER)) == {"b", "c"}


def test_a_single_fitting_node_is_named_and_nothing_is_preferred() -> None:
    mutation = mutate_pod(pod(cpu="10"), CLUSTER, NEVER)
    assert required_terms(mutation.mutated) == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c"]}]}
    ]
    assert PREFERRED not in node_affinity(mutation.mutated)


def test_the_shorter_list_of_nodes_is_written() -> None:
    raw = pod(cpu="7")
    mutation = mutate_pod(raw, CLUSTER, NEVER)
    assert required_terms(mutation.mutated) == [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["d", "e"]}]}
    ]
    assert _allowed_nodes(raw, mutation) == {"a", "b", "c"}


def test_nothing_is_required_when_every_node_fits() -> None:
    everywhere = cluster_snapshot(
        *(node(name=name) for name in "ab"), nrt(node="a", free=[8, 8]), nrt(node="b", free=[8, 8])
    )
    mutation = mutate_pod(pod(), everywhere, NEVER)
    assert required_terms(mutation.mutated) is None
    assert len(node_affinity(mutation.mutated)[PREFERRED]) == 2


# n0 .. n19 [16]      [free cpus]; the last five are ssd, n18 and n19 have a soft taint
def disks() -> ClusterSnapshot:
    soft = [{"key": "old", "effect": "PreferNoSchedule"}]
    nodes = [
        node(name=f"n{i:02}", labels={"disk": "ssd" if i > 14 else "hdd"}, taints=soft * (i > 17)) for i in range(20)
    ]
    return cluster_snapshot(*nodes, *(nrt(node=one["metadata"]["name"], free=[16]) for one in nodes))


def preferring(weight: int) -> dict[str, Any]:
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    return {"nodeAffinity": {PREFERRED: [{"weight": weight, "preference": ssd}]}}


@pytest.mark.parametrize("weight", [1, 100])
def test_of_equal_nodes_those_that_the_user_prefers_are_written_first_and_heavier(weight: int) -> None:
    raw = pod(affinity=preferring(weight))
    mutation = mutate_pod(raw, disks(), NEVER)
    mine, *ours = node_affinity(mutation.mutated)[PREFERRED]
    assert [mine] == raw["spec"]["affinity"]["nodeAffinity"][PREFERRED]
    weights = {term["preference"]["matchExpressions"][0]["values"][0]: term["weight"] for term in ours}
    # Five match the term, of which two have the taint; of the others the first five by name make it ten.
    assert list(weights) == ["n15", "n16", "n17", "n00", "n01", "n02", "n03", "n04", "n05", "n06"]
    assert len({weights[name] for name in ("n15", "n16", "n17")}) == 1
    assert weights["n15"] > weights["n00"] == weights["n06"] >= 1
    assert "best n15 (score " in mutation.message
    assert ", preference 100, NUMA 0)" in mutation.message
    again = mutate_pod(mutation.mutated, disks(), NEVER)
    assert again.mutated == mutation.mutated


def test_scores_stay_before_preferences() -> None:
    # b and c fit: b has 9 of 16 cpus free, c 12
    raw = pod(affinity={"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": NAMED_C}]}})
    ours = node_affinity(mutate_pod(raw, CLUSTER, NEVER).mutated)[PREFERRED][1:]
    (b, heavier), (c, lighter) = ((term["preference"], term["weight"]) for term in ours)
    assert [b, c] == [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]} for name in "bc"
    ]
    assert heavier > lighter
    swapped = mutate_pod(raw, CLUSTER, Rules(gate="Never", engine=Options(preference_weight=50)))
    assert "best c (score " in swapped.message


NAMED_C = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c"]}]}


def test_a_weight_out_of_bounds_is_denied_with_its_place() -> None:
    with pytest.raises(UserError, match="from 1 to 100") as caught:
        mutate_pod(pod(affinity=preferring(0)), CLUSTER, Rules())
    assert caught.value.path.endswith("preferredDuringSchedulingIgnoredDuringExecution[0].weight")


@pytest.mark.parametrize(("fitting", "others"), [(65, 65), (70, 90), (90, 70)])
def test_when_both_lists_are_too_long_the_best_nodes_remain(fitting: int, others: int) -> None:
    names = [f"n{i:03}" for i in range(fitting + others)]
    # The fuller a NUMA node, the better it suits a pod that needs only one: the last ones that fit are the best.
    free = [16 - 4 * i // fitting if i < fitting else 7 for i in range(fitting + others)]
    large = cluster_snapshot(
        *(node(name=name) for name in names), *(nrt(node=name, free=[free[i]]) for i, name in enumerate(names))
    )
    mutation = mutate_pod(pod(), large, NEVER)
    requirement = _only_requirement(mutation)
    assert requirement["operator"] == "In"
    assert len(requirement["values"]) == 64
    assert mutation.nodes is not None
    assert set(requirement["values"]) == {one.node for one in mutation.nodes.best(64)}


@pytest.mark.parametrize(
    ("fitting", "others", "operator"), [(64, 64, "In"), (64, 900, "In"), (900, 64, "NotIn"), (65, 64, "NotIn")]
)
def test_up_to_64_nodes_are_named(fitting: int, others: int, operator: str) -> None:
    names = [f"n{i:03}" for i in range(fitting + others)]
    large = cluster_snapshot(
        *(node(name=name) for name in names),
        *(nrt(node=name, free=[16 if i < fitting else 1]) for i, name in enumerate(names)),
    )
    requirement = _only_requirement(mutate_pod(pod(), large, NEVER))
    assert requirement["operator"] == operator
    assert requirement["values"] == (names[:fitting] if operator == "In" else names[fitting:])


def test_a_node_whose_hostname_is_missing_or_shared_goes_by_its_name() -> None:
    odd = cluster_snapshot(
        node(name="bare", hostname=None),
        node(name="one", hostname="twin"),
        node(name="two", hostname="twin"),
        node(name="plain"),
        *(node(name=f"full-{i}") for i in range(4)),
        *(nrt(node=name, free=[16]) for name in ("bare", "one", "plain")),
    )
    mutated_pod = mutate_pod(pod(), odd, NEVER).mutated
    hostnames: dict[str, dict[str, str]] = {
        "bare": {},
        "one": {"kubernetes.io/hostname": "twin"},
        "two": {"kubernetes.io/hostname": "twin"},
        "plain": {"kubernetes.io/hostname": "plain"},
        "full-0": {"kubernetes.io/hostname": "full-0"},
    }
    assert {name for name, labels in hostnames.items() if admits(mutated_pod, name, labels)} == {"bare", "one", "plain"}
    assert faults(mutated_pod) == []


def test_a_pod_that_fits_nowhere_now_waits_for_the_nodes_that_could_take_it() -> None:
    raw = pod(cpu="14")
    mutation = mutate_pod(raw, CLUSTER, NEVER)
    assert mutation.verdict is Verdict.WAIT
    assert _allowed_nodes(raw, mutation) == {"a", "b", "c"}
    assert admits(mutation.mutated, "new", {"kubernetes.io/hostname": "new"}), "one that joins later is open to it"
    lines = _annotation(raw, mutation).splitlines()
    assert lines == [*mutation.message.split("; "), "node affinity added: excluded: 2 nodes"]
    assert mutation.message.startswith(
        "SingleNUMANode: none of 5 nodes fits now; 3 nodes could take it once other pods leave; excluded: 3 no single "
    )
    assert mutation.warnings == (mutation.message,)


def test_a_cordoned_node_is_told_from_one_that_others_fill() -> None:
    down = node(name="down")
    down["status"]["conditions"][0]["status"] = "Unknown"
    snapshot = cluster_snapshot(
        *(node(name="cordoned", unschedulable=True), down, node(name="full")),
        *(nrt(node=name, free=[free, free]) for name, free in {"cordoned": 16, "down": 16, "full": 0}.items()),
    )
    mutation = mutate_pod(pod(cpu="8"), snapshot, Rules())
    assert (
        "none of 3 nodes fits now; 1 node could take it once other pods leave, 1 node could take it once uncordoned, "
        "1 node could take it once ready; excluded: "
    ) in mutation.message


# A NUMA node of the cluster has 16 cpus.
TOO_LARGE = pod(cpu="17")
ON_A = pod(numa='{"numaTopologyPolicy": "BestEffort"}', nodeSelector={"kubernetes.io/hostname": "a"})
LARGEST = "it asks for {} cpu in one NUMA node, the largest has 16 (a, NUMA 0)"
OTHERS = cluster_snapshot(
    *(node(name=name) for name in "ab"),
    nrt(node="a", free=[4], policy="restricted"),
    nrt(node="b", free=[4], policy="best-effort"),
)
POD_SCOPE = cluster_snapshot(node(name="a"), nrt(node="a", free=[4, 4], scope="pod"))
B_BEFORE_A = cluster_snapshot(*(each for name in "ba" for each in (node(name=name), nrt(node=name, free=[4, 4]))))


@pytest.mark.parametrize(
    ("raw", "cluster", "reason", "message"),
    [
        (TOO_LARGE, CLUSTER, "Unalignable", f"{LARGEST.format(17)} even if it were empty"),
        (ON_A, CLUSTER, "NoCompatibleNode", "goes with BestEffort: 1 node has single-numa-node"),
        (pod(), OTHERS, "NoCompatibleNode", "1 node has best-effort, 1 node has restricted"),
        (pod(cpu="20"), POD_SCOPE, "Unalignable", LARGEST.format(20)),
        (pod(cpu="20"), B_BEFORE_A, "Unalignable", LARGEST.format(20)),
    ],
    ids=["too large", "another policy", "other policies", "pod scope", "the first by name of equal nodes is named"],
)
def test_a_pod_that_no_node_could_ever_align_is_denied_or_warned_about(
    raw: dict[str, Any], cluster: ClusterSnapshot, reason: str, message: str
) -> None:
    denied = mutate_pod(raw, cluster, NEVER)
    assert (denied.verdict, denied.reason, denied.operations) == (Verdict.DENY, reason, ())
    warned = mutate_pod(raw, cluster, Rules(no_compatible_node="Warn"))
    assert warned.verdict is Verdict.ALLOW
    assert warned.warnings == (warned.message,)
    for part in message.split(" even if "):
        assert part in denied.message
        assert part in warned.message
    assert required_terms(warned.mutated) is None


ONLY_A = {"kubernetes.io/hostname": "a"}


@pytest.mark.parametrize(
    ("cluster", "selector", "message"),
    [
        (
            cluster_snapshot(node(name="a"), node(name="b")),
            {},
            "no NUMA topology is known for any of the 2 nodes it may go to",
        ),
        (
            cluster_snapshot(node(name="a"), node(name="b"), nrt(node="b", free=[4])),
            ONLY_A,
            "is known for the one node it may go to",
        ),
    ],
)
@pytest.mark.parametrize("gate", ["Always", "WhenNeeded", "Never"])
def test_a_pod_waits_while_nothing_is_known_of_the_nodes_it_may_go_to(
    cluster: ClusterSnapshot, selector: dict[str, str], message: str, gate: Literal["Always", "WhenNeeded", "Never"]
) -> None:
    mutation = mutate_pod(pod(nodeSelector=selector), cluster, Rules(gate=gate))
    assert mutation.verdict is Verdict.WAIT
    assert message in mutation.message
    assert mutation.warnings == (mutation.message,)
    assert ("schedulingGates" in mutation.mutated["spec"]) is (gate != "Never")


NONE = "none could take it even if it were empty: "
CORDONED = cluster_snapshot(node(name="a", unschedulable=True), nrt(node="a", free=[16, 16]))
FPGA = pod(containers=[guaranteed(devices={"example.com/fpga": 1})])


@pytest.mark.parametrize(
    ("raw", "cluster", "says"),
    [
        (pod(cpu="40"), CLUSTER, f"{NONE}it asks for 40 cpu, the largest node has 32 ("),
        (FPGA, CLUSTER, f"{NONE}no node has example.com/fpga"),
        (pod(), CORDONED, "1 node could take it once uncordoned"),
        (pod(nodeSelector={"pool": "none"}), CLUSTER, "let it onto none; excluded: 5 node sel"),
    ],
    ids=["too large for any node", "a resource that no node has", "cordoned", "its own selector matches no node"],
)
def test_what_would_wait_without_us_waits_and_says_for_what(
    raw: dict[str, Any], cluster: ClusterSnapshot, says: str
) -> None:
    mutation = mutate_pod(raw, cluster, NEVER)
    assert mutation.verdict is Verdict.WAIT
    assert says in mutation.message
    if "nodeSelector" in raw["spec"]:  # should a node come to match, it has to be one of a compatible policy
        assert _allowed_nodes(raw, mutation) == {"a", "b", "c"}


@pytest.mark.parametrize(("hopeful", "others", "operator"), [(10, 64, "NotIn"), (10, 65, "In"), (65, 65, "In")])
def test_a_waiting_pod_is_kept_off_others_by_at_most_64_names(hopeful: int, others: int, operator: str) -> None:
    names = [f"n{i:03}" for i in range(hopeful + others)]
    full = cluster_snapshot(
        *(node(name=name) for name in names),
        *(nrt(node=name, free=[0], cpus=16 if i < hopeful else 4) for i, name in enumerate(names)),
    )
    mutation = mutate_pod(pod(), full, NEVER)
    assert mutation.verdict is Verdict.WAIT
    requirement = _only_requirement(mutation)
    assert requirement["operator"] == operator
    assert len(requirement["values"]) == min(64, others if operator == "NotIn" else hopeful)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (pod(metadata={"annotations": None}), "no annotation scheduling.koordinator.sh/numa-topology-spec or "),
        (pod(nodeName="a"), "its node is chosen already: a"),
        (pod(schedulerName="volcano"), "the scheduler volcano places it"),
        (
            pod(metadata={"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]}),
            "its DaemonSet chooses its node",
        ),
        (
            pod(metadata={"annotations": {NUMA_TOPOLOGY_SPEC: "{}", "kubernetes.io/config.mirror": "x"}}),
            "a kubelet runs it from a file (static pod)",
        ),
        (
            pod(metadata={"annotations": {NUMA_TOPOLOGY_SPEC: "{}", "kubernetes.io/config.source": "file"}}),
            "a kubelet runs it from a file (static pod)",
        ),
        ({"metadata": None, "spec": None}, "no annotation"),
        ({}, "no annotation"),
    ],
)
def test_pods_that_are_not_ours_to_place_are_left_alone(raw: dict[str, Any], reason: str) -> None:
    mutation = mutate_pod(raw, CLUSTER, NEVER)
    assert (mutation.verdict, mutation.operations, mutation.mutated) == (Verdict.ALLOW, (), raw)
    assert mutation.message.startswith(f"unmanaged: {reason}")
    assert mutation.nodes is None


def test_a_switch_that_cannot_be_read_is_named_although_nothing_else_makes_the_pod_ours() -> None:
    mutation = mutate_pod(pod(metadata={"annotations": {INHERIT: "True"}}), CLUSTER, Rules())
    assert mutation.verdict is Verdict.ALLOW
    (warning,) = mutation.warnings
    assert warning.startswith(f'metadata.annotations[{INHERIT}]: "True" is not allowed here. Write "true" or "false".')


def test_a_pod_without_a_requirement_takes_each_nodes_own_policy() -> None:
    raw = pod(cpu="8", numa='{"numaTopologyPolicy": ""}')
    mutation = mutate_pod(raw, CLUSTER, NEVER)
    # d spreads it over as few NUMA nodes as it must, e is not known to care.
    assert _allowed_nodes(raw, mutation) == {"b", "c", "d", "e"}
    assert mutation.message.startswith("each node's own NUMA policy: 4 of 5 nodes fit; best ")


def test_faults_in_the_annotations_deny_all_at_once() -> None:
    raw = pod(numa='{"numaTopologyPolicy": "single", "singleNUMANodeExclusive": 3}')
    mutation = mutate_pod(raw, CLUSTER, NEVER)
    assert (mutation.verdict, mutation.reason) == (Verdict.DENY, "InvalidAnnotation")
    assert "numaTopologyPolicy" in mutation.message
    assert "singleNUMANodeExclusive" in mutation.message


def test_an_unreadable_pod_is_the_users_fault() -> None:
    with pytest.raises(UserError, match=r"spec\.containers\[0\]\.resources\.limits\[cpu\]"):
        mutate_pod(pod(cpu="abc"), CLUSTER, NEVER)


@given(pods)
def test_the_patch_adds_only_and_a_second_pass_changes_nothing(raw: dict[str, Any]) -> None:
    annotations = {**(raw["metadata"].get("annotations") or {}), NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": ""}'}
    raw = {**raw, "metadata": {**raw["metadata"], "annotations": annotations}}
    before = copy.deepcopy(raw)
    mutation = mutate_pod(raw, CLUSTER, NEVER)
    assert raw == before
    assert {operation["op"] for operation in mutation.operations} <= {"add"}
    mutated_pod = _applied(raw, mutation)
    assert mutated_pod == mutation.mutated
    again = mutate_pod(mutated_pod, CLUSTER, NEVER)
    assert (again.operations, again.mutated, again.message) == ((), mutated_pod, mutation.message)


def test_a_pod_mutated_elsewhere_before_is_mutated_again_from_what_the_user_wrote() -> None:
    mine = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["c"]}]}
    raw = pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [mine]}}})
    first = mutate_pod(raw, CLUSTER, NEVER)
    assert _allowed_nodes(raw, first) == {"b"}
    # b is full now, a is empty.
    later = cluster_snapshot(
        *(node(name=name) for name in "abc"),
        nrt(node="a", free=[16, 16]),
        nrt(node="b", free=[0, 0]),
        nrt(node="c", free=[16, 16]),
    )
    second = mutate_pod(first.mutated, later, NEVER)
    assert _allowed_nodes(first.mutated, second) == {"a"}
    assert second.mutated == mutate_pod(raw, later, NEVER).mutated
    assert _applied(first.mutated, second) == second.mutated


def test_what_was_added_goes_when_nothing_can_be_required_any_more() -> None:
    raw = pod()
    first = mutate_pod(raw, CLUSTER, NEVER)
    second = mutate_pod(first.mutated, cluster_snapshot(), Rules(no_compatible_node="Warn"))
    assert "affinity" not in second.mutated["spec"]
    assert MANAGED_FIELDS not in second.mutated["metadata"]["annotations"]
    assert _applied(first.mutated, second) == second.mutated


TOPOLOGIES = {
    name: Topology.from_object(topology(name=name, labels=labels))
    for name, labels in {"dc": ("topology.kubernetes.io/zone", "example.com/rack"), "lab": ("example.com/row",)}.items()
}


def injected(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    raw = pod(**spec)
    raw["metadata"]["annotations"] = annotations
    patch = Patch(raw)
    inject_environment(patch, TOPOLOGIES)
    again = Patch(patch.document)
    inject_environment(again, TOPOLOGIES)
    assert again.operations == []
    document: dict[str, Any] = patch.document
    return document


def variables(container: dict[str, Any]) -> list[str]:
    return [variable["name"] for variable in container.get("env", ())]


def test_each_container_gets_the_variables_of_the_pods_topology() -> None:
    document = injected(
        {"topology-webhook.dev/inject-env": "true", "kai.scheduler/topology": "dc"}, initContainers=[{"name": "init"}]
    )
    for container in document["spec"]["containers"] + document["spec"]["initContainers"]:
        assert variables(container) == ["TOPOLOGY_DOMAIN_RACK", "TOPOLOGY_DOMAIN_ZONE", "TOPOLOGY_RANK"]
    source = {"fieldRef": {"fieldPath": "metadata.labels['topology-webhook.dev/domain-rack']"}}
    assert document["spec"]["containers"][0]["env"][0] == {"name": "TOPOLOGY_DOMAIN_RACK", "valueFrom": source}


def test_what_a_container_defines_itself_stays() -> None:
    own = {"name": "TOPOLOGY_RANK", "value": "mine"}
    document = injected({"topology-webhook.dev/inject-env": "true"}, initContainers=[{"name": "init", "env": [own]}])
    (container,) = document["spec"]["initContainers"]
    assert [variable for variable in container["env"] if variable["name"] == "TOPOLOGY_RANK"] == [own]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"topology-webhook.dev/inject-env": "true"}, {"TOPOLOGY_DOMAIN_RACK", "TOPOLOGY_DOMAIN_ROW", "TOPOLOGY_RANK"}),
        ({"topology-webhook.dev/inject-env": "false"}, set()),
        ({}, set()),
    ],
    ids=["owners may name the topology: those of all", "switched off", "not asked for"],
)
def test_who_does_not_ask_gets_no_variables(annotations: dict[str, str], expected: set[str]) -> None:
    found = set(variables(injected(annotations)["spec"]["containers"][0]))
    assert found >= expected
    assert bool(found) is bool(expected)
