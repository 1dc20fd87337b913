"""ProvisioningRequests and their PodTemplates: where they are served, and how they are created and deleted.

Both are created by POST, never applied: an object that exists already is not changed. Both are deleted by their uid.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.formats.autoscaling.provisioning_request import GROUP, PLURAL, VERSIONS
from webhook.kube.api_errors import APIError, ClusterError
from webhook.kube.client import Client
from webhook.kube.discovery import Wanted
from webhook.kube.resource import Raw, Resource

PROVISIONING_REQUESTS: Final = Wanted(GROUP, PLURAL, VERSIONS)
# As in a pod's writes (`pod_writes`): a webhook that denies a request may give any reason.
_LONGEST_REASON: Final = 64


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an object was not created or deleted."""

    why: str
    """One clause, without the API server's message: that may quote other tenants' objects."""
    status: int = 0
    """The HTTP status; 0 without an answer. 409 at a creation: an object of this name is there."""
    error: str = ""
    """The whole error, for the log."""


class ProvisioningWrites:
    """Creates and deletes; None means that it was done."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, version: str, body: Raw) -> Refusal | None:
        """Create a request. version: the one that is served."""
        return await self._tried(self._client.create(_requests(version, body["metadata"]["namespace"]), body))

    async def create_template(self, body: Raw) -> Refusal | None:
        """Create a PodTemplate."""
        return await self._tried(self._client.create(_templates(body["metadata"]["namespace"]), body))

    async def delete(self, version: str, namespace: str, name: str, uid: str) -> Refusal | None:
        """Delete a request with this uid."""
        return _unless_gone(
            await self._tried(self._client.delete(f"{_requests(version, namespace)}/{name}", _only(uid)))
        )

    async def delete_template(self, namespace: str, name: str, uid: str) -> Refusal | None:
        """Delete a PodTemplate with this uid."""
        return _unless_gone(await self._tried(self._client.delete(f"{_templates(namespace)}/{name}", _only(uid))))

    async def read_template(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """A PodTemplate; None if there is none, or it cannot be read now."""
        try:
            return await self._client.get(f"{_templates(namespace)}/{name}")
        except ClusterError:
            return None

    async def _tried(self, call: Any) -> Refusal | None:
        try:
            await call
        except APIError as error:
            quota = error.status == 403 and "exceeded quota" in str(error)
            why = "a ResourceQuota of the namespace is used up" if quota else f"{error.status} {error.reason}"
            return Refusal(why[:_LONGEST_REASON], error.status, str(error))
        except ClusterError as error:
            return Refusal("no answer of the API server", error=str(error))
        return None


def _unless_gone(refusal: Refusal | None) -> Refusal | None:
    """What was to be deleted is gone if there is none, or another one."""
    return None if refusal is not None and refusal.status in {404, 409} else refusal


def _requests(version: str, namespace: str) -> str:
    return Resource(GROUP, version, PLURAL, namespace).path


def _templates(namespace: str) -> str:
    return Resource("", "v1", "podtemplates", namespace).path


def _only(uid: str) -> Raw:
    return {"preconditions": {"uid": uid}}
