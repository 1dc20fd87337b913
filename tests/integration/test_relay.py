"""The relay connects to its current endpoints in turn, and to no others."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.cluster.relay import relay

if TYPE_CHECKING:
    from collections.abc import Iterator


class Replica(ThreadingHTTPServer):
    """An HTTP server that answers with its name."""

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), ReplicaAnswer)
        self.name = name


class ReplicaAnswer(BaseHTTPRequestHandler):
    server: Replica

    def do_GET(self) -> None:
        self.send_response(200)
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
    """The name of the replica that answered; "" if the connection was closed without an answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
        except ConnectionResetError:
            return ""
    return answer.rpartition(b"\r\n\r\n")[2].decode()


def ports(replicas: list[Replica]) -> list[int]:
    return [replica.server_port for replica in replicas]


def test_connections_go_to_the_endpoints_in_turn(replicas: list[Replica]) -> None:
    with relay(lambda: ports(replicas)) as port:
        assert sorted(ask(port) for _ in range(4)) == ["a", "a", "b", "b"]


def test_a_connection_goes_to_an_endpoint_of_its_moment(replicas: list[Replica]) -> None:
    endpoints = ports(replicas[:1])
    with relay(lambda: endpoints) as port:
        assert {ask(port) for _ in range(4)} == {"a"}
        endpoints[:] = ports(replicas[1:])
        assert {ask(port) for _ in range(4)} == {"b"}


def test_with_no_endpoint_connections_are_closed() -> None:
    with relay(list) as port:
        assert not ask(port)


def test_an_endpoint_that_went_away_is_passed_over(replicas: list[Replica]) -> None:
    with relay(lambda: ports(replicas)) as port:
        replicas[1].shutdown()
        replicas[1].server_close()
        assert {ask(port) for _ in range(4)} == {"a"}


def test_a_connection_that_one_side_breaks_off_is_broken_off_on_the_other() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        relay(lambda: [server.getsockname()[1]]) as port,
        socket.create_connection(("127.0.0.1", port), timeout=5) as client,
    ):
        accepted, _ = server.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close() sends RST
        client.sendall(b"half a requ")
        assert accepted.recv(4096)
        accepted.close()
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(4096) == b""
