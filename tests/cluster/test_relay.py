"""The relay gives connections to ready replicas in turn, and to no other."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.cluster.relay import Backend, relay

if TYPE_CHECKING:
    from collections.abc import Iterator


class Replica(ThreadingHTTPServer):
    """An HTTP server on one port that answers its name, or on /readyz whether it is ready."""

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.name = name
        self.ready = True

    @property
    def backend(self) -> Backend:
        return Backend(self.server_port, self.server_port)


class Answer(BaseHTTPRequestHandler):
    server: Replica

    def do_GET(self) -> None:
        ready = self.path != "/readyz" or self.server.ready
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(self.server.name.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def replicas() -> Iterator[list[Replica]]:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Replica(name)) for name in ("a", "b")]
        for server in servers:
            threading.Thread(target=server.serve_forever, args=(0.01,)).start()
            stack.callback(server.shutdown)
        yield servers


def ask(port: int) -> str:
    """The name of the replica that answered, "" when the connection was closed without an answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
        except ConnectionResetError:
            return ""
    return answer.rpartition(b"\r\n\r\n")[2].decode()


def ask_until(port: int, wanted: set[str]) -> set[str]:
    """The names of four answers in a row, asked again until they are as wanted or ten seconds have passed."""
    deadline = time.monotonic() + 10
    while (names := {ask(port) for _ in range(4)}) != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    return names


def test_connections_go_to_the_ready_replicas_in_turn(replicas: list[Replica]) -> None:
    with relay(lambda: [replica.backend for replica in replicas]) as port:
        assert ask_until(port, {"a", "b"}) == {"a", "b"}


def test_a_replica_that_is_not_ready_gets_none_until_it_is(replicas: list[Replica]) -> None:
    replicas[0].ready = False
    with relay(lambda: [replica.backend for replica in replicas]) as port:
        assert ask_until(port, {"b"}) == {"b"}
        replicas[0].ready = True
        assert ask_until(port, {"a", "b"}) == {"a", "b"}


def test_with_no_replica_ready_connections_are_closed() -> None:
    with relay(list) as port:
        assert not ask(port)


def test_a_replica_that_went_away_is_passed_over(replicas: list[Replica]) -> None:
    with relay(lambda: [replica.backend for replica in replicas]) as port:
        assert ask_until(port, {"a", "b"}) == {"a", "b"}
        replicas[1].shutdown()
        replicas[1].server_close()
        assert {ask(port) for _ in range(4)} == {"a"}
