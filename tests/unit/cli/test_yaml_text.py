"""YAML is read and written as kubectl does."""

from itertools import pairwise
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhook.cli.input.yaml_text import YAMLFault, dump_all, line_of, load_all


def _one(text: str) -> Any:
    ((_, value),) = load_all(text)
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("1:30", "1:30"),
        ("1e3", 1000.0),
        ("12.5", 12.5),
        ("010", 8),
        ("0x10", 16),
        ("1_000", 1000),
        ("-7", -7),
        ("16Gi", "16Gi"),
        ("'8'", "8"),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("=", "="),
        ("9" * 30, int("9" * 30)),
        ("{1: a, false: b}", {"1": "a", "false": "b"}),
        ("[&a {x: 1}, *a]", [{"x": 1}, {"x": 1}]),
        ("{<<: {a: 1, b: 1}, b: 2}", {"a": 1, "b": 2}),
        ("{<<: [{a: 1}, {a: 2, b: 2}]}", {"a": 1, "b": 2}),
        ("{'<<': 1}", {"<<": 1}),
    ],
)
def test_scalars_mean_what_they_mean_to_kubectl(text: str, value: Any) -> None:
    assert _one(text) == value


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: [", 3, "while parsing a flow node"),
        ("a: 1\n b: 2", 2, "mapping values are not allowed"),
        ("a: 1\nb: *c", 2, "the alias *c has no anchor"),
        ("a: 1\nb: !thing 2", 2, "!thing"),
        ("a: 1\nb: 2\na: 3", 3, "'a' appears twice"),
        ("é\n\x07", 2, "U+0007"),
        ("? [1, 2]\n: 3", 1, "a key must be a string"),
        ("x: " + "9" * 5000, 1, "digits"),
        ("x: .nan", 1, ".nan is not a number in JSON"),
        ("x: 1e999", 1, "1e999 is not a number in JSON"),
        ("x: !!float .nan", 1, ".nan is not a number in JSON"),
        ("x:\n- -.inf", 2, "-.inf is not a number in JSON"),
        ("!!set {a, b}", 1, "the tag !!set is not known in JSON"),
        ("!!binary aGk=", 1, "the tag !!binary is not known in JSON"),
        ("!!int x", 1, "does not go with 'x'"),
        ("a: &a [*a]", 1, "the alias *a has no anchor before it, or stands inside it"),
        ("{<<: 3}", 1, "<< takes an object"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_line(text: str, line: int | None, reason: str) -> None:
    with pytest.raises(YAMLFault) as told:
        list(load_all(text))
    assert told.value.line == line
    assert reason in told.value.reason


def test_anchors_that_stand_for_too_many_values_are_refused() -> None:
    lines = [
        "- &a [0, 0, 0, 0, 0, 0, 0, 0]",
        *(f"- &{b} [{', '.join(['*' + a] * 8)}]" for a, b in pairwise("abcdefgh")),
    ]
    with pytest.raises(YAMLFault, match="too many values") as told:
        _one("\n".join(lines))
    assert told.value.line == 7


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", "")])
def test_depth_alone_does_no_harm(opening: str, closing: str) -> None:
    value = _one(opening * 20_000 + "1" + closing * 20_000)
    while isinstance(value, (dict, list)):
        (value,) = value.values() if isinstance(value, dict) else value
    assert value == 1


@pytest.mark.parametrize(
    "text", ["1e3", "y", "N", "yes", "0o17", "0x1F", "08", "1_0", "1:30", "2024-01-01", "~", "null", ".5", "<<", "="]
)
def test_strings_that_look_like_something_else_are_quoted(text: str) -> None:
    assert f"'{text}'" in dump_all([{"value": text}])


def test_lines_and_long_strings_stay_readable() -> None:
    long = "word " * 100
    assert dump_all([{"script": "a\nb\n", "long": long}]) == f"script: |\n  a\n  b\nlong: '{long}'\n"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    max_leaves=20,
)


@given(st.lists(_json, min_size=1, max_size=3))
def test_what_is_written_reads_back_the_same(values: list[Any]) -> None:
    text = dump_all(values)
    assert [value for _, value in load_all(text)] == values
    assert list(yaml.safe_load_all(text)) == values


TEXT = """\
kind: Pod
spec:
  containers:
  - name: a
    resources:
      requests:
        cpu: 1
        nvidia.com/gpu: 2
---
metadata:
  annotations:
    a.b/c: x
"""


@pytest.mark.parametrize(
    ("document", "path", "line"),
    [
        (1, "kind", 1),
        (1, "spec.containers[0].resources.requests.nvidia.com/gpu", 8),
        (1, "spec.containers[0].resources.requests[cpu]", 7),
        (1, "spec.containers[0].resources.limits[cpu]", 5),
        (1, "spec.containers[3].name", 3),
        (2, "metadata.annotations[a.b/c]", 12),
        (2, "metadata.annotations[a.b/c].numaTopologyPolicy", 12),
        (2, "spec", 10),
        (3, "spec", None),
    ],
)
def test_a_fields_line_is_found_or_that_of_the_nearest_above_it(document: int, path: str, line: int | None) -> None:
    assert line_of(TEXT, document, path) == line
