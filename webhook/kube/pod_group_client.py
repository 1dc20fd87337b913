"""KAI-Scheduler's PodGroups: what there is of them, and writing one.

By server-side apply as `topology-webhook`: made where there is none, and of one that is there only what we say is
written. What another manager says otherwise is left to it (409): nobody fights over a PodGroup.
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
    """The PodGroups there are, by namespace/name, as an informer gives them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.known: dict[str, Raw] = {}

    def put(self, raw: Raw) -> None:
        """It is there, or has changed."""
        self.known[key_of(raw)] = raw

    def drop(self, key: str) -> None:
        """It is gone."""
        self.known.pop(key, None)

    async def apply(self, body: Raw) -> bool:
        """Have a PodGroup say this; False when it was not written."""
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
