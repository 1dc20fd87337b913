"""Takes back claims that were allocated for a pod which is still gated: the pod is placed again, with other devices.

A leader allocates the claims of a pod before it ungates it. If it is killed in between, or the second write fails and
so does the undoing of the first, the pod waits with devices that nobody uses. Every second the leader looks at gated
pods whose claims are reserved for them and whose placement is not on its way. It takes the pod from each such claim,
and deallocates the claim if no other pod has it. Until then the pod is not placed.

1. Only kube-scheduler and kube-controller-manager reserve claims as well, and never for a pod with a gate. So no mark
   is needed that a tenant could forge. Who may write the status of claims and reserves one for a gated pod loses that.
2. It begins when no patch of an earlier leader can ungate a pod any more (`PlacementController.has_fenced`).
3. Pods that are gone or bound are left to kube-controller-manager: it takes them from claims, deallocates those, and
   removes the finalizer of deleted ones. So a pod that is deleted while it is gated leaves nothing behind.
   Source: kubernetes pkg/controller/resourceclaim/controller.go (syncClaim).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from webhook.controllers.sweep import Sweep
from webhook.internal_errors import Where, contained
from webhook.kube.claim_writes import ClaimWrites
from webhook.kube.pacing import Backoff
from webhook.model.raw import Raw
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

# Two or three calls each, some 10 ms. The next sweep takes the others.
_PER_SWEEP: Final = 50
_LONGEST_PAUSE_SECONDS: Final = 60.0


@dataclass(slots=True)
class _Retry:
    """When a claim may be written again: neither a failure nor a user who reserves it again makes many calls."""

    not_before: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(base=1.0, cap=_LONGEST_PAUSE_SECONDS))


class ClaimTakeBack(Sweep):
    """Takes back while `may_take_back()`: we lead, and no earlier leader's patch is on its way."""

    rest_per_work = 4.0

    def __init__(self, cache: ClusterCache, writes: ClaimWrites, may_take_back: Callable[[], bool]) -> None:
        super().__init__(may_take_back)
        self._cache = cache
        self._writes = writes
        self._retries: dict[tuple[str, str], _Retry] = {}  # claim (namespace/name), uid of its pod

    async def _sweep(self, now: float) -> None:
        left_over = {
            (claim, uid): pod
            for pod, raw in self._cache.ours.gated().items()
            if raw["spec"].get("resourceClaims")
            for claim, uid in self._left_over(pod, raw)
        }
        self._retries = {one: self._retries.get(one) or _Retry() for one in left_over}
        due = [(one, pod) for one, pod in left_over.items() if self._retries[one].not_before <= now]
        for (claim, uid), pod in due[:_PER_SWEEP]:
            # What was awaited may have taken time.
            raw = self._cache.ours.gated().get(pod)
            if self._is_leader() and raw is not None and (claim, uid) in self._left_over(pod, raw):
                with contained(Where.POD, pod=pod):
                    await self._take_back(claim, uid, pod, now)

    def _left_over(self, pod: str, raw: Raw) -> list[tuple[str, str]]:
        with contained(Where.POD, pod=pod):
            if self._cache.assumed_by(pod) is None:
                namespace, uid = raw["metadata"].get("namespace", ""), raw["metadata"].get("uid", "")
                return [(claim, uid) for claim in self._cache.devices.claims_of(raw, namespace, uid).left_over]
        return []

    async def _take_back(self, claim: str, uid: str, pod: str, now: float) -> None:
        retry = self._retries[claim, uid]
        retry.not_before = now + retry.backoff.next(self.period)
        write = await self._writes.release(claim, uid)
        if write.is_written:
            log.info("claim.taken_back", claim=claim, pod=pod)
        elif not write.is_settled:
            log.warning("claim.not_taken_back", claim=claim, pod=pod, error=write.error)

    def _forget(self) -> None:
        self._retries = {}
