"""Limits of a port: the number of connections, the bytes of unfinished requests, and what to close above the limit.

The source address that uses most loses a connection. If a full port rejected new connections instead, any client
could lock out the API server by opening enough of them:
- too many connections: the address with most of them loses the least valuable one (see `Phase`);
- too many bytes: the address that holds most of them loses its oldest unfinished request.
An API server sends a request at once and has few connections. It is affected only if it shares an address with the
attacker, and then last, because its requests are complete within milliseconds.

A connection that waits for our answer is never closed. If there is nothing else to close, a new one is rejected.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final


class Phase(IntEnum):
    """What a connection is doing; the lowest phase is closed first."""

    HANDSHAKE = 0
    """TLS is not established, or a required client certificate is not verified yet."""
    READING = 1
    """A request is partly received."""
    IDLE = 2
    """Nothing was received since the last answer."""
    ANSWERING = 3
    """A request is received completely, but not answered."""


class Closed(Enum):
    """Why we closed a connection: the label in metrics, and a sentence."""

    HANDSHAKE = "handshake", "its TLS handshake failed or did not end in time"
    SLOW_REQUEST = "slow-request", "its request did not come in time"
    SLOW_READER = "slow-reader", "it did not read its answer in time"
    TOO_MANY = "too-many-connections", "the port has too many connections, and this address has most of them"
    TOO_MUCH = "too-many-bytes", "unfinished requests hold too much memory, and this address holds most of it"

    def __init__(self, code: str, sentence: str) -> None:
        self.code: Final = code
        self.sentence: Final = sentence


# Usually the first address has a connection to close. It has none only while all of them wait for answers.
_LOOKED_AT: Final = 3


class Connection(ABC):
    """One connection and its share of the limits."""

    __slots__ = ("held", "phase", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.phase = Phase.HANDSHAKE
        self.held = 0
        """Bytes of its unfinished request."""

    @abstractmethod
    def close(self, why: Closed) -> None:
        """Close it at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one port."""

    connections: int
    bytes: int
    """Bytes of all unfinished requests together."""


class Connections:
    """The connections of one port."""

    def __init__(self, limits: Limits, closed: Callable[[Closed, str], None]) -> None:
        """closed: called for each connection that we close, with the reason and the source address."""
        self._limits = limits
        self._closed = closed
        # For each address and phase, in the order in which they entered it: the first one is the oldest.
        self._of: dict[str, tuple[dict[Connection, None], ...]] = {}
        self._count: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._total = self._total_held = 0

    def __len__(self) -> int:
        return self._total

    @property
    def held(self) -> int:
        """Bytes of unfinished requests."""
        return self._total_held

    def admit(self, connection: Connection) -> bool:
        """Add a connection; False if it must be closed at once because nothing else can be."""
        source = connection.source
        self._of.setdefault(source, tuple({} for _ in Phase))[connection.phase][connection] = None
        self._count[source] += 1
        self._total += 1
        if self._total <= self._limits.connections:
            return True
        # The new connection is the last candidate of its own address, and another address may have more.
        for most, _ in self._count.most_common(_LOOKED_AT):
            for phase in (Phase.HANDSHAKE, Phase.READING, Phase.IDLE):
                oldest = next(iter(self._of[most][phase]), None)
                if oldest is connection:
                    continue
                if oldest is not None:
                    self.close(oldest, Closed.TOO_MANY)
                    return True
            if most == source:
                break
        self.remove(connection)
        self._closed(Closed.TOO_MANY, source)
        return False

    def enter(self, connection: Connection, phase: Phase) -> None:
        """Move the connection to another phase. Its bytes stay counted until its request is complete."""
        phases = self._of.get(connection.source)
        if phases is None or connection not in phases[connection.phase]:
            return  # closed in the meantime
        del phases[connection.phase][connection]
        connection.phase = phase
        phases[phase][connection] = None
        if phase is not Phase.READING:
            self._hold(connection, -connection.held)

    def take(self, connection: Connection, size: int) -> None:
        """Count bytes received for the connection's request."""
        self._hold(connection, size)
        while self._total_held > self._limits.bytes:
            most = max(self._held, key=self._held.__getitem__)
            oldest = next(iter(self._of[most][Phase.READING]), None)
            if oldest is None:
                return
            self.close(oldest, Closed.TOO_MUCH)

    def close(self, connection: Connection, why: Closed) -> None:
        """Close a connection."""
        self.remove(connection)
        self._closed(why, connection.source)
        connection.close(why)

    def remove(self, connection: Connection) -> None:
        """The connection was closed by either side."""
        source = connection.source
        phases = self._of.get(source)
        if phases is None or connection not in phases[connection.phase]:
            return
        self._hold(connection, -connection.held)
        del phases[connection.phase][connection]
        self._total -= 1
        self._count[source] -= 1
        if not self._count[source]:
            del self._of[source], self._count[source]

    def _hold(self, connection: Connection, size: int) -> None:
        source = connection.source
        connection.held += size
        self._held[source] += size
        self._total_held += size
        if not self._held[source]:
            del self._held[source]
