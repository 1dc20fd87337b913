"""KAI-Scheduler's PodGroups: the existing ones, and how one is written.

Written by server-side apply as `topology-webhook`, which creates a missing PodGroup and changes only our fields of an
existing one. If another manager owns a field with another value, it keeps it (409): we never fight over a PodGroup.
"""

from typing import Final

import structlog

from webhook.kube.client import Client
from webhook.kube.discovery import Wanted
from webhook.kube.resource import Resource, key_of
from webhook.kube.write import Write, write
from webhook.model.raw import Raw

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

    async def apply(self, body: Raw) -> Write:
        """Apply a PodGroup with these fields."""
        metadata = body["metadata"]
        resource = Resource(POD_GROUPS.group, POD_GROUPS.versions[0], POD_GROUPS.plural, metadata["namespace"])
        done = await write(self._client.apply(f"{resource.path}/{metadata['name']}", body, _MANAGER))
        if not done.is_written:
            report = log.debug if done.is_settled else log.warning
            report("podgroup.not_written", name=metadata["name"], namespace=metadata["namespace"], error=done.error)
        return done
