"""Pods beyond a bound are denied, and the message names it. Pods in use are far below the bounds."""

import pytest

from tests.builders.pods import container, plain
from webhook.formats.kubernetes.pod import Pod
from webhook.model.errors import UserError
from webhook.model.limits import (
    MAX_CONTAINERS,
    MAX_NAME,
    MAX_REQUESTS,
    MAX_REQUIREMENTS,
    MAX_RESOURCES,
    MAX_TERMS,
    MAX_TOLERATIONS,
    MAX_VALUES,
    TooLarge,
    check_annotations,
    check_size,
)
from webhook.model.raw import Draft


def asks(**amounts: str) -> Draft:
    return container(requests=amounts, limits=amounts)


def affinity(*terms: Draft) -> Draft:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expressions(count: int, values: int = 1) -> Draft:
    return {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["v"] * values}] * count}


@pytest.mark.parametrize(
    ("spec", "found", "allowed"),
    [
        ({"containers": [{}] * 40, "initContainers": [{}] * 25}, "65 containers and init containers", MAX_CONTAINERS),
        ({"containers": [asks(**{f"r{n}": "1" for n in range(600)})]}, "1200 resource requests", 2 * MAX_REQUESTS),
        ({"containers": [asks(**{f"r{n}": "1" for n in range(33)})]}, "33 distinct resources", MAX_RESOURCES),
        ({"overhead": {"r" * 318: "1"}}, "318 characters in the name", MAX_NAME),
        ({"tolerations": [{}] * 1025}, "1025 tolerations", MAX_TOLERATIONS),
        ({"nodeSelector": {f"k{n}": "v" for n in range(1025)}}, "1025 labels", MAX_REQUIREMENTS),
        (affinity(*[{}] * 257), "257 terms", MAX_TERMS),
        (affinity(expressions(1025)), "1025 requirements", MAX_REQUIREMENTS),
        (affinity(expressions(2, 8193)), "16386 values", MAX_VALUES),
    ],
)
def test_what_is_too_large_is_named_with_its_bound(spec: Draft, found: str, allowed: int) -> None:
    with pytest.raises(TooLarge, match=rf"There are {found}.* may have at most {allowed}\.") as fault:
        check_size(spec)
    assert fault.value.path.startswith("spec.")


def test_pods_of_dozens_of_containers_and_thousands_of_node_names_are_placed() -> None:
    usual = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", "nvidia.com/gpu": "1"}
    spec = {"containers": [asks(**usual)] * 64, **affinity(expressions(16, 1000))}
    check_size(spec)
    assert len(Pod.from_object(plain(**spec)).containers) == 64


def test_what_we_add_ourselves_does_not_make_a_pod_too_large() -> None:
    spec = affinity(*[expressions(1)] * (MAX_TERMS + 1024))
    check_size(spec, with_ours=True)
    with pytest.raises(TooLarge):
        check_size(spec)


def test_fields_of_the_wrong_shape_are_left_to_those_who_read_them() -> None:
    check_size({"containers": "x", "affinity": [], "nodeSelector": 1, "overhead": None, "tolerations": {}})


def test_several_faults_are_told_together() -> None:
    with pytest.raises(UserError) as fault:
        check_size({"containers": [{}] * 65, "tolerations": [{}] * 1025})
    assert [one.path for one in fault.value.faults] == ["spec.containers", "spec.tolerations"]


def test_annotations_that_leave_no_room_for_ours_are_too_large() -> None:
    check_annotations({"a": "x" * (192 * 1024 - 1)})
    check_annotations({"ä": "é" * (96 * 1024 - 1)})
    check_annotations({"a": "x" * 200_000}, with_ours=True)
    for annotations in (
        {"a": "x" * 192 * 1024},
        {"ä": "é" * 96 * 1024},
        {f"{number:05}": "" for number in range(40_000)},
    ):
        with pytest.raises(TooLarge, match=r"metadata.annotations: They have \d+ bytes\. .* may have 196608"):
            check_annotations(annotations)
    with pytest.raises(TooLarge):
        check_annotations({"a": "x" * 220_000}, with_ours=True)
