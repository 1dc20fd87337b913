"""How long the reservation of a binding review is kept if any client may send reviews.

Without client certificates a review may be forged, and then its binding never follows. A real binding is written within
about 10 ms. So a reservation is kept briefly; then the pod itself is checked (see `controllers.assumed_pod_sweep`), and
unused resources are released. After a review without a binding, the next reservation of the pod is shorter. So are
those of other pods in its namespace, because an attacker may have many pods. By the number of reviews without a
binding:

| of the pod | of its namespace | the next reservation is kept for |
|---|---|---|
| 0 | 0 | 1.5 s |
| 1 | 1, 2 | 0.3 s |
| 2 | 3 | 0 s: the review is answered, and nothing is reserved until the pod is bound |

The counts are reset one minute after the last review that had no binding, or that reserved nothing.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, TypeVar

Key = TypeVar("Key", str, tuple[str, str])

# A busy API server takes a hundred times as long for a write as usual. Twice that plus a look at the pod is less than
# half of the default timeout (5 s), for which another binding waits.
FIRST_SECONDS: Final = 1.5
# Thirty times the usual time.
_SECOND_SECONDS: Final = 0.3
_MANY_OF_A_POD: Final = 2
_MANY_OF_A_NAMESPACE: Final = 3
_FORGOTTEN_SECONDS: Final = 60.0
# A few hundred bytes each. A tenant with more pods that are never bound displaces only their own entries.
_REMEMBERED: Final = 4096


@dataclass(slots=True)
class _Doubt:
    count: int
    at: float


class Doubts:
    """Recent reviews without a binding, by pod (namespace/name and uid) and by namespace."""

    def __init__(self) -> None:
        self._pods: OrderedDict[tuple[str, str], _Doubt] = OrderedDict()
        self._namespaces: OrderedDict[str, _Doubt] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pods) + len(self._namespaces)

    def believed_seconds(self, pod: str, uid: str, now: float) -> float:
        """How long to keep the reservation of a review of this pod; 0: reserve nothing."""
        namespace = pod.partition("/")[0]
        own, others = _recent(self._pods, (pod, uid), now), _recent(self._namespaces, namespace, now)
        if own >= _MANY_OF_A_POD or others >= _MANY_OF_A_NAMESPACE:
            # A review that reserves nothing is not counted as failed. Without this, doubts would end during an attack.
            for doubt in (self._pods.get((pod, uid)), self._namespaces.get(namespace)):
                if doubt is not None:
                    doubt.at = now
            return 0.0
        return _SECOND_SECONDS if own or others else FIRST_SECONDS

    def came_to_nothing(self, pod: str, uid: str, now: float) -> None:
        """Record that no binding followed a review of the pod."""
        _add(self._pods, (pod, uid), now)
        _add(self._namespaces, pod.partition("/")[0], now)


def _recent(doubts: OrderedDict[Key, _Doubt], key: Key, now: float) -> int:
    doubt = doubts.get(key)
    return doubt.count if doubt is not None and now - doubt.at < _FORGOTTEN_SECONDS else 0


def _add(doubts: OrderedDict[Key, _Doubt], key: Key, now: float) -> None:
    doubts[key] = _Doubt(_recent(doubts, key, now) + 1, now)
    doubts.move_to_end(key)
    if len(doubts) > _REMEMBERED:
        doubts.popitem(last=False)
