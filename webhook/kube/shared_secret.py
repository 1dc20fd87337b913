"""A Secret that several replicas share and any of them may have to fill."""

from collections.abc import Mapping
from uuid import uuid4

import structlog

from webhook.kube.api_errors import APIError, ClusterError, MalformedAnswerError
from webhook.kube.client import Client
from webhook.kube.events import event_object
from webhook.model.raw import Raw
from webhook.version import DISTRIBUTION

log = structlog.get_logger(__name__)


class SharedSecret:
    """The `data` of one Secret. The first replica to fill it wins; the others read what it wrote."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
        # Each process is a separate manager: the API server accepts the first one and answers the others with a 409.
        self._manager = f"{DISTRIBUTION}-{uuid4()}"

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self._namespace}/{self._name}"

    async def read(self) -> Mapping[str, str]:
        """The current data (values in base64); empty if the Secret does not exist."""
        try:
            secret = await self._client.get(self._path)
        except APIError as error:
            if error.status == 404:
                return {}
            raise
        data = secret.get("data") or {}
        if not isinstance(data, dict):
            msg = f"GET {self._path}: the answer is not a Secret: its data is a {type(data).__name__}"
            raise MalformedAnswerError(msg)
        return data

    async def read_or_fill(self, data: Mapping[str, str]) -> Mapping[str, str]:
        """The current data, after writing `data` if the Secret was missing or empty.

        With server-side apply, which names the Secret: RBAC can limit apply to one name, but not a plain create.
        """
        found = await self.read()
        if found:
            return found
        try:
            await self._client.apply(self._path, self._manifest(data), self._manager)
        except APIError as error:
            if error.status != 409:
                raise
            # Another replica was faster. If the Secret is deleted again by now, our data is as good as any.
            return await self.read() or data
        log.info("secret.filled", secret=self.key)
        return data

    async def replace(self, expected: Mapping[str, str], data: Mapping[str, str]) -> Mapping[str, str]:
        """Write `data` in place of `expected`; return the data afterwards: another replica's if that was faster.

        Returns `expected` if the API server accepts no other data (an immutable Secret, or its type).
        """
        test_and_replace: list[Raw] = [
            {"op": "test", "path": "/data", "value": dict(expected)},
            {"op": "replace", "path": "/data", "value": dict(data)},
        ]
        try:
            await self._client.patch(self._path, test_and_replace)
        except APIError as error:
            if error.status not in {404, 422}:  # deleted, or the test failed
                raise
            return await self.read_or_fill(data)
        log.info("secret.replaced", secret=self.key)
        return data

    async def tell(self, reason: str, note: str) -> None:
        """Write an Event about the Secret, for people. A failure is logged."""
        regarding = {"apiVersion": "v1", "kind": "Secret", "namespace": self._namespace, "name": self._name}
        try:
            event = event_object(regarding, reason, note, "Replace", "Warning", self._manager)
            await self._client.create(f"/apis/events.k8s.io/v1/namespaces/{self._namespace}/events", event)
        except ClusterError as error:
            log.warning("event.failed", secret=self.key, reason=reason, error=str(error))

    def _manifest(self, data: Mapping[str, str]) -> Raw:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "data": dict(data),
        }
