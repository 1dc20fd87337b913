"""Who leads: the rules by which candidates share a Lease, without clock and socket.

All times are seconds on the candidate's own clock, which never goes back and goes on while the process is stopped.
States of one candidate:
1. Blind: what the Lease says is not known, or may have changed by a write whose answer never came. It is read.
2. Following: it is somebody's, and read every `retry_period`. It is free when it was given back, when it has never been
   held, or when it has said the same for its whole duration since we first saw it say so. Then it is claimed.
3. Leading: from the answer to a claim until `renew_deadline` after the *request* of the last claim or renewal that went
   through. Renewed every `retry_period`.
4. Resigned: never leads again; gives the Lease back when asked to.

Why two never lead at once: the Lease was written at some time W. Its writer sent that request before W, so it stops by
W + renew_deadline. Another one saw it at W or later, so it claims it at W + lease_duration or later, which is later;
and the API server takes that claim only if nothing was written since (resourceVersion). Nobody's wall clock is part of
that, latency and pauses only make the writer stop earlier and the other claim later, and clock rates may differ by as
much as the two durations do.

In the middle of a rollout the writer may have other settings. Another one waits for its own lease_duration or for the
longest that the Lease has said of this holder, whichever is longer. So it is safe when the setting is raised or
lowered, and when another client writes a shorter duration into the Lease. The Lease is believed up to LONGEST_BELIEVED
times the own duration: one write cannot keep all replicas from leading. So settings must not be lowered by more than
that factor in one rollout.

What is outside of the argument: somebody who deletes or empties the Lease by hand. A candidate that has seen it held
then waits a whole duration before it claims it. One that starts at that moment has not, and claims it at once; the old
leader notices when it renews, at most `retry_period` and one call later.

Source: client-go tools/leaderelection keeps such a Lease; it looks at the deadline when it renews, not when asked.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from webhook.kube.lease_record import Claim, LeaseRecord, Release

# How many of our own durations another holder is believed at most. 4: a rollout may quadruple the setting (15 s to
# 60 s), and with the default one bad write costs a minute without a leader, about as long as the next leader waits
# for bindings that it cannot see yet (assume_ttl_seconds).
LONGEST_BELIEVED: Final = 4

# A higher count of terms is not credible: one a second makes 34 years. What we write always stays within int32.
_MOST_TERMS: Final = 2**30


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds; retry_period < renew_deadline < lease_duration."""

    lease_duration: float
    renew_deadline: float
    retry_period: float

    @property
    def call_timeout(self) -> float:
        """How long one call may take: of a `renew_deadline`, a call that hangs leaves room for another one."""
        return self.renew_deadline / 2


@dataclass(frozen=True, slots=True)
class Term:
    """One time of leading without a break."""

    epoch: int
    """Grows with every term, of whoever."""
    name: str
    """Differs from any other term's, even when somebody deletes the Lease and epochs start anew."""
    since: float
    alone_since: float
    """Since when nobody else can have promised anything; -inf when the last leader left nothing unsettled."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read the Lease."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do before `until`, unless the Lease changes."""

    until: float


Action = Read | Claim | Rest


class Election:
    """One candidate. Tell it what happened, ask it what to do."""

    def __init__(self, identity: str, timing: Timing) -> None:
        self.identity = identity
        self._timing = timing
        self._blind = True
        self._lease: LeaseRecord | None = None
        self._looked_at = self._unchanged_since = -inf
        self._seen_held = False
        # The longest duration that the last holder's Lease has said, and who that is.
        self._said, self._said_by = 0.0, ""
        self._alone_since: float | None = None
        self._term: Term | None = None
        self._deadline = -inf
        self._renew_at = -inf
        self._resigned = False
        self._release: Release | None = None

    # What to do.

    def next(self, now: float) -> Action:
        """The next thing to do."""
        if self._resigned and self._release is None:
            return Rest(inf)
        if self._blind:
            return Read()
        if self._release is not None:
            return self._give_back(self._release)
        if self._term is not None and self.leads(now):
            return self._renew(self._term) if now >= self._renew_at else Rest(min(self._renew_at, self._deadline))
        free_at, look_at = self._free_at(), self._looked_at + self._timing.retry_period
        if now >= free_at:
            return self._claim()
        return Read() if now >= look_at else Rest(min(free_at, look_at))

    def leads(self, now: float) -> bool:
        """Whether nobody else can be leading now."""
        return now < self._deadline

    def term(self, now: float) -> Term | None:
        """The term that goes on now."""
        return self._term if self.leads(now) else None

    def patience(self, now: float) -> float:
        """How long a call that begins now is waited for: a leader must notice when its term ends."""
        timeout = self._timing.call_timeout
        return min(timeout, self._deadline - now) if self.leads(now) else timeout

    @property
    def holder(self) -> str:
        """Who holds the Lease as far as we know; empty for nobody."""
        return self._lease.holder if self._lease is not None else ""

    @property
    def released(self) -> bool:
        """Whether the Lease is known not to be ours, after it was to be given back."""
        return self._release is not None and not self._blind and self.holder != self.identity

    @property
    def overlong(self) -> float:
        """Seconds that the Lease claims for its holder beyond what is believed; 0 when it is believed."""
        if self._lease is None or self._lease.holder == self.identity:
            return 0.0
        return max(0.0, self._lease.duration - self._longest)

    # What happened.

    def read(self, lease: LeaseRecord | None, now: float) -> None:
        """The Lease says this (None: there is none), by an answer that came now."""
        self._see(lease, now)
        if lease is not None and lease.holder != self.identity:
            self._deadline = -inf

    def wrote(self, claim: Claim, lease: LeaseRecord, asked: float, now: float) -> None:
        """`claim` went through: asked for at `asked`, answered now."""
        term_goes_on = self.leads(now)
        self._see(lease, now)
        if self._resigned or (claim.renews and not term_goes_on):
            # The answer came after the end of the term it was to prolong: others were told that it has ended.
            return
        self._deadline = asked + self._timing.renew_deadline
        self._renew_at = asked + self._timing.retry_period
        if not claim.renews:
            name = f"{claim.transitions}-{self.identity}"
            alone_since = self._alone_since if self._alone_since is not None else now
            self._term = Term(claim.transitions, name, now, alone_since)

    def look_again(self) -> None:
        """The Lease may have changed: by somebody else, or by a write of ours that brought no answer."""
        self._blind = True

    def resign(self) -> None:
        """Lead no more, from now on and for ever."""
        self._resigned = True
        self._deadline = -inf

    def release(self, how: Release) -> None:
        """Give the Lease back if it is ours."""
        self.resign()
        self._release = how

    def _see(self, lease: LeaseRecord | None, now: float) -> None:
        if lease != self._lease or self._looked_at == -inf:
            self._unchanged_since = now
        self._lease, self._looked_at, self._blind = lease, now, False
        if lease is not None:
            same = lease.holder in {"", self._said_by}
            self._said = max(self._said, lease.duration) if same else lease.duration
            self._said_by = lease.holder or self._said_by
        self._alone_since = self._alone_as_of(lease, now)
        self._seen_held = self._seen_held or (lease is not None and not lease.untouched)

    def _alone_as_of(self, lease: LeaseRecord | None, now: float) -> float | None:
        """Since when nobody else can have promised anything; None while somebody may."""
        if lease is None or lease.untouched:
            return None if self._seen_held else -inf
        if lease.holder == self.identity:
            return now if self._alone_since is None else self._alone_since
        match lease.release:
            case Release.SETTLED:
                return -inf
            case Release.UNSETTLED:
                return self._unchanged_since
        return None

    def _free_at(self) -> float:
        """When the Lease may be claimed."""
        lease = self._lease
        if lease is None or lease.untouched:
            return self._unchanged_since + self._believed if self._seen_held else -inf
        if lease.release is not None or lease.holder == self.identity:
            return -inf
        return self._unchanged_since + self._believed

    @property
    def _believed(self) -> float:
        """Seconds for which the last holder that we have seen may still lead."""
        return max(min(self._said, self._longest), self._timing.lease_duration)

    @property
    def _longest(self) -> float:
        """Seconds for which another holder is believed at most."""
        return LONGEST_BELIEVED * self._timing.lease_duration

    # What is written.

    def _claim(self) -> Claim:
        before = self._lease.transitions if self._lease is not None else 0
        if before > _MOST_TERMS:  # as if the Lease had been deleted
            before = 0
        epoch = max(before, self._term.epoch if self._term is not None else 0) + 1
        return Claim(self.identity, epoch, self._timing.lease_duration, self._lease)

    def _renew(self, term: Term) -> Claim:
        return Claim(self.identity, term.epoch, self._timing.lease_duration, self._lease, renews=True)

    def _give_back(self, how: Release) -> Action:
        lease = self._lease
        if lease is None or lease.holder != self.identity:
            return Rest(inf)
        return Claim("", lease.transitions, self._timing.lease_duration, lease, release=how)
