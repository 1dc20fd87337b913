"""Regular expressions in linear time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.engine.dra.device_pattern import PatternError, read_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("", "", True),
        ("", "a", True),
        ("^$", "", True),
        ("^$", "a", False),
        ("a", "bab", True),
        ("^a", "ba", False),
        ("a$", "ab", False),
        ("^a|b$", "ax", True),
        ("^a|b$", "xb", True),
        ("^a|b$", "xax", False),
        ("^(a|b)$", "b", True),
        ("^(a|b)$", "ab", False),
        ("^(?:ab)+$", "abab", True),
        ("^(?:ab)*?$", "aba", False),
        ("^a?b$", "b", True),
        ("^.*a100.*$", "nvidia a100 sxm", True),
        ("^A100", "A100", True),
        ("^[A-C_]+$", "AB_C", True),
        ("^[^A-C]+$", "xyB", False),
        (r"^\d+\.\d$", "12.5", True),
        (r"^\w\W\s\S\D$", "a- xx", True),
        (r"[\d-]x", "-x", True),
        ("[]a]", "]", True),
        ("(?i)^nvidia h[1-2]00$", "NVIDIA H100", True),
        ("(?i)[A-Z]+$", "abc", True),
        ("a.c", "a\nc", False),
        ("(a*)*b", "a" * 1000, False),
    ],
)
def test_a_pattern_is_found_as_re2_finds_it(pattern: str, text: str, found: bool) -> None:
    assert read_pattern(pattern).found_in(text) is found


@pytest.mark.parametrize(
    "pattern",
    [
        "a{2}",
        "(?P<n>a)",
        "(?s).",
        "a**",
        "*",
        "a)",
        "(a",
        "[a",
        "[[:alpha:]]",
        r"\pL",
        r"\b",
        "a" * 129,
        "(" * 20,
        "\\",
        "[b-a]",
        "a^b",
        "a$b",
    ],
)
def test_what_is_not_read_is_an_error(pattern: str) -> None:
    with pytest.raises(PatternError):
        read_pattern(pattern)


def test_letters_that_only_unicode_knows_are_left_open() -> None:
    assert read_pattern("(?i)k").found_in("\u212a") is None
    with pytest.raises(PatternError):
        read_pattern("(?i)\u00e9")


patterns = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", "c"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?"])).map(lambda x: f"(?:{x[0]}){x[1]}"),
        st.tuples(inner, inner).map("({0[0]}|{0[1]})".format),
    ),
    max_leaves=8,
)


@given(patterns, st.sampled_from(["", "^"]), st.sampled_from(["", "$"]), st.text("abc1", max_size=8))
def test_it_agrees_with_pythons_own(pattern: str, start: str, end: str, text: str) -> None:
    whole = f"{start}{pattern}{end}"
    # Python's $ also matches before a last newline, of which these texts have none.
    assert read_pattern(whole).found_in(text) is (re.search(whole, text) is not None)
