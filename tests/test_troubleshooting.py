"""docs/troubleshooting.md quotes what the service says, and a test reproduces each of its symptoms."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
QUOTES = [
    line for block in re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE) for line in block.splitlines()
]
TESTS: dict[str, list[str]] = yaml.safe_load((ROOT / "tests" / "symptoms.yaml").read_text())
# A shorter piece of a quotation stands in any text.
TELLING = 10


@cache
def said() -> str:
    """Every string in the code of the service, and every constant part of a formatted one, a line each."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "webhook").rglob("*.py")]
    return "\n".join(
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def pieces(quote: str) -> list[str]:
    """The pieces of a quotation between its values and clauses, which texts are put together from."""
    return [piece for piece in (part.strip() for part in re.split(r"…|[:;](?: |$)", quote)) if re.search(r"\w", piece)]


def sections() -> dict[str, str]:
    """The symptoms by their headings: those that have no symptoms below them."""
    found = re.split(r"^(#{2,3} .+)$", PAGE, flags=re.MULTILINE)[1:]
    headings, texts = found[::2], found[1::2]
    below = {heading for heading, next_one in pairwise(headings) if next_one.startswith("###")}
    leaves = {
        heading: text
        for heading, text in zip(headings, texts, strict=True)
        if heading.startswith("### ") or heading not in below
    }
    del leaves["## First look"]
    return leaves


def test_a_quotation_is_split_at_its_values_and_clauses() -> None:
    assert pieces("waiting: …: none of … nodes fits now (…)") == ["waiting", "none of", "nodes fits now ("]


@pytest.mark.parametrize("quote", QUOTES)
def test_the_service_says_what_is_quoted(quote: str) -> None:
    parts = pieces(quote)
    assert sum(map(len, parts)) >= TELLING
    assert [part for part in parts if part not in said()] == []


def test_each_symptom_has_tests_and_no_other() -> None:
    assert list(TESTS) == [heading.lstrip("# ") for heading in sections()]


@pytest.mark.parametrize("heading", TESTS)
def test_the_tests_of_a_symptom_exist(heading: str) -> None:
    assert TESTS[heading]
    for named in TESTS[heading]:
        file, _, test = named.partition("::")
        assert f"def {test}" in (ROOT / file).read_text()
