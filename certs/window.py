"""The validity period of a certificate, and when to renew it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from cryptography import x509

# How far an API server's clock may be behind ours and still accept a new certificate.
CLOCK_SKEW: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Window:
    """Validity from `begin` to `end`, both included, in UTC with X.509's resolution of one second."""

    begin: datetime
    end: datetime

    @classmethod
    def starting(cls, now: datetime, lifetime: timedelta) -> Self:
        """A window of `lifetime` from `now`, started earlier by the clock skew. `now` must have a time zone."""
        start = now.astimezone(UTC).replace(microsecond=0)
        return cls(start - CLOCK_SKEW, start + lifetime)

    @classmethod
    def of(cls, certificate: x509.Certificate) -> Self:
        """The window of a certificate."""
        return cls(certificate.not_valid_before_utc, certificate.not_valid_after_utc)

    def within(self, outer: "Window") -> "Window":
        """The part of the window within `outer`."""
        return Window(max(self.begin, outer.begin), min(self.end, outer.end))

    def contains(self, now: datetime) -> bool:
        """Whether a certificate with this window is valid at `now`."""
        return self.begin <= now <= self.end

    @property
    def renew_at(self) -> datetime:
        """When to renew the certificate: after two thirds of its life, so that a third remains for failed attempts."""
        return self.begin + (self.end - self.begin) * 2 / 3

    def __str__(self) -> str:
        return f"from {self.begin:%Y-%m-%dT%H:%M:%SZ} to {self.end:%Y-%m-%dT%H:%M:%SZ}"
