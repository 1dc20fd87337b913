"""docs/features.md names every command, and settings that exist, with the defaults that they have."""

from __future__ import annotations

import re
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from webhook.cli.app import app

ROOT = Path(__file__).parents[1]
PAGE = "\n" + (ROOT / "docs" / "features.md").read_text()
VALUES = yaml.safe_load((ROOT / "charts" / "topology-webhook" / "values.yaml").read_text())
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined] # a click group
# What a row is about: a chart's value, perhaps with another than its default, or a command, perhaps with a flag.
SETTING = re.compile(r"^`([a-z]+(?:\.\w+)+)(?:: ([^`]*))?`")
COMMAND = re.compile(r"^`topology-webhook ([a-z]+)(?: --([a-z-]+))?`")


def rows(title: str) -> list[list[str]]:
    """The cells of each row of the tables between a heading and the next one of its level or a higher one."""
    _, _, rest = PAGE.partition(f"\n{title}\n")
    level = len(title) - len(title.lstrip("#"))
    section = re.split(rf"^#{{1,{level}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:2] == "| "]
    return [row for row in cells if any(pattern.match(cell) for cell in row for pattern in (SETTING, COMMAND))]


def about(row: list[str], pattern: re.Pattern[str]) -> list[re.Match[str]]:
    return [found for cell in row if (found := pattern.match(cell))]


def value(path: str) -> Any:
    return reduce(getitem, path.split("."), VALUES)


SETTINGS = [(found, row) for row in rows("# Features: core and experimental") for found in about(row, SETTING)]


@pytest.mark.parametrize(("found", "row"), SETTINGS, ids=[found[1] for found, _ in SETTINGS])
def test_each_setting_has_the_default_that_the_page_states(found: re.Match[str], row: list[str]) -> None:
    assert yaml.safe_load(row[-1].strip("`")) == value(found[1])


def test_what_is_off_by_default_is_enabled_by_another_value_or_by_a_command() -> None:
    off = rows("## Experimental, and off by default")
    assert len(off) > 10
    for row in off:
        enabling = [yaml.safe_load(found[2]) for found in about(row, SETTING)]
        assert enabling or about(row, COMMAND), row
        assert [each for each in enabling if each in (None, yaml.safe_load(row[-1].strip("`")))] == [], row


def test_every_command_is_core_or_experimental_and_has_the_flags_that_are_named() -> None:
    named = [found for row in rows("# Features: core and experimental") for found in about(row, COMMAND)]
    assert {found[1] for found in named} == set(COMMANDS)
    for found in named:
        built = COMMANDS[found[1]].make_context(found[1], [], resilient_parsing=True).command
        flags = {option for each in built.params for option in each.opts}
        assert not found[2] or f"--{found[2]}" in flags
