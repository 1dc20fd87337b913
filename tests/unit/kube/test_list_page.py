"""A list's page gives the same objects as its JSON, however it is written; compact pages are cut into objects."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube import client as list_page
from webhook.kube.api_errors import MalformedAnswerError, UnreachableError
from webhook.kube.client import ListPage

# Texts that look like the ends and beginnings of objects.
TEXTS = ["a", '},{"metadata":', "}]}", '"items":[', "\\", "ü"]
NAMES = st.sampled_from(["metadata", "items", "a", '},{"metadata":'])
VALUES = st.recursive(
    st.sampled_from([*TEXTS, None, 1, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.fixed_dictionaries({"metadata": st.just({"name": "x"})}, optional={"spec": VALUES, "items": VALUES})


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def page_of(text: bytes) -> ListPage:
    return ListPage(text, "GET /pods", "/pods")


def objects_without_decoding_whole(text: bytes, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    page = page_of(text)
    monkeypatch.setattr(list_page, "items_of", lambda *_: pytest.fail("decoded whole"))
    return [raw for raw, _ in page.objects()]


@given(
    items=st.lists(OBJECTS | VALUES.filter(lambda value: not isinstance(value, dict)), max_size=5),
    before=st.booleans(),
    spaces=st.booleans(),
)
def test_the_objects_are_those_of_the_json(items: list[Any], before: bool, spaces: bool) -> None:
    metadata = {"resourceVersion": "5", "continue": "x"}
    fields = (
        {"metadata": metadata, "items": items} if before else {"items": items, "kind": "List", "metadata": metadata}
    )
    page = page_of(json.dumps(fields).encode() if spaces else compact(fields))
    found = [raw for raw, _ in page.objects()]
    expected = [item for item in items if isinstance(item, dict)]
    assert found[-len(expected) :] == expected if expected else not found
    assert page.metadata == metadata


def test_a_compact_page_of_a_built_in_kind_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [{"metadata": {"name": f"p{number}"}, "spec": {"containers": [{"name": "a"}]}} for number in range(3)]
    text = compact({"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": pods}) + b"\n"
    assert objects_without_decoding_whole(text, monkeypatch) == pods
    assert [json.loads(own or b"") for _, own in page_of(text).objects()] == pods


def test_a_compact_page_of_custom_resources_is_cut_though_parts_begin_as_the_objects_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = [{"apiVersion": "x/v1", "manager": manager} for manager in "abc"]
    objects = [
        {"apiVersion": "x/v1", "kind": "X", "metadata": {"managedFields": written, "name": f"n{number}"}, "zones": [{}]}
        for number in range(3)
    ]
    text = compact({"apiVersion": "x/v1", "items": objects, "kind": "XList", "metadata": {"resourceVersion": "5"}})
    assert objects_without_decoding_whole(text, monkeypatch) == objects


def test_an_object_with_too_many_places_where_it_may_end_is_decoded_with_the_whole_page() -> None:
    pods = [{"metadata": {"name": "a"}, "spec": [{"metadata": {}}] * 100}, {"metadata": {"name": "b"}}]
    page = page_of(compact({"metadata": {"resourceVersion": "5"}, "items": pods}))
    assert list(page.objects()) == [(pod, None) for pod in pods]
    assert page.metadata == {"resourceVersion": "5"}


@pytest.mark.parametrize("length", range(10, 75, 5))
def test_a_page_that_breaks_off_is_an_error_after_its_whole_objects(length: int) -> None:
    pods = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]
    text = compact({"metadata": {}, "items": pods})
    found: list[Any] = []
    with pytest.raises(UnreachableError, match="GET /pods: the answer broke off"):
        found.extend(page_of(text[:length]).objects())


def test_an_answer_that_is_no_object_is_an_error() -> None:
    with pytest.raises(MalformedAnswerError, match="not an object"):
        list(page_of(b"[]").objects())
