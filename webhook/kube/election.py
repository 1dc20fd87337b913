"""Leader election: the rules by which candidates share a Lease, without clock and socket.

All times are seconds on the candidate's own clock, which is monotonic and continues while the process is stopped.
States of one candidate:
1. Blind: the Lease's content is unknown, or a write without an answer may have changed it. The candidate reads it.
2. Following: another candidate holds the Lease, and we read it every `retry_period`. The Lease is free if it was
   released, if it was never held, or if it has not changed for its whole duration since we first saw its content.
   Then we claim it.
3. Leading: from the answer to a claim until `renew_deadline` after the *request* of the last successful claim or
   renewal. Renewed every `retry_period`.
4. Resigned: does not lead; releases the Lease when asked to, and takes part again after `rejoin`.

Which of the Leases of several shards a candidate claims is decided elsewhere (see `shard_balance`). A claim that is not
made endangers nothing, so the proof below holds for each Lease, whatever is decided.

Why two candidates never lead at once: the Lease was written at some time W. Its writer sent that request before W, so
it stops by W + renew_deadline. Another candidate saw the write at W or later, so it claims the Lease at W +
lease_duration or later, which is later. The API server accepts that claim only if nothing was written since
(resourceVersion). Wall clocks do not matter: the times in a Lease are the holder's, written for people. Latency and
pauses only make the writer stop earlier and the other candidate claim later. Clock rates may differ by the ratio of the
two durations.

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

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, StrEnum
from math import ceil, inf
from typing import Final

from webhook.kube.api_errors import MalformedAnswerError, mapping_or_empty
from webhook.model.raw import Draft, Raw

RELEASED_ANNOTATION: Final = "topology-webhook.dev/released"
ADDRESS_ANNOTATION: Final = "topology-webhook.dev/leader-address"
WANTED_ANNOTATION: Final = "topology-webhook.dev/wanted-by"
"""On the Lease of a shard: the candidate that leads fewer shards than the holder, and asks for this one."""


class Release(StrEnum):
    """How a holder released the Lease."""

    SETTLED = "settled"
    """All pods that it had assumed are settled, or visible to every client."""
    UNSETTLED = "unsettled"
    """Some pod that it had assumed may still become visible."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease (coordination.k8s.io/v1) as read.

    Two records are equal if their contents are equal, whatever else was written to the object.
    """

    version: str = field(compare=False)
    """The object's resourceVersion."""
    holder: str = ""
    """The holder's identity; empty if there is no holder."""
    transitions: int = 0
    """The number of terms so far."""
    duration: float = 0.0
    """Seconds for which the holder may hold it after each renewal; 0 if it does not say."""
    renewed: str = ""
    """`renewTime` as written; empty if absent."""
    release: Release | None = None
    """How the last holder released it; None if it did not."""
    wanted_by: str = field(default="", compare=False)
    """The candidate that asks the holder for it; empty if none does."""
    address: str = ""
    """Where the last holder answers other replicas: host and port; empty if it does not say."""

    @classmethod
    def from_object(cls, raw: Raw) -> "LeaseRecord":
        """A Lease from the API server. A field of the wrong type counts as absent.

        Raises MalformedAnswerError without a resourceVersion, because nothing could be written in its place.
        """
        metadata, spec = mapping_or_empty(raw.get("metadata")), mapping_or_empty(raw.get("spec"))
        version = _text(metadata.get("resourceVersion"))
        if not version:
            msg = "the answer is not a Lease: it has no metadata.resourceVersion"
            raise MalformedAnswerError(msg)
        holder = _text(spec.get("holderIdentity"))
        annotations = mapping_or_empty(metadata.get("annotations"))
        mark = _text(annotations.get(RELEASED_ANNOTATION))
        return cls(
            version=version,
            holder=holder,
            transitions=_count(spec.get("leaseTransitions")),
            duration=float(_count(spec.get("leaseDurationSeconds"))),
            renewed=_text(spec.get("renewTime")),
            # Another program would not set our annotation; its holder name counts.
            release=Release(mark) if not holder and mark in set(Release) else None,
            address=_text(annotations.get(ADDRESS_ANNOTATION)),
            wanted_by=_text(annotations.get(WANTED_ANNOTATION)),
        )

    @property
    def untouched(self) -> bool:
        """Whether it has had no holder since it was created."""
        return not (self.holder or self.transitions or self.renewed or self.release)


@dataclass(frozen=True, slots=True)
class Claim:
    """What to write into the Lease.

    Its times are our wall clock, for people. A `renewTime` only has to differ from the previous one.
    """

    holder: str
    transitions: int
    duration: float
    replaces: LeaseRecord | None
    """The content that the Lease must still have when this is written; None: it must not exist."""
    release: Release | None = None
    renews: bool = False
    """Whether the holder stays the same."""

    def body(self, wall: datetime, address: str = "") -> Draft:
        """A merge patch that the API server rejects (409) if the Lease has changed since.

        `wall` must differ from that of the last renewal. address: the holder's, for other replicas.
        """
        now = _micro_time(wall)
        spec: Draft = {
            "holderIdentity": self.holder,
            "leaseTransitions": self.transitions,
            "leaseDurationSeconds": ceil(self.duration),
            "renewTime": now,
        }
        if not self.renews and self.release is None:
            spec["acquireTime"] = now
        annotations: Draft = {}
        if not self.renews:
            annotations = {RELEASED_ANNOTATION: self.release, ADDRESS_ANNOTATION: (self.holder and address) or None}
        if self.replaces is not None and self.replaces.wanted_by and self.release is None and not self.renews:
            annotations[WANTED_ANNOTATION] = None
        metadata: Draft = {"annotations": annotations} if annotations else {}
        if self.replaces is not None:
            metadata["resourceVersion"] = self.replaces.version
        return {"metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the holder of a Lease for it, in the Lease itself."""

    wanted_by: str
    replaces: LeaseRecord

    def body(self) -> Draft:
        """A merge patch that the API server rejects (409) if the Lease has changed since."""
        annotations = {WANTED_ANNOTATION: self.wanted_by}
        return {"metadata": {"resourceVersion": self.replaces.version, "annotations": annotations}}


def _micro_time(moment: datetime) -> str:
    """The API's MicroTime."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    """A whole number within int32 and not negative; 0 for anything else."""
    return value if type(value) is int and 0 <= value < 2**31 else 0


# The maximum of another holder's duration, as a multiple of our own. 4: a rollout may quadruple the setting (15 s to 60
# s). With the default, one bad write costs a minute without a leader, about as long as the next leader waits for
# bindings that it cannot see yet (`Settings.assume_ttl`).
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


Action = Read | Claim | Ask | Rest


class Stance(Enum):
    """What a candidate does about a Lease that another holds, or that is free."""

    CLAIM = "claim it once it is free"
    ASK = "ask its holder for it"
    LEAVE = "leave it to others"


@dataclass(frozen=True, slots=True)
class Seen:
    """A Lease as a candidate last saw it. Times are the candidate's own clock."""

    holder: str
    """The holder, even if it may be claimed from it; empty if there is none."""
    free_since: float
    """When it became free, or will; infinite while its content is unknown."""
    wanted_by: str = ""
    wanted_since: float = inf
    """Since when that is seen."""


class Election:
    """One candidate. The caller reports what happened and asks for the next step."""

    def __init__(self, identity: str, timing: Timing) -> None:
        self.identity = identity
        self._timing = timing
        self._blind = True
        self._lease: LeaseRecord | None = None
        self._looked_at = self._unchanged_since = -inf
        self._wanted_since = inf
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

    def next(self, now: float, stance: Stance = Stance.CLAIM) -> Action:
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
        if stance is Stance.CLAIM and now >= free_at:
            return self._claim()
        if stance is Stance.ASK and self._lease is not None and self._lease.wanted_by != self.identity:
            return Ask(self.identity, self._lease)
        if now >= look_at:
            return Read()
        return Rest(min(free_at, look_at) if stance is Stance.CLAIM else look_at)

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

    def seen(self) -> Seen:
        """The Lease as it was last seen."""
        if self._looked_at == -inf:
            return Seen("", inf)
        wanted_by = self._lease.wanted_by if self._lease is not None else ""
        return Seen(self.holder, max(self._free_at(), self._unchanged_since), wanted_by, self._wanted_since)

    @property
    def holders_address(self) -> str:
        """Where another holder of the Lease answers this replica; empty if no other holds it, or if it is unknown."""
        return "" if self._lease is None or self.holder in {"", self.identity} else self._lease.address

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
        if self._resigned or claim.release is not None or (claim.renews and not term_goes_on):
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

    def asked(self, lease: LeaseRecord, now: float) -> None:
        """Our request to the holder succeeded: answered now."""
        self._see(lease, now)

    def resign(self) -> None:
        """Stop leading, now and until `rejoin`."""
        self._resigned = True
        self._deadline = -inf

    def release(self, how: Release) -> None:
        """Release the Lease if we hold it."""
        self.resign()
        self._release = how

    def rejoin(self) -> None:
        """Take part again."""
        self._resigned, self._release = False, None
        self.look_again()

    def _see(self, lease: LeaseRecord | None, now: float) -> None:
        if lease != self._lease or self._looked_at == -inf:
            self._unchanged_since = now
        if (lease.wanted_by if lease else "") != (self._lease.wanted_by if self._lease else ""):
            self._wanted_since = now
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
