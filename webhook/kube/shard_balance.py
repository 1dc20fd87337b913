"""Which shards a replica claims, asks for and gives away, so that all replicas lead about equally many.

Each shard has a Lease, and each replica is a candidate for all of them. A rule of three parts, without clock or socket:
1. Free Leases. A replica claims as many at once as its fair share has room for. The others it leaves for
   `retry_period`, so that replicas with fewer shards come first, and then it claims them, too: it may be the only one.
2. Asking. If another replica leads at least two shards more, a replica asks it for one. The request stands in the
   Lease. A replica waits for the answer to one request before it makes another.
3. Giving. A holder gives a shard to who asked for it, while it still leads at least two more than that replica. It
   stops, settles and releases. Others leave the free Lease to that replica for a moment.

A replica that leads nothing is known to others by its requests alone, so a quiet cluster writes nothing but renewals,
and with one shard this module changes nothing. A transfer from m shards to k <= m - 2 leaves m - 1 and k + 1: the sum
of the squares falls each time, so transfers end, and then the counts differ by one at most. A count may be a
`retry_period` old. Then a transfer may be one too many, which leaves a difference of one or is taken back by one more.

Nothing here can make two candidates lead one shard: `election` decides that, for each Lease.
"""

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from math import ceil

from webhook.kube.election import Seen, Stance, Timing


class ShardBalance:
    """The rule for the candidate `identity`. Methods take all Leases by their shards, and the candidate's own time."""

    def __init__(self, identity: str, timing: Timing) -> None:
        self._identity = identity
        self._timing = timing

    def stances(self, seen: Mapping[str, Seen], now: float) -> dict[str, Stance]:
        """What to do about each Lease, once it is free where it is not."""
        free = [shard for shard, lease in seen.items() if self._is_free(lease, now)]
        load = self._load(seen, now)
        room = ceil(len(seen) / self._replicas(seen, load, now)) - load[self._identity]
        found = dict.fromkeys(seen, Stance.CLAIM)
        for shard in sorted(free, key=self._rank):
            if (reserved := self._reserved_for(seen[shard], now)) == self._identity:
                continue
            if reserved or (room <= 0 and now - seen[shard].free_since < self._timing.retry_period):
                found[shard] = Stance.LEAVE
            room -= not reserved
        if not free and (wanted := self._to_ask(seen, load, now)) is not None:
            found[wanted] = Stance.ASK
        return found

    def to_give(self, seen: Mapping[str, Seen], now: float) -> str | None:
        """The shard of ours to give to who asked for it; None: none."""
        load = self._load(seen, now)
        asked = (
            shard
            for shard, lease in seen.items()
            if lease.holder == self._identity
            and lease.wanted_by not in {"", self._identity}
            and load[self._identity] >= load[lease.wanted_by] + 2
        )
        return min(asked, key=self._rank, default=None)

    def _to_ask(self, seen: Mapping[str, Seen], load: Counter[str], now: float) -> str | None:
        """The shard to ask its holder for; None: none, or an answer is awaited."""
        heavy = {shard: lease for shard, lease in seen.items() if load[lease.holder] >= load[self._identity] + 2}
        if any(lease.wanted_by == self._identity and self._is_recent(lease, now) for lease in heavy.values()):
            return None
        most = max((load[lease.holder] for lease in heavy.values()), default=0)
        unasked = (
            shard
            for shard, lease in heavy.items()
            if load[lease.holder] == most
            and lease.wanted_by != self._identity
            and not (lease.wanted_by and self._is_recent(lease, now))
        )
        return min(unasked, key=self._rank, default=None)

    def _load(self, seen: Mapping[str, Seen], now: float) -> Counter[str]:
        """How many shards each replica leads, or is about to."""
        load = Counter[str]()
        for lease in seen.values():
            if not self._is_free(lease, now):
                load[lease.holder] += bool(lease.holder)
            elif reserved := self._reserved_for(lease, now):
                load[reserved] += 1
        return load

    def _replicas(self, seen: Mapping[str, Seen], load: Counter[str], now: float) -> int:
        """How many replicas we know of."""
        asking = {lease.wanted_by for lease in seen.values() if lease.wanted_by and self._is_recent(lease, now)}
        return len({*(one for one, count in load.items() if count), *asking, self._identity})

    def _is_free(self, lease: Seen, now: float) -> bool:
        return lease.holder != self._identity and now >= lease.free_since

    def _reserved_for(self, lease: Seen, now: float) -> str:
        """Who asked for this free Lease; empty if no replica did, or it has not been claimed for too long."""
        # It reads the Lease within a retry_period, and claims it in the next step.
        return "" if lease.holder or now - lease.free_since >= 2 * self._timing.retry_period else lease.wanted_by

    def _is_recent(self, lease: Seen, now: float) -> bool:
        """Whether an answer to the request may still come: a dead holder's Lease has expired by then."""
        return now - lease.wanted_since < self._timing.lease_duration

    def _rank(self, shard: str) -> bytes:
        """The order in which this replica prefers shards: each has its own, so two seldom choose the same."""
        return blake2b(f"{self._identity}\0{shard}".encode(), digest_size=8).digest()
