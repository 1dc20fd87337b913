"""Both codecs read and write the same, so an installation without the extra behaves the same."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.codec import dumps_plain, loads_plain

LOADS = [pytest.param(loads_plain, id="json"), pytest.param(orjson.loads, id="orjson")]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))  # lone surrogates have no UTF-8
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_one_writes_the_other_reads(value: Any) -> None:
    assert orjson.loads(dumps_plain(value)) == value
    assert loads_plain(orjson.dumps(value)) == value


@pytest.mark.parametrize("loads", LOADS)
@pytest.mark.parametrize("text", [b"NaN", b'{"a": Infinity}', b"[-Infinity]", b"", b"{", b"[" * 100_000, b"\xff\xfe"])
def test_what_is_not_json_is_a_value_error(loads: Callable[[bytes], Any], text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words are the codec's own
        loads(text)
