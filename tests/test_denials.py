"""docs/metrics.md lists the reasons of denials that the code has, and no others."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from webhook.engine.reason import REASONS
from webhook.placing.pod.schedulability import UnschedulableReason

ROOT = Path(__file__).parents[1]
_, _, _SECTION = (ROOT / "docs" / "metrics.md").read_text().partition("## Denials\n")
ROWS = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", _SECTION.partition("\n## ")[0], re.MULTILINE)
LISTED = [name for row in ROWS for name in re.findall(r"`(\w+)`", row) if name != "reason"]
# What makes a denial, and which of its arguments is the reason.
MAKERS = {"Denied": 1, "Refusal": 1, "denied": 2, "PodDecision": 6}


def reasons_in(source: str, module: str) -> set[str]:
    """The reasons that a module names, by constants. Others are passed on from elsewhere."""
    found = set()
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in MAKERS:
            continue
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        position = MAKERS[call.func.id]
        given = named.get("reason", call.args[position] if len(call.args) > position else None)
        match given:
            case None if call.func.id == "Denied":
                found.add("Forbidden")  # the default, which is also the API server's
            case ast.Constant(value=str(reason)):
                found.add(reason)
            case ast.Name(id=name) if name.isupper():
                found.add(getattr(importlib.import_module(module), name))
    return found


def in_the_code() -> set[str]:
    """Every reason of a denial but the reason codes of nodes."""
    found = {reason.value for reason in UnschedulableReason}
    for path in (ROOT / "webhook" / "admission").rglob("*.py"):
        found |= reasons_in(path.read_text(), ".".join(path.relative_to(ROOT).with_suffix("").parts))
    return found


def test_every_reason_of_a_denial_is_listed_once_and_no_other() -> None:
    assert sorted(LISTED) == sorted(in_the_code())


def test_the_reasons_of_denials_are_not_those_of_nodes() -> None:
    assert {reason.code for reason in REASONS}.isdisjoint(LISTED)


@pytest.mark.parametrize(
    ("source", "reasons"),
    [
        ('Denied("text", "A")', {"A"}),
        ('Denied("text", reason="A")', {"A"}),
        ('Denied("text")', {"Forbidden"}),
        ('denied(error, raw, "A")', {"A"}),
        ('Refusal("text", "A", first)', {"A"}),
        ("PodDecision(verdict, text, reason=NOT_ALIGNABLE)", {"NotAlignable"}),
        ("Denied(text, decided.reason)", set()),
        ('Allowed("text")', set()),
    ],
)
def test_a_reason_is_found_however_it_is_given(source: str, reasons: set[str]) -> None:
    assert reasons_in(source, "webhook.placing.pod.decision") == reasons
