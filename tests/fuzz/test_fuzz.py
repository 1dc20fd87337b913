"""A short round of the search. It finds injected faults."""

import asyncio
import re
import sys
from collections.abc import Iterator
from inspect import signature
from random import Random
from subprocess import run as run_program
from time import monotonic
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import run as search_of
from tests.fuzz.outcome import BrokenError, broken_by, within_bounds
from tests.fuzz.properties import TESTS, Property, properties
from tests.fuzz.run import NAMES, PARTS, FuzzProgress, fuzz
from webhook.admission.node import NodeValidator
from webhook.admission.pod.validate import PodValidator
from webhook.admission.response import Allowed

# Some 10 s of a core. What they do is the same in every run, and the clock ends nothing.
INPUTS = {"reviews": 120, "feeds": 120, "cli": 40}


def search(name: str, count: int, seed: int = 1) -> FuzzProgress:
    return asyncio.run(fuzz([name], seed, monotonic() + 3600, count=count))


@pytest.mark.parametrize("name", INPUTS)
def test_a_short_round_breaks_nothing(name: str) -> None:
    tally = search(name, INPUTS[name])
    assert tally.broken == []
    assert tally.inputs == {name: INPUTS[name]}


@pytest.mark.parametrize("name", INPUTS)
def test_a_seed_draws_the_same_every_time(name: str) -> None:
    def drawn() -> list[str]:
        part = PARTS[name]()
        return [repr(part.draw(Random(seed))) for seed in range(30)]  # noqa: S311

    assert drawn() == drawn()


def test_a_fault_behind_a_webhook_is_found_and_its_seed_and_input_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*_: Any) -> Allowed:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(NodeValidator, "handle", faulty)
    (broken,) = search("reviews", 200).broken
    assert "planted" in broken.why
    part = PARTS[broken.part]()
    path, _ = part.draw(Random(broken.seed))  # noqa: S311
    assert path == "/validate/nodes"


# An annotation that is null; a workload whose spec is a number.
@pytest.mark.parametrize("seed", [21845, 243067])
def test_a_review_that_broke_something_once_breaks_nothing(seed: int) -> None:
    assert search("reviews", 1, seed).broken == []


def test_a_pod_that_should_be_denied_and_is_not_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PodValidator, "handle", lambda *_: Allowed())
    (broken,) = search("reviews", 600).broken
    assert "is let in" in broken.why


class Slow:
    """An input that needs much time or memory."""

    name = "slow"

    def draw(self, random: Random) -> int:
        return random.randrange(2)

    async def check(self, drawn: int) -> None:
        with within_bounds("it"):
            sum(range(60_000_000 if drawn else 1000))

    def may_fail(self, drawn: int) -> bool:
        return bool(drawn)

    def smaller(self, drawn: int) -> Iterator[int]:
        yield from range(drawn)


async def test_what_holds_the_loop_for_long_is_found() -> None:
    assert "held the loop" in await broken_by(Slow(), 1)
    assert await broken_by(Slow(), 0) == ""


def test_what_takes_much_memory_is_found() -> None:
    with pytest.raises(BrokenError, match="MiB"), within_bounds("it"):
        bytes(bytearray(b"x") * 2**27)


def test_the_command_tells_how_to_repeat_and_ends_well() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--seed", "7", "--count", "2", "--only", "feeds,reviews"]
    outcome = run_program(command, capture_output=True, text=True, timeout=600, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout.splitlines()[0].startswith("seed 7: feeds, reviews")
    assert outcome.stdout.splitlines()[-1] == "nothing broke in 2 feeds, 2 reviews"


def test_a_property_that_does_not_hold_is_found_with_its_example(monkeypatch: pytest.MonkeyPatch) -> None:
    @settings(max_examples=50)
    @given(st.integers(0, 1000))
    def small(number: int) -> None:
        assert number < 500

    monkeypatch.setattr(search_of, "properties", lambda: {"a::small": Property("a::small", small, 50)})
    (broken,) = search("properties", 20).broken
    assert broken.part == "a::small"
    assert "number=500" in broken.drawn
    assert search("properties", 1, broken.seed).broken[0].drawn == broken.drawn


def test_every_property_of_the_tree_is_one_of_them() -> None:
    found = properties()
    assert len(found) > 50
    text = "".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    assert len(found) == len(re.findall(r"^@given\(", text, re.MULTILINE))


def test_a_property_draws_all_its_arguments_because_the_search_gives_it_none() -> None:
    assert [name for name, one in properties().items() if signature(one.test).parameters] == []


def test_all_parts_have_a_name() -> None:
    assert set(INPUTS) | {"properties"} == set(NAMES)
