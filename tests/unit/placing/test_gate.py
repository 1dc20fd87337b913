"""Who waits behind the gate, by the cluster at a pod's creation."""

from typing import Any

import jsonpatch
import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import pod
from webhook.admission.pod.mutation import mutate_pod
from webhook.formats.kubernetes.gates import waits_for_us_alone
from webhook.model.names import (
    KAI_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
    MANAGED_FIELDS,
    PLACEMENT,
    PLACEMENT_GATE,
    POD_GROUP_NAME,
)
from webhook.placing.pod.decision import Verdict
from webhook.state.rules import GateMode, NoCapacity, Rules

# a [7 7]  b [2 9]   single-numa-node, 16 cpus each       [free cpus per NUMA node]
CLUSTER = cluster_snapshot(node(name="a"), node(name="b"), nrt(node="a", free=[7, 7]), nrt(node="b", free=[2, 9]))
GATE = {"name": PLACEMENT_GATE}


def created(raw: dict[str, Any], gate: GateMode = "Always", no_capacity: NoCapacity = "Gate") -> dict[str, Any]:
    """The pod as it is let in; a second pass changes nothing."""
    rules = Rules(gate=gate, no_capacity=no_capacity)
    mutation = mutate_pod(raw, CLUSTER, rules)
    patched: dict[str, Any] = jsonpatch.apply_patch(raw, list(mutation.operations))
    assert patched == mutation.mutated
    assert mutate_pod(patched, CLUSTER, rules).operations == ()
    return patched


def in_group(**annotations: str) -> dict[str, Any]:
    return pod(annotations=annotations)


@pytest.mark.parametrize(
    ("gate", "fitting", "waiting", "of_a_group"),
    [("Always", True, True, True), ("WhenNeeded", False, True, True), ("Never", False, False, False)],
)
def test_who_is_gated(gate: GateMode, *, fitting: bool, waiting: bool, of_a_group: bool) -> None:
    pods = pod(cpu="8"), pod(cpu="12"), in_group(**{POD_GROUP_NAME: "g"})
    assert [waits_for_us_alone(created(raw, gate)) for raw in pods] == [fitting, waiting, of_a_group]


@pytest.mark.parametrize("gate", ["Always", "WhenNeeded", "Never"])
def test_what_fits_nowhere_now_is_let_in_or_refused_where_the_operator_says_so_and_members_wait_all_the_same(
    gate: GateMode,
) -> None:
    waits, member = pod(cpu="12"), in_group(**{POD_GROUP_NAME: "g"})
    member["spec"]["containers"] = waits["spec"]["containers"]
    refusing = Rules(gate=gate, no_capacity="Deny")
    assert "schedulingGates" not in created(waits, gate, "Allow")["spec"]
    refused = mutate_pod(waits, CLUSTER, refusing)
    assert (refused.verdict, refused.reason) == (Verdict.DENY, "InsufficientCapacity")
    assert "none of 2 nodes fits now; 2 nodes could take it once other pods leave" in refused.message
    never_here = mutate_pod(pod(nodeSelector={"pool": "none"}), CLUSTER, refusing)
    assert (never_here.verdict, never_here.reason) == (Verdict.DENY, "NoNode")
    for no_capacity in ("Allow", "Deny"):
        assert waits_for_us_alone(created(member, gate, no_capacity)) == (gate != "Never")


def test_a_gated_pod_keeps_the_affinity_its_user_wrote_and_says_why_it_waits() -> None:
    raw = pod(cpu="12", affinity={"podAffinity": {}})
    gated = created(raw)
    assert gated["spec"] == {**raw["spec"], "schedulingGates": [GATE]}
    assert MANAGED_FIELDS not in gated["metadata"]["annotations"]
    assert gated["metadata"]["annotations"][PLACEMENT].startswith("waiting: SingleNUMANode: none of 2 nodes fits now")
    assert mutate_pod(raw, CLUSTER, Rules()).verdict is Verdict.WAIT


def test_a_gated_pod_that_fits_says_where_it_could_go() -> None:
    gated = created(pod(cpu="8"))
    assert gated["metadata"]["annotations"][PLACEMENT].splitlines() == [
        "to be placed: SingleNUMANode: 1 of 2 nodes fits",
        "best b (score 94, NUMA 1)",
        "excluded: 1 no single NUMA node with 8 cpu, 1Gi memory",
    ]


def test_a_gate_that_is_not_needed_any_more_is_taken_off_however_often_it_was_written_and_others_stay() -> None:
    other = {"name": "example.com/quota"}
    waits = pod(cpu="12", schedulingGates=[other])
    for gates in ([other, GATE], [GATE, other, GATE]):
        assert created(pod(cpu="8", schedulingGates=gates), "WhenNeeded")["spec"]["schedulingGates"] == [other]
    assert created(waits, "WhenNeeded")["spec"]["schedulingGates"] == [other, GATE]


def test_a_pod_that_was_mutated_before_and_fits_nowhere_here_is_gated_as_its_user_wrote_it() -> None:
    elsewhere = cluster_snapshot(node(name="x"), nrt(node="x", free=[16, 16]))
    raw = pod(cpu="12")
    mutated_pod = dict(mutate_pod(raw, elsewhere, Rules(gate="Never")).mutated)
    assert created(mutated_pod)["spec"] == created(raw)["spec"]


def test_a_pod_that_asks_for_a_rack_alone_is_ours_as_well() -> None:
    annotations = {KAI_TOPOLOGY: "racks", KAI_REQUIRED_PLACEMENT: "rack"}
    assert waits_for_us_alone(created(pod(metadata={"annotations": annotations})))


def test_pods_that_others_place_are_never_gated() -> None:
    for raw in (pod(cpu="12", nodeName="a"), pod(cpu="12", schedulerName="other"), pod(metadata={"annotations": {}})):
        assert created(raw, "Always") == raw
