"""ProvisioningRequests and their PodTemplates: where they are served, and how they are created and deleted.

Both are created by POST, never applied: an object that exists already is not changed. Both are deleted by their uid.
"""

from collections.abc import Awaitable
from dataclasses import replace
from typing import Final

from webhook.formats.autoscaling import GROUP, PLURAL, VERSIONS
from webhook.kube.api_errors import ClusterError
from webhook.kube.client import Client
from webhook.kube.discovery import Wanted
from webhook.kube.resource import Resource
from webhook.kube.write import LONGEST_REASON, WRITTEN, Write, write
from webhook.model.raw import Raw

PROVISIONING_REQUESTS: Final = Wanted(GROUP, PLURAL, VERSIONS)


class ProvisioningWrites:
    """Creates and deletes. What was to be deleted and is gone, or another object by now, counts as written."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, version: str, body: Raw) -> Write:
        """Create a request. version: the one that is served."""
        return await _tried(self._client.create(_requests(version, body["metadata"]["namespace"]), body))

    async def create_template(self, body: Raw) -> Write:
        """Create a PodTemplate."""
        return await _tried(self._client.create(_templates(body["metadata"]["namespace"]), body))

    async def delete(self, version: str, namespace: str, name: str, uid: str) -> Write:
        """Delete a request with this uid."""
        return await _gone(self._client.delete(f"{_requests(version, namespace)}/{name}", _only(uid)))

    async def delete_template(self, namespace: str, name: str, uid: str) -> Write:
        """Delete a PodTemplate with this uid."""
        return await _gone(self._client.delete(f"{_templates(namespace)}/{name}", _only(uid)))

    async def read_template(self, namespace: str, name: str) -> Raw | None:
        """A PodTemplate; None if there is none, or it cannot be read now."""
        try:
            return await self._client.get(f"{_templates(namespace)}/{name}")
        except ClusterError:
            return None


async def _tried(call: Awaitable[object]) -> Write:
    """The result, with a reason that the texts of pods can quote as a clause."""
    done = await write(call)
    if done.is_written:
        return done
    reason = done.reason if done.status else "no answer of the API server"
    if done.status == 403 and "exceeded quota" in done.error:
        reason = "a ResourceQuota of the namespace is used up"
    return replace(done, reason=reason[:LONGEST_REASON])


async def _gone(call: Awaitable[object]) -> Write:
    done = await _tried(call)
    return WRITTEN if done.is_settled else done


def _requests(version: str, namespace: str) -> str:
    return Resource(GROUP, version, PLURAL, namespace).path


def _templates(namespace: str) -> str:
    return Resource("", "v1", "podtemplates", namespace).path


def _only(uid: str) -> Raw:
    return {"preconditions": {"uid": uid}}
