"""X.509 life cycle of a webhook: CA, leaf, caBundle. Independent of the server that it secures.

All replicas share a CA. Each replica issues itself a short-lived leaf and keeps it in memory. Everything but `store`
is pure: the time is an argument, and nothing is read or written.
"""

from certs.authority import Authority
from certs.bundle import CABundle
from certs.leaf import Leaf
from certs.names import ServerNames
from certs.pem import CertificateError
from certs.store import client_context, read_leaf, server_context, write_atomically
from certs.succession import Succession
from certs.verify import Fault, FaultKind, check, faults
from certs.window import Window

__all__ = [
    "Authority",
    "CABundle",
    "CertificateError",
    "Fault",
    "FaultKind",
    "Leaf",
    "ServerNames",
    "Succession",
    "Window",
    "check",
    "client_context",
    "faults",
    "read_leaf",
    "server_context",
    "write_atomically",
]
