"""Who may write what is ours."""

from typing import Any

import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import SINGLE, pod
from tests.builders.reviews import denied, review
from tests.handlers import mutated
from webhook.admission.pod.validate import validate_pod
from webhook.admission.reserved_fields import forgery
from webhook.admission.response import Allowed, Patched
from webhook.formats.patches.json_patch import apply
from webhook.model.names import MANAGED_FIELDS, MIN_MEMBER, NUMA_ALLOCATION, PLACEMENT, PLACEMENT_GATE, RESOURCE_STATUS
from webhook.state.rules import Rules

US = "system:serviceaccount:topology-webhook:topology-webhook"
RULES = Rules(trusted_users=frozenset({US}))


def annotated(annotations: dict[str, str], managed: bool = True, **more: Any) -> dict[str, Any]:
    return pod(numa=SINGLE if managed else None, annotations=annotations, **more)


def faults(raw: dict[str, Any], before: dict[str, Any] | None = None, **how: Any) -> list[str]:
    found = forgery(review(raw, before, **how), RULES)
    return [] if found is None else [fault.path for fault in found.faults]


@pytest.mark.parametrize("managed", [True, False])
@pytest.mark.parametrize("name", [NUMA_ALLOCATION, RESOURCE_STATUS, "topology-webhook.dev/rank"])
def test_nobody_creates_a_pod_with_what_node_agents_and_assumed_pods_obey(name: str, managed: bool) -> None:
    assert faults(annotated({name: "{}"}, managed)) == [f"metadata.annotations[{name}]"]
    assert faults(annotated({name: "{}"}, managed), user=US) == []


def test_all_forgeries_are_told_at_once_with_who_and_what_to_do() -> None:
    verdict = denied(validate_pod(review(annotated({NUMA_ALLOCATION: "{}", RESOURCE_STATUS: "{}"})), {}, RULES))
    assert verdict.message == (
        "metadata.annotations[scheduling.koordinator.sh/resource-status]: Only topology-webhook writes this, and alice "
        "may not set it. Leave it out. metadata.annotations[topology-webhook.dev/numa]: Only topology-webhook writes "
        "this, and alice may not set it. Leave it out."
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("topology-webhook.dev/min-members", f" Did you mean {MIN_MEMBER}?"),
        ("topology-webhook.dev/Strategy", " Did you mean topology-webhook.dev/strategy?"),
        ("topology-webhook.dev/unlike-any-of-them", ""),
        ("topology-webhook.dev/rank", ""),
    ],
)
def test_an_unknown_name_of_ours_is_denied_with_the_one_that_was_meant(name: str, meant: str) -> None:
    verdict = denied(validate_pod(review(annotated({name: "2"})), {}, RULES))
    assert verdict.message.endswith(f"alice may not set it. Leave it out.{meant}")


def test_a_reviewed_pod_is_created_with_what_mutation_wrote_and_is_mutated_again() -> None:
    # n1 ── NUMA 0 [16]  NUMA 1 [16]      [free cpus]
    cluster = cluster_snapshot(node(name="n1"), nrt(node="n1", free=(16, 16)))
    answer = mutated(review(pod()), cluster, RULES)
    assert isinstance(answer, Patched)
    reviewed = apply(pod(), map(dict, answer.patch))
    assert PLACEMENT in reviewed["metadata"]["annotations"]
    assert validate_pod(review(reviewed), {}, RULES) == Allowed()
    forged = apply(
        reviewed, [{"op": "add", "path": "/metadata/annotations/topology-webhook.dev~1placement", "value": "x"}]
    )
    again = mutated(review(forged), cluster, RULES)
    assert isinstance(again, Patched)
    assert apply(forged, map(dict, again.patch)) == reviewed


@pytest.mark.parametrize("name", [PLACEMENT, MANAGED_FIELDS])
def test_where_mutation_does_not_write_again_nobody_else_writes_either(name: str) -> None:
    assert faults(annotated({name: "x"}, managed=False)) == [f"metadata.annotations[{name}]"]
    assert faults(annotated({name: "x"}, nodeName="n1")) == [f"metadata.annotations[{name}]"]


@pytest.mark.parametrize("name", [PLACEMENT, MANAGED_FIELDS, NUMA_ALLOCATION, RESOURCE_STATUS])
def test_an_update_neither_sets_nor_changes_nor_removes_what_is_ours(name: str) -> None:
    with_it, other, without = annotated({name: "a"}), annotated({name: "b"}), annotated({})
    for old, new in ((without, with_it), (with_it, other), (with_it, without)):
        assert faults(new, old) == [f"metadata.annotations[{name}]"]
        assert faults(new, old, user=US) == []
    assert faults(with_it, with_it) == []


def test_what_users_ask_for_under_our_name_and_others_annotations_are_theirs() -> None:
    assert faults(annotated({MIN_MEMBER: "4"})) == []
    assert (
        faults(annotated({MIN_MEMBER: "4", NUMA_ALLOCATION: "a"}), annotated({MIN_MEMBER: "2", NUMA_ALLOCATION: "a"}))
        == []
    )
    assert faults(annotated({NUMA_ALLOCATION: "a", "team": "x"}), annotated({NUMA_ALLOCATION: "a", "team": "y"})) == []


def test_only_we_remove_our_gate() -> None:
    gate, other = {"name": PLACEMENT_GATE}, {"name": "example.com/quota"}
    old = annotated({}, schedulingGates=[gate, other])
    assert faults(annotated({}, schedulingGates=[other]), old) == ["spec.schedulingGates"]
    assert faults(annotated({}, schedulingGates=[gate]), old) == []
    assert faults(annotated({}, schedulingGates=[other]), old, user=US) == []
    assert faults(old) == []


def test_members_of_a_trusted_group_remove_the_gate_and_change_the_text_but_nothing_else_of_ours() -> None:
    administrators = ("system:authenticated", "system:masters")
    gated = annotated({PLACEMENT: "waiting"}, schedulingGates=[{"name": PLACEMENT_GATE}])
    ungated = annotated({PLACEMENT: "ungated"})
    assert faults(ungated, gated) == [f"metadata.annotations[{PLACEMENT}]", "spec.schedulingGates"]
    assert faults(ungated, gated, groups=administrators) == []
    for name in (NUMA_ALLOCATION, RESOURCE_STATUS, MANAGED_FIELDS):
        assert faults(annotated({name: "x"}), ungated, groups=administrators)
    labelled = annotated({})
    labelled["metadata"]["labels"] = {PLACEMENT: "x"}
    assert faults(labelled, annotated({}), groups=administrators) == [f"metadata.labels[{PLACEMENT}]"]
    assert faults(annotated({NUMA_ALLOCATION: "x"}), groups=administrators) == [
        f"metadata.annotations[{NUMA_ALLOCATION}]"
    ]


def test_a_binding_cannot_smuggle_annotations_into_its_pod() -> None:
    binding = {"kind": "Binding", "metadata": {"name": "p", "annotations": {RESOURCE_STATUS: "{}"}}}
    assert faults(binding, subResource="binding") == [f"metadata.annotations[{RESOURCE_STATUS}]"]


def test_switches_are_the_users_and_labels_of_ours_are_not() -> None:
    switches = {"topology-webhook.dev/inherit": "true", "topology-webhook.dev/inject-env": "true"}
    assert faults(annotated(switches)) == []
    ours = [f"topology-webhook.dev/{name}" for name in ("domain-rack", "rank", "role")]
    raw = annotated({})
    raw["metadata"]["labels"] = {"app": "web", **dict.fromkeys(ours, "x")}
    assert faults(raw) == [f"metadata.labels[{name}]" for name in ours]
