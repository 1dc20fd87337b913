"""What is written into a ResourceClaim."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.builders.devices import claim
from webhook.formats.dra import Claim
from webhook.kube.claim_writes import ClaimWrites
from webhook.kube.client import Client
from webhook.kube.write import Outcome
from webhook.model.raw import Raw


class Recorder(Client):
    """Takes every write and keeps it."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, Any]] = []

    async def patch(self, path: str, body: Raw | list[Raw]) -> Raw:
        self.writes.append((path, body))
        return {"metadata": {"uid": "u", "resourceVersion": "2"}}

    async def write(self, path: str, body: Raw | list[Raw]) -> None:
        self.writes.append((path, body))


def test_an_allocation_has_its_time_because_kube_scheduler_would_add_it_and_may_not() -> None:
    client = Recorder()
    writes = ClaimWrites(client)
    allocation: dict[str, Any] = {"devices": {"results": []}}
    call = writes.allocate(Claim.from_object(claim()), allocation, "default/p", "uid-p")
    assert asyncio.run(call).outcome is Outcome.WRITTEN
    (_, finalizer), (path, body) = client.writes
    assert finalizer["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert path.endswith("/resourceclaims/gpu/status")
    assert body["metadata"] == {"uid": "u", "resourceVersion": "2"}
    assert body["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    when = body["status"]["allocation"].pop("allocationTimestamp")
    assert body["status"]["allocation"] == allocation
    assert abs(datetime.fromisoformat(when) - datetime.now(UTC)) < timedelta(minutes=5)
