"""What is held for a pod or gang by the nominated nodes of its waiting members: by the last leader, or by `defrag`.

- Lower-priority pods are being deleted on these nodes: they are the victims. The nodes are held, and no other pod
  has to end.
- None are, and the nodes have room by their sums: the victims are gone, and the exporters may not have shown that yet.
  The nodes are held for that time.
- Some are, and when they are gone there is no room: the last leader had not evicted all. There is a new choice.
- None are, and there is no room: the last leader ended before it evicted a pod. There is a new choice.
- `topology-webhook defrag --apply` nominates, then evicts pods of the same or a lower priority. The nodes are held from
  the moment that these are being deleted.

Only the service, the scheduler and administrators can write the status of pods. A new leader first has to read the
owners of the nominated pods (`UnreadNominations`); nominations that no hold explains are left over (`NominationSweep`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from webhook.engine.snapshot.node_sums import added
from webhook.model.resources import PODS
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.preemption.holds import Hold, Holds, Phase
from webhook.placing.preemption.preemption_candidates import is_leaving
from webhook.placing.waiting_unit import Unit, members_of, name_of, priority_of
from webhook.state.cluster_cache import ClusterCache

# Lost writes are rare, and a look at ten thousand waiting pods takes 2 ms.
_SWEEP_SECONDS: Final = 5.0
# Two whole periods: the first eviction of a defragmentation may take the time limit of a call, 10 s.
_SWEEPS: Final = 3
# Twice the time limit of an owner's read (see `owner_chains`).
_LONGEST_SECONDS: Final = 10.0


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
    """Finds nominations of gated pods that no hold explains: kube-scheduler would keep their room free for ever.

    They are left over if a write was lost, if a member of a gang is deleted, or if the last leader had not evicted a
    pod. Nobody else nominates a node for a gated pod: schedulers do not try it.

    A nomination is found if no hold explains it at some sweeps in a row, while none is added in its namespace: `defrag`
    nominates all members of a gang first, then evicts, so of a large gang the first ones wait for the others.
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


_NONE: Final[frozenset[str]] = frozenset()


class _Nominated(NamedTuple):
    uid: str
    node: str
    priority: int


class UnreadNominations:
    """Nominations of the last leader whose pods are not ready yet: a new leader has to read their owners first.

    1. When a term begins, the nominated pods behind the gate are noted. A gang of a Job is known as a unit only once
       its owners are read, which takes a moment; of some members it may take longer than of others.
    2. Until all noted pods of a namespace are ready, nothing there is taken over, and no preemptor of it has a turn.
       The nominated nodes stay closed to other pods of the same or a lower priority.
    3. This ends after some seconds: an owner that cannot be read must not hold nodes for long.

    Times are seconds of one clock.
    """

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


def held_before(unit: Unit, cache: ClusterCache, now: float) -> Hold | None:
    """The hold of the last leader; None if there is none. now: seconds of `time.monotonic`."""
    members, places = members_of(unit), nominated_places(unit)
    if not places:
        return None
    nodes, priority = frozenset(places.values()), priority_of(unit)
    bound, wall_clock = cache.bound_pods.by_key().values(), cache.current_time()
    ending = {
        pod.key: pod.uid
        for pod in bound
        if is_leaving(pod, wall_clock) and pod.node in nodes and pod.priority < priority
    }
    if not ending and not have_room(members, places, cache):
        return None
    uids = {one.key: one.pod.uid for one in members}
    return Hold(name_of(unit), priority, nodes, uids, ending, places, Phase.ENDING, taken_over=True, since=now)


def held_by_evictions(unit: Unit, cache: ClusterCache, now: float) -> Hold | None:
    """The hold of `defrag`; None if no pod of the same or a lower priority is being deleted on the nominated nodes."""
    places = nominated_places(unit)
    if not places:
        return None
    members, nodes, priority = members_of(unit), frozenset(places.values()), priority_of(unit)
    bound, wall_clock = cache.bound_pods.by_key().values(), cache.current_time()
    ending = {
        pod.key: pod.uid
        for pod in bound
        if is_leaving(pod, wall_clock) and pod.node in nodes and pod.priority <= priority
    }
    if not ending:
        return None
    uids = {one.key: one.pod.uid for one in members}
    return Hold(name_of(unit), priority, nodes, uids, ending, places, Phase.ENDING, since=now, moves=True)


def nominated_places(unit: Unit) -> Mapping[str, str]:
    """namespace/name -> node of the members that are nominated."""
    return {one.key: node for one in members_of(unit) if (node := one.nominated)}


def have_room(members: tuple[GatedPod, ...], places: Mapping[str, str], cache: ClusterCache) -> bool:
    """Whether each node has as much free as its members request."""
    wanted: dict[str, list[Mapping[str, int]]] = defaultdict(list)
    for one in members:
        if one.key in places:
            wanted[places[one.key]].append({**one.pod.requests, PODS: 1})
    snapshot = cache.snapshot().nodes
    snapshot = snapshot.covering({name for requests in wanted.values() for each in requests for name in each})
    arrays = snapshot.node_arrays
    for node, requests in wanted.items():
        n = arrays.index.get(node)
        if n is None:
            return False
        for name, amount in added(requests).items():
            free = int(snapshot.node_free(arrays.resources.find(name))[n]) if name in arrays.resources else 0
            if amount > free:
                return False
    return True
