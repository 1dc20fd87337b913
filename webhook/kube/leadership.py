"""Whether this replica leads, and whether it knows of everything that an earlier leader promised.

What the last leader promised may become visible late: a binding is answered first and written afterwards. How late:
1. The API server works on a request for 60 s at most (--request-timeout, which bounds what the client asks for), and
   etcd goes on with a write it was given for 7 s more (ServerConfig.ReqTimeout: 5 s and two elections of 1 s).
2. The last leader promised nothing after its deadline, and the earliest claim of another follows that deadline by
   lease_duration - renew_deadline: 2 s.
3. What is written reaches our copy of the cluster with the next event of a watch; 3 s leave room for a busy one.
So 60 + 7 - 2 + 3 = 68 s after its claim (`Settings.assume_ttl`) a new leader knows of everything that was promised.
Until then it may promise only what the last leader cannot have promised otherwise: a pod that was placed before, as
placed. There is nothing to wait for in the first term of all, or when the last leader left with all that it had
promised settled. That holds for a copy that follows. After an outage, which often is why the leader changed, the watch
of pods may still wait for its next attempt: then the new leader waits for the watch, too, once in a term.

Source: kubernetes apiserver pkg/server/config.go, pkg/endpoints/filters/request_deadline.go; etcd server/config.
"""

import asyncio
from collections.abc import Callable, Collection
from hashlib import sha256
from typing import Final, NoReturn

from webhook.kube.client import Client
from webhook.kube.election import Release, Seen, Stance, Term, Timing
from webhook.kube.lease import LeaderElection, clock
from webhook.kube.shard_balance import ShardBalance
from webhook.model.names import SHARD
from webhook.model.shards import DEFAULT_SHARD
from webhook.signal import Signal
from webhook.supervise import supervised

_POLL_SECONDS: Final = 0.05
_DIGEST_DIGITS: Final = 16


def lease_name(name: str, shard: str) -> str:
    """The name of a shard's Lease. name: that of the default shard's."""
    return f"{name}-shard-{sha256(shard.encode()).hexdigest()[:_DIGEST_DIGITS]}" if shard else name


class Leadership:
    """The state that decisions and controllers read. It exists before them; `app.leader_elector` gives shards away.

    lease: namespace and name of the default shard's Lease; follows: whether our copy of the pods is current, at this
    moment; shards: those that there are now beside the default one; address: where this replica answers others once it
    leads.
    """

    def __init__(  # noqa: PLR0913, PLR0917 # what the elections of all shards need
        self,
        client: Client,
        lease: tuple[str, str],
        identity: str,
        timing: Timing,
        assume_ttl: float,
        follows: Callable[[], bool],
        shards: Callable[[], Collection[str]] = tuple,
        address: Callable[[], str] = str,
    ) -> None:
        self.identity = identity
        self.timing = timing
        self.began = Signal[[Term, str]]()
        """Emitted with the shard soon after a term began."""
        self.ended = Signal[[str]]()
        """Emitted with the shard soon after it ended."""
        self._client = client
        self._lease = lease
        self._shards = shards
        self._address = address
        self._assume_ttl = assume_ttl
        self._follows = follows
        self._balance = ShardBalance(identity, timing)
        self._resigned = False
        self._handing_over: set[str] = set()
        self._settled: dict[str, Term] = {}
        self._elections = {DEFAULT_SHARD: self._election(DEFAULT_SHARD)}
        self._tasks: dict[str, asyncio.Task[NoReturn]] = {}

    async def run(self) -> NoReturn:
        """Take part in the election of each shard's leader, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                if not self._resigned:
                    self._follow_shards()
                for shard in self._elections.keys() - self._tasks.keys():
                    self._tasks[shard] = tasks.create_task(supervised(self._elections[shard].run))
                await asyncio.sleep(self.timing.retry_period)
        raise AssertionError  # pragma: no cover # the loop does not end

    @property
    def shards(self) -> Collection[str]:
        """All shards that we know."""
        return self._elections.keys()

    def election(self, shard: str) -> LeaderElection:
        """Our part in the election of a known shard's leader."""
        return self._elections[shard]

    def term(self, shard: str = DEFAULT_SHARD) -> Term | None:
        """The term that goes on at this moment; None when we do not lead the shard."""
        election = self._elections.get(shard)
        return None if election is None else election.term

    def is_leader(self, shard: str = DEFAULT_SHARD) -> bool:
        """Whether we lead the shard at this moment. Check right before acting: a term ends by the clock."""
        election = self._elections.get(shard)
        return election is not None and election.is_leader()

    def leads_any(self) -> bool:
        """Whether we lead some shard at this moment."""
        return any(election.is_leader() for election in self._elections.values())

    def led(self) -> frozenset[str]:
        """The shards that we lead at this moment."""
        return frozenset(shard for shard, election in self._elections.items() if election.is_leader())

    def holder(self, shard: str = DEFAULT_SHARD) -> str:
        """Which candidate leads the shard as far as we know; empty if none does."""
        election = self._elections.get(shard)
        return "" if election is None else election.holder

    def is_elsewhere(self, shard: str = DEFAULT_SHARD) -> bool:
        """Whether another replica leads as far as we know, or will in a moment because we hand over."""
        return shard in self._handing_over or self.holder(shard) not in {"", self.identity}

    def address_of_leader(self, shard: str = DEFAULT_SHARD) -> str:
        """Where another replica that leads the shard answers us; empty if none leads it, or if that is unknown."""
        election = self._elections.get(shard)
        return "" if election is None else election.holders_address

    def seconds_until_settled(self, shard: str = DEFAULT_SHARD) -> float:
        """How long, at least, something that an earlier leader promised may still be unknown to us; 0: nothing is.

        Only of use to a leader.
        """
        term = self.term(shard)
        if term is None:
            return self._assume_ttl
        if self._settled.get(shard) is term:
            return 0.0
        if (seconds := term.alone_since + self._assume_ttl - clock()) > 0:
            return seconds
        if not self._follows():
            return _POLL_SECONDS
        self._settled[shard] = term
        return 0.0

    def to_give(self) -> str | None:
        """A shard to hand over, so that all replicas lead equally many; None: none."""
        return None if self._resigned or self._handing_over else self._balance.to_give(self._seen(), clock())

    def resign(self, shard: str) -> None:
        """Lead this shard no more, from this moment on, until `rejoin`."""
        if self.is_leader(shard):
            self._handing_over.add(shard)
        self._elections[shard].resign()

    async def release(self, shard: str, how: Release, within: float) -> bool:
        """Release the Lease of a shard, after `resign`; False if that took longer than `within` seconds."""
        election = self._elections.get(shard)
        return election is None or await election.release(how, within)

    def rejoin(self, shard: str) -> None:
        """Take part in the election of the shard's leader again."""
        self._handing_over.discard(shard)
        if (election := self._elections.get(shard)) is not None and not self._resigned:
            election.rejoin()

    def resign_all(self) -> None:
        """Lead no more, from this moment on."""
        self._resigned = True
        for shard in self._elections:
            self.resign(shard)

    def _follow_shards(self) -> None:
        """Take part in the elections of new shards, and no more in those of shards that have no node any more."""
        shards = {DEFAULT_SHARD, *self._shards()}
        for shard in shards - self._elections.keys():
            self._elections[shard] = self._election(shard)
        for shard in self._elections.keys() - shards:
            # Its Lease expires. Nothing can be assumed there meanwhile, because it has no node.
            self._elections.pop(shard).resign()
            self._handing_over.discard(shard)
            if (task := self._tasks.pop(shard, None)) is not None:
                task.cancel()

    def _election(self, shard: str) -> LeaderElection:
        def began(term: Term) -> None:
            self.began.emit(term, shard)

        def ended() -> None:
            self.ended.emit(shard)

        def stance() -> Stance:
            return self._balance.stances(self._seen(), clock()).get(shard, Stance.LEAVE)

        namespace, name = self._lease
        lease = namespace, lease_name(name, shard)
        says = {SHARD: shard} if shard else {}
        return LeaderElection(
            self._client,
            lease,
            self.identity,
            self.timing,
            began,
            ended,
            stance=stance,
            address=self._address,
            annotations=says,
        )

    def _seen(self) -> dict[str, Seen]:
        return {shard: election.seen() for shard, election in self._elections.items()}
