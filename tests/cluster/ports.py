"""Free loopback ports that no other program can take before their server binds them.

The usual way (bind port 0, close, hand the number on) is a race. Here the socket stays bound, with SO_REUSEPORT and
without listening; the server binds beside it with the same option (`--permit-port-sharing`, `--socket-reuse-port`), and
the kernel gives the port to no other user while the socket is open. A socket that does not listen gets no connections.
"""

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """`count` distinct ports of 127.0.0.1, kept for servers that bind with SO_REUSEPORT."""
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        for _ in range(count):
            holder = stack.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            holder.bind(("127.0.0.1", 0))
            ports.append(holder.getsockname()[1])
        yield ports


def free_port() -> int:
    """A port that was free a moment ago, for a server that cannot share: the caller tries again if it was taken."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
