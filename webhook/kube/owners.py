"""The objects that own pods, each read with one GET."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import quote

from webhook.formats.kubernetes.owner_chain import check_owner, owner_above
from webhook.formats.kubernetes.pod import Owner
from webhook.kube.api_errors import APIError
from webhook.kube.client import Client
from webhook.kube.resource import Resource
from webhook.model.raw import Raw

ReadOwner = Callable[[str, Owner], Awaitable[Raw | None]]
"""(namespace, reference) -> the object; None if it cannot be read. Raises ClusterError, UserError."""

DEEPEST: Final = 8
"""The most owners of one pod that are read. The longest chain in use is worker Pod -> StatefulSet -> leader Pod ->
StatefulSet -> LeaderWorkerSet.
"""

# It is deleted, or it is of a kind that we may not read.
_NOT_TO_BE_HAD: Final = frozenset({403, 404})


async def read_chain(read: ReadOwner, namespace: str, owner: Owner) -> list[Raw]:
    """The objects from `owner` upwards that can be read. Raises ClusterError, UserError."""
    chain: list[Raw] = []
    above: Owner | None = owner
    while above is not None and len(chain) < DEEPEST:
        raw = await read(namespace, above)
        if raw is None:
            break
        chain.append({**raw, "apiVersion": above.api_version, "kind": above.kind})
        above = owner_above(raw)
    return chain


async def read_owner(client: Client, namespace: str, owner: Owner) -> Raw | None:
    """The object in `namespace` that a reference names.

    None if it is deleted, replaced by another one of the same name, or not readable for us. Raises ClusterError, and
    UserError for a reference that names no object. Its plural is the kind in lower case with an s, as for every kind of
    workload in use.
    """
    check_owner(owner)
    group, _, version = owner.api_version.rpartition("/")
    collection = Resource(quote(group, safe=""), version, f"{quote(owner.kind.lower(), safe='')}s", namespace).path
    try:
        raw = await client.get(f"{collection}/{quote(owner.name, safe='')}")
    except APIError as error:
        if error.status in _NOT_TO_BE_HAD:
            return None
        raise
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    found = metadata.get("namespace"), metadata.get("name"), metadata.get("uid")
    return raw if found == (namespace, owner.name, owner.uid) else None
