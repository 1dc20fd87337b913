"""The part of a kubelet's own HTTPS server that koordlet reads: the pods of the node, and the kubelet's configuration.

The simulated kubelets have none, so this answers for them: with the pods that are bound to the machine in the API
server, and with what the machine is configured with. The Node then says where it listens.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.cluster.pki import Servers
from tests.cluster.real_kubelets import kubelet_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import SimulatedMachine

LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def kubelet_server(plane: ControlPlane, machine: SimulatedMachine, folder: Path) -> Iterator[None]:
    """Serve for one machine. folder: where its certificate is written."""
    answers: dict[str, Callable[[], Any]] = {
        "/pods/": lambda: plane.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName={machine.name}"),
        "/configz": lambda: {"kubeletconfig": kubelet_config(machine)},
    }
    pair = Servers(folder).issue("kubelet")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server = ThreadingHTTPServer((LOOPBACK, 0), _handler(answers))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        listening = {
            "addresses": [{"type": "InternalIP", "address": LOOPBACK}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_port}},
        }
        plane.api.patch(f"/api/v1/nodes/{machine.name}/status", {"status": listening})
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(answers: Mapping[str, Callable[[], Any]]) -> type[BaseHTTPRequestHandler]:
    class KubeletHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path)
            body = json.dumps(answer()).encode() if answer else b""
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: its client logs what fails."""

    return KubeletHandler
