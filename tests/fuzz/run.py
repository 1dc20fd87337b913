"""Inputs of the parts in turn until the time is up. The first failing input is shrunk and reported."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import Any

from tests.fuzz.cli import CLI
from tests.fuzz.feeds import Feeds
from tests.fuzz.outcome import Broken, InputKind, broken_by
from tests.fuzz.properties import Property, properties
from tests.fuzz.reviews import Reviews

PARTS: Mapping[str, Callable[[], Any]] = {"reviews": Reviews, "feeds": Feeds, "cli": CLI}
PROPERTIES = "properties"
NAMES: Sequence[str] = (*PARTS, PROPERTIES)

# An input is made smaller for at most so long, and in so many steps.
_SHRINK_SECONDS = 10.0


@dataclass
class FuzzProgress:
    """The progress so far."""

    inputs: dict[str, int] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)


async def fuzz(
    names: Sequence[str],
    seed: int,
    ends: float,
    *,
    count: int | None = None,
    named: str = "",
    tell: Callable[[FuzzProgress], None] = lambda _: None,
) -> FuzzProgress:
    """Inputs with the seeds from `seed` on, until `ends` (monotonic) or a number of inputs; to the first failure.

    named: of the properties those whose name has this in it.
    """
    tally = FuzzProgress(dict.fromkeys(names, 0))
    parts = [PARTS[name]() for name in names if name in PARTS]
    tried = [found for name, found in properties().items() if named in name] if PROPERTIES in names else []
    try:
        number = 0
        while monotonic() < ends and (count is None or number < count) and not tally.broken:
            for part in parts:
                if await _one(part, seed + number, tally):
                    break
            for found in _turn(tried, number, every=_EVERY if parts else 1):
                # In a thread of its own: some run coroutines, which the loop of this thread would not let them.
                await asyncio.to_thread(_run, found, seed + number, tally)
                if tally.broken or monotonic() >= ends:
                    break
            number += 1
            tell(tally)
    finally:
        for part in parts:
            await part.stop()
    return tally


# A property runs a hundred examples where another part checks one input.
_EVERY = 10


def _turn(tried: Sequence[Property], number: int, every: int) -> Iterator[Property]:
    """The property whose turn it is, if any."""
    if tried and number % every == 0:
        yield tried[number // every % len(tried)]


async def _one(part: InputKind, seed: int, tally: FuzzProgress) -> bool:
    drawn = part.draw(Random(seed))  # noqa: S311 - to be repeated by its seed
    why = await broken_by(part, drawn)
    tally.inputs[part.name] += 1
    if why:
        drawn, why = await _shrunk(part, drawn, why)
        tally.broken.append(Broken(part.name, seed, drawn, why))
    return bool(why)


async def _shrunk(part: InputKind, drawn: Any, why: str) -> tuple[Any, str]:
    """A smaller input that fails with the same last line."""
    ends, again = monotonic() + _SHRINK_SECONDS, True
    while again and monotonic() < ends:
        again = False
        for less in part.smaller(drawn):
            if monotonic() >= ends:
                break
            now = await broken_by(part, less)
            if _kind(now) == _kind(why):
                drawn, why, again = less, now, True
                break
    return drawn, why


def _kind(why: str) -> str:
    return why.strip().rpartition("\n")[2][:40]


def _run(found: Property, seed: int, tally: FuzzProgress) -> None:
    before = found.ran
    try:
        found.run(seed)
    except Exception as error:  # noqa: BLE001 # any is a find
        notes = "\n".join(getattr(error, "__notes__", ()))
        tally.broken.append(Broken(found.name, seed, notes, f"{type(error).__name__}: {error}"))
    tally.inputs[PROPERTIES] += found.ran - before
