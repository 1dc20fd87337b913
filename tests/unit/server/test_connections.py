"""Which connection is closed when a port has too many, or when unfinished requests hold too much memory."""

import pytest

from webhook.server.listener import Closed, Connection, Connections, Limits, Phase


class Named(Connection):
    __slots__ = ("closed", "name")

    def __init__(self, name: str) -> None:
        super().__init__(name.partition("-")[0])
        self.name = name
        self.closed: Closed | None = None

    def close(self, why: Closed) -> None:
        self.closed = why


class Port:
    """A port with at most four connections and 100 bytes. Connections are named source-number."""

    def __init__(self) -> None:
        self.told: list[tuple[Closed, str]] = []
        self.connections = Connections(Limits(4, 100), lambda why, source: self.told.append((why, source)))
        self.by_name: dict[str, Named] = {}

    def come(self, *names: str, phase: Phase = Phase.HANDSHAKE) -> bool:
        for name in names:
            connection = self.by_name[name] = Named(name)
            if not self.connections.admit(connection):
                return False
            self.connections.enter(connection, phase)
        return True

    def enter(self, name: str, phase: Phase) -> None:
        self.connections.enter(self.by_name[name], phase)

    def take(self, name: str, size: int) -> None:
        self.connections.take(self.by_name[name], size)

    @property
    def closed(self) -> list[str]:
        return [name for name, connection in self.by_name.items() if connection.closed]


@pytest.fixture
def port() -> Port:
    return Port()


def test_of_the_address_that_has_most_the_one_goes_that_is_least_worth_keeping(port: Port) -> None:
    assert port.come("b-1", "a-1", "a-2", "a-3")
    port.enter("a-1", Phase.READING)
    port.enter("a-2", Phase.IDLE)
    for name, victim in (("c-1", "a-3"), ("c-2", "a-1"), ("b-2", "b-1")):
        assert port.come(name)
        assert port.closed[-1:] == [victim] or victim in port.closed
    assert set(port.told) == {(Closed.TOO_MANY, "a"), (Closed.TOO_MANY, "b")}
    assert len(port.connections) == 4


def test_the_oldest_goes_first_and_a_newcomer_is_no_older_than_itself(port: Port) -> None:
    assert port.come("a-1", "a-2", "a-3", "a-4", "a-5", "a-6")
    assert port.closed == ["a-1", "a-2"]


def test_one_connection_of_another_address_is_safe_however_many_come(port: Port) -> None:
    port.come("good-1", phase=Phase.IDLE)
    port.come(*(f"bad-{number}" for number in range(100)))
    assert not port.by_name["good-1"].closed
    assert len(port.connections) == 4


def test_who_waits_for_an_answer_stays_and_newcomers_are_refused_only_then(port: Port) -> None:
    port.come("a-1", "a-2", "a-3", "b-1", phase=Phase.ANSWERING)
    assert not port.come("a-4")
    assert not port.come("c-1")
    assert port.closed == []
    port.enter("a-2", Phase.IDLE)
    assert port.come("c-2")
    assert port.closed == ["a-2"]


def test_of_the_address_that_holds_most_the_oldest_unfinished_request_goes(port: Port) -> None:
    port.come("a-1", "a-2", "b-1", phase=Phase.READING)
    port.take("a-2", 40)
    port.take("a-1", 20)
    port.take("b-1", 40)
    assert port.closed == []
    port.take("b-1", 1)
    assert (port.closed, port.connections.held) == (["a-1"], 81)
    assert port.told == [(Closed.TOO_MUCH, "a")]


def test_a_request_that_is_complete_holds_nothing(port: Port) -> None:
    port.come("a-1", "a-2", phase=Phase.READING)
    port.take("a-1", 90)
    port.enter("a-1", Phase.ANSWERING)
    port.take("a-2", 90)
    assert (port.closed, port.connections.held) == ([], 90)
    port.connections.remove(port.by_name["a-2"])
    port.connections.remove(port.by_name["a-2"])
    assert (port.connections.held, len(port.connections)) == (0, 1)
