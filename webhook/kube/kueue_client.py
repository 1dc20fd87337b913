"""Where Kueue's API is served, and what we write to it: that our AdmissionChecks are active, and their answers."""

from typing import Any, Final

import structlog

from webhook.formats.kueue_admission import AdmissionCheck, PendingWorkload
from webhook.kube.client import Client
from webhook.kube.discovery import Wanted
from webhook.kube.resource import Resource
from webhook.kube.write import Write, write

log = structlog.get_logger(__name__)

_GROUP: Final = "kueue.x-k8s.io"
_VERSIONS: Final = ("v1beta2", "v1beta1")
ADMISSION_CHECKS: Final = Wanted(_GROUP, "admissionchecks", _VERSIONS)
RESOURCE_FLAVORS: Final = Wanted(_GROUP, "resourceflavors", _VERSIONS)
WORKLOADS: Final = Wanted(_GROUP, "workloads", _VERSIONS)
_MANAGER: Final = "topology-webhook"


class AdmissionCheckWrites:
    """The writes."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def activate(self, check: AdmissionCheck, version: str, now: str) -> Write:
        """Write the condition Active of a check. version: in which it is served; now: RFC 3339."""
        resource = Resource(ADMISSION_CHECKS.group, version, ADMISSION_CHECKS.plural)
        condition = {
            "type": "Active",
            "status": "True",
            "reason": "Active",
            "message": "The leader of topology-webhook answers this check",
            "lastTransitionTime": now,
            "observedGeneration": check.generation,
        }
        body = {
            "apiVersion": f"{resource.group}/{version}",
            "kind": "AdmissionCheck",
            "metadata": {"name": check.name},
            "status": {"conditions": [condition]},
        }
        return _told("admission_check.not_activated", check.name, await write(self._apply(resource, check.name, body)))

    async def answer(self, workload: PendingWorkload, version: str, at: int, fields: dict[str, Any]) -> Write:
        """Write fields of the check at position `at` of a Workload, unless the Workload has changed since."""
        resource = Resource(WORKLOADS.group, version, WORKLOADS.plural, workload.namespace)
        path = f"{resource.path}/{workload.name}/status"
        checked = {"op": "add", "path": "/metadata/resourceVersion", "value": workload.resource_version}
        changed = (
            {"op": "add", "path": f"/status/admissionChecks/{at}/{name}", "value": value}
            for name, value in fields.items()
        )
        return _told(
            "admission_check.not_answered", workload.key, await write(self._client.write(path, [checked, *changed]))
        )

    async def _apply(self, resource: Resource, name: str, body: dict[str, Any]) -> None:
        await self._client.apply(f"{resource.path}/{name}/status", body, _MANAGER)


def _told(event: str, name: str, done: Write) -> Write:
    if not done.is_written:
        report = log.debug if done.is_settled else log.warning
        report(event, object=name, error=done.error)
    return done
