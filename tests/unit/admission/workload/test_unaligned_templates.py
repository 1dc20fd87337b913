"""A workload whose pods no kubelet aligns is told so when it is created, or when its template begins to be so."""

from typing import Any

import pytest

from tests.builders import workloads
from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import container
from tests.builders.reviews import denied, review, warnings
from tests.unit.admission.workloads import job_set, workload
from webhook.admission.response import Allowed, Denied
from webhook.admission.workload.validate import WorkloadValidator
from webhook.model.names import INHERIT, NUMA_TOPOLOGY_SPEC
from webhook.state.rules import Rules

SINGLE = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
KUBELETS = cluster_snapshot(node(name="a"), nrt(node="a", free=[16]))
OURS = cluster_snapshot(node(name="a"), nrt(node="a", free=[16], policy="none"))
WARN, DENY = Rules(), Rules(not_alignable="Deny")


def template(on_template: dict[str, str] | None = None, memory: str | None = None, **spec: Any) -> dict[str, Any]:
    """One container, with a memory limit if one is given."""
    limits = {"cpu": "2", **({"memory": memory} if memory else {})}
    app = container(name="app", requests={"memory": "1Gi"}, limits=limits)
    return workloads.template(annotations=on_template, **{"containers": [app], **spec})


def deployment(
    on_itself: dict[str, str] | None = None, on_template: dict[str, str] | None = None, **how: Any
) -> dict[str, Any]:
    spec = {"replicas": how.pop("replicas", 1), "template": template(on_template, **how)}
    return workload("Deployment", spec, on_itself)


def judged(
    raw: dict[str, Any], before: dict[str, Any] | None = None, rules: Rules = WARN, cluster: Any = KUBELETS
) -> Allowed | Denied:
    return WorkloadValidator(lambda: cluster, rules).handle(review(raw, before))


def told(path: str) -> str:
    return (
        'SingleNUMANode is asked for, but no kubelet aligns this pod: container "app" has no limits.memory; '
        f"set {path}.spec.containers[0].resources.limits.memory to 1Gi"
    )


@pytest.mark.parametrize("raw", [deployment(None, SINGLE), deployment(SINGLE)], ids=["template", "workload"])
def test_it_is_warned_about_wherever_the_policy_stands(raw: dict[str, Any]) -> None:
    assert judged(raw) == Allowed((told("spec.template"),))


def test_every_template_of_every_kind_is_named_by_its_path() -> None:
    aligned = {"spec": {"template": template(memory="1Gi")}}
    raw = job_set(aligned, {"metadata": {"annotations": SINGLE}, "spec": {"template": template()}})
    assert judged(raw) == Allowed((told("spec.replicatedJobs[1].template.spec.template"),))


@pytest.mark.parametrize(
    "raw",
    [
        deployment(SINGLE, memory="1Gi"),
        deployment(),
        deployment(SINGLE, {INHERIT: "false"}),
        deployment(None, {NUMA_TOPOLOGY_SPEC: "{}"}),
        deployment(SINGLE, {NUMA_TOPOLOGY_SPEC: "{}"}),
        deployment(SINGLE, schedulerName="other"),
    ],
    ids=["aligned", "asks for nothing", "takes nothing", "no policy", "its own comes first", "another scheduler's"],
)
def test_what_is_aligned_or_asks_for_no_policy_is_not_nor_where_the_numa_nodes_are_ours_to_choose(
    raw: dict[str, Any],
) -> None:
    assert judged(raw, rules=DENY) == Allowed()
    assert judged(deployment(SINGLE), rules=DENY, cluster=OURS) == Allowed()


def test_with_deny_it_is_refused_in_the_same_words() -> None:
    refused = denied(judged(deployment(SINGLE), rules=DENY))
    assert (refused.reason, refused.message) == ("NotAlignable", told("spec.template"))


def test_where_nothing_is_known_yet_it_is_warned_about_and_not_refused() -> None:
    assert judged(deployment(SINGLE), rules=DENY, cluster=cluster_snapshot()) == Allowed((told("spec.template"),))


@pytest.mark.parametrize("rules", [Rules(), DENY])
def test_an_update_is_told_of_a_new_fault_only(rules: Rules) -> None:
    aligned, not_aligned = deployment(SINGLE, memory="1Gi"), deployment(SINGLE)
    first = judged(not_aligned, before=aligned, rules=rules)
    assert isinstance(first, Denied if rules is DENY else Allowed)
    assert first != Allowed()
    assert judged(deployment(SINGLE, replicas=3), before=not_aligned, rules=rules) == Allowed()
    other_image = deployment(SINGLE)
    other_image["spec"]["template"]["spec"]["containers"][0]["image"] = "j"
    assert judged(other_image, before=not_aligned, rules=rules) == Allowed()
    assert judged(not_aligned, before=deployment(), rules=rules) == first


def test_with_gate_never_nothing_is_taken_from_the_workload() -> None:
    assert told("spec.template") not in warnings(judged(deployment(SINGLE), rules=Rules(gate="Never")))


@pytest.mark.parametrize("spec", [{"containers": [7]}, {"containers": [{"resources": []}]}, {"containers": []}])
def test_templates_that_no_schema_has_looked_at_do_no_harm(spec: Any) -> None:
    raw = workload("example.com/v1/Odd", {"template": {"spec": spec}}, SINGLE)
    assert isinstance(judged(raw), Allowed | Denied)


def test_of_many_templates_so_many_are_told_as_a_person_reads() -> None:
    many = job_set(*[{"spec": {"template": template()}}] * 500, annotations=SINGLE)
    assert len(warnings(judged(many))) == 20
