"""The hypothesis properties of this repository, with other seeds than those of `make test`."""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import seed as seeded

TESTS = Path(__file__).parents[1]


@dataclass
class Property:
    """One property, and how often it has run."""

    name: str
    """As pytest names it: tests/x/test_y.py::test_z."""
    test: Callable[[], None]
    most: int
    """Examples in one run."""
    ran: int = 0
    """Examples in all runs so far."""

    def run(self, seed: int) -> None:
        """Run it once. Its exception has the falsifying example in a note."""
        seeded(seed)(self.test)()


def properties() -> Mapping[str, Property]:
    """All of them by name."""
    return {found.name: found for path in sorted(TESTS.rglob("test_*.py")) for found in _in_file(path)}


def _in_file(path: Path) -> Iterator[Property]:
    names = property_names(path.read_text())
    if names:
        file = path.relative_to(TESTS.parent)
        module = import_module(".".join(file.with_suffix("").parts))
        for name in names:
            test: Any = getattr(module, name)
            found = Property(f"{file}::{name}", test, test._hypothesis_internal_use_settings.max_examples)
            test.hypothesis.inner_test = _counting(found, test.hypothesis.inner_test)
            yield found


def property_names(source: str) -> list[str]:
    """The tests of a module that `@given` makes."""
    return [
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(made, ast.Call) and ast.unparse(made.func) == "given" for made in node.decorator_list)
    ]


def _counting(found: Property, inner: Callable[..., None]) -> Callable[..., None]:
    @wraps(inner)
    def counted(*arguments: Any, **named: Any) -> None:
        found.ran += 1
        inner(*arguments, **named)

    return counted
