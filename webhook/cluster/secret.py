"""A Secret that several replicas share and any of them may have to create."""

from collections.abc import Mapping

import structlog

from webhook.cluster.client import Client
from webhook.cluster.errors import APIError
from webhook.cluster.resource import Raw

log = structlog.get_logger(__name__)


class SharedSecret:
    """The `data` of one Secret. Whoever creates it first wins; the others read what the winner wrote."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self._namespace}/{self._name}"

    async def read(self) -> Mapping[str, str] | None:
        """The data as it is now (values in base64); None when there is no such Secret."""
        try:
            secret = await self._client.get(f"{self._collection}/{self._name}")
        except APIError as error:
            if error.status == 404:
                return None
            raise
        return secret.get("data") or {}

    async def read_or_create(self, data: Mapping[str, str]) -> Mapping[str, str]:
        """The data as it is now, after creating the Secret with `data` where there was none."""
        found = await self.read()
        if found is not None:
            return found
        try:
            await self._client.create(self._collection, self._manifest(data))
        except APIError as error:
            if error.status != 409:
                raise
            # Another replica was faster. Should the Secret be gone again already, our data is as good as any.
            return await self.read() or data
        log.info("secret.created", secret=self.key)
        return data

    def _manifest(self, data: Mapping[str, str]) -> Raw:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "data": dict(data),
        }
