"""Why a kubelet gives a pod no exclusive CPUs. The proposed fix removes the reason."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.pods import container, plain
from webhook.formats.kubernetes.alignment import in_words, obstacles
from webhook.formats.kubernetes.pod import ContainerKind, Pod, QoS

WHOLE = {"cpu": "4", "memory": "8Gi"}


def spec(*containers: dict[str, Any], inits: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    return {"initContainers": list(inits), "containers": list(containers), **more}


def told(raw: dict[str, Any], prefix: str = "") -> str:
    return in_words(obstacles(Pod.from_object(plain(**raw))), prefix)


def test_a_guaranteed_pod_of_whole_cpus_has_none() -> None:
    assert told(spec(container(name="app", limits=WHOLE))) == ""
    assert told(spec(container(name="app", requests=WHOLE, limits=WHOLE))) == ""


def test_one_container_with_whole_cpus_is_enough() -> None:
    proxy = container(name="proxy", limits={"cpu": "100m", "memory": "64Mi"})
    assert told(spec(proxy, container(name="app", limits=WHOLE))) == ""


def test_a_missing_memory_limit_is_named_with_its_field_and_the_value_of_the_request() -> None:
    raw = spec(container(name="app", requests=WHOLE, limits={"cpu": "4"}))
    field = "spec.containers[0].resources.limits.memory"
    assert told(raw) == f'container "app" has no limits.memory; set {field} to 8Gi'
    assert told(raw, "spec.template.") == f'container "app" has no limits.memory; set spec.template.{field} to 8Gi'


def test_without_a_request_the_value_is_for_the_user_to_choose() -> None:
    raw = spec(container(name="app", limits={"cpu": "4"}))
    assert told(raw) == 'container "app" has no limits.memory; set spec.containers[0].resources.limits.memory'


def test_a_best_effort_pod_lacks_both_limits() -> None:
    assert told(spec(container(name="app"))) == (
        'container "app" has no limits.cpu and no limits.memory; '
        "set spec.containers[0].resources.limits.cpu and spec.containers[0].resources.limits.memory"
    )


def test_of_an_injected_sidecar_without_limits_the_sidecar_is_named() -> None:
    proxy = container(name="istio-proxy", requests={"cpu": "100m", "memory": "128Mi"})
    assert told(spec(container(name="app", limits=WHOLE), proxy)) == (
        'container "istio-proxy" has no limits.cpu and no limits.memory; '
        "set spec.containers[1].resources.limits.cpu to 100m and spec.containers[1].resources.limits.memory to 128Mi"
    )


def test_init_containers_and_native_sidecars_are_named_by_their_own_list() -> None:
    first = container(name="migrate", limits=WHOLE)
    second = container(name="log", limits={"cpu": "1"}, restartPolicy="Always")
    assert told(spec(container(name="app", limits=WHOLE), inits=(first, second))) == (
        'container "log" has no limits.memory; set spec.initContainers[1].resources.limits.memory'
    )


def test_a_request_below_its_limit_is_raised_to_it() -> None:
    raw = spec(container(name="app", requests={"cpu": "2", "memory": "8Gi"}, limits=WHOLE))
    assert told(raw) == (
        'container "app" requests 2 cpu and has a limit of 4; set spec.containers[0].resources.requests.cpu to 4'
    )


def test_fractional_cpus_in_every_container_are_not_given_out() -> None:
    proxy = container(name="proxy", limits={"cpu": "100m", "memory": "64Mi"})
    assert told(spec(proxy, container(name="app", limits={"cpu": "1500m", "memory": "8Gi"}))) == (
        'container "app" asks for 1500m cpu, not for whole CPUs; '
        "set spec.containers[1].resources.requests.cpu to 2 and spec.containers[1].resources.limits.cpu to 2"
    )


def test_whole_cpus_of_an_init_container_do_not_align_the_app() -> None:
    raw = spec(
        container(name="app", limits={"cpu": "500m", "memory": "1Gi"}), inits=(container(name="init", limits=WHOLE),)
    )
    assert told(raw).startswith('container "app" asks for 500m cpu, not for whole CPUs; ')


def test_all_that_is_missing_is_said_at_once() -> None:
    assert told(spec(container(name="app", requests={"cpu": "500m"}))) == (
        'container "app" has no limits.cpu and no limits.memory and asks for 500m cpu, not for whole CPUs; '
        "set spec.containers[0].resources.requests.cpu to 1, spec.containers[0].resources.limits.cpu to 1 and "
        "spec.containers[0].resources.limits.memory"
    )


def test_resources_of_the_pod_as_a_whole_take_its_containers_their_own() -> None:
    raw = spec(container(name="app", limits=WHOLE), resources={"limits": WHOLE})
    assert told(raw) == (
        "the pod has resources of its own (kubelets' feature gate PodLevelResourceManagers is not read); "
        "remove spec.resources and set requests and limits on the containers"
    )


def test_of_many_containers_the_first_ones_are_named() -> None:
    words = told(spec(*(container(name=f"c{number}") for number in range(7))))
    assert words.count("container ") == 3
    assert words.endswith("; 4 more containers alike")


def test_a_hostile_name_is_cut_and_escaped() -> None:
    words = told(spec(container(name="\x1b[31m" + "x" * 10_000)))
    assert words.isprintable()
    assert len(words) < 500


amounts = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "250m", "1", "1500m", "4"]),
        "memory": st.sampled_from(["0", "64Mi", "1Gi"]),
    },
)
lists = st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts})
containers = st.lists(lists.map(lambda found: {"name": "c", "resources": found}), min_size=1, max_size=3)


@given(containers, containers.map(lambda several: several[1:]), st.booleans())
def test_a_pod_is_free_of_obstacles_exactly_when_a_container_gets_cpus_and_the_cures_free_it(
    apps: list[dict[str, Any]], inits: list[dict[str, Any]], sidecars: bool
) -> None:
    if sidecars:
        inits = [{**one, "restartPolicy": "Always"} for one in inits]
    raw = spec(*apps, inits=tuple(inits))
    pod = Pod.from_object(plain(**raw))
    gets_cpus = pod.qos is QoS.GUARANTEED and any(
        one.requests.get("cpu", 0) > 0 and one.requests["cpu"] % 1000 == 0
        for one in pod.containers
        if one.kind is not ContainerKind.INIT
    )
    assert (told(raw) == "") == gets_cpus
    for _ in range(3):  # more containers may need a cure than are named at a time
        cure(raw, told(raw))
    assert told(raw) == ""


def cure(raw: dict[str, Any], words: str) -> None:
    """Apply the fix in the text. If it names no value, use any."""
    fields = re.findall(r"spec\.(\w+)\[(\d)\]\.resources\.(\w+)\.(\w+)(?: to (\w+))?", words)
    for kind, index, field, resource, value in fields:
        resources = raw[kind][int(index)].setdefault("resources", {})
        resources.setdefault(field, {})[resource] = value or {"memory": "64Mi", "cpu": "1"}[resource]


@pytest.mark.parametrize("device", ["nvidia.com/gpu", "hugepages-2Mi"])
def test_other_resources_neither_help_nor_hinder(device: str) -> None:
    assert told(spec(container(name="app", limits={**WHOLE, device: "2"}))) == ""
    assert told(spec(container(name="app", limits={device: "2"}))) != ""
