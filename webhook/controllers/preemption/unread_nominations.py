"""Nominations of the last leader whose pods are not ready yet: a new leader has to read their owners first.

1. When a term begins, the nominated pods behind the gate are noted. A gang of a Job is known as a unit only once its
   owners are read, which takes a moment; of some members it may take longer than of others.
2. Until all noted pods of a namespace are ready, nothing there is taken over, and no preemptor of it has a turn. The
   nominated nodes stay closed to other pods of the same or a lower priority.
3. This ends after some seconds: an owner that cannot be read must not hold nodes for long.

Only the service, the scheduler and administrators can write the status of pods.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

# Twice the time limit of an owner's read (see `owner_chains`).
_LONGEST_SECONDS: Final = 10.0
_NONE: Final[frozenset[str]] = frozenset()


class _Nominated(NamedTuple):
    uid: str
    node: str
    priority: int


class UnreadNominations:
    """Those of the term that has just begun. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._left: dict[str, _Nominated] = {}
        self._until = 0.0

    def __len__(self) -> int:
        return len(self._left)

    def begin(self, gated: Mapping[str, Mapping[str, Any]], now: float) -> None:
        """A term begins. gated: the pods behind the gate by namespace/name."""
        self._left = {key: found for key, raw in gated.items() if (found := _nominated(raw)) is not None}
        self._until = now + _LONGEST_SECONDS

    def ready(self, keys: Collection[str], gated: Mapping[str, Mapping[str, Any]], now: float) -> frozenset[str]:
        """The namespaces of which all noted pods are ready, or gone, or had their time; these are forgotten.

        keys: the pods that are ready.
        """
        if not self._left:
            return _NONE
        waits = {
            _namespace(key) for key, one in self._left.items() if key not in keys and _nominated(gated.get(key)) == one
        }
        waits = set() if self.is_over(now) else waits
        done = frozenset(map(_namespace, self._left)) - waits
        self._left = {key: one for key, one in self._left.items() if _namespace(key) in waits}
        return done

    def is_over(self, now: float) -> bool:
        """Whether some are left and their time is over."""
        return bool(self._left) and now > self._until

    def clear(self) -> None:
        """Forget all: we no longer lead."""
        self._left.clear()

    def covers(self, namespace: str) -> bool:
        """Whether pods of this namespace are not ready yet."""
        return any(_namespace(key) == namespace for key in self._left)

    def closed_to(self, keys: Iterable[str], priority: int) -> frozenset[str]:
        """The nominated nodes of others of the same or a higher priority. keys: the pods that ask."""
        if not self._left:
            return _NONE
        own = set(keys)
        return frozenset(one.node for key, one in self._left.items() if one.priority >= priority and key not in own)


def _nominated(raw: Mapping[str, Any] | None) -> _Nominated | None:
    if raw is None:
        return None
    node = (raw.get("status") or {}).get("nominatedNodeName")
    if not node:
        return None
    return _Nominated(str(raw["metadata"].get("uid") or ""), str(node), int(raw["spec"].get("priority") or 0))


def _namespace(key: str) -> str:
    return key.partition("/")[0]
