"""PodGroups of KAI-Scheduler and of Kubernetes itself: where they are served, and how we write to them.

- KAI-Scheduler's are written by server-side apply as `topology-webhook`, which creates a missing PodGroup and changes
  only our fields of an existing one. If another manager owns a field with another value, it keeps it (409): we never
  fight over a PodGroup.
- To Kubernetes' own (`scheduling.k8s.io`) we only write conditions.
"""

from typing import Final

import structlog

from webhook.formats.kubernetes.native_pod_group import CONDITION_TYPES
from webhook.kube.client import Client
from webhook.kube.discovery import Wanted
from webhook.kube.resource import Resource, key_of
from webhook.kube.write import Write, write
from webhook.model.raw import Raw

log = structlog.get_logger(__name__)

NATIVE_POD_GROUPS: Final = Wanted("scheduling.k8s.io", "podgroups", tuple(CONDITION_TYPES))


class NativePodGroupWrites:
    """Writes conditions of Kubernetes' own PodGroups."""

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


POD_GROUPS: Final = Wanted("scheduling.run.ai", "podgroups", ("v2alpha2",))
_MANAGER: Final = "topology-webhook"


class PodGroups:
    """KAI-Scheduler's PodGroups that exist, by namespace/name, fed by an informer."""

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
