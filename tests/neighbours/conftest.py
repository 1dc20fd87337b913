"""Components of other projects for the tests in this folder, each built before the first test that needs it.

Their tests are `long`: a build takes minutes. `make neighbours` and `make test-long` run them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.neighbours.build import NeighbourFiles, find_neighbour
from tests.neighbours.catalogue import CATALOGUE, Neighbour

if TYPE_CHECKING:
    from collections.abc import Callable

FILES: pytest.StashKey[dict[str, NeighbourFiles]] = pytest.StashKey()


def needed(item: pytest.Item) -> list[Neighbour]:
    """The components that a test names in its marker `neighbour`."""
    return [CATALOGUE[name] for marker in item.iter_markers("neighbour") for name in marker.args]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark before pytest applies `-m`."""
    for item in items:
        if needed(item):
            item.add_marker("long")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for each in needed(item):
        if each.header and each.header.missing:
            pytest.skip(f"{each.name} needs {each.header.path}: `apt-get install {each.header.package}`")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find or build now: in a fixture that would be silent, and could exceed the test's time limit."""
    if session.config.option.collectonly or not os.environ.get("TOPOLOGY_WEBHOOK_TEST_LONG"):
        return
    terminal = session.config.get_terminal_writer()
    components = {each.name: each for item in session.items for each in needed(item)}
    session.config.stash[FILES] = {
        name: find_neighbour(neighbour, lambda line: terminal.line(line, flush=True))
        for name, neighbour in components.items()
        if not (neighbour.header and neighbour.header.missing)
    }


@pytest.fixture(scope="session")
def built(pytestconfig: pytest.Config) -> Callable[[Neighbour], NeighbourFiles]:
    """A function that returns a component that the test's marker names."""
    return lambda neighbour: pytestconfig.stash[FILES][neighbour.name]
