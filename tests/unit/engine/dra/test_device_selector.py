"""CEL expressions that select devices."""

from typing import Any

import pytest

from tests.builders.devices import device, resource_slice
from webhook.engine.dra.device_selector import Selector, Unevaluable, compiled
from webhook.formats.dra import Device, Slice

GPU = device(
    "gpu-0",
    attributes={
        "productName": "NVIDIA A100",
        "index": 2,
        "healthy": True,
        "driverVersion": {"version": "550.54.15"},
        "models": {"strings": ["a", "b"]},
        "versions": {"versions": ["1.0.0", "2.0.0"]},
        "resource.kubernetes.io/numaNode": 1,
    },
    capacity={"memory": "80Gi", "other.example.com/slots": "7"},
)


def read(raw: dict[str, Any], **fields: Any) -> Device:
    return Slice.from_object(resource_slice("n1", [{**raw, **fields}])).devices[0]


def selects(expression: str, **fields: Any) -> bool | Unevaluable:
    return compiled(expression).selects(read(GPU, **fields))


A = 'device.attributes["gpu.example.com"]'
C = 'device.capacity["gpu.example.com"]'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "gpu.example.com"', True),
        ("device.driver != 'gpu.example.com'", False),
        ('device["driver"] == "gpu.example.com"', None),
        (f'{A}.productName == "NVIDIA A100"', True),
        (f'{A}["productName"] == "NVIDIA A100"', True),
        (f"{A}.healthy", True),
        (f"!{A}.healthy", False),
        (f"!!{A}.healthy", True),
        (f"{A}.index == 2", True),
        (f"{A}.index in [1, 2, 3]", True),
        (f"{A}.index in [1, 3]", False),
        (f"{A}.index in []", False),
        (f"{A}.index >= 2 && {A}.index < 3", True),
        (f"-1 < {A}.index", True),
        (f"{A}.index == 0x2", True),
        (f"{A}.index % 2 == 0", True),
        (f"{A}.index * 3 + 1 - 2 == 5", True),
        ("-7 / 2 == -3 && -7 % 2 == -1", True),
        (f"{A}.productName < 'Z'", True),
        (f'{A}.productName.startsWith("NVIDIA") && {A}.productName.endsWith("100")', True),
        (f'{A}.productName.lowerAscii().contains("a100")', True),
        (f"size({A}.productName) == 11 && {A}.models.size() == 2", True),
        (f'"a" in {A}.models', True),
        (f'"c" in {A}.models', False),
        (f'{A}.models.includes("a") && {A}.productName.includes("NVIDIA A100")', True),
        (f'{A}.models == ["a", "b"]', True),
        (f'{A}.models[1] == "b"', True),
        (f'"index" in {A}', True),
        (f'"none" in {A}', False),
        ('"gpu.example.com" in device.attributes && "other.example.com" in device.capacity', True),
        ('"other.example.com" in device.attributes', False),
        ('device.attributes["resource.kubernetes.io"].numaNode == 1', True),
        (f"has({A}.index)", True),
        (f"has({A}.none)", False),
        ('has(device.attributes["unknown.example.com"].none)', False),
        (f"{A}.?index.orValue(7) == 2", True),
        (f"{A}.?none.orValue(7) == 7", True),
        (f"{A}.?none.hasValue()", False),
        (f"cel.bind(a, {A}, a.healthy && a.index == 2)", True),
        (f'{C}.memory.compareTo(quantity("40Gi")) >= 0', True),
        (f'{C}.memory.isGreaterThan(quantity("80Gi"))', False),
        (f'{C}.memory.isLessThan(quantity("81Gi"))', True),
        (f'{C}.memory == quantity("80Gi")', True),
        (f'{C}.memory.compareTo(quantity("85899345920")) == 0', True),
        ('device.capacity["other.example.com"].slots.compareTo(quantity("7")) == 0', True),
        ('isQuantity("7") && !isQuantity("x") && quantity("-1").sign() == -1', True),
        (f'{A}.driverVersion.compareTo(semver("550.0.0")) > 0', True),
        (f'{A}.driverVersion.isGreaterThan(semver("550.54.15-rc.1"))', True),
        (f'{A}.driverVersion.isLessThan(semver("550.100.0"))', True),
        (f'{A}.driverVersion == semver("550.54.15+build")', True),
        (f"{A}.driverVersion != '550.54.15' && quantity('1') != 1", True),
        (f"{A}.driverVersion.major() == 550 && {A}.driverVersion.minor() == 54", True),
        ('semver("1.0.0-1").isLessThan(semver("1.0.0-a")) && semver("1.0.0-a").isLessThan(semver("1.0.0-a.1"))', True),
        ('isSemver("1.0.0") && !isSemver("v1.0.0") && !isSemver("01.0.0")', True),
        (f'semver("2.0.0") in {A}.versions', True),
        ("true ? true : device.nothing", True),
        ("false ? device.nothing : true", True),
        ("device.allowMultipleAllocations", False),
        (f"{A}.productName.matches('^NVIDIA (A100|H100)$')", True),
        (f"{A}.productName.lowerAscii().matches('^.*a100.*$')", True),
        # Values of different types are different.
        (f"{A}.index == true", False),
        (f"{A}.index == '2'", False),
        (f"{A}.productName == {A}.driverVersion", False),
        ("1 in [true]", False),
        # Text of every kind.
        (r'"a\"b" == "a" + "\"" + "b" && r"\n" != "\n" && r"\" == "\\"', True),
        ("true // and a comment", True),
        (f"(\n\t{A}.healthy\n)", True),
    ],
)
def test_an_expression_selects_a_device_as_cel_does(expression: str, expected: bool | None) -> None:
    found = selects(expression)
    assert isinstance(found, Unevaluable) if expected is None else found is expected


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (f"{A}.none == 1", "the device has no gpu.example.com/none"),
        (f"{A}.index > 'a'", "> takes no int and string"),
        (f"{A}.index && true", "&&, || takes no int"),
        (f"{A}.index", "the result is no bool"),
        (f"{A}.driverVersion == '550.54.15'", "== takes no semver and string"),
        (f"{A}.models[2] == 'c'", "index out of bounds"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("1 / 0 == 0", "division by zero"),
        ('quantity("x") == quantity("1")', "'x' is no quantity"),
        # What is not evaluated, though cel-go knows it.
        (f"{A}.index == 2.0", "the number '2.0' is not evaluated"),
        (f"{A}.productName.matches('A{{2}}')", "the pattern 'A{2}' is not evaluated"),
        (f"{A}.productName.matches({A}.productName)", ".matches() of string is not evaluated"),
        (f"{A}.index.matches('2')", "matches takes no int"),
        (f"{A}.models.exists(m, m == 'a')", ".exists() is not evaluated"),
        ("device.name == 'a'", "device.name is not evaluated"),
        ("int('1') == 1", "int() of this is not evaluated"),
        ("{'a': 1}['a'] == 1", "'{' is not expected"),
        ("x == 1", "x is not known"),
        ("", "'' is not expected"),
        ("true true", "'true' is not expected"),
        ('"a', "is not expected"),
        ("(" * 30 + "true" + ")" * 30, "nested deeper than 24 times"),
    ],
)
def test_an_error_and_what_is_not_known_is_never_a_no(expression: str, reason: str) -> None:
    found = selects(expression)
    assert isinstance(found, Unevaluable)
    assert reason in found.reason


@pytest.mark.parametrize("unknown", [f"{A}.none == 1", f"{A}.models.exists(m, m == 'a')", f"{A}.index", "1.5 < 2.0"])
def test_false_and_true_decide_beside_an_error_on_either_side(unknown: str) -> None:
    assert selects(f"false && {unknown}") is False
    assert selects(f"{unknown} && false") is False
    assert selects(f"true || {unknown}") is True
    assert selects(f"{unknown} || true") is True
    assert isinstance(selects(f"{unknown} && true"), Unevaluable)
    assert isinstance(selects(f"false || {unknown}"), Unevaluable)


def test_a_device_that_is_not_read_is_never_a_no() -> None:
    found = selects("false", attributes={"a": {}})
    assert isinstance(found, Unevaluable)
    assert "gpu.example.com/n1/gpu-0" in found.reason


@pytest.mark.parametrize(
    ("expression", "excluded"),
    [
        ('device.driver == "other.example.com"', True),
        ('device.driver == "other.example.com" && device.attributes["a"].b == 1', True),
        ('device.driver == "gpu.example.com"', False),
        ('device.attributes["a"].b == 1', False),
        ("has(device.attributes['a'].b)", False),
    ],
)
def test_a_driver_is_excluded_if_no_device_of_it_can_be_selected(expression: str, excluded: bool) -> None:
    assert compiled(expression).excludes("gpu.example.com") is excluded


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000,
        "!" * 9_000 + "true",
        "-" * 9_000 + "1 == 1",
        " || ".join(["device.driver == 'a'"] * 400),
        "1 in [" + ",".join(["2"] * 4_000) + "]",
        "+".join(["1"] * 5_000) + " == 1",
        "device" + ".a" * 5_000,
        "device" + "[0]" * 3_000,
        "f(" * 5_000,
        '"' + "\\" * 10_000,
        '"a' * 5_000,
        "has(" * 2_000,
        "true ? " * 1_400 + "true",
        # Each name is twice the one before.
        "cel.bind(a0, 'aaaa', "
        + "".join(f"cel.bind(a{i}, a{i - 1} + a{i - 1}, " for i in range(1, 23))
        + "a22 == a22"
        + ")" * 23,
        "cel.bind(a, [" + ",".join(["1"] * 2_000) + "], " + " || ".join(["0 in a"] * 500) + ")",
        "cel.bind(a, [" + ",".join(["1"] * 2_000) + "], " + " && ".join(["a == a"] * 500) + ")",
    ],
)
def test_a_hostile_text_is_read_and_evaluated_in_bounded_work(text: str) -> None:
    found = compiled(text[: 10 * 1024])
    assert isinstance(found, Selector)
    # Each operation is a character at least, and none does more work than the length of a list.
    assert found.cost <= len(text)
    assert isinstance(found.selects(read(GPU)), bool | Unevaluable)


def test_a_text_beyond_the_limit_of_the_api_server_is_not_read() -> None:
    found = compiled("true" + " " * (10 * 1024)).selects(read(GPU))
    assert isinstance(found, Unevaluable)
    assert "too long" in found.reason
