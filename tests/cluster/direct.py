"""Reviews that come straight to a replica's port, past the API server and the Services."""

from __future__ import annotations

import json
import ssl
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

if TYPE_CHECKING:
    from tests.cluster.pki import KeyPair

ANSWER_SECONDS = 30.0


def unverified(client: KeyPair | None = None) -> ssl.SSLContext:
    """For a caller who does not mind whom he speaks to; `client`: the certificate that he shows."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if client is not None:
        context.load_cert_chain(*client)
    return context


def binding_review(namespace: str, name: str, node: str, *, dry_run: bool = False, uid: str = "") -> dict[str, Any]:
    """What the API server would ask of the scheduler's Binding of a pod to a node. `uid`: of the pod, where known."""
    metadata = {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})}
    return {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Binding"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "binding",
        "name": name,
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": "system:kube-scheduler"},
        "dryRun": dry_run,
        "object": {"metadata": metadata, "target": {"kind": "Node", "name": node}},
    }


def ask(port: int, path: str, request: dict[str, Any], client: KeyPair | None = None) -> str:
    """`allowed`, the reason of a denial, or an HTTP code. Raises `OSError` when nobody answers.

    client: what is shown where a client certificate is asked for.
    """
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    call = urllib.request.Request(
        f"https://127.0.0.1:{port}{path}?timeout={ANSWER_SECONDS:.0f}s",
        body.encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(call, context=unverified(client), timeout=ANSWER_SECONDS) as answer:  # noqa: S310 - our own https URL
            response = json.load(answer)["response"]
    except HTTPError as error:
        return str(error.code)
    return "allowed" if response["allowed"] else str(response["status"]["reason"])
