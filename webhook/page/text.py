"""Texts of the page: the filters that its templates use."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from webhook.model.hint import NUMANodeAmounts
from webhook.model.resources import format_amount, format_list


def numa(nodes: NUMANodeAmounts) -> str:
    """NUMA nodes with their amounts: `0: 8 cpu; 1: 8 cpu`."""
    return "; ".join(f"{number}: {format_list(amounts)}" for number, amounts in nodes)


def count(number: int) -> str:
    """12345 -> `12,345`."""
    return f"{number:,}"


def duration(seconds: int) -> str:
    """75 -> `1m 15s`: the two largest units."""
    parts = [(seconds // 86_400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    first = next((at for at, (number, _) in enumerate(parts) if number), 3)
    return " ".join(f"{number}{unit}" for number, unit in parts[first : first + 2])


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "numa": numa,
    "count": count,
    "duration": duration,
    "amount": lambda amount, resource: format_amount(resource, amount),
    "amounts": format_list,
}
"""By their names in the templates."""
