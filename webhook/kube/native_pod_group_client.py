"""Kubernetes' own PodGroups (`scheduling.k8s.io`): where they are served, and how a condition is written."""

from typing import Final

import structlog

from webhook.formats.kubernetes.native_pod_group import CONDITION_TYPES
from webhook.kube.api_errors import APIError, ClusterError
from webhook.kube.client import Client
from webhook.kube.discovery import Wanted
from webhook.kube.resource import Raw, Resource

log = structlog.get_logger(__name__)

NATIVE_POD_GROUPS: Final = Wanted("scheduling.k8s.io", "podgroups", tuple(CONDITION_TYPES))


class NativePodGroupWrites:
    """Writes conditions."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def set_condition(self, key: str, version: str, condition: Raw) -> bool:
        """Set a condition of the PodGroup namespace/name; False if it was not written. Other conditions stay."""
        namespace, _, name = key.partition("/")
        resource = Resource(NATIVE_POD_GROUPS.group, version, NATIVE_POD_GROUPS.plural, namespace)
        try:
            # Conditions of a built-in kind are merged by type.
            await self._client.merge(f"{resource.path}/{name}/status", {"status": {"conditions": [condition]}})
        except ClusterError as error:
            refused = isinstance(error, APIError) and error.status in {404, 409}
            report = log.debug if refused else log.warning
            report("native_podgroup.not_written", podgroup=key, error=str(error))
            return False
        return True
