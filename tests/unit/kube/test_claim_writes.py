"""What is written into a ResourceClaim.

Releasing a claim takes it from one pod, and leaves nothing by which an allocation on its way could be written.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.builders.devices import claim
from webhook.formats.dra import FINALIZER, Claim
from webhook.kube.api_errors import APIError
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


ALLOCATION = {"devices": {"results": [{"driver": "d", "pool": "p", "device": "g", "request": "r"}]}}


class OneClaim:
    """One claim with merge patches, which must name its version."""

    def __init__(self, *pods: str, allocated: bool = True, finalizers: tuple[str, ...] = (FINALIZER, "other")) -> None:
        status = {"allocation": ALLOCATION, "reservedFor": [{"uid": pod} for pod in pods]} if allocated else {}
        metadata = {"name": "c", "namespace": "team", "uid": "u", "resourceVersion": "1", "finalizers": [*finalizers]}
        self.raw: dict[str, Any] = {"metadata": metadata, "status": status}
        self.writes = 0

    async def get(self, path: str) -> dict[str, Any]:
        assert path == "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/c"
        return self.raw

    async def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        metadata, change = self.raw["metadata"], dict(body["metadata"])
        if (change.pop("uid"), change.pop("resourceVersion")) != (metadata["uid"], metadata["resourceVersion"]):
            raise APIError(409, "Conflict", "it has changed")
        self.writes += 1
        version = {"resourceVersion": str(self.writes + 1)}
        status = self.raw["status"] | body.get("status", {}) if path.endswith("/status") else self.raw["status"]
        self.raw = {"metadata": {**metadata, **change, **version}, "status": status}
        return self.raw

    async def write(self, path: str, body: dict[str, Any]) -> None:
        await self.patch(path, body)


async def released(server: OneClaim, pod: str = "p") -> tuple[Outcome, dict[str, Any], list[str]]:
    client: Any = server
    write = await ClaimWrites(client).release("team/c", pod)
    return write.outcome, server.raw["status"], server.raw["metadata"]["finalizers"] or []


async def test_the_last_pod_takes_allocation_and_finalizer_with_it() -> None:
    outcome, status, finalizers = await released(OneClaim("p"))
    assert (outcome, status, finalizers) == (Outcome.WRITTEN, {"allocation": None, "reservedFor": None}, ["other"])


async def test_other_pods_keep_theirs() -> None:
    _, status, finalizers = await released(OneClaim("q", "p"))
    assert status == {"allocation": ALLOCATION, "reservedFor": [{"uid": "q"}]}
    assert FINALIZER in finalizers


@pytest.mark.parametrize("pods", [("q",), ()])
async def test_what_another_allocator_wrote_for_others_stays(pods: tuple[str, ...]) -> None:
    server = OneClaim(*pods)
    await released(server)
    assert server.writes == 0


async def test_an_allocation_whose_answer_was_lost_can_no_longer_be_written() -> None:
    server = OneClaim(allocated=False)
    version = {"uid": "u", "resourceVersion": server.raw["metadata"]["resourceVersion"]}
    assert (await released(server))[2] == ["other"]
    with pytest.raises(APIError):
        await server.patch("claim/status", {"metadata": version, "status": {"allocation": ALLOCATION}})
    # Where the finalizer was not written either, no allocation has been sent.
    server = OneClaim(allocated=False, finalizers=())
    await released(server)
    assert server.writes == 0
