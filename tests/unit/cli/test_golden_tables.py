"""The tables of the commands in terminals of two widths."""

import pytest
from rich.cells import cell_len

from tests.unit.cli.golden_tables import CALLS, FOLDER, WIDTHS, file_of, printed


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CALLS)
def test_a_table_is_as_it_was_and_no_line_is_too_long_for_the_terminal(name: str, width: int) -> None:
    text = printed(name, width)
    assert text == file_of(name, width).read_text()
    assert max(map(cell_len, text.splitlines())) <= width


def test_each_file_is_that_of_a_call() -> None:
    assert {file_of(name, width) for name in CALLS for width in WIDTHS} == set(FOLDER.iterdir())
