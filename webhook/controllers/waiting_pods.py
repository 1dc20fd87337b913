"""How many pods wait, by namespace and reason: the namespaces with the most pods, and the rest together."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from webhook.formats.kubernetes.membership import membership_of
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.model.raw import Raw

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


def oldest_waiting(raws: Iterable[Raw]) -> tuple[int | None, int | None]:
    """When the oldest waiting pod was created, and the oldest one of a gang, in seconds since the epoch; None: no such.

    raws: the waiting pods.
    """
    pod = gang = None
    for raw in raws:
        created = epoch_seconds(raw["metadata"].get("creationTimestamp"))
        if created is None:
            continue
        if pod is None or created < pod:
            pod = created
        if (gang is None or created < gang) and membership_of(raw) is not None:
            gang = created
    return pod, gang
