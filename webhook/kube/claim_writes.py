"""Writes to ResourceClaims. Each names the version that it is based on: a claim that has changed stays as it is."""

from datetime import UTC, datetime

from webhook.formats.dra import FINALIZER, GROUP, Claim
from webhook.kube.api_errors import mapping_or_empty
from webhook.kube.client import Client
from webhook.kube.resource import Resource
from webhook.kube.write import Write, write
from webhook.model.raw import Raw


class ClaimWrites:
    """The writes to ResourceClaims by one client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def allocate(self, claim: Claim, allocation: Raw, pod: str, uid: str) -> Write:
        """Give the claim an allocation, and reserve it for the pod namespace/name with this uid.

        It must still have the version that it was read with. If it was not written, the finalizer may have been.
        """
        return await write(self._allocate(claim, allocation, {"resource": "pods", "name": _name(pod), "uid": uid}))

    async def _allocate(self, claim: Claim, allocation: Raw, consumer: Raw) -> None:
        path = _path(claim.key)
        version: Raw = {"uid": claim.uid, "resourceVersion": claim.resource_version}
        if FINALIZER not in claim.finalizers:
            # Without it, the claim could be deleted while its devices are used. It is a write of its own upstream, too.
            finalizers = [*claim.finalizers, FINALIZER]
            raw = await self._client.patch(path, {"metadata": {**version, "finalizers": finalizers}})
            version = _version(raw)
        # kube-scheduler takes the reservation away if the pod's binding fails, and puts it back with the time of the
        # allocation if there is none (1.36, pkg/scheduler/framework/plugins/dynamicresources, bindClaim). The API
        # server refuses to change an allocation, so that the pod would never be bound.
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status: Raw = {"allocation": {**allocation, "allocationTimestamp": now}, "reservedFor": [consumer]}
        await self._client.write(f"{path}/status", {"metadata": version, "status": status})

    async def release(self, key: str, pod_uid: str) -> Write:
        """Take a pod from the claim namespace/name, with its allocation and finalizer if no other pod has it.

        WRITTEN also if the pod does not have it. An allocation whose answer was lost is never written after this: the
        finalizer, which comes first, goes in any case, and with it the version that the allocation names.
        """
        return await write(self._release(_path(key), pod_uid))

    async def _release(self, path: str, pod_uid: str) -> None:
        raw = await self._client.get(path)
        status = mapping_or_empty(raw.get("status"))
        reserved = status.get("reservedFor") or []
        others = [one for one in reserved if one.get("uid") != pod_uid]
        if len(others) < len(reserved):
            left = {"reservedFor": others} if others else {"reservedFor": None, "allocation": None}
            raw = await self._client.patch(f"{path}/status", {"metadata": _version(raw), "status": left})
        elif status.get("allocation"):
            return
        finalizers = raw["metadata"].get("finalizers") or []
        if not others and FINALIZER in finalizers:
            kept = [one for one in finalizers if one != FINALIZER] or None
            await self._client.write(path, {"metadata": {**_version(raw), "finalizers": kept}})


def _version(raw: Raw) -> Raw:
    """The fields of `metadata` that must be as they were."""
    return {field: raw["metadata"].get(field) for field in ("uid", "resourceVersion")}


def _name(key: str) -> str:
    return key.partition("/")[2]


def _path(key: str) -> str:
    namespace = key.partition("/")[0]
    return f"{Resource(GROUP, 'v1', 'resourceclaims', namespace).path}/{_name(key)}"
