"""One replica leads a shard: only this one runs what needs a single writer there, and only it reserves NUMA nodes.

Life cycle of a replica:
1. It takes part in the election as soon as it is ready.
2. A term begins: the runnables start, and other replicas read in the Lease where it answers them.
3. The term ends: the runnables stop.
4. The process is about to end: `hand_over`.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Final, NoReturn, Protocol
from uuid import uuid4

import structlog

from webhook.app.settings import Settings
from webhook.internal_errors import Where, internal_error
from webhook.kube.client import Client
from webhook.kube.election import Release, Term
from webhook.kube.leadership import Leadership
from webhook.kube.lease import clock
from webhook.model.shards import DEFAULT_SHARD
from webhook.model.wording import counted
from webhook.server.health import Check
from webhook.state.shards import shard_text
from webhook.supervise import supervised

log = structlog.get_logger(__name__)

_POLL_SECONDS: Final = 0.05
# One call releases a Lease, or two if a renewal was in progress.
_RELEASE_SECONDS: Final = 5.0


class LeaderRunnable(Protocol):
    """Work of the leader alone. The event loop calls `started` and `stopped` in turn, so the work belongs in a task."""

    def started(self, term: Term, shard: str) -> None:
        """Begin to work on a shard: a term has begun."""

    def stopped(self, shard: str) -> None:
        """Begin nothing new there: the term is over."""

    async def settle(self, shard: str | None = None) -> None:
        """Wait until the cluster shows all that was given to pods, or it was abandoned. Called after `stopped`.

        shard: only on the nodes of this one; None: on all.
        """


def leadership_of(
    settings: Settings,
    client: Client,
    follows: Callable[[], bool],
    address: Callable[[], str],
    shards: Callable[[], Collection[str]] = tuple,
) -> Leadership:
    """The leadership of this replica.

    follows: whether our copy of the pods is current, at this moment. address: where it answers other replicas. shards:
    those of the nodes beside the default one.
    """
    # A restarted container in the same Pod is a new candidate.
    identity = f"{settings.pod_name or os.uname().nodename}_{uuid4().hex[:8]}"
    lease = settings.namespace, settings.name
    return Leadership(
        client, lease, identity, settings.timing, settings.assume_ttl, follows, shards=shards, address=address
    )


class LeaderElector:
    """Takes part in the election, and starts and stops the runnables. ready: whether this replica may lead."""

    def __init__(
        self,
        leadership: Leadership,
        settings: Settings,
        ready: Callable[[], bool],
        runnables: Iterable[LeaderRunnable],
    ) -> None:
        self._leadership = leadership
        self._settings = settings
        self._ready = ready
        self._runnables = tuple(runnables)
        self._takes_part = False
        for runnable in self._runnables:
            leadership.began.subscribe(runnable.started)
            leadership.ended.subscribe(runnable.stopped)

    async def run(self) -> NoReturn:
        """Take part in the election, once ready, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while not self._ready():  # noqa: ASYNC110 # a condition over many parts, without an event
                await asyncio.sleep(_POLL_SECONDS)
            # A node may have changed its shard just before we saw it, and its last leader may have assumed pods there.
            await asyncio.sleep(self._settings.assume_ttl if self._settings.shard_label else 0)
            self._takes_part = True
            tasks.create_task(supervised(self._give_away))
            await self._leadership.run()
        raise AssertionError  # pragma: no cover # none of them returns

    async def hand_over(self, within: float) -> None:
        """Stop leading, wait until the cluster shows all that was given to pods, and release the Lease.

        Called when the process is about to end. within: maximum seconds of the wait; the wait never takes longer than
        the Lease lasts without renewal.
        """
        led = self._leadership.led()
        self._leadership.resign_all()
        if not self._takes_part:
            return
        timing = self._leadership.timing
        settled = await self._settle(min(within, timing.lease_duration - timing.renew_deadline))
        shards = self._leadership.shards
        await asyncio.gather(*(self._release(shard, settled=settled, led=shard in led) for shard in shards))

    def check(self) -> Check:
        """The check for /readyz. A follower is as ready as a leader."""
        term, election = self._leadership.term(), self._leadership.election(DEFAULT_SHARD)
        if term is not None:
            detail = f"leads since {clock() - term.since:.0f} s, epoch {term.epoch}"
        else:
            detail = f"follows {election.holder or 'no replica'}"
        if self._settings.shard_label:
            detail = self._shards_text()
        return Check("leadership", ready=True, detail="; ".join(filter(None, (detail, election.error))))

    def _shards_text(self) -> str:
        """Which shards we lead, and which no replica leads as far as we know."""
        shards, led = self._leadership.shards, self._leadership.led()
        mine = ", ".join(shard_text(one) for one in sorted(led)) or "no shard"
        alone = [one for one in sorted(shards) if one not in led and not self._leadership.holder(one)]
        unled = f"; without a leader: {', '.join(map(shard_text, alone))}" if alone else ""
        return f"leads {mine} of {counted(len(shards), 'shard')}{unled}"

    async def _give_away(self) -> NoReturn:
        """Hand over shards to replicas that lead fewer and asked for them, one at a time."""
        timing = self._leadership.timing
        while True:
            await asyncio.sleep(timing.retry_period)
            if (shard := self._leadership.to_give()) is not None:
                self._leadership.resign(shard)
                settled = await self._settle(timing.lease_duration - timing.renew_deadline, shard)
                if await self._release(shard, settled=settled, led=True):
                    await asyncio.sleep(2 * timing.retry_period)  # it is claimed by then
                self._leadership.rejoin(shard)

    async def _release(self, shard: str, *, settled: bool, led: bool) -> bool:
        """Release the Lease of a shard that we no longer lead; False if that took too long."""
        how = Release.SETTLED if settled else Release.UNSETTLED
        released = await self._leadership.release(shard, how, _RELEASE_SECONDS)
        if led:
            log.info("leader.handed_over", shard=shard, settled=settled, released=released)
        return released

    async def _settle(self, within: float, shard: str | None = None) -> bool:
        """Wait until all runnables are settled; False if that takes longer than `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                return all(await asyncio.gather(*(_settled(runnable, shard) for runnable in self._runnables)))
        return False


async def _settled(runnable: LeaderRunnable, shard: str | None) -> bool:
    """Wait until the runnable is settled; False if an internal error leaves that unknown."""
    try:
        await runnable.settle(shard)
    except Exception as error:  # noqa: BLE001 # the wait for the others continues
        internal_error(Where.TASK, error, runnable=type(runnable).__name__)
        return False
    return True
