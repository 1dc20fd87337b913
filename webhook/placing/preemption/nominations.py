"""Nominations of pods behind the gate that no hold explains: kube-scheduler would keep their room free for ever.

They are left over if a write was lost, if a member of a gang is deleted, or if the last leader had not evicted a pod.
Nobody else nominates a node for a gated pod: schedulers do not try it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from webhook.placing.preemption.holds import Holds

# Lost writes are rare, and a look at ten thousand waiting pods takes 2 ms.
_SWEEP_SECONDS: Final = 5.0
# Two whole periods: the first eviction of a defragmentation may take the time limit of a call, 10 s.
_SWEEPS: Final = 3


class Nomination(NamedTuple):
    """A nomination of one version of a pod: of a later one, whoever wrote that is in charge."""

    key: str
    uid: str
    version: str


def without_hold(gated: Mapping[str, Mapping[str, Any]], keys: Iterable[str], holds: Holds) -> list[Nomination]:
    """Those of these pods namespace/name. gated: the pods that wait behind our gate alone."""
    found = []
    for key in keys:
        raw = gated.get(key)
        if raw is None or not (raw.get("status") or {}).get("nominatedNodeName") or holds.of_member(key) is not None:
            continue
        metadata = raw["metadata"]
        found.append(Nomination(key, metadata.get("uid", ""), metadata.get("resourceVersion", "")))
    return found


class NominationSweep:
    """Finds nominations that no hold explains at some sweeps in a row, while none is added in their namespace.

    `defrag` nominates all members of a gang first, then evicts: of a large gang, the first ones wait for the others.
    """

    def __init__(self) -> None:
        self._next = 0.0
        self._seen: Mapping[tuple[str, str], int] = {}
        """namespace/name and uid of the pods with such a nomination -> the sweeps in a row."""

    def left_over(self, now: float, gated: Mapping[str, Mapping[str, Any]], holds: Holds) -> list[Nomination]:
        """Those to remove; none if no sweep is due. now: seconds of `time.monotonic`."""
        if now < self._next:
            return []
        self._next = now + _SWEEP_SECONDS
        found = without_hold(gated, gated, holds)
        new = {_namespace(one.key) for one in found if (one.key, one.uid) not in self._seen}
        self._seen = {
            (one.key, one.uid): 1 if _namespace(one.key) in new else self._seen[one.key, one.uid] + 1 for one in found
        }
        return [one for one in found if self._seen[one.key, one.uid] >= _SWEEPS]


def _namespace(key: str) -> str:
    return key.partition("/")[0]
