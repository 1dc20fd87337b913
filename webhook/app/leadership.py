"""One replica leads: it alone runs the runnables that need one writer, and it alone answers bindings.

Life cycle of a replica: it takes part in the election once it is ready -> a term begins: runnables start, its Pod gets
the
label by which calls find it -> the term ends: runnables stop, the label goes -> `hand_over` when the process is to end.

What the last leader promised may become visible late: a binding is answered first and written afterwards. How late:
1. The API server works on a request for 60 s at most (--request-timeout, which bounds what the client asks for), and
   etcd goes on with a write it was given for 7 s more (ServerConfig.ReqTimeout: 5 s and two elections of 1 s).
2. The last leader promised nothing after its deadline, and the earliest claim of another follows that deadline by
   lease_duration - renew_deadline: 5 s.
3. What is written reaches our copy of the cluster with the next event of a watch; 3 s leave room for a busy one.
So 60 + 7 - 5 + 3 = 65 s after its claim (`assume_ttl_seconds`) a new leader knows of everything that was promised.
Until then it may promise only what nobody can have promised otherwise: a pod that was placed before, as placed. There
is nothing to wait for when nobody has led before, or when the last leader left with all that it had promised settled.
That holds for a copy that follows. After an outage, which often is why the leader changed, the watch of pods may still
wait for its next attempt: then the new leader waits for the watch, too, once in a term.

Source: kubernetes apiserver pkg/server/config.go, pkg/endpoints/filters/request_deadline.go; etcd server/config.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NoReturn, Protocol
from uuid import uuid4

import structlog

from webhook.app.settings import Settings
from webhook.internal_errors import Where, contained, internal_error
from webhook.kube.api_errors import ClusterError
from webhook.kube.client import Client
from webhook.kube.election import Term, Timing
from webhook.kube.leader_label import RoleLabel
from webhook.kube.lease import LeaderElection, clock
from webhook.kube.lease_record import Release
from webhook.server.health import Check
from webhook.supervise import supervised

log = structlog.get_logger(__name__)

_POLL_SECONDS: Final = 0.05
# One list and at most two patches; should the API server be in trouble, the Lease is more worth the remaining time.
_LABEL_SECONDS: Final = 2.0
# A Lease can be given back in one call; a second one when a renewal was under way.
_RELEASE_SECONDS: Final = 5.0


class LeaderRunnable(Protocol):
    """What only the leader does. `started` and `stopped` come in turn, from the event loop: work in a task."""

    def started(self, term: Term) -> None:
        """A term has begun."""

    def stopped(self) -> None:
        """It is over: begin nothing more."""

    async def settle(self) -> None:
        """Return when all that was promised is visible to everybody, or given up. Called after `stopped`."""


class Leadership:
    """The part of one replica in it. follows: whether our copy of the pods does, at this moment."""

    def __init__(
        self,
        settings: Settings,
        client: Client,
        ready: Callable[[], bool],
        follows: Callable[[], bool],
        runnables: Iterable[LeaderRunnable],
    ) -> None:
        self._ready = ready
        self._follows = follows
        self._runnables = tuple(runnables)
        self._assume_ttl = settings.assume_ttl_seconds
        self._timing = Timing(
            settings.lease_duration_seconds, settings.renew_deadline_seconds, settings.retry_period_seconds
        )
        # A container that is started again in the same Pod is another candidate.
        self.identity = f"{settings.pod_name or os.uname().nodename}_{uuid4().hex[:8]}"
        lease = settings.namespace, settings.lease_name
        self._election = LeaderElection(client, lease, self.identity, self._timing, self._started, self._stopped)
        self._takes_part = self._handing_over = False
        self._settled: Term | None = None
        self._label: RoleLabel | None = None
        if settings.pod_name:
            self._label = RoleLabel(client, settings.namespace, settings.pod_name, self.is_leader)

    @property
    def term(self) -> Term | None:
        """The term that goes on at this moment; None when we do not lead."""
        return self._election.term

    def is_leader(self) -> bool:
        """Whether we lead at this moment. Ask in the same breath as you act: a term ends by the clock."""
        return self._election.is_leader()

    def is_elsewhere(self) -> bool:
        """Whether another replica leads as far as we know, or will in a moment because we hand over."""
        return self._handing_over or self._election.holder not in {"", self.identity}

    def seconds_until_settled(self) -> float:
        """How long, at least, something that an earlier leader promised may still be unknown to us; 0: nothing is.

        Only of use to a leader.
        """
        term = self.term
        if term is None:
            return self._assume_ttl
        if self._settled is term:
            return 0.0
        if (seconds := term.alone_since + self._assume_ttl - clock()) > 0:
            return seconds
        if not self._follows():
            return _POLL_SECONDS
        self._settled = term
        return 0.0

    async def run(self) -> NoReturn:
        """Take part for ever."""
        async with asyncio.TaskGroup() as tasks:
            if self._label is not None:
                tasks.create_task(supervised(self._label.run))
            while not self._ready():  # noqa: ASYNC110 # a condition over many parts, which nobody sets
                await asyncio.sleep(_POLL_SECONDS)
            self._takes_part = True
            await self._election.run()
        raise AssertionError  # pragma: no cover # none of them returns

    async def hand_over(self, within: float) -> None:
        """Lead no more, see to it that promises become visible, and let another one lead: the process is to end.

        within: seconds that promises may take; no longer, in any case, than the Lease lasts without renewal.
        """
        was_leader = self.is_leader()
        self._handing_over = was_leader
        self._election.resign()
        if not self._takes_part:
            return
        if self._label is not None:
            with suppress(TimeoutError, ClusterError):
                async with asyncio.timeout(_LABEL_SECONDS):
                    await self._label.settle()
        settled = await self._settle(min(within, self._timing.lease_duration - self._timing.renew_deadline))
        released = await self._election.release(Release.SETTLED if settled else Release.UNSETTLED, _RELEASE_SECONDS)
        if was_leader:
            log.info("leader.handed_over", settled=settled, released=released)

    def check(self) -> Check:
        """For /readyz: a follower is as ready as a leader."""
        term = self.term
        if term is not None:
            detail = f"leads since {clock() - term.since:.0f} s, epoch {term.epoch}"
        else:
            detail = f"follows {self._election.holder or 'nobody'}"
        label_error = self._label.error if self._label is not None else ""
        return Check(
            "leadership", ready=True, detail="; ".join(filter(None, (detail, self._election.error, label_error)))
        )

    def _started(self, term: Term) -> None:
        for leader_state in self._runnables:
            with contained(Where.TASK, leader_state=type(leader_state).__name__):
                leader_state.started(term)
        self._role_changed()

    def _stopped(self) -> None:
        for leader_state in self._runnables:
            with contained(Where.TASK, leader_state=type(leader_state).__name__):
                leader_state.stopped()
        self._role_changed()

    def _role_changed(self) -> None:
        if self._label is not None:
            self._label.role_changed()

    async def _settle(self, within: float) -> bool:
        """Wait until all runnables are settled; False when that takes longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                return all(await asyncio.gather(*map(_settled, self._runnables)))
        return False


async def _settled(leader_state: LeaderRunnable) -> bool:
    """Wait until it is; False where that is not known for a fault of ours."""
    try:
        await leader_state.settle()
    except Exception as error:  # noqa: BLE001 # the others are waited for all the same
        internal_error(Where.TASK, error, leader_state=type(leader_state).__name__)
        return False
    return True
