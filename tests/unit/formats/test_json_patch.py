"""JSON patches: ours against RFC 6902 and the jsonpatch library."""

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.formats.patches.json_patch import Patch, PatchError, apply, pointer


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (
            ("metadata", "annotations", "topology-webhook.dev/placement"),
            "/metadata/annotations/topology-webhook.dev~1placement",
        ),
        (("a~b", "c/d", "~1"), "/a~0b/c~1d/~01"),
        (("terms", 0, "-"), "/terms/0/-"),
        (("",), "/"),
    ],
)
def test_a_pointer_escapes_tilde_and_slash(tokens: tuple[str | int, ...], text: str) -> None:
    assert pointer(tokens) == text


@pytest.mark.parametrize(
    ("document", "path", "operation"),
    [
        ({}, ("metadata", "annotations", "k"), {"op": "add", "path": "/metadata", "value": {"annotations": {"k": 1}}}),
        (
            {"metadata": {"annotations": None}},
            ("metadata", "annotations", "k"),
            {"op": "add", "path": "/metadata/annotations", "value": {"k": 1}},
        ),
        (
            {"metadata": {"annotations": {}}},
            ("metadata", "annotations", "k"),
            {"op": "add", "path": "/metadata/annotations/k", "value": 1},
        ),
        ({"terms": None}, ("terms", "-"), {"op": "add", "path": "/terms", "value": [1]}),
        ({"terms": [0]}, ("terms", "-"), {"op": "add", "path": "/terms/-", "value": 1}),
        ({"terms": [{}]}, ("terms", 0, "x", "-"), {"op": "add", "path": "/terms/0/x", "value": [1]}),
    ],
)
def test_putting_adds_the_parents_that_are_missing_or_null(document: Any, path: Any, operation: Any) -> None:
    patch = Patch(document)
    patch.put(path, 1)
    assert patch.operations == [operation]
    assert patch.document == jsonpatch.apply_patch(document, patch.operations)


def test_a_patch_leaves_its_document_as_it_was() -> None:
    document = {"a": {"b": [1, {"c": 2}]}}
    before = copy.deepcopy(document)
    patch = Patch(document)
    patch.put(("a", "b", 1, "c"), 3)
    patch.replace(("a", "b", 0), 0)
    patch.remove(("a", "b", 1))
    assert document == before
    assert patch.document == {"a": {"b": [0]}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/missing", "value": 1},
        {"op": "remove", "path": "/missing"},
        {"op": "add", "path": "/missing/below", "value": 1},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "replace", "path": "/list/2", "value": 1},
        {"op": "remove", "path": "/list/-"},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/list/-1", "value": 1},
        {"op": "add", "path": "/text/below", "value": 1},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "add", "path": "", "value": 1},
        {"op": "move", "path": "/list", "from": "/text"},
    ],
)
def test_what_does_not_apply_is_an_error_of_ours(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchError):
        apply({"list": [1, 2], "text": "x"}, [operation])


_keys = st.sampled_from(["a", "b/c", "d~e", "~1", ""])
_json = st.recursive(
    st.none() | st.integers(0, 3) | st.text("xy", max_size=2),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_keys, below, max_size=3),
    max_leaves=12,
)


@st.composite
def _operations(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    """A document and an operation at a random place in it."""
    document = draw(st.dictionaries(_keys, _json, min_size=1, max_size=3))
    held: Any = document
    tokens: list[str | int] = []
    while True:
        inside = bool(held) and draw(st.booleans())
        if isinstance(held, list):
            tokens.append(draw(st.integers(0, len(held) - 1)) if inside else "-")
        else:
            tokens.append(draw(st.sampled_from(sorted(held))) if inside else draw(_keys))
        try:
            below = held[tokens[-1]]
        except (KeyError, TypeError):
            break
        if not isinstance(below, (dict, list)) or draw(st.booleans()):
            break
        held = below
    op = draw(st.sampled_from(["add", "replace", "remove"]))
    return document, {"op": op, "path": pointer(tokens), **({} if op == "remove" else {"value": draw(_json)})}


@given(_operations())
def test_applying_agrees_with_the_jsonpatch_library(case: tuple[Any, dict[str, Any]]) -> None:
    document, operation = case
    try:
        expected = jsonpatch.apply_patch(document, [operation])
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
        with pytest.raises(PatchError):
            apply(document, [operation])
    else:
        assert apply(document, [operation]) == expected
