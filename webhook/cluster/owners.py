"""The objects that own pods, by one GET each."""

from typing import Final

from webhook.cluster.client import Client
from webhook.cluster.errors import APIError
from webhook.cluster.resource import Raw, Resource

_GONE: Final = 404


async def read_owner(client: Client, api_version: str, kind: str, namespace: str, name: str) -> Raw | None:
    """The owner that a reference names; None when it is gone. Raises ClusterError.

    Its plural is that of every kind of workload in use: the kind in lower case with an s.
    """
    group, _, version = api_version.rpartition("/")
    collection = Resource(group, version, f"{kind.lower()}s", namespace).path
    try:
        return await client.get(f"{collection}/{name}")
    except APIError as error:
        if error.status == _GONE:
            return None
        raise
