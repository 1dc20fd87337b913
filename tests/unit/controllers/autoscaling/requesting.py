"""A leader that asks for gangs by ProvisioningRequests. The API server that has them is a fake."""

from collections.abc import Mapping
from typing import Any, Final

from tests.unit.controllers.autoscaling.asking import EPOCH, AskingLeader
from webhook.controllers.autoscaling.provisioning import Provisioning
from webhook.controllers.autoscaling.provisioning_writer import ProvisioningWriter
from webhook.formats.autoscaling import ProvisioningClass
from webhook.formats.kubernetes.timestamps import utc
from webhook.kube.pacing import RateLimiter
from webhook.kube.provisioning_request_client import ProvisioningWrites
from webhook.kube.write import WRITTEN, Outcome, Write
from webhook.model.raw import Raw

ATOMIC: Final[ProvisioningClass] = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


class Objects(ProvisioningWrites):
    """The requests and PodTemplates that exist, by namespace/name, and the order of the writes."""

    def __init__(self, leader: "RequestingLeader") -> None:
        self.requests: dict[str, dict[str, Any]] = {}
        self.templates: dict[str, dict[str, Any]] = {}
        self.refusal: Write | None = None
        """What becomes of each creation of a request."""
        self.written: list[str] = []
        self._leader = leader
        self._uids = 0

    async def create(self, version: str, body: Raw) -> Write:
        assert body["apiVersion"] == f"autoscaling.x-k8s.io/{version}"
        if self.refusal is not None:
            return self.refusal
        for each in body["spec"]["podSets"]:
            assert f"{body['metadata']['namespace']}/{each['podTemplateRef']['name']}" in self.templates
        return self._create(self.requests, body)

    async def create_template(self, body: Raw) -> Write:
        return self._create(self.templates, body)

    def _create(self, among: dict[str, dict[str, Any]], body: Raw) -> Write:
        key = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        if key in among:
            return Write(Outcome.STALE, "409 AlreadyExists", status=409)
        self._uids += 1
        created = utc(int(EPOCH + self._leader.second))
        among[key] = {
            **body,
            "metadata": {**body["metadata"], "uid": f"u{self._uids}", "creationTimestamp": created},
        }
        self.written.append(f"+{body.get('kind')}")
        return WRITTEN

    async def delete(self, version: str, namespace: str, name: str, uid: str) -> Write:
        assert self.requests[f"{namespace}/{name}"]["metadata"]["uid"] == uid
        del self.requests[f"{namespace}/{name}"]
        self.written.append("-ProvisioningRequest")
        return WRITTEN

    async def delete_template(self, namespace: str, name: str, uid: str) -> Write:
        assert self.templates[f"{namespace}/{name}"]["metadata"]["uid"] == uid
        del self.templates[f"{namespace}/{name}"]
        self.written.append("-PodTemplate")
        return WRITTEN

    async def read_template(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self.templates.get(f"{namespace}/{name}")


class RequestingLeader(AskingLeader):
    """`objects`: what it has made."""

    def __init__(self, *objects: Mapping[str, Any], class_name: ProvisioningClass = ATOMIC, **how: Any) -> None:
        self._class_name: ProvisioningClass = class_name
        super().__init__(*objects, provisioning_class=class_name, **how)
        self.requests = self.cache.provisioning_requests
        self.requests.serve("v1")
        self._shown: set[str] = set()

    def provisioning(self) -> Provisioning:
        self.objects = Objects(self)
        self.writer = ProvisioningWriter(self.cache, self.objects, self.is_leader, RateLimiter(1e9))
        return Provisioning(self.cache, self.writer, self._class_name)

    async def after(self, seconds: float) -> None:
        self.show()
        await super().after(seconds)
        self.show()

    def show(self) -> None:
        """Let the cache see the requests as they are."""
        for key in self._shown - self.objects.requests.keys():
            self.requests.feed.delete(key)
        for key, raw in self.objects.requests.items():
            self.requests.feed.upsert(key, raw)
        self._shown = set(self.objects.requests)

    async def requested(self) -> dict[str, Any]:
        """Let the gang be asked for, and return its request."""
        await self.settle()
        await self.after(1)
        (raw,) = self.objects.requests.values()
        return raw

    def replies(self, *conditions: tuple[str, str], reason: str = "Told", message: str = "by the autoscaler") -> None:
        """The autoscaler answers the one request: (type, status) of its conditions."""
        (raw,) = self.objects.requests.values()
        raw["status"] = {
            "conditions": [
                {"type": type_, "status": status, "reason": reason, "message": message} for type_, status in conditions
            ]
        }

    def pod_sets(self) -> list[tuple[dict[str, Any], int]]:
        """The template spec and the count of each pod set of the one request."""
        (raw,) = self.objects.requests.values()
        namespace = raw["metadata"]["namespace"]
        return [
            (self.objects.templates[f"{namespace}/{each['podTemplateRef']['name']}"]["template"], each["count"])
            for each in raw["spec"]["podSets"]
        ]
