"""What of a pod is in the template that stands for it, and how that is held to new nodes."""

from typing import Any

import pytest

from tests.builders.pods import container, gated, guaranteed
from webhook.controllers.autoscaling.provisioning_writer import constrained
from webhook.formats.patches.affinity_patch import NodeRef
from webhook.placing.autoscaling.lacking_room import NewNodes
from webhook.placing.autoscaling.provisioning_pod_sets import selected_labels, template_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
BLUE = NewNodes((("pool", "blue"),))


def template(**how: Any) -> dict[str, Any]:
    raw = gated(**how)
    return template_of(raw, selected_labels(raw))


def terms(found: dict[str, Any]) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = found["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return nodes


def required(*requirements: dict[str, Any]) -> dict[str, Any]:
    """A node affinity with a term for each requirement."""
    each = [{"matchExpressions": [one]} for one in requirements]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": each}}}


def one_of(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def test_a_template_has_what_decides_where_a_pod_fits() -> None:
    kept = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "batch", "operator": "Exists"}],
        "overhead": {"cpu": "100m"},
        "priority": 7,
        "hostNetwork": True,
        "schedulerName": "default-scheduler",
    }
    assert template(**kept)["spec"].items() >= kept.items()


def test_a_template_has_no_gate_and_nothing_that_is_the_pods_own() -> None:
    own = guaranteed(
        command=["run"],
        env=[{"name": "TOKEN", "value": "secret"}],
        ports=[{"containerPort": 80}, {"containerPort": 90, "hostPort": 90, "protocol": "TCP", "name": "http"}],
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    found = template(
        containers=[own],
        initContainers=[container(name="proxy", requests={"cpu": "1"}, restartPolicy="Always")],
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "secret", "secret": {"secretName": "s"}},
        ],
        serviceAccountName="runner",
        priorityClassName="high",
    )
    amounts = {"cpu": "8", "memory": "1Gi"}
    assert found == {
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"limits": amounts, "requests": amounts},
                    "ports": [{"containerPort": 90, "hostPort": 90, "protocol": "TCP"}],
                }
            ],
            "initContainers": [
                {"name": "proxy", "image": "none", "resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"}
            ],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        }
    }


def test_preferences_are_left_out() -> None:
    soft = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    affinity = {kind: {PREFERRED: [{"weight": 1}]} for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")}
    assert template(affinity=affinity, topologySpreadConstraints=[soft])["spec"].keys() == {"containers"}


def test_label_keys_become_requirements_as_the_api_server_makes_them_for_a_pod() -> None:
    selector = {"matchLabels": {"app": "a"}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        "matchLabelKeys": ["hash", "absent"],
    }
    apart = {"topologyKey": "rack", "labelSelector": selector, "mismatchLabelKeys": ["hash"]}
    found = template(
        metadata={"labels": {"app": "a", "hash": "h", "index": "3"}},
        topologySpreadConstraints=[spread],
        affinity={"podAntiAffinity": {REQUIRED: [apart]}},
    )
    assert found["metadata"]["labels"] == {"app": "a", "hash": "h"}
    (constraint,) = found["spec"]["topologySpreadConstraints"]
    assert constraint["labelSelector"] == {**selector, "matchExpressions": [one_of("hash", "h")]}
    assert "matchLabelKeys" not in constraint
    (term,) = found["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
    assert term["labelSelector"]["matchExpressions"] == [{"key": "hash", "operator": "NotIn", "values": ["h"]}]


def test_what_the_api_server_merged_already_is_not_merged_twice() -> None:
    selector = {"matchExpressions": [one_of("hash", "h")]}
    near = {"topologyKey": "rack", "labelSelector": selector, "matchLabelKeys": ["hash"]}
    found = template(metadata={"labels": {"hash": "h"}}, affinity={"podAffinity": {REQUIRED: [near]}})
    assert found["spec"]["affinity"]["podAffinity"][REQUIRED] == [{"topologyKey": "rack", "labelSelector": selector}]


@pytest.mark.parametrize("affinity", [None, {}, {"nodeAffinity": None}])
def test_new_nodes_of_the_groups_are_required(affinity: Any) -> None:
    nodes = NewNodes((("pool", "blue"), ("pool", "green"), ("other", "red")))
    found = constrained(template(affinity=affinity), nodes)
    assert terms(found) == [
        {"matchExpressions": [one_of("other", "red")]},
        {"matchExpressions": [one_of("pool", "blue", "green")]},
    ]


def test_what_the_pod_requires_itself_stays_and_the_template_before_is_not_changed() -> None:
    before = template(affinity=required(one_of("disk", "ssd"), one_of("disk", "nvme")))
    copy = template(affinity=required(one_of("disk", "ssd"), one_of("disk", "nvme")))
    after = constrained(before, BLUE)
    pool = one_of("pool", "blue")
    assert terms(after) == [
        {"matchExpressions": [one_of("disk", "ssd"), pool]},
        {"matchExpressions": [one_of("disk", "nvme"), pool]},
    ]
    assert before == copy


def test_a_term_that_matches_no_node_still_matches_none() -> None:
    nothing = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}, {"matchExpressions": [one_of("disk", "ssd")]}]}}}
    assert terms(constrained(template(affinity=nothing), BLUE))[0] == {}


def test_present_nodes_are_excluded_in_every_alternative() -> None:
    off = (NodeRef("n0", "h0"), NodeRef("n1", None))
    named = [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]
    not_h0 = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["h0"]}
    two = NewNodes((("pool", "blue"), ("other", "red")), off)
    assert terms(constrained(template(), two)) == [
        {"matchExpressions": [one_of("other", "red"), not_h0], "matchFields": named},
        {"matchExpressions": [one_of("pool", "blue"), not_h0], "matchFields": named},
    ]
    assert terms(constrained(template(), NewNodes((), off))) == [{"matchExpressions": [not_h0], "matchFields": named}]


def test_where_nothing_is_known_of_new_nodes_the_template_stays() -> None:
    assert constrained(template(), NewNodes()) == template()
