"""What Koordinator reserves, binds and amplifies on a node."""

import json
from typing import Any

import pytest

from tests.builders.nodes import node
from webhook.formats.koordinator.cpu_bind import CPUBindPolicy
from webhook.formats.kubernetes.node import Node

RESERVATION = "node.koordinator.sh/reservation"
RATIO = "node.koordinator.sh/resource-amplification-ratio"
GI = 2**30


def read(annotations: dict[str, Any] | None = None, labels: dict[str, str] | None = None) -> Node:
    raw = node(name="n0", cpus=32, memory="128Gi", labels=labels)
    raw["metadata"]["annotations"] = annotations
    return Node.from_object(raw)


# Source: koordinator pkg/util/node.go, TrimNodeAllocatableByNodeReservation.
@pytest.mark.parametrize(
    ("text", "cpu", "memory"),
    [
        ("{}", 32_000, 128),
        ('{"resources": {"cpu": "2", "memory": "8Gi"}}', 30_000, 120),
        ('{"resources": {"cpu": "2"}, "reservedCPUs": "0-3"}', 28_000, 128),
        ('{"reservedCPUs": "0-3", "applyPolicy": "Default"}', 28_000, 128),
        ('{"reservedCPUs": "0-3", "applyPolicy": "ReservedCPUsOnly"}', 32_000, 128),
        ('{"resources": {"cpu": "99"}}', 0, 128),
    ],
)
def test_what_a_node_reserves_is_no_pods(text: str, cpu: int, memory: int) -> None:
    found = read({RESERVATION: text})
    assert (found.allocatable["cpu"], found.allocatable["memory"]) == (cpu, memory * GI)
    assert found.problems == ()


@pytest.mark.parametrize("text", ["{", "[]", '{"reservedCPUs": "x"}', '{"resources": {"cpu": "2x"}}', "[" * 99_999])
def test_an_unreadable_reservation_is_named_and_left_out(text: str) -> None:
    found = read({RESERVATION: text})
    assert found.allocatable["cpu"] == 32_000
    assert len(found.problems) == 1


@pytest.mark.parametrize(
    ("text", "amplified"),
    [("", False), ("{}", False), ('{"cpu": 1}', False), ('{"cpu": 0.5}', False), ('{"memory": 2}', False),
     ('{"cpu": 1.5}', True), ('{"cpu": "2"}', True), ('{"cpu": NaN}', True), ("{", True)],
)  # fmt: skip
def test_a_ratio_above_one_amplifies(text: str, amplified: bool) -> None:
    assert read({RATIO: text}).amplified is amplified


def test_the_label_binds_cpus() -> None:
    label = "node.koordinator.sh/cpu-bind-policy"
    assert read(labels={label: "FullPCPUsOnly"}).cpu_bind is CPUBindPolicy.FULL_PCPUS
    assert read(labels={label: "SpreadByPCPUs"}).cpu_bind is CPUBindPolicy.SPREAD_BY_PCPUS
    assert read(labels={label: "None"}).cpu_bind is read().cpu_bind is None


@pytest.mark.parametrize("value", ["fullpcpusonly", "x" * 63])
def test_a_label_that_koordinator_does_not_know_is_named_and_requires_nothing(value: str) -> None:
    found = read(labels={"node.koordinator.sh/cpu-bind-policy": value})
    assert found.cpu_bind is None
    (problem,) = found.problems
    assert problem.startswith(f"label node.koordinator.sh/cpu-bind-policy: '{value[:60]}")


@pytest.mark.parametrize("policy", ["default", 3, ["Default"]])
def test_so_is_a_policy_of_reservations(policy: Any) -> None:
    found = read({RESERVATION: json.dumps({"resources": {"cpu": "2"}, "applyPolicy": policy})})
    assert found.allocatable["cpu"] == 32_000
    (problem,) = found.problems
    assert "is neither Default nor ReservedCPUsOnly" in problem
