"""How long a binding's review is believed, where any client may send one.

Without client certificates a review may be forged, and then its binding never comes. A real one is written within some
10 ms. So what a review gives out is kept for a moment; then the pod itself is asked (see
`controllers.assumed_pod_sweep`), and what it did not take is given back. A pod whose review came to nothing is believed
less the next time, and so are the others of its namespace, since a forger may have many pods:

| of the pod | of its namespace | its next review is kept for |
|---|---|---|
| 0 | 0 | 1.5 s |
| 1 | 1, 2 | 0.3 s |
| 2 | 3 | not at all: it is answered, and nothing is reserved until the pod is seen bound |

That is forgotten a minute after the last review that came to nothing, or that was not believed.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, TypeVar

Key = TypeVar("Key", str, tuple[str, str])

# An API server that is busy takes a hundred times what a write takes as a rule. Twice that and a look at the pod are
# less than the half of the default timeout (5 s), for which another binding waits.
FIRST_SECONDS: Final = 1.5
# Thirty times what it takes as a rule.
_SECOND_SECONDS: Final = 0.3
_MANY_OF_A_POD: Final = 2
_MANY_OF_A_NAMESPACE: Final = 3
_FORGOTTEN_SECONDS: Final = 60.0
# Some hundred bytes each. A tenant with more pods that never bind pushes out their own.
_REMEMBERED: Final = 4096


@dataclass(slots=True)
class _Doubt:
    count: int
    at: float


class Doubts:
    """What came to nothing lately, by pod (namespace/name and uid) and by namespace."""

    def __init__(self) -> None:
        self._pods: OrderedDict[tuple[str, str], _Doubt] = OrderedDict()
        self._namespaces: OrderedDict[str, _Doubt] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pods) + len(self._namespaces)

    def believed_seconds(self, pod: str, uid: str, now: float) -> float:
        """How long what a review of the pod gives out is to be kept; 0: not at all."""
        namespace = pod.partition("/")[0]
        own, others = _recent(self._pods, (pod, uid), now), _recent(self._namespaces, namespace, now)
        if own >= _MANY_OF_A_POD or others >= _MANY_OF_A_NAMESPACE:
            # Not believed, it cannot come to nothing: the doubt would end while the attack goes on.
            for doubt in (self._pods.get((pod, uid)), self._namespaces.get(namespace)):
                if doubt is not None:
                    doubt.at = now
            return 0.0
        return _SECOND_SECONDS if own or others else FIRST_SECONDS

    def came_to_nothing(self, pod: str, uid: str, now: float) -> None:
        """What a review of the pod gave out was not taken."""
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
