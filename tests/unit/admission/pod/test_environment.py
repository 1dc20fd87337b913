"""Rank and domains in a container's environment."""

from typing import Any

import pytest

from tests.builders.pods import pod
from webhook.admission.pod.mutation import inject_environment
from webhook.formats.patches.json_patch import Patch
from webhook.formats.topology import Level, Topology, TopologySource

TOPOLOGIES = {
    name: Topology(name, TopologySource.KAI, tuple(map(Level, levels)))
    for name, levels in {"dc": ("topology.kubernetes.io/zone", "example.com/rack"), "lab": ("example.com/row",)}.items()
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


def names(container: dict[str, Any]) -> list[str]:
    return [variable["name"] for variable in container.get("env", ())]


def test_each_container_gets_the_variables_of_the_pods_topology() -> None:
    document = injected(
        {"topology-webhook.dev/inject-env": "true", "kai.scheduler/topology": "dc"}, initContainers=[{"name": "init"}]
    )
    for container in document["spec"]["containers"] + document["spec"]["initContainers"]:
        assert names(container) == ["TOPOLOGY_DOMAIN_RACK", "TOPOLOGY_DOMAIN_ZONE", "TOPOLOGY_RANK"]
    source = {"fieldRef": {"fieldPath": "metadata.labels['topology-webhook.dev/domain-rack']"}}
    assert document["spec"]["containers"][0]["env"][0] == {"name": "TOPOLOGY_DOMAIN_RACK", "valueFrom": source}


def test_a_topology_that_owners_may_name_leaves_those_of_all() -> None:
    (container, *_) = injected({"topology-webhook.dev/inject-env": "true"})["spec"]["containers"]
    assert set(names(container)) >= {"TOPOLOGY_DOMAIN_RACK", "TOPOLOGY_DOMAIN_ROW", "TOPOLOGY_RANK"}


def test_what_a_container_defines_itself_stays() -> None:
    own = {"name": "TOPOLOGY_RANK", "value": "mine"}
    document = injected({"topology-webhook.dev/inject-env": "true"}, initContainers=[{"name": "init", "env": [own]}])
    (container,) = document["spec"]["initContainers"]
    assert [variable for variable in container["env"] if variable["name"] == "TOPOLOGY_RANK"] == [own]


@pytest.mark.parametrize("annotations", [{}, {"topology-webhook.dev/inject-env": "false"}])
def test_who_does_not_ask_gets_none(annotations: dict[str, str]) -> None:
    assert "env" not in injected(annotations)["spec"]["containers"][0]
