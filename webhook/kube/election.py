"""Leader election: the rules by which candidates share a Lease, without clock and socket.

All times are seconds on the candidate's own clock, which is monotonic and continues while the process is stopped.
States of one candidate:
1. Blind: the Lease's content is unknown, or a write without an answer may have changed it. The candidate reads it.
2. Following: another candidate holds the Lease, and we read it every `retry_period`. The Lease is free if it was
   released, if it was never held, or if it has not changed for its whole duration since we first saw its content.
   Then we claim it.
3. Leading: from the answer to a claim until `renew_deadline` after the *request* of the last successful claim or
   renewal. Renewed every `retry_period`.
4. Resigned: never leads again; releases the Lease when asked to.

Why two candidates never lead at once: the Lease was written at some time W. Its writer sent that request before W, so
it stops by W + renew_deadline. Another candidate saw the write at W or later, so it claims the Lease at W +
lease_duration or later, which is later. The API server accepts that claim only if nothing was written since
(resourceVersion). Wall clocks do not matter. Latency and pauses only make the writer stop earlier and the other
candidate claim later. Clock rates may differ by the ratio of the two durations.

During a rollout the writer may have other settings. A candidate waits for its own lease_duration or for the longest
duration that this holder has written, whichever is longer. So it is safe to raise or lower the setting, and a shorter
duration written by another client does no harm. A longer duration counts up to LONGEST_BELIEVED times our own, so one
write cannot keep all replicas from leading. Therefore settings must not be lowered by more than that factor in one
rollout.

Not covered: a user who deletes or empties the Lease by hand. A candidate that has seen it held waits a whole duration
before it claims it. A candidate that starts at that moment claims it at once; the old leader notices this at its next
renewal, at most `retry_period` and one call later.

Source: client-go tools/leaderelection uses such a Lease; it checks the deadline when it renews, not when asked.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from webhook.kube.lease_record import Claim, LeaseRecord, Release

# The maximum of another holder's duration, as a multiple of our own. 4: a rollout may quadruple the setting (15 s to 60
# s). With the default, one bad write costs a minute without a leader, about as long as the next leader waits for
# bindings that it cannot see yet (assume_ttl_seconds).
LONGEST_BELIEVED: Final = 4

# A higher count of terms is not credible: one term a second for 34 years. Our own count stays within int32.
_MOST_TERMS: Final = 2**30


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds; retry_period < renew_deadline < lease_duration."""

    lease_duration: float
    renew_deadline: float
    retry_period: float

    @property
    def call_timeout(self) -> float:
        """The timeout of one call: `renew_deadline` leaves time for another call if one hangs."""
        return self.renew_deadline / 2


@dataclass(frozen=True, slots=True)
class Term:
    """One uninterrupted period of leading."""

    epoch: int
    """Grows with every term of any candidate."""
    name: str
    """Differs from that of any other term, even if the Lease is deleted and epochs restart."""
    since: float
    alone_since: float
    """No other candidate can have assumed a pod since this time; -inf if the last leader left nothing unsettled."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read the Lease."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Do nothing before `until`, unless the Lease changes."""

    until: float


Action = Read | Claim | Rest


class Election:
    """One candidate. The caller reports what happened and asks for the next step."""

    def __init__(self, identity: str, timing: Timing) -> None:
        self.identity = identity
        self._timing = timing
        self._blind = True
        self._lease: LeaseRecord | None = None
        self._looked_at = self._unchanged_since = -inf
        self._seen_held = False
        # The last holder of the Lease, and the longest duration that it has written.
        self._said, self._said_by = 0.0, ""
        self._alone_since: float | None = None
        self._term: Term | None = None
        self._deadline = -inf
        self._renew_at = -inf
        self._resigned = False
        self._release: Release | None = None

    # Next step.

    def next(self, now: float) -> Action:
        """The next step."""
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
        """Whether no other candidate can be leading now."""
        return now < self._deadline

    def term(self, now: float) -> Term | None:
        """The current term."""
        return self._term if self.leads(now) else None

    def patience(self, now: float) -> float:
        """The timeout of a call that begins now: a leader must notice when its term ends."""
        timeout = self._timing.call_timeout
        return min(timeout, self._deadline - now) if self.leads(now) else timeout

    @property
    def holder(self) -> str:
        """The last known holder of the Lease; empty if there is none."""
        return self._lease.holder if self._lease is not None else ""

    @property
    def released(self) -> bool:
        """Whether the Lease is known not to be ours, after we were asked to release it."""
        return self._release is not None and not self._blind and self.holder != self.identity

    @property
    def overlong(self) -> float:
        """Seconds of the holder's duration beyond our maximum; 0 if it is within."""
        if self._lease is None or self._lease.holder == self.identity:
            return 0.0
        return max(0.0, self._lease.duration - self._longest)

    # What happened.

    def read(self, lease: LeaseRecord | None, now: float) -> None:
        """An answer that came now has this content of the Lease (None: it does not exist)."""
        self._see(lease, now)
        if lease is not None and lease.holder != self.identity:
            self._deadline = -inf

    def wrote(self, claim: Claim, lease: LeaseRecord, asked: float, now: float) -> None:
        """`claim` succeeded: requested at `asked`, answered now."""
        term_goes_on = self.leads(now)
        self._see(lease, now)
        if self._resigned or (claim.renews and not term_goes_on):
            # The answer came after the end of the term that it extends, which has been reported as ended.
            return
        self._deadline = asked + self._timing.renew_deadline
        self._renew_at = asked + self._timing.retry_period
        if not claim.renews:
            name = f"{claim.transitions}-{self.identity}"
            alone_since = self._alone_since if self._alone_since is not None else now
            self._term = Term(claim.transitions, name, now, alone_since)

    def look_again(self) -> None:
        """The Lease may have changed: by another client, or by a write of ours without an answer."""
        self._blind = True

    def resign(self) -> None:
        """Stop leading, now and permanently."""
        self._resigned = True
        self._deadline = -inf

    def release(self, how: Release) -> None:
        """Release the Lease if we hold it."""
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
        """Since when no other candidate can have assumed a pod; None while one may."""
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
        """The maximum of another holder's duration in seconds."""
        return LONGEST_BELIEVED * self._timing.lease_duration

    # What to write.

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
