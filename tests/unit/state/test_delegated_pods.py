"""Pods whose node only the scheduler can pick."""

from typing import Any

import pytest

from tests.builders.pods import pod
from webhook.state.delegated_pods import why_delegated

TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}]}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"affinity": {"podAntiAffinity": REQUIRED}}, "pod anti-affinity"),
        ({"affinity": {"podAffinity": PREFERRED}}, "pod affinity"),
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "topology spread constraints"),
        ({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]}, "volumes"),
        ({"volumes": [{"name": "d", "ephemeral": {"volumeClaimTemplate": {}}}]}, "volumes"),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}, "resource claims"),
    ],
)
def test_what_is_not_simulated_is_left_to_the_scheduler(spec: dict[str, Any], why: str) -> None:
    assert why_delegated(pod(**spec)) == why


def test_a_port_of_the_host_is_left_to_the_scheduler() -> None:
    raw = pod()
    raw["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    assert why_delegated(raw) == "host ports"


def test_all_else_is_not() -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "b"}}]
    affinity: dict[str, Any] = {"podAffinity": {}, "podAntiAffinity": None, "nodeAffinity": {}}
    raw = pod(volumes=volumes, affinity=affinity, topologySpreadConstraints=[])
    raw["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]
    assert why_delegated(raw) is None
    assert why_delegated({}) is None
