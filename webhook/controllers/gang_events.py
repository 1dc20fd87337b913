"""One Event per gang, on the object that owns it: where it is placed, or what it waits for.

Every second the leader checks the gangs that were examined (see the placement controller's signal):
1. A member waits behind the gate: an Event `WaitingForPlacement` says why. It is a Warning once the oldest member has
   waited longer than configured.
2. No member waits any more: an Event `Assigned` names the domain and counts pods and nodes.

- An Event is written once the gang's state has settled: its members may still be created one by one.
- A text that differs from the last one only in numbers is no news while the gang waits. A gang whose pods come and go
  gets an Event every half minute at most.
- A gang that its pods name themselves has no owner: each of its pods gets its own Event (see `status_reporter`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, time
from typing import Final, Literal

from webhook.controllers.sweep import Sweep
from webhook.formats.kubernetes.pod import Owner
from webhook.internal_errors import Where, contained
from webhook.kube.events import EventRecorder, ObjectEvent
from webhook.model.raw import Raw
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.gang.gang_text import placed_gang_text
from webhook.placing.pod.gated_pods import seconds_waited
from webhook.state.cluster_cache import ClusterCache

# A controller creates the pods of a gang of 500 in ten seconds or so, but any two follow each other faster than this.
_SETTLE_SECONDS: Final = 1.0
# A gang whose state never settles is reported after this time.
_LONGEST_SETTLE_SECONDS: Final = 30.0
# As for pods that are delegated to the scheduler (see `unbound_pods`).
_AGAIN_SECONDS: Final = 30.0
_NUMBERS: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _State:
    """What an Event says, without what is no news."""

    reason: str
    type: Literal["Normal", "Warning"]
    gist: str


@dataclass(slots=True)
class _Examined:
    """A gang as it was last examined. Times are seconds of `time.monotonic`."""

    owner: Owner
    namespace: str
    oldest: Raw
    """The pod object of its oldest member that waits."""
    keys: frozenset[str]
    """Its members that waited, by namespace/name."""
    why: str
    """Why they wait; empty: they were assigned."""
    first: float
    changed: float
    said: _State | None = None
    said_at: float = 0.0


class GangEvents(Sweep):
    """Reports on gangs while `is_leader()`. warn_after: seconds after which an Event is a Warning; 0: never."""

    def __init__(
        self, cache: ClusterCache, events: EventRecorder, is_leader: Callable[[], bool], warn_after: float
    ) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._events = events
        self._warn_after = warn_after
        self._gangs: dict[str, _Examined] = {}

    def saw(self, gang: GatedGang, why: str) -> None:
        """Record a gang that was examined; why: why its members wait, empty if they do not."""
        member = next((one for one in gang.members if one.reports_on_owner), None)
        if member is None or member.owner_chain is None:
            return
        now, keys, owner = monotonic(), frozenset(one.key for one in gang.members), member.owner_chain.top
        oldest = min(gang.members, key=lambda one: one.pod.created).raw
        known = self._gangs.get(gang.membership.group)
        if known is None or known.owner.uid != owner.uid:
            found = _Examined(owner, member.pod.namespace, oldest, keys, why, now, now)
            self._gangs[gang.membership.group] = found
            return
        if (known.keys, _gist(known.why)) != (keys, _gist(why)):
            known.changed = now
        known.oldest, known.keys, known.why = oldest, keys, why

    async def _sweep(self, now: float) -> None:
        gated = self._cache.ours.gated()
        for group, gang in list(self._gangs.items()):
            with contained(Where.GANG, gang=group):
                if not gang.keys.isdisjoint(gated):
                    self._waits(gang, now)
                elif not self._assigned(group, gang, now):
                    del self._gangs[group]

    def _forget(self) -> None:
        self._gangs.clear()

    def _waits(self, gang: _Examined, now: float) -> None:
        if not gang.why:
            return  # its assignments are being written
        if now - gang.changed < _SETTLE_SECONDS and now - gang.first < _LONGEST_SETTLE_SECONDS:
            return
        warns = 0 < self._warn_after <= seconds_waited(gang.oldest, time())
        state = _State("WaitingForPlacement", "Warning" if warns else "Normal", _gist(gang.why))
        self._tell(gang, state, gang.why, now)

    def _assigned(self, group: str, gang: _Examined, now: float) -> bool:
        """Report that no member waits; returns whether there may be something to report later."""
        members = self._cache.gangs.assigned(group)
        if not members:
            return False
        text = placed_gang_text(members.values(), self._cache.snapshot().topologies)
        self._tell(gang, _State("Assigned", "Normal", text), text, now)
        return now - gang.said_at < _AGAIN_SECONDS

    def _tell(self, gang: _Examined, state: _State, text: str, now: float) -> None:
        said = gang.said
        if state == said:
            return
        is_alike = said is not None and (said.reason, said.type) == (state.reason, state.type)
        if is_alike and now - gang.said_at < _AGAIN_SECONDS:
            return  # a later sweep reports the newest state
        gang.said, gang.said_at = state, now
        owner = gang.owner
        self._events.tell(
            ObjectEvent(
                f"{gang.namespace}/{owner.name}",
                owner.uid,
                state.reason,
                text,
                "Assign",
                state.type,
                api_version=owner.api_version,
                kind=owner.kind,
            )
        )


def _gist(text: str) -> str:
    """The text without its numbers, such as how many members exist."""
    return _NUMBERS.sub("#", text)
