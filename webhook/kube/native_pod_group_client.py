"""Kubernetes' own PodGroups (`scheduling.k8s.io`): where they are served, and how a condition is written."""

from typing import Final

import structlog

from webhook.formats.kubernetes.native_pod_group import CONDITION_TYPES
from webhook.kube.client import Client
from webhook.kube.discovery import Wanted
from webhook.kube.resource import Resource
from webhook.kube.write import Write, write
from webhook.model.raw import Raw

log = structlog.get_logger(__name__)

NATIVE_POD_GROUPS: Final = Wanted("scheduling.k8s.io", "podgroups", tuple(CONDITION_TYPES))


class NativePodGroupWrites:
    """Writes conditions."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def set_condition(self, key: str, version: str, condition: Raw) -> Write:
        """Set a condition of the PodGroup namespace/name. Other conditions stay."""
        namespace, _, name = key.partition("/")
        resource = Resource(NATIVE_POD_GROUPS.group, version, NATIVE_POD_GROUPS.plural, namespace)
        # Conditions of a built-in kind are merged by type.
        body = {"status": {"conditions": [condition]}}
        done = await write(self._client.merge(f"{resource.path}/{name}/status", body))
        if not done.is_written:
            report = log.debug if done.is_settled else log.warning
            report("native_podgroup.not_written", podgroup=key, error=done.error)
        return done
