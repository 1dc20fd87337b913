import pytest

from webhook.model.errors import UserError
from webhook.model.quantity import QuantityError
from webhook.model.resources import (
    MAX_AMOUNT,
    amount,
    format_amount,
    format_list,
    format_share,
    is_aligned_for_guaranteed_only,
    is_device,
    is_host_level,
    is_hugepages,
    is_native,
    parse_list,
)


@pytest.mark.parametrize(
    ("name", "native", "hugepages", "host_level", "guaranteed_only"),
    [
        ("cpu", True, False, False, True),
        ("memory", True, False, False, True),
        ("hugepages-2Mi", True, True, False, True),
        ("ephemeral-storage", True, False, True, False),
        ("storage", True, False, True, False),
        ("kubernetes.io/batch-cpu", True, False, False, False),
        ("nvidia.com/gpu", False, False, True, False),
    ],
)
def test_a_resource_is_told_by_its_name(
    name: str, native: bool, hugepages: bool, host_level: bool, guaranteed_only: bool
) -> None:
    assert (is_native(name), is_device(name)) == (native, not native)
    assert is_hugepages(name) is hugepages
    assert is_host_level(name) is host_level
    assert is_aligned_for_guaranteed_only(name) is guaranteed_only


def test_cpu_counts_in_millicores_and_everything_else_in_whole_units() -> None:
    assert amount("cpu", "1500m") == 1500
    assert amount("cpu", 2) == 2000
    assert amount("cpu", "100u") == 1
    assert amount("memory", "1.5Ki") == 1536
    assert amount("memory", "100m") == 1
    assert amount("nvidia.com/gpu", "4") == 4


def test_an_amount_never_leaves_half_of_int64() -> None:
    assert amount("memory", "1000E") == MAX_AMOUNT
    assert amount("memory", "-1000E") == -MAX_AMOUNT
    assert MAX_AMOUNT + MAX_AMOUNT < 2**63


def test_an_amount_that_is_no_quantity_is_an_error() -> None:
    with pytest.raises(QuantityError):
        amount("cpu", "lots")


def test_equal_lists_are_one_read_only_object() -> None:
    first, second = (parse_list({"cpu": "2", "memory": "1Gi"}, "spec.overhead") for _ in range(2))
    assert first is second
    assert dict(first) == {"cpu": 2000, "memory": 2**30}
    with pytest.raises(TypeError):
        first["cpu"] = 0  # type: ignore[index]


def test_a_number_and_a_truth_value_are_not_confused() -> None:
    assert parse_list({"cpu": 1}, "spec.overhead") == {"cpu": 1000}
    with pytest.raises(UserError, match="True is not a quantity"):
        parse_list({"cpu": True}, "spec.overhead")


def test_no_list_is_an_empty_list() -> None:
    assert parse_list(None, "x") == parse_list({}, "x") == {}


@pytest.mark.parametrize(
    ("raw", "path", "message"),
    [
        ({"cpu": "two"}, "spec.containers[0].resources.requests[cpu]", "'two' is not a quantity"),
        ({"memory": "-1Gi"}, "spec.containers[0].resources.requests[memory]", "'-1Gi' is negative"),
        ({"memory": ["1"]}, "spec.containers[0].resources.requests[memory]", "is not a quantity"),
        (["cpu"], "spec.containers[0].resources.requests", "must be an object"),
    ],
)
def test_a_fault_names_its_place_and_its_value(raw: object, path: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        parse_list(raw, "spec.containers[0].resources.requests")
    assert caught.value.path == path


def test_all_faults_of_a_list_are_told_at_once() -> None:
    with pytest.raises(UserError) as caught:
        parse_list({"cpu": "two", "memory": "-1", "pods": "3"}, "status.allocatable")
    assert [fault.path for fault in caught.value.faults] == ["status.allocatable[cpu]", "status.allocatable[memory]"]
    assert "status.allocatable[cpu]: 'two'" in str(caught.value)


@pytest.mark.parametrize(
    ("resource", "number", "text"),
    [
        ("cpu", 8000, "8"),
        ("cpu", 1500, "1500m"),
        ("cpu", 0, "0"),
        ("memory", 16 * 2**30, "16Gi"),
        ("memory", 1536 * 2**20, "1536Mi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("hugepages-1Gi", 2**31, "2Gi"),
        ("nvidia.com/gpu", 1024, "1024"),
    ],
)
def test_an_amount_is_written_for_people_and_reads_back(resource: str, number: int, text: str) -> None:
    assert format_amount(resource, number) == text
    assert amount(resource, text) == number


def test_a_list_for_people_starts_with_cpu_and_memory_and_leaves_out_zeros() -> None:
    amounts = {"nvidia.com/gpu": 1, "memory": 2**30, "ephemeral-storage": 0, "cpu": 8000}
    assert format_list(amounts) == "8 cpu, 1Gi memory, 1 nvidia.com/gpu"
    assert format_list({}) == "nothing"


def test_of_an_absurdly_long_list_what_kubernetes_defines_is_read_before_all_else() -> None:
    raw = {f"example.com/r{n}": "1" for n in range(40_000)} | {"cpu": "2", "memory": "1Gi"}
    read = parse_list(raw, "status.allocatable")
    assert len(read) == 1024
    assert (read["cpu"], read["memory"]) == (2000, 2**30)


@pytest.mark.parametrize(
    ("resource", "part", "whole", "text"),
    [
        ("cpu", 8_000, 32_000, "8 of 32"),
        ("cpu", 1_500, 32_000, "1.5 of 32"),
        ("cpu", 10, 32_000, "0.01 of 32"),
        ("cpu", 128_000_000, 160_000_000, "128,000 of 160,000"),
        ("memory", 128_688 << 30, 126 << 40, "125.7 of 126Ti"),
        ("memory", (126 << 40) - (1 << 30), 126 << 40, "125.999 of 126Ti"),
        ("memory", 0, 126 << 40, "0 of 126Ti"),
        ("memory", 126 << 40, 126 << 40, "126 of 126Ti"),
        ("hugepages-2Mi", 1 << 30, 2 << 30, "1 of 2Gi"),
        ("memory", 0, 0, "0 of 0"),
        ("nvidia.com/gpu", 3, 8, "3 of 8"),
    ],
)
def test_a_share_is_in_one_unit_and_looks_like_all_or_nothing_only_if_it_is(
    resource: str, part: int, whole: int, text: str
) -> None:
    assert format_share(resource, part, whole) == text
