"""A CA and its temporary successor: which one signs, which are trusted, and when the successor takes over.

Life cycle. Each step depends only on the Secret and the time, so any replica may take it:
1. Alone: one CA signs until two thirds of its life are over.
2. Announced: a successor is added and trusted. The old CA still signs, so an API server that has not read the new
   bundle yet never sees a leaf that it cannot trust.
3. Signing: after the announcement the successor signs. Leaves of the old CA are still trusted.
4. Alone again: the last leaf of the old CA has expired, and the successor replaces it.

An expired CA has no valid leaves to wait for, so steps 2 and 3 are skipped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from certs.authority import LEAF_LIFETIME, Authority
from certs.bundle import CABundle
from certs.window import CLOCK_SKEW

# An API server reads a changed webhook configuration within seconds. An hour is enough even if it is disconnected or
# restarted, or if the caBundle cannot be written for a while.
ANNOUNCEMENT: Final = timedelta(hours=1)

# The prefix of the successor's entries in the Secret.
_NEXT: Final = "next-"


@dataclass(frozen=True, slots=True)
class Succession:
    """The CA, and its successor if there is one."""

    authority: Authority
    successor: Authority | None = None

    @property
    def bundle(self) -> CABundle:
        """The trusted CAs, newest last."""
        return CABundle.of(each.certificate for each in (self.authority, self.successor) if each is not None)

    def signer(self, now: datetime) -> Authority:
        """The CA that signs leaves at `now`."""
        if self.successor is not None and now >= _signs_from(self.successor):
            return self.successor
        return self.authority

    def advanced(self, name: str, now: datetime) -> Self:
        """The content that the Secret needs at `now`; the same object if no step is due. `name`: of a new CA."""
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
        """Read the output of `to_secret_data`; raises CertificateError as `Authority.from_secret_data` does."""
        announced = any(entry.startswith(_NEXT) for entry in data)
        return cls(Authority.from_secret_data(data), Authority.from_secret_data(data, _NEXT) if announced else None)


def _signs_from(successor: Authority) -> datetime:
    """When the announcement of a successor ends, counted from its creation (the start of its validity)."""
    return successor.window.begin + CLOCK_SKEW + ANNOUNCEMENT
