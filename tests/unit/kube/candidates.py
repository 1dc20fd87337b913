"""Candidates for one Lease, or for the Leases of several shards, in simulated time.

Each candidate is the real `Election`, driven as `webhook.kube.lease` drives it: one call at a time, abandoned after
the candidate's timeout, then a pause. Simulated are
- the server: it takes a claim only if the Lease's version is the one that the claim replaces;
- the network: each call takes a time to the server and a time back, or gets lost on either way; a call that is given up
  still arrives;
- the clock: true time plus an offset, times a rate;
- pauses: a stopped candidate does nothing; its clock goes on, and answers wait for it.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, repeat
from math import inf

from webhook.kube.election import Ask, Claim, Election, LeaseRecord, Read, Release, Rest, Seen, Stance, Timing
from webhook.kube.shard_balance import ShardBalance


@dataclass(frozen=True)
class Latency:
    """Seconds to the server and back; `inf` is a message that never arrives."""

    there: float = 0.01
    back: float = 0.01


@dataclass
class Server:
    """One Lease; `lease` may be set by a test as by somebody with kubectl."""

    lease: LeaseRecord | None = None
    versions: Iterator[int] = field(default_factory=lambda: count(1))

    def put(self, lease: LeaseRecord) -> LeaseRecord:
        self.lease = replace(lease, version=str(next(self.versions)))
        return self.lease

    def write(self, action: Claim | Ask, renewed: str) -> LeaseRecord | None:
        """The Lease after the write; None for 409."""
        if (action.replaces and action.replaces.version) != (self.lease and self.lease.version):
            return None
        if isinstance(action, Ask):
            return self.put(replace(action.replaces, wanted_by=action.wanted_by))
        wanted = self.lease.wanted_by if self.lease and (action.renews or action.release) else ""
        return self.put(
            LeaseRecord("", action.holder, action.transitions, action.duration, renewed, action.release, wanted)
        )


@dataclass
class Simulation:
    server: Server = field(default_factory=Server)
    now: float = 0.0
    queue: list[tuple[float, bool, int, Callable[[], None]]] = field(default_factory=list)
    order: Iterator[int] = field(default_factory=count)

    def at(self, when: float, do: Callable[[], None], *, timer: bool = False) -> None:
        """Of what is due at the same time timers come last, as in an event loop: a socket is read before."""
        if when < inf:
            heapq.heappush(self.queue, (max(when, self.now), timer, next(self.order), do))

    def run(self, until: float, after_each: Callable[[], None] = lambda: None) -> None:
        while self.queue and self.queue[0][0] <= until:
            self.now, _, _, do = heapq.heappop(self.queue)
            do()
            after_each()
        self.now = until


@dataclass
class LeaseCandidate:
    name: str
    timing: Timing
    world: Simulation
    latencies: Iterator[Latency]
    offset: float = 0.0
    rate: float = 1.0
    pauses: tuple[tuple[float, float], ...] = ()
    """True times of being stopped, (from, to), ascending and apart."""
    cut_off: tuple[tuple[float, float], ...] = ()
    """True times in which no message goes out or comes in."""
    freezes: Mapping[int, float] = field(default_factory=dict)
    """Call number -> seconds: stopped for so long once that call is sent, the worst moment there is."""
    led: list[tuple[float, float]] = field(default_factory=list)
    """True times of leading, (from, to): every renewal adds one that overlaps with the last."""
    election: Election = field(init=False)
    call: int = 0
    """The number of the call that is waited for, negative when it is over."""
    server: Server = field(init=False)
    stance: Callable[[], Stance] = lambda: Stance.CLAIM
    writes: int = 0
    """Writes that the server took, but renewals."""

    def __post_init__(self) -> None:
        self.server = self.world.server
        self.election = Election(self.name, self.timing)
        self.world.at(0.0, self.step)

    def clock(self) -> float:
        return self.world.now * self.rate + self.offset

    def true_time(self, clock: float) -> float:
        return (clock - self.offset) / self.rate

    def leads(self) -> bool:
        return self.election.leads(self.clock())

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        """`do` after so many seconds of the own clock, or at the end of a pause that it falls into."""
        self.world.at(self.awake(self.world.now + seconds / self.rate), do, timer=True)

    def awake(self, when: float) -> float:
        """`when`, or the end of the pauses that it falls into."""
        while later := next((end for begin, end in self.pauses if begin <= when < end), 0.0):
            when = later
        return when

    def connected(self, when: float) -> bool:
        return not any(begin <= when < end for begin, end in self.cut_off)

    def step(self) -> None:
        """Do what the election wants, as the driver does."""
        action = self.election.next(self.clock(), self.stance())
        if isinstance(action, Rest):
            # A rest is at most a second here, so that tests may change things under way.
            self.later(min(max(action.until - self.clock(), 0.001), 1.0), self.step)
            return
        self.call = abs(self.call) + 1
        call, asked, latency = self.call, self.clock(), next(self.latencies)
        if call in self.freezes:
            self.pauses = (*self.pauses, (self.world.now, self.world.now + self.freezes[call]))
        renewed = f"{self.name}-{call}"
        self.later(self.election.patience(asked), lambda: self.give_up(call))

        def arrive() -> None:
            if isinstance(action, Read):
                lease, conflict = self.server.lease, False
            else:
                lease = self.server.write(action, renewed)
                conflict = lease is None
                self.writes += not (conflict or (isinstance(action, Claim) and action.renews))
            back = self.world.now + latency.back
            if self.connected(back):
                self.world.at(self.awake(back), lambda: self.answer(call, action, asked, lease, conflict))

        if self.connected(self.world.now):
            self.world.at(self.world.now + latency.there, arrive)

    def give_up(self, call: int) -> None:
        if call == self.call:
            self.call = -call
            self.election.look_again()
            self.later(self.timing.retry_period, self.step)

    def answer(
        self, call: int, action: Read | Claim | Ask, asked: float, lease: LeaseRecord | None, conflict: bool
    ) -> None:
        if call != self.call:
            return  # given up
        self.call = -call
        if isinstance(action, Read):
            self.election.read(lease, self.clock())
        elif conflict:
            self.election.look_again()
        else:
            assert lease is not None
            if isinstance(action, Ask):
                self.election.asked(lease, self.clock())
                self.step()
                return
            self.election.wrote(action, lease, asked, self.clock())
            if self.leads():
                self.led.append((self.world.now, self.true_time(self.election._deadline)))
        self.step()

    def release(self, how: Release = Release.SETTLED) -> None:
        """What a graceful shutdown does."""
        self.election.release(how)
        self.led = [(begin, min(end, self.world.now)) for begin, end in self.led]

    def stop_for_good(self) -> None:
        """SIGKILL."""
        self.pauses = (*self.pauses, (self.world.now, inf))


@dataclass
class Replica:
    """One replica: a candidate for the Lease of each shard, with one clock. It starts at `since`."""

    name: str
    timing: Timing
    world: Simulation
    leases: Mapping[str, Server]
    latencies: Iterator[Latency] = field(default_factory=lambda: repeat(Latency()))
    offset: float = 0.0
    rate: float = 1.0
    settling: float = 0.5
    """Seconds from the end of a term to the release of its Lease."""
    candidates: dict[str, LeaseCandidate] = field(default_factory=dict)
    giving: bool = False

    def __post_init__(self) -> None:
        self.balance = ShardBalance(self.name, self.timing)
        for shard, server in self.leases.items():
            one = LeaseCandidate(self.name, self.timing, self.world, self.latencies, self.offset, self.rate)
            one.server = server
            one.stance = partial(self.stance, shard)
            self.candidates[shard] = one
        self.world.at(self.world.now + 1.0, self.look, timer=True)

    def clock(self) -> float:
        return self.world.now * self.rate + self.offset

    def stance(self, shard: str) -> Stance:
        return self.balance.stances(self.seen(), self.clock())[shard]

    def seen(self) -> dict[str, Seen]:
        return {shard: one.election.seen() for shard, one in self.candidates.items()}

    def leads(self) -> set[str]:
        return {shard for shard, one in self.candidates.items() if one.leads()}

    def look(self) -> None:
        """Give away what was asked for, as `webhook.app.leader_elector` does."""
        first = next(iter(self.candidates.values()))
        if not self.giving and (shard := self.balance.to_give(self.seen(), self.clock())) is not None:
            one = self.candidates[shard]
            one.election.resign()
            one.led = [(begin, min(end, self.world.now)) for begin, end in one.led]
            self.giving = True
            one.later(self.settling, one.release)
            one.later(self.settling + 5.0, lambda: self.given(one))
        first.later(1.0, self.look)

    def given(self, one: LeaseCandidate) -> None:
        one.election.rejoin()
        self.giving = False

    def stop(self, spans: tuple[tuple[float, float], ...]) -> None:
        """Pause it, in these true times."""
        for one in self.candidates.values():
            one.pauses = (*one.pauses, *spans)

    def kill(self) -> None:
        """SIGKILL."""
        self.stop(((self.world.now, inf),))
