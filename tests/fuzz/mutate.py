"""Almost valid objects: one or more changes at fields that matter."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from random import Random
from typing import Any

Path = tuple[str | int, ...]

# Python copies and walks objects by recursion; what is nested deeper comes as text.
_DEEPEST = 30

NUMBERS: Sequence[Any] = (
    *(0, -1, 1, 2, 63, 64, 65, 150_000, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30),
    *(0.5, -0.0, 1e300, float(2**53 + 1), True, False),
)
QUANTITIES: Sequence[Any] = (
    *(
        "0",
        "-1",
        "+1",
        "1m",
        "999m",
        "1.5",
        "1e3",
        "1e-3",
        "1E",
        "1Ei",
        "9E",
        "9223372036854775807",
        "9223372036854775808",
    ),
    *(
        "1e99999",
        "0.0000000001",
        "1_000",
        "NaN",
        "inf",
        "1Ki",
        "1ki",
        "0x10",
        "\uff11",
        " 1",
        "1 ",
        "",
        ".",
        "1..0",
        "8" * 400,
    ),
)
TEXTS: Sequence[Any] = (
    *(
        "",
        " ",
        "\x00",
        "\n",
        "\x1b[31m",
        "\u202e",
        "\ud83d\ude00",
        "é" * 300,
        "a" * 300,
        "A/b/c/d",
        "../../../version?x=1",
    ),
    *(
        "null",
        "{}",
        "[]",
        "node-0",
        "node-00",
        "node-99999999999999999999",
        "default",
        "kube-system",
        "%s%n{0}",
        "'\"`$(x)",
    ),
)
JSONS: Sequence[Any] = (
    *(
        '{"numaTopologyPolicy": "SingleNUMANode"}',
        '{"numaTopologyPolicy": "singleNumaNode"}',
        '{"numaTopologyPolicy": "",}',
    ),
    *(
        '{"numaTopologyPolicy": null}',
        '{"numaTopologyPolicy": 1}',
        '{"x": ' * 500,
        "[" * 5000,
        '{"a":1,"a":2}',
        "7",
        '"',
    ),
    *(
        '{"node":"n0","numaNodeResources":[{"node":0,"resources":{"cpu":"999999999"}}]}',
        '{"numaNodeResources":[{"node":-1}]}',
    ),
)
SHAPES: Sequence[Any] = (None, {}, [], [None], [[]], {"": None}, {"name": {}}, "text", 7, True, [{}] * 3)


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in an object, except deeply nested ones."""
    yield path
    if len(path) < _DEEPEST:
        below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, held in below:
            yield from places(held, (*path, key))


def mutated(random: Random, whole: Any, others: Sequence[Any] = ()) -> Any:
    """The object with one change or a few. others: objects whose parts may be inserted."""
    changed = deepcopy(whole)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 6))):
        at = random.choice([path for path in places(changed) if path] or [()])
        if at:
            _change(random, changed, at, others)
    return changed


def _change(random: Random, whole: Any, at: Path, others: Sequence[Any]) -> None:
    held = whole
    for step in at[:-1]:
        held = held[step]
    key = at[-1]
    random.choice(_CHANGES)(random, held, key, others)


def _replace(values: Sequence[Any]) -> Callable[[Random, Any, Any, Sequence[Any]], None]:
    def change(random: Random, held: Any, key: Any, _: Sequence[Any]) -> None:
        held[key] = deepcopy(random.choice(values))

    return change


def _delete(_: Random, held: Any, key: Any, __: Sequence[Any]) -> None:
    del held[key]


def _duplicate(random: Random, held: Any, key: Any, _: Sequence[Any]) -> None:
    times = random.choice((1, 1, 5, 200))
    if isinstance(held, list):
        held.extend(deepcopy(held[key]) for _ in range(times))
    elif isinstance(held[key], list) and held[key]:
        held[key] = held[key] * (times + 1)
    else:
        held |= {f"{key}-{number}": deepcopy(held[key]) for number in range(times)}


def _misspell(random: Random, held: Any, key: Any, _: Sequence[Any]) -> None:
    if isinstance(held, dict):
        value, at = held.pop(key), random.randrange(len(key) + 1)
        held[
            random.choice((key.lower(), key.upper(), key[:at] + key[at + 1 :], f"{key[:at]}x{key[at:]}", f" {key}"))
        ] = value
    else:
        held[key] = [held[key]]


def _nest(random: Random, held: Any, key: Any, _: Sequence[Any]) -> None:
    for _turn in range(random.choice((1, 2, 60))):
        held[key] = random.choice(([held[key]], {"x": held[key]}))


def _lengthen(random: Random, held: Any, key: Any, _: Sequence[Any]) -> None:
    value = held[key]
    text = value if isinstance(value, str) and value else "x"
    held[key] = text * random.choice((2, 64, 4_000))


def _borrow(random: Random, held: Any, key: Any, others: Sequence[Any]) -> None:
    """A part of another object, or of another place in this one: such as the name of another object."""
    part = random.choice(others) if others else {}
    for _ in range(random.randrange(6)):
        if isinstance(part, Mapping) and part:
            part = part[random.choice(sorted(part))]
        elif isinstance(part, list) and part:
            part = random.choice(part)
    held[key] = deepcopy(part)


_CHANGES = (
    *(_replace(NUMBERS), _replace(QUANTITIES), _replace(TEXTS), _replace(JSONS), _replace(SHAPES), _replace([None])),
    *(_delete, _duplicate, _misspell, _nest, _lengthen, _borrow),
)
