"""Text that tenants wrote, fit for a terminal: no control characters, and of bounded width."""

from typing import Final

from rich.cells import cell_len, set_cell_size

_ELLIPSIS: Final = "…"


def printable(text: str) -> str:
    """The text with all characters escaped that a terminal would obey or not show, such as those that reverse it."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def shortened(text: str, width: int) -> str:
    """The printable text in at most so many columns of a terminal."""
    # Longer texts are cut before they are measured: a tenant may write 256 KiB.
    shown = printable(text[: width + 1])
    return shown if cell_len(shown) <= width else set_cell_size(shown, width - 1).rstrip() + _ELLIPSIS
