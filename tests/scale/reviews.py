"""Reviews as the API server sends them: over HTTPS, one connection for each that is open."""

from __future__ import annotations

import base64
import ssl
import time
from typing import TYPE_CHECKING

import aiohttp

from webhook.codec import dumps, loads
from webhook.formats.patches.json_patch import apply

if TYPE_CHECKING:
    from webhook.model.raw import Draft


class RefusedError(Exception):
    """The webhook did not allow the object."""


class Reviews:
    """Calls the webhooks, and keeps how long each call took."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.seconds: dict[str, list[float]] = {"pods": [], "bindings": []}
        self._session = session
        self._url = url

    async def create(self, pod: Draft) -> Draft:
        """The pod as the webhook changes it at its creation. Raises RefusedError."""
        return await self._call("pods", "Pod", "", "system:serviceaccount:kube-system:replicaset-controller", pod)

    async def bind(self, pod: Draft, node: str) -> dict[str, str]:
        """The annotations that the webhook gives to the Binding of a pod. Raises RefusedError."""
        metadata = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
        binding = {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": metadata,
            "target": {"kind": "Node", "name": node},
        }
        changed = await self._call("bindings", "Binding", "binding", "system:kube-scheduler", binding)
        annotations: dict[str, str] = changed["metadata"].get("annotations") or {}
        return annotations

    async def _call(self, path: str, kind: str, sub_resource: str, user: str, raw: Draft) -> Draft:
        metadata = raw["metadata"]
        request = {
            "uid": metadata["uid"],
            "kind": {"group": "", "version": "v1", "kind": kind},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": sub_resource,
            "operation": "CREATE",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "userInfo": {"username": user, "groups": ["system:authenticated"]},
            "object": raw,
            "dryRun": False,
        }
        body = dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
        began = time.monotonic()
        async with self._session.post(f"{self._url}/mutate/{path}?timeout=10s", data=body) as answer:
            text = await answer.read()
        self.seconds[path].append(time.monotonic() - began)
        if answer.status != 200:
            raise RefusedError(f"HTTP {answer.status}: {text[:200]!r}")
        response = loads(text)["response"]
        if not response["allowed"]:
            raise RefusedError(response["status"]["message"])
        if "patch" not in response:
            return raw
        changed: Draft = apply(raw, loads(base64.b64decode(response["patch"])))
        return changed


def session(connections: int) -> aiohttp.ClientSession:
    """A session for so many reviews at a time. The certificate is not verified: what is measured is the server."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {"Content-Type": "application/json"}
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=connections), headers=headers)
