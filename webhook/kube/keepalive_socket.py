"""TCP keepalive, by which a watch notices a peer that has vanished."""

import socket
from typing import Any, Final

# After 30 s of silence the connection is probed, and closed 3 x 5 s later: a vanished API server is detected in 45 s.
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


def keepalive_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that detects a peer that vanished without closing the connection."""
    family, kind, protocol = address[0], address[1], address[2]
    connection = socket.socket(family, kind, protocol)
    connection.setblocking(False)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):  # macOS names some of them differently
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return connection
