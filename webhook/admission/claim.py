"""The validating webhook on allocations of ResourceClaims: refuses a device that the leader has just given to another.

kube-scheduler and the leader allocate devices at the same time, and each sees what the other has written a moment
later. The API server accepts both: it does not compare claims. So the leader answers for every allocation by others:

1. It takes a device that is assumed for a claim of a gated pod: refused. The scheduler tries the pod again, with what
   it sees by then.
2. It takes others: allowed, and counted as taken until the watch shows it, so that the leader gives none of them away.

A claim that is itself assumed may be allocated by others: the leader's own write then fails, and its pod is placed
again. Devices with admin access and shares of devices are taken from no other claim.

Another replica asks the leader, as it does for Bindings (see `binding.guard`). A new leader has assumed nothing yet, so
it allows all: other allocators see what the last one has written before another one leads. Without client certificates
a review may be forged. What it takes is believed as briefly as a Binding (see `review_trust`), and nothing is refused
for it.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final

from webhook.admission.binding.guard import NOT_LEADER, LeaderState
from webhook.admission.binding.review_trust import Doubts
from webhook.admission.handler import LeaderNeededError, NotNowError
from webhook.admission.response import Allowed, Denied
from webhook.formats.dra import GROUP, Claim
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.state.devices import DeviceState
from webhook.state.rules import Rules

# An allocation is written within some 10 ms of its review. One that no watch has shown after a hundred times as long as
# on a busy API server was rejected later in its request.
_WRITTEN_SECONDS: Final = 10.0


class ClaimGuard:
    """The handler. doubts: None if every caller is the API server."""

    def __init__(
        self,
        devices: DeviceState,
        leader_state: Callable[[str], LeaderState],
        rules: Rules,
        doubts: Doubts | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._devices = devices
        self._leader_state = leader_state
        self._rules = rules
        self._doubts = doubts
        self._clock = clock

    def handle(self, request: AdmissionRequest) -> Allowed | Denied:
        """Answer a review. Raises NotNowError or LeaderNeededError."""
        if (request.group, request.kind, request.sub_resource) != (GROUP, "ResourceClaim", "status"):
            return Allowed()
        if request.user.username in self._rules.trusted_users:
            return Allowed(message="the service's own allocation")
        before, after = Claim.from_object(request.old_object), Claim.from_object(request.object)
        if after.allocation is None or before.allocation == after.allocation:
            return Allowed(message="nothing is allocated")
        # All devices of an allocation are on one node.
        node = next((self._devices.node_of(result.device) for result in after.allocation.results), "")
        match self._leader_state(node):
            case LeaderState.NONE:
                raise NotNowError("this replica is not the leader, and only the leader knows which devices are given")
            case LeaderState.ELSEWHERE:
                raise LeaderNeededError(node, Denied(NOT_LEADER.message, NOT_LEADER.reason, misrouted=True))
        for result in after.allocation.results:
            holder = None if result.admin or result.share else self._devices.assumed_holder(result.device)
            # The holder may be another tenant's: it is not named.
            if holder is not None and holder[0] != after.key:
                return Denied(
                    f"device {result.device} has just been given to another claim, which will show it in a moment; "
                    "the next attempt sees it",
                    "DeviceAssumed",
                )
        if not request.dry_run and (seconds := self._believed_seconds(after)):
            self._devices.note_claim(after, self._clock() + seconds)
        return Allowed(message="none of its devices is assumed for another claim")

    def _believed_seconds(self, claim: Claim) -> float:
        if self._doubts is None:
            return _WRITTEN_SECONDS
        return self._doubts.believed_seconds(claim.key, claim.uid, self._clock())
