"""Moves a unit that waits to the shard of another leader that has room for it.

The shard is written on the unit's oldest pod, if that is still as it was decided on. From the moment this is sent, the
unit is not attempted here until the pod shows a change or the write has failed. A unit moves at most once in
`_FIRST_SECONDS`, and the time doubles with each move, which the pod itself records: its next leader may find its room
taken, and must not send it back and forth.
"""

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic, time
from typing import Final

import structlog

from webhook.formats.shard_choice import ShardChoice
from webhook.internal_errors import Where, contained
from webhook.kube.pod_writes import PodWrites
from webhook.model.raw import Raw
from webhook.placing.pod.controller_patches import shard_patch
from webhook.placing.shard_of_unit import oldest
from webhook.placing.waiting_unit import Unit, name_of
from webhook.state.cluster_cache import ClusterCache

log = structlog.get_logger(__name__)

_FIRST_SECONDS: Final = 10.0
_LONGEST_SECONDS: Final = 600.0
# Of a gang that fits in no shard: a search costs some milliseconds for each.
_LOOK_SECONDS: Final = 10.0
# Writes at a time. What does not move now moves in a later cycle.
_MOST: Final = 8


class ShardMoves:
    """The moves on their way. may_write: whether we still lead the unit's shard; changed: asks for another cycle."""

    def __init__(
        self,
        cache: ClusterCache,
        writes: PodWrites,
        may_write: Callable[[], bool],
        changed: Callable[[], None],
        wake_in: Callable[[float], None],
    ) -> None:
        self._cache = cache
        self._writes = writes
        self._may_write = may_write
        self._changed = changed
        self._wake_in = wake_in
        self._sent: dict[str, Raw] = {}
        """Oldest pod (namespace/name) of a unit that moves -> its object."""
        self._looked: dict[str, float] = {}
        """Name of a gang -> before when it is not looked for again."""
        self._tasks: set[asyncio.Task[None]] = set()

    def is_moving(self, unit: Unit) -> bool:
        """Whether the unit was sent to another leader, and no change of its pod was seen yet."""
        one = oldest(unit)
        return self._sent.get(one.key) is one.raw

    def keep(self, units: Iterable[Unit]) -> None:
        """Forget all units but these."""
        names = {name_of(unit) for unit in units}
        self._looked = {name: at for name, at in self._looked.items() if name in names}
        gated = self._cache.gated_pods()
        self._sent = {key: raw for key, raw in self._sent.items() if gated.get(key) is raw}

    def looks_elsewhere(self, unit: Unit) -> bool:
        """Whether it is time to look for room for a gang in other shards; notes that."""
        now, name = monotonic(), name_of(unit)
        if (left := max(self._seconds_left(unit), self._looked.get(name, 0.0) - now)) > 0:
            self._wake_in(left)
            return False
        self._looked[name] = now + _LOOK_SECONDS
        return True

    def move(self, unit: Unit, shard: str) -> None:
        """Write the shard in the background, if the unit has not moved a moment ago."""
        one = oldest(unit)
        if one.key in self._sent or len(self._tasks) >= _MOST:
            return
        if (left := self._seconds_left(unit)) > 0:
            self._wake_in(left)
            return
        self._sent[one.key] = one.raw
        choice = ShardChoice.of(one.raw)
        moved = ShardChoice(shard, (0 if choice is None else choice.moves) + 1, int(time()))
        task = asyncio.create_task(self._write(one.key, one.raw, moved))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        """Cancel the writes when the process ends."""
        for task in self._tasks:
            task.cancel()

    def _seconds_left(self, unit: Unit) -> float:
        """How long the unit may not move yet."""
        choice = ShardChoice.of(oldest(unit).raw)
        if choice is None or not choice.moves:
            return 0.0
        wait = min(_FIRST_SECONDS * 2.0 ** min(choice.moves - 1, 16), _LONGEST_SECONDS)
        # A time in the future is of another clock, or of an epoch: it delays no longer than its wait.
        return min(wait, choice.moved_at + wait - time())

    async def _write(self, key: str, raw: Raw, moved: ShardChoice) -> None:
        written = False
        with contained(Where.POD, pod=key):
            if self._may_write():
                written = (await self._writes.patch(key, shard_patch(raw, moved))).is_written
            if written:
                log.info("pod.moved_to_shard", pod=key, shard=moved.shard, moves=moved.moves)
        if not written:
            self._sent.pop(key, None)
            self._changed()
