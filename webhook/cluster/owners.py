"""The objects that own pods, by one GET each."""

from typing import Final

from webhook.cluster.client import Client
from webhook.cluster.errors import APIError
from webhook.cluster.resource import Raw, Resource

# It is gone; it is of a kind that we may not read, and so are all objects of that kind.
_NOT_TO_BE_HAD: Final = frozenset({403, 404})


async def read_owner(client: Client, api_version: str, kind: str, namespace: str, name: str) -> Raw | None:
    """The owner that a reference names; None when it is gone, or not for us to read. Raises ClusterError.

    Its plural is that of every kind of workload in use: the kind in lower case with an s.
    """
    group, _, version = api_version.rpartition("/")
    collection = Resource(group, version, f"{kind.lower()}s", namespace).path
    try:
        return await client.get(f"{collection}/{name}")
    except APIError as error:
        if error.status in _NOT_TO_BE_HAD:
            return None
        raise
