"""YAML means to us what it means to kubectl, in both directions."""

from itertools import pairwise
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhook.cli.yaml_text import YAMLFault, dump_all, line_of, load_all, plain


def _one(text: str) -> Any:
    ((_, value),) = load_all(text)
    return plain(value)


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
        ("{<<: {a: 1}, b: 2}", {"a": 1, "b": 2}),
    ],
)
def test_scalars_mean_what_they_mean_to_kubectl(text: str, value: Any) -> None:
    assert _one(text) == value


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: [", 3, "while parsing a flow node"),
        ("a: 1\n b: 2", 2, "mapping values are not allowed"),
        ("a: 1\nb: *c", 2, "undefined alias"),
        ("a: 1\nb: !thing 2", 2, "!thing"),
        ("a: 1\nb: 2\na: 3", 3, "'a' stands twice"),
        ("é\n\x07", 2, "U+0007"),
        ("? [1, 2]\n: 3", 1, "unhashable key"),
        ("x: " + "9" * 5000, None, "digits"),
        ("[" * 1_000_000, None, "nested too deeply"),
        ("- " * 1_000_000, None, "nested too deeply"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_line(text: str, line: int | None, reason: str) -> None:
    with pytest.raises(YAMLFault) as told:
        list(load_all(text))
    assert told.value.line == line
    assert reason in told.value.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("&a [*a]", "inside itself"),
        ("x: .nan", "no counterpart in JSON"),
        ("x: -.inf", "no counterpart in JSON"),
        ("!!set {a, b}", "no counterpart in JSON"),
        ("!!binary aGk=", "no counterpart in JSON"),
        ("[" * 900 + "]" * 900, "nested too deeply"),
        (
            "- &a [0, 0, 0, 0, 0, 0, 0, 0]\n"
            + "".join(f"- &{b} [{', '.join(['*' + a] * 8)}]\n" for a, b in pairwise("abcdefghi")),
            "anchors",
        ),
    ],
)
def test_what_json_cannot_express_is_refused(text: str, reason: str) -> None:
    with pytest.raises(YAMLFault, match=reason):
        _one(text)


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
    assert [plain(value) for _, value in load_all(text)] == values
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
