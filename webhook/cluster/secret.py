"""A Secret that several replicas share and any of them may have to fill."""

from collections.abc import Mapping

import structlog

from webhook.cluster.client import Client
from webhook.cluster.errors import APIError
from webhook.cluster.resource import Raw

log = structlog.get_logger(__name__)


class SharedSecret:
    """The `data` of one Secret: whoever fills it first wins, the others read what the winner wrote.

    A chart may have made the Secret without data, so that we need no right to create Secrets; else we create it.
    """

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"
        self._namespace = namespace
        self._name = name

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self._namespace}/{self._name}"

    async def read_or_fill(self, data: Mapping[str, str]) -> Mapping[str, str]:
        """The data as it is now (values in base64), after writing `data` where there was none."""
        attempts = 3
        while True:
            secret = await self._read()
            if secret is not None and secret.get("data"):
                found: Mapping[str, str] = secret["data"]
                return found
            try:
                await self._write(secret, data)
            except APIError as error:
                # 409: another replica was faster; 404: the Secret, or its namespace, was deleted. Look again.
                attempts -= 1
                if error.status not in {404, 409} or not attempts:
                    raise
            else:
                log.info("secret.filled", secret=self.key)
                return data

    async def _read(self) -> Raw | None:
        try:
            return await self._client.get(f"{self._collection}/{self._name}")
        except APIError as error:
            if error.status == 404:
                return None
            raise

    async def _write(self, empty: Raw | None, data: Mapping[str, str]) -> None:
        if empty is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            secret = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": dict(data)}
            await self._client.create(self._collection, secret)
        else:
            # With its resourceVersion the patch is refused (409) when somebody wrote in between.
            version = {"resourceVersion": empty["metadata"]["resourceVersion"]}
            await self._client.patch(f"{self._collection}/{self._name}", {"metadata": version, "data": dict(data)})
