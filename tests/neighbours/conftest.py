"""Components of other projects for the tests in this folder, each built before the first test that needs it.

`make test` runs a short round: one operator and one publisher. `make neighbours` runs all.
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


def runs(item: pytest.Item) -> bool:
    """Whether this round runs a test."""
    everything = bool(os.environ.get("TOPOLOGY_WEBHOOK_TEST_NEIGHBOURS"))
    return everything or all(marker.kwargs.get("short_round") for marker in item.iter_markers("neighbour"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not runs(item):
        pytest.skip("a component of another project: `make neighbours` runs it")
    for each in needed(item):
        if each.header and each.header.missing:
            pytest.skip(f"{each.name} needs {each.header.path}: `apt-get install {each.header.package}`")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find or build now: in a fixture that would be silent, and could exceed the test's time limit."""
    if session.config.option.collectonly:
        return
    terminal = session.config.get_terminal_writer()
    items = [item for item in session.items if runs(item)]
    wanted = {each.name: each for item in items for each in needed(item) if not (each.header and each.header.missing)}
    session.config.stash[FILES] = {
        name: find_neighbour(neighbour, lambda line: terminal.line(line, flush=True))
        for name, neighbour in wanted.items()
    }


@pytest.fixture(scope="session")
def built(pytestconfig: pytest.Config) -> Callable[[Neighbour], NeighbourFiles]:
    """A function that returns a component that the test's marker names."""
    return lambda neighbour: pytestconfig.stash[FILES][neighbour.name]
