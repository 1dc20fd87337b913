"""Amounts and texts in tables."""

import pytest
from rich.cells import cell_len

from webhook.cli.render.printable import printable, shortened
from webhook.cli.render.text_table import short_amount

GI = 2**30


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 50, "50m"),
        ("cpu", 100, "0.1"),
        ("cpu", 12_590, "12.5"),
        ("cpu", 8_000, "8"),
        ("memory", 0, "0"),
        ("memory", 1023, "1023"),
        ("memory", 64 * GI, "64Gi"),
        ("memory", 64 * GI - 1, "63.9Gi"),
        ("hugepages-2Mi", 2 * 2**20, "2Mi"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_amounts_are_short_and_never_rounded_up(resource: str, amount: int, text: str) -> None:
    assert short_amount(resource, amount) == text


def test_control_characters_are_escaped() -> None:
    assert printable("a\x1b[0m\u202eb\n") == "a\\x1b[0m\\u202eb\\n"
    assert printable("größe 漢") == "größe 漢"


def test_texts_are_cut_by_their_width_in_a_terminal() -> None:
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abcde…"
    assert cell_len(shortened("漢" * 10, 6)) <= 6
    assert cell_len(shortened("\x1b" * 10, 6)) <= 6
