"""How many connections a port has, how many bytes of unfinished requests they hold, and who goes when it is too much.

The address that uses most pays. If a full port refused newcomers, any client could keep the API server out by opening
enough connections. So room is made instead:
- too many connections: of the source address that has most of them, the one that is least worth keeping (see `Phase`);
- too many bytes: of the source address that holds most of them, the request that has been coming for longest.
An API server sends a request in one go and has few connections: it is hit only where it shares an address with the
attacker, and then last, for its requests are complete within milliseconds.

A connection that waits for our answer stays. Where nothing else is left to close, a newcomer is refused.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final


class Phase(IntEnum):
    """What a connection does; the lower, the sooner it goes."""

    HANDSHAKE = 0
    """TLS is not established, and the client is not known where it has to be."""
    READING = 1
    """Part of a request has come."""
    IDLE = 2
    """Nothing has come since the last answer."""
    ANSWERING = 3
    """A request is complete, and its answer is not."""


class Closed(Enum):
    """Why a connection was closed by us, as metrics name it, and in words."""

    HANDSHAKE = "handshake", "its TLS handshake failed or did not end in time"
    SLOW_REQUEST = "slow-request", "its request did not come in time"
    SLOW_READER = "slow-reader", "it did not read its answer in time"
    TOO_MANY = "too-many-connections", "the port has too many connections, and this address has most of them"
    TOO_MUCH = "too-many-bytes", "unfinished requests hold too much memory, and this address holds most of it"

    def __init__(self, code: str, sentence: str) -> None:
        self.code: Final = code
        self.sentence: Final = sentence


# As a rule the first source has a connection to close; it has none only while all of them wait for answers.
_LOOKED_AT: Final = 3


class Connection(ABC):
    """One connection, as far as it takes room."""

    __slots__ = ("held", "phase", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.phase = Phase.HANDSHAKE
        self.held = 0
        """Bytes of its unfinished request."""

    @abstractmethod
    def close(self, why: Closed) -> None:
        """End it at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one port takes at most."""

    connections: int
    bytes: int
    """Of unfinished requests, all together."""


class Connections:
    """The connections of one port."""

    def __init__(self, limits: Limits, closed: Callable[[Closed, str], None]) -> None:
        """Closed: called for each connection that we close, with the reason and the source address."""
        self._limits = limits
        self._closed = closed
        # Of each source, by phase, in the order in which they entered it: the first one is the oldest.
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
        """Take a newcomer in; False where it has to go at once, because there is nothing else to close."""
        source = connection.source
        self._of.setdefault(source, tuple({} for _ in Phase))[connection.phase][connection] = None
        self._count[source] += 1
        self._total += 1
        if self._total <= self._limits.connections:
            return True
        # The newcomer is the last to be closed of its own source, and the source that has most may be another one.
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
        """The connection goes on to another phase; it holds what it held, but nothing once its request is complete."""
        phases = self._of.get(connection.source)
        if phases is None or connection not in phases[connection.phase]:
            return  # closed meanwhile
        del phases[connection.phase][connection]
        connection.phase = phase
        phases[phase][connection] = None
        if phase is not Phase.READING:
            self._hold(connection, -connection.held)

    def take(self, connection: Connection, size: int) -> None:
        """So many bytes of the connection's request have come."""
        self._hold(connection, size)
        while self._total_held > self._limits.bytes:
            most = max(self._held, key=self._held.__getitem__)
            oldest = next(iter(self._of[most][Phase.READING]), None)
            if oldest is None:
                return
            self.close(oldest, Closed.TOO_MUCH)

    def close(self, connection: Connection, why: Closed) -> None:
        """End a connection."""
        self.remove(connection)
        self._closed(why, connection.source)
        connection.close(why)

    def remove(self, connection: Connection) -> None:
        """The connection has ended, on either side."""
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
