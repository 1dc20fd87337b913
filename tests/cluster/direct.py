"""Sends reviews directly to a replica's port, without the API server and the Services."""

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
    """TLS without verification of the server. client: the certificate to show."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if client is not None:
        context.load_cert_chain(*client)
    return context


def binding_review(namespace: str, name: str, node: str, *, dry_run: bool = False, uid: str = "") -> dict[str, Any]:
    """The review that the API server would send for the scheduler's Binding. uid: of the pod; empty if unknown."""
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
    """`allowed`, the reason of a denial, or an HTTP code. Raises `OSError` if there is no answer.

    client: the certificate to show if the replica asks for one.
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
