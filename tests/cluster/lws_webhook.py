"""The pod webhook of LeaderWorkerSet: it labels pods with the number at the end of their name.

A webhook of its own, as upstream has it. A MutatingAdmissionPolicy would be shorter, but is stable since 1.36 only. The
API server calls webhooks in the order of their configurations' names: this one before `topology-webhook`.

Source: lws pkg/webhooks/pod_webhook.go.
"""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tests.cluster.pki import Servers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

LWS = "leaderworkerset.sigs.k8s.io"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@contextlib.contextmanager
def pod_webhook_of_lws(plane: ControlPlane) -> Iterator[None]:
    """Label pods with the number at the end of their name: the group's index for a leader, its own for a worker."""
    with TemporaryDirectory() as folder, ThreadingHTTPServer(("127.0.0.1", 0), _Reviews) as server:
        servers = Servers(Path(folder) / "pki")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*servers.issue("lws"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"https://127.0.0.1:{server.server_port}/"
        plane.api.create(CONFIGURATIONS, _configuration(url, servers.ca.read_bytes()))
        try:
            plane.wait_for("the webhook of LeaderWorkerSet", lambda: f"{LWS}/worker-index" in _labels_of_a_pod(plane))
            yield
        finally:
            plane.api.delete(f"{CONFIGURATIONS}/lws")
            server.shutdown()


class _Reviews(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        patch = base64.b64encode(json.dumps([_operation(request["object"])]).encode()).decode()
        response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch}
        body = json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


def _operation(pod: dict[str, Any]) -> dict[str, str]:
    """The label of one pod: a leader comes with the index 0 among the workers."""
    label = f"{LWS}/group-index" if f"{LWS}/worker-index" in pod["metadata"]["labels"] else f"{LWS}/worker-index"
    number = pod["metadata"]["name"].rpartition("-")[2]
    return {"op": "add", "path": "/metadata/labels/" + label.replace("/", "~1"), "value": number}


def _configuration(url: str, ca: bytes) -> dict[str, Any]:
    webhook = {
        "name": f"pods.{LWS}",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "matchConditions": [{"name": "lws", "expression": f"'{LWS}/name' in object.?metadata.labels.orValue({{}})"}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": "lws"}, "webhooks": [webhook]}


def _labels_of_a_pod(plane: ControlPlane) -> dict[str, str]:
    """The labels that a pod would get now."""
    metadata = {"name": "w-7", "labels": {f"{LWS}/name": "w"}}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    created = plane.api.create("/api/v1/namespaces/default/pods?dryRun=All", pod)
    return dict(created["metadata"]["labels"])
