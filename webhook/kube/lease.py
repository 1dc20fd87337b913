"""Leader election with a Lease: the rules of `election` with the API server, a clock and callbacks.

Life cycle: `run` continues until cancelled -> terms begin and end -> `resign` (at once) -> `release` (so that others
need not wait for the Lease to expire) -> `rejoin`, if only this shard was given to another replica.

One call at a time, each with a timeout. Only reads decide. The watch wakes us when the Lease is released, so that we
claim it within milliseconds instead of `retry_period`, and when another candidate holds it, to learn its address.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from types import MappingProxyType
from typing import Final, NoReturn

import structlog

from webhook.kube.api_errors import APIError, ClusterError
from webhook.kube.client import Client
from webhook.kube.election import Ask, Claim, Election, LeaseRecord, Read, Release, Rest, Seen, Stance, Term, Timing
from webhook.kube.informer import Informer
from webhook.kube.resource import Resource
from webhook.model.raw import Raw
from webhook.supervise import supervised

log = structlog.get_logger(__name__)

# CLOCK_BOOTTIME also counts the time for which the machine was suspended; CLOCK_MONOTONIC does not.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# Candidates that failed together must not retry together; a leader must renew on time.
_JITTER: Final = (0.8, 1.2)
# After a conflict another candidate has just written. After this wait it is done, and we do not collide again.
_CONFLICT_SECONDS: Final = 0.2


def clock() -> float:
    """Seconds since some moment; monotonic, and continues while process or machine are stopped."""
    return time.clock_gettime(_CLOCK)


class LeaderElection:
    """One candidate for the Lease `namespace/name`.

    `on_started` and `on_stopped` are called from the event loop, in turn, soon after a term began or ended. Code that
    must be certain checks `is_leader` directly before it acts: that reads the clock each time.
    """

    def __init__(  # noqa: PLR0913 # what one candidate needs of the process around it
        self,
        client: Client,
        lease: tuple[str, str],
        identity: str,
        timing: Timing,
        on_started: Callable[[Term], None],
        on_stopped: Callable[[], None],
        *,
        stance: Callable[[], Stance] = lambda: Stance.CLAIM,
        address: Callable[[], str] = str,
        annotations: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """stance: what to do about the Lease, read before each step; address: where this candidate answers others.

        annotations: what each claim writes there.
        """
        self._client = client
        self._address = address
        self._namespace, self._name = lease
        self._path = f"{_leases(self._namespace).path}/{self._name}"
        self._timing = timing
        self._election = Election(identity, timing)
        self._on_started = on_started
        self._on_stopped = on_stopped
        self._stance = stance
        self._annotations = annotations
        self._announced: Term | None = None
        self._wake = asyncio.Event()
        self._released = asyncio.Event()
        self._wall = datetime.fromtimestamp(0, UTC)
        self._random = Random()  # noqa: S311 # spreads load, not security-relevant
        self._overlong = 0.0
        self.error = ""
        """The error of the last read or write of the Lease; empty if there is none."""

    @property
    def holder(self) -> str:
        """The last known identity that holds the Lease; empty if there is none."""
        return self._election.holder

    @property
    def holders_address(self) -> str:
        """Where another holder of the Lease answers this replica; empty if that is unknown."""
        return self._election.holders_address

    @property
    def term(self) -> Term | None:
        """The current term; None if we do not lead."""
        return self._election.term(clock())

    def seen(self) -> Seen:
        """The Lease as it was last seen."""
        return self._election.seen()

    def is_leader(self) -> bool:
        """Whether we lead at this moment: then no other candidate can, even if we were suspended."""
        return self._election.leads(clock())

    async def run(self) -> NoReturn:
        """Take part in the election until cancelled."""
        hurry = Informer(
            self._client, _leases(self._namespace), self, field_selector=f"metadata.name={self._name}", page_size=1
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(supervised(hurry.run))
            await self._take_part()
        raise AssertionError  # pragma: no cover # neither of them returns

    def resign(self) -> None:
        """Stop leading at once. The Lease stays ours until `release`, or until it expires."""
        self._election.resign()
        self._announce()

    def rejoin(self) -> None:
        """Take part again after `release`."""
        self._released.clear()
        self._election.rejoin()
        self._wake.set()

    async def release(self, how: Release, within: float) -> bool:
        """Release the Lease so that others can claim it at once; False if that took longer than `within`."""
        self._election.release(how)
        self._announce()
        self._wake.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._released.wait()
        return self._released.is_set()

    def upsert(self, key: str, raw: Raw) -> None:
        """The watch has seen the Lease."""
        del key
        spec = raw.get("spec")
        holder = spec.get("holderIdentity") if isinstance(spec, dict) else None
        # Another holder: its address is of use from now on.
        if not holder or holder not in {self.holder, self._election.identity}:
            self._wake.set()

    def delete(self, key: str) -> None:
        """The watch has seen that the Lease was deleted; its leader may continue for a while, so we do not hurry."""

    async def _take_part(self) -> NoReturn:
        while True:
            self._announce()
            action = self._election.next(clock(), self._stance())
            if isinstance(action, Rest):
                await self._rest(action.until - clock())
            else:
                await self._call(action)
            if self._election.released:
                self._released.set()

    async def _call(self, action: Read | Claim | Ask) -> None:
        """Make one call and report its result to the election."""
        asked = clock()
        patience = self._election.patience(asked)
        try:
            async with asyncio.timeout(patience):
                lease = await self._made(action)
        except TimeoutError:
            await self._failed(f"no answer within {patience:.1f} s")
        except APIError as error:
            if error.status == 409 and not isinstance(action, Read):
                self._election.look_again()
                await self._rest(self._random.uniform(0.0, _CONFLICT_SECONDS))
            else:
                await self._failed(str(error))
        except ClusterError as error:
            await self._failed(str(error))
        else:
            self._succeeded()
            if isinstance(action, Read):
                self._election.read(lease, clock())
                self._say_if_overlong()
            elif isinstance(action, Ask) and lease is not None:
                self._election.asked(lease, clock())
                log.info("leader.asked", lease=self._name, holder=lease.holder)
            elif isinstance(action, Claim) and lease is not None:
                self._election.wrote(action, lease, asked, clock())

    def _say_if_overlong(self) -> None:
        overlong = self._election.overlong
        if overlong and overlong != self._overlong:
            log.warning("leader.lease_duration_capped", holder=self.holder, seconds_not_believed=overlong)
        self._overlong = overlong

    async def _made(self, action: Read | Claim | Ask) -> LeaseRecord | None:
        if isinstance(action, Ask):
            return LeaseRecord.from_object(await self._client.patch(self._path, action.body()))
        return await (self._read() if isinstance(action, Read) else self._write(action))

    async def _read(self) -> LeaseRecord | None:
        try:
            return LeaseRecord.from_object(await self._client.get(self._path))
        except APIError as error:
            if error.status == 404:
                return None
            raise

    async def _write(self, claim: Claim) -> LeaseRecord:
        # Every renewal must differ from the last one, even if the wall clock stands still or is set back.
        self._wall = max(datetime.now(UTC), self._wall + timedelta(microseconds=1))
        body = claim.body(self._wall, self._address())
        if self._annotations and not claim.renews and claim.release is None:
            body["metadata"].setdefault("annotations", {}).update(self._annotations)
        if claim.replaces is not None:
            return LeaseRecord.from_object(await self._client.patch(self._path, body))
        # With server-side apply, which names the Lease: RBAC can limit apply to one name, but not a plain create. Each
        # candidate is a separate manager: the API server accepts the first one and answers the others with a 409. A
        # manager's name has at most 128 characters, and identities differ at their end.
        body |= {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        annotations = {name: text for name, text in body["metadata"]["annotations"].items() if text is not None}
        body["metadata"] = {"name": self._name, "namespace": self._namespace, "annotations": annotations}
        return LeaseRecord.from_object(await self._client.apply(self._path, body, self._election.identity[-128:]))

    def _announce(self) -> None:
        """Call back if the term has changed since the last call."""
        term = self.term
        if self._announced is not None and self._announced != term:
            report = log.warning if self.error else log.info
            report("leader.stopped", epoch=self._announced.epoch, holder=self.holder, error=self.error)
            self._announced = None
            self._on_stopped()
        if term is not None and self._announced is None:
            self._announced = term
            log.info("leader.started", epoch=term.epoch, identity=self._election.identity)
            self._on_started(term)

    async def _failed(self, error: str) -> None:
        self._election.look_again()
        if not self.error:
            log.warning("leader.lease_failing", lease=f"{self._namespace}/{self._name}", error=error)
        self.error = error
        await self._rest(self._timing.retry_period * self._random.uniform(0.5, 1.0))

    def _succeeded(self) -> None:
        if self.error:
            log.info("leader.lease_working", lease=f"{self._namespace}/{self._name}")
        self.error = ""

    async def _rest(self, seconds: float) -> None:
        """Wait, at most until the end of our term or until the watch wakes us."""
        if self.is_leader():
            seconds = min(seconds, self._election.patience(clock()))
        else:
            seconds *= self._random.uniform(*_JITTER)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == float("inf") else seconds):
                await self._wake.wait()
        if self._wake.is_set():
            self._wake.clear()
            self._election.look_again()


def _leases(namespace: str) -> Resource:
    return Resource("coordination.k8s.io", "v1", "leases", namespace)
