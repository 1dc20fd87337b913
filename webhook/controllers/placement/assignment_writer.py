"""Writes an assignment into its pod: retries until it is written, or never will be.

1. The planner has assumed the pod, so that the next decision sees the resources as taken. The assumed pod is renewed
   with each patch, because a patch may be queued or sent again.
2. If devices were chosen for its claims, these are allocated first, each as it was when it was decided on. If that
   fails for one, or another claim shows one of the devices by then, the pod is not patched.
3. The patch is sent, unless we no longer lead or the assumed pod has expired.
4. Written: the pod stays assumed until an informer shows it with its allocation.
   Stale: the pod is read. If it is still gated and requests the same, the patch is rebuilt from it. If it has our
   assignment, an earlier patch was written although its answer was lost.
   No answer: the same patch is sent again. It names a resource version, so it is written at most once.
   Anything else: the pod is retried later, and the assumed pod is forgotten unless an earlier patch may still be
   written.
5. Before the assumed pod is forgotten, its claims are released, unless the pod is no longer gated. What is left over
   if that fails, or the leader is killed meanwhile, `ClaimTakeBack` releases.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Final

import structlog

from webhook.formats.kubernetes.gates import waits_for_us_alone
from webhook.kube.api_errors import ClusterError
from webhook.kube.claim_writes import ClaimWrites
from webhook.kube.pacing import Backoff
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import WRITTEN, Outcome, Write
from webhook.model.errors import UserError
from webhook.model.raw import Raw
from webhook.placing.pod.assignment import Assignment
from webhook.placing.pod.binding_pod import assigned_node
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

# Conflicts come from the scheduler's and controllers' own writes to a pod, of which there are two or three in its life.
_ATTEMPTS: Final = 6


class AssignmentWriter:
    """Writes assignments.

    may_write: whether we still lead the shard of a node; assume_ttl: seconds after which a write that was not seen
    never will be.
    """

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        claims: ClaimWrites,
        may_write: Callable[[str], bool],
        assume_ttl: float,
    ) -> None:
        self._cache = cache
        self._writes = writes
        self._claims = claims
        self._may_write = may_write
        self._assume_ttl = assume_ttl

    async def write(self, gated: GatedPod, assignment: Assignment, assumed_pod: AssumedPod) -> Write:
        """Write the assignment of an assumed pod. WRITTEN: the pod has it; STALE, GONE: the pod is another one now."""
        assignment = assignment.signed(self._cache.sign(gated.pod.uid, assignment.allocation.to_json()))
        failed = await self._allocate(gated, assignment) if assignment.devices else None
        if failed is None:
            write, given_up = await self._write_pod(gated, assignment, assumed_pod)
        else:
            write, given_up = failed, assumed_pod
        if given_up is not None:
            try:
                if assignment.devices and self._may_write(assumed_pod.node):
                    await self._release(gated, assignment)
            finally:
                self._cache.forget(given_up)
        return write

    async def _write_pod(
        self, gated: GatedPod, assignment: Assignment, assumed_pod: AssumedPod
    ) -> tuple[Write, AssumedPod | None]:
        """The result, and the assumed pod if it will never get the assignment."""
        patch = assignment.patch(gated.raw)
        backoff = Backoff()
        write, may_come = Write(Outcome.NOT_NOW), False
        for _ in range(_ATTEMPTS):
            assumed_pod = self._renewed(assumed_pod)
            if not self._may_write(assumed_pod.node) or (
                assumed_pod.expires <= monotonic() and not assumed_pod.tentative
            ):
                break
            write = await self._writes.patch(gated.key, patch)
            if write.is_written:
                return write, None
            if write.outcome is Outcome.STALE:
                try:
                    raw = await self._writes.read(gated.key)
                except ClusterError as error:
                    log.warning("placement.retry", pod=gated.key, error=str(error))
                    await asyncio.sleep(backoff.next())
                    continue
                if _shows(raw, gated, assignment):
                    return WRITTEN, None
                again = _still_waiting(raw, gated)
                if again is None:
                    return write, assumed_pod
                patch = assignment.patch(again.raw)
                # Earlier patches name a resource version that no longer exists: they can never be written.
                may_come = False
            elif write.outcome is Outcome.GONE:
                return write, assumed_pod
            elif write.outcome is Outcome.REFUSED:
                # An earlier patch may still be written. An API server that has just started may reject this patch
                # because it does not know its webhooks yet, while etcd was already processing the one before.
                log.warning("placement.refused", pod=gated.key, node=assignment.allocation.node, error=write.error)
                break
            else:
                may_come = may_come or write.outcome is Outcome.UNKNOWN
                log.warning("placement.retry", pod=gated.key, error=write.error)
                await asyncio.sleep(backoff.next())
        return write, None if may_come else assumed_pod

    async def _allocate(self, gated: GatedPod, assignment: Assignment) -> Write | None:
        """Allocate the claims; why not, if one of them was not. A claim that has changed is decided on again."""
        for one in assignment.devices:
            if not self._may_write(one.node) or self._cache.devices.assumed_pod(one.claim.key) != gated.pod.uid:
                return Write(Outcome.NOT_NOW, "the claim has changed")
            write = await self._claims.allocate(one.claim, one.written, gated.key, gated.pod.uid)
            if not write.is_written:
                log.warning("claim.not_allocated", claim=one.claim.key, pod=gated.key, error=write.error)
                # To the pod it is no final answer: this is about a claim.
                return replace(write, outcome=Outcome.NOT_NOW)
            log.info("claim.allocated", claim=one.claim.key, pod=gated.key, node=one.node)
        holders = self._cache.devices.inventory.taken.holders
        for one in assignment.devices:
            for result in one.results:
                if holders.get(result.device) != (one.claim.key,):
                    log.warning("claim.device_taken", claim=one.claim.key, pod=gated.key, device=str(result.device))
                    return Write(Outcome.NOT_NOW, "another claim has the device")
        return None

    async def _release(self, gated: GatedPod, assignment: Assignment) -> None:
        """Take the pod from its claims. Whoever else has ungated it meanwhile has it with them."""
        try:
            raw = await self._writes.read(gated.key)
        except ClusterError as error:
            log.warning("claim.not_released", pod=gated.key, error=str(error))
            return
        if raw is None or raw["metadata"].get("uid") != gated.pod.uid or not waits_for_us_alone(raw):
            return
        for one in assignment.devices:
            write = await self._claims.release(one.claim.key, gated.pod.uid)
            if not write.is_settled:
                log.warning("claim.not_released", claim=one.claim.key, pod=gated.key, error=write.error)

    def _renewed(self, assumed_pod: AssumedPod) -> AssumedPod:
        """The assumed pod until a patch sent now can no longer be written; unchanged if it is not held any more."""
        if assumed_pod.tentative or not self._cache.holds(assumed_pod):
            return assumed_pod
        renewed = replace(assumed_pod, expires=monotonic() + self._assume_ttl)
        self._cache.assume(renewed)
        return renewed


def _shows(raw: Raw | None, gated: GatedPod, assignment: Assignment) -> bool:
    """Whether the pod that was read has the assignment."""
    if raw is None or raw["metadata"].get("uid") != gated.pod.uid or waits_for_us_alone(raw):
        return False
    # No other client may remove the gate.
    return assignment.nodes is not None or assigned_node(raw) == assignment.allocation


def _still_waiting(raw: Raw | None, gated: GatedPod) -> GatedPod | None:
    """The pod that was read, if it is the same and can take the assignment."""
    if raw is None or raw["metadata"].get("uid") != gated.pod.uid or "deletionTimestamp" in raw["metadata"]:
        return None
    if not waits_for_us_alone(raw):
        return None
    try:
        now = GatedPod.from_object(raw, gated.owner_chain, gated.basis, reads_kueue=gated.reads_kueue)
    except UserError:
        return None
    now = now.avoiding_these(gated.pod.avoided, gated.pod.learned)
    if gated.claims is not None and now.pod.requests == gated.requests_beside_claims:
        # A pod's entries for claims never change. What they count beside its requests depends on the claims.
        counted = replace(now.pod, requests=gated.pod.requests, unchecked=gated.pod.unchecked)
        now = replace(now, pod=counted, claims=gated.claims)
    return now if now.signature == gated.signature else None
