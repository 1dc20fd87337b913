"""A CA and, for a while, its successor: which of them signs, what is trusted, when the one takes the other's place.

Life cycle; a step follows from what the Secret holds and the time alone, so any replica may take it:
1. Alone: one CA signs, until two thirds of its life are over.
2. Announced: a successor stands beside it and is trusted. The old CA still signs: no API server that has not read the
   new bundle yet is shown a leaf that it cannot trust.
3. Signing: the announcement is over, the successor signs. Leaves of the old CA are still trusted.
4. Alone again: the last leaf of the old CA has ended, and the successor takes its place.

A CA that has expired has no leaves left to wait for: steps 2 and 3 fall away.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from certs.authority import LEAF_LIFETIME, Authority
from certs.bundle import CABundle
from certs.window import CLOCK_SKEW

# An API server reads a changed webhook configuration within seconds; an hour outlasts one that is cut off or restarted,
# and a caBundle that cannot be written for a while.
ANNOUNCEMENT: Final = timedelta(hours=1)

# The Secret's entries of the successor begin so.
_NEXT: Final = "next-"


@dataclass(frozen=True, slots=True)
class Succession:
    """The CA, and its successor where there is one."""

    authority: Authority
    successor: Authority | None = None

    @property
    def bundle(self) -> CABundle:
        """The CAs to be trusted, newest last."""
        return CABundle.of(each.certificate for each in (self.authority, self.successor) if each is not None)

    def signer(self, now: datetime) -> Authority:
        """The CA that signs leaves at `now`."""
        if self.successor is not None and now >= _signs_from(self.successor):
            return self.successor
        return self.authority

    def advanced(self, name: str, now: datetime) -> Self:
        """What the Secret is to hold at `now`; the very same object when no step is due. `name`: a new CA's."""
        if self.successor is None:
            if now < self.authority.window.renew_at:
                return self
            created = Authority.create(name, now)
            return type(self)(created) if self._has_expired(now) else type(self)(self.authority, created)
        ended = now >= _signs_from(self.successor) + LEAF_LIFETIME + CLOCK_SKEW
        return type(self)(self.successor) if ended or self._has_expired(now) else self

    def _has_expired(self, now: datetime) -> bool:
        return now > self.authority.window.end

    def to_secret_data(self) -> dict[str, str]:
        """The `data` of a Secret: base64 of the PEM texts."""
        return self.authority.to_secret_data() | (self.successor.to_secret_data(_NEXT) if self.successor else {})

    @classmethod
    def from_secret_data(cls, data: Mapping[str, str]) -> Self:
        """Read what `to_secret_data` wrote; raises CertificateError as `Authority.from_secret_data` does."""
        announced = any(entry.startswith(_NEXT) for entry in data)
        return cls(Authority.from_secret_data(data), Authority.from_secret_data(data, _NEXT) if announced else None)


def _signs_from(successor: Authority) -> datetime:
    """When the announcement of a successor is over: counted from its creation, which its window tells."""
    return successor.window.begin + CLOCK_SKEW + ANNOUNCEMENT
