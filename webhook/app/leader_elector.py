"""One replica leads: it alone runs the runnables that need one writer, and it alone answers bindings.

Life cycle of a replica: it takes part in the election once it is ready -> a term begins: runnables start, its Pod gets
the label by which calls find it -> the term ends: runnables stop, the label goes -> `hand_over` when the process is to
end.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NoReturn, Protocol
from uuid import uuid4

import structlog

from webhook.app.settings import Settings
from webhook.internal_errors import Where, internal_error
from webhook.kube.api_errors import ClusterError
from webhook.kube.client import Client
from webhook.kube.election import Term, Timing
from webhook.kube.leader_label import RoleLabel
from webhook.kube.leadership import Leadership
from webhook.kube.lease import clock
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
        """Return when all that was promised is visible in the cluster, or given up. Called after `stopped`."""


def leadership_of(settings: Settings, client: Client, follows: Callable[[], bool]) -> Leadership:
    """The leadership of this replica. follows: whether our copy of the pods does, at this moment."""
    timing = Timing(settings.lease_duration_seconds, settings.renew_deadline_seconds, settings.retry_period_seconds)
    # A container that is started again in the same Pod is another candidate.
    identity = f"{settings.pod_name or os.uname().nodename}_{uuid4().hex[:8]}"
    lease = settings.namespace, settings.lease_name
    return Leadership(client, lease, identity, timing, settings.assume_ttl_seconds, follows)


class LeaderElector:
    """Takes part in the election, and starts and stops the runnables. ready: whether this replica may lead."""

    def __init__(
        self,
        leadership: Leadership,
        settings: Settings,
        client: Client,
        ready: Callable[[], bool],
        runnables: Iterable[LeaderRunnable],
    ) -> None:
        self._leadership = leadership
        self._election = leadership.election
        self._ready = ready
        self._runnables = tuple(runnables)
        self._takes_part = False
        self._label: RoleLabel | None = None
        for runnable in self._runnables:
            leadership.began.subscribe(runnable.started)
            leadership.ended.subscribe(runnable.stopped)
        if settings.pod_name:
            self._label = RoleLabel(client, settings.namespace, settings.pod_name, leadership.is_leader)
            leadership.began.subscribe(self._role_changed)
            leadership.ended.subscribe(self._role_changed)

    async def run(self) -> NoReturn:
        """Take part until cancelled."""
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
        was_leader = self._leadership.is_leader()
        self._leadership.resign()
        if not self._takes_part:
            return
        timing = self._leadership.timing
        if self._label is not None:
            with suppress(TimeoutError, ClusterError):
                async with asyncio.timeout(_LABEL_SECONDS):
                    await self._label.settle()
        settled = await self._settle(min(within, timing.lease_duration - timing.renew_deadline))
        released = await self._election.release(Release.SETTLED if settled else Release.UNSETTLED, _RELEASE_SECONDS)
        if was_leader:
            log.info("leader.handed_over", settled=settled, released=released)

    def check(self) -> Check:
        """For /readyz: a follower is as ready as a leader."""
        term = self._leadership.term
        if term is not None:
            detail = f"leads since {clock() - term.since:.0f} s, epoch {term.epoch}"
        else:
            detail = f"follows {self._election.holder or 'nobody'}"
        label_error = self._label.error if self._label is not None else ""
        return Check(
            "leadership", ready=True, detail="; ".join(filter(None, (detail, self._election.error, label_error)))
        )

    def _role_changed(self, *_: Term) -> None:
        if self._label is not None:
            self._label.role_changed()

    async def _settle(self, within: float) -> bool:
        """Wait until all runnables are settled; False when that takes longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                return all(await asyncio.gather(*map(_settled, self._runnables)))
        return False


async def _settled(runnable: LeaderRunnable) -> bool:
    """Wait until it is; False where that is not known for a fault of ours."""
    try:
        await runnable.settle()
    except Exception as error:  # noqa: BLE001 # the others are waited for all the same
        internal_error(Where.TASK, error, runnable=type(runnable).__name__)
        return False
    return True
