"""KAI-Scheduler's PodGroups: the existing ones, and how one is written.

Written by server-side apply as `topology-webhook`, which creates a missing PodGroup and changes only our fields of an
existing one. If another manager owns a field with another value, it keeps it (409): we never fight over a PodGroup.
"""

from typing import Final

import structlog

from webhook.kube.api_errors import APIError, ClusterError
from webhook.kube.client import Client
from webhook.kube.discovery import Wanted
from webhook.kube.resource import Raw, Resource, key_of

log = structlog.get_logger(__name__)

POD_GROUPS: Final = Wanted("scheduling.run.ai", "podgroups", ("v2alpha2",))
_MANAGER: Final = "topology-webhook"


class PodGroups:
    """The existing PodGroups by namespace/name, fed by an informer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.known: dict[str, Raw] = {}

    def put(self, raw: Raw) -> None:
        """Add or replace a PodGroup."""
        self.known[key_of(raw)] = raw

    def drop(self, key: str) -> None:
        """Remove a PodGroup."""
        self.known.pop(key, None)

    async def apply(self, body: Raw) -> bool:
        """Apply a PodGroup with these fields; False if it was not written."""
        metadata = body["metadata"]
        resource = Resource(POD_GROUPS.group, POD_GROUPS.versions[0], POD_GROUPS.plural, metadata["namespace"])
        try:
            await self._client.apply(f"{resource.path}/{metadata['name']}", body, _MANAGER)
        except ClusterError as error:
            refused = isinstance(error, APIError) and error.status in {404, 409}
            report = log.debug if refused else log.warning
            report("podgroup.not_written", name=metadata["name"], namespace=metadata["namespace"], error=str(error))
            return False
        return True
