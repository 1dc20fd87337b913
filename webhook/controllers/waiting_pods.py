"""How many pods wait, by namespace and reason: the namespaces with the most pods, and the rest together."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

# Any user can create namespaces with waiting pods; a time series costs the monitoring 3 KB.
_NAMESPACES: Final = 20
REST: Final = "_other"
"""Stands for the other namespaces; no namespace has such a name."""


def waiting_pods(
    keys: Iterable[str], reason_of: Callable[[str], str], most: int = _NAMESPACES
) -> Mapping[tuple[str, str], int]:
    """(namespace, reason) -> pods. keys: the waiting pods by namespace/name; most: namespaces with their own name."""
    counts = Counter((key.partition("/")[0], reason_of(key)) for key in keys)
    sums: Counter[str] = Counter()
    for (namespace, _), count in counts.items():
        sums[namespace] += count
    named = set(sorted(sums, key=lambda name: (-sums[name], name))[:most])
    found: Counter[tuple[str, str]] = Counter()
    for (namespace, reason), count in counts.items():
        found[namespace if namespace in named else REST, reason] += count
    return found
