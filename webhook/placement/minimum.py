"""How many pods of a group must have a place before any of them goes.

1. What the pods' own annotations say.
2. What their controller's object says: its annotations, or by its kind (see webhook.model.workload).
3. One, for controllers of a kind that is not known.

Objects are read by GET and believed for a while: who changes a Job's parallelism finds it followed soon.
"""

from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any, Final

from webhook.model.names import KAI_BATCH_MIN_MEMBER
from webhook.model.pod import Owner, Pod
from webhook.model.workload_fields import min_member
from webhook.model.workload_read import READERS, read_workload

ReadOwner = Callable[[str, str, str, str], Awaitable[Mapping[str, Any] | None]]
"""(apiVersion, kind, namespace, name) -> the object; None when it is gone. Raises ClusterError."""

_BELIEVED_SECONDS: Final = 10.0


class Minimums:
    """The minimums of groups."""

    def __init__(self, read_owner: ReadOwner) -> None:
        self._read_owner = read_owner
        self._known: dict[str, tuple[float, int]] = {}

    async def of(self, pod: Pod) -> int:
        """The minimum of the group of which `pod` is a member. Raises UserError, ClusterError."""
        asked = min_member(pod.annotations, KAI_BATCH_MIN_MEMBER)
        owner = pod.controller
        if asked is not None or owner is None:
            return asked or 1
        known = self._known.get(owner.uid)
        if known is None or known[0] < monotonic():
            self._known = {uid: entry for uid, entry in self._known.items() if entry[0] >= monotonic()}
            known = self._known[owner.uid] = monotonic() + _BELIEVED_SECONDS, await self._by_owner(owner, pod)
        return known[1]

    async def _by_owner(self, owner: Owner, pod: Pod) -> int:
        if (owner.api_version.rpartition("/")[0], owner.kind) not in READERS:
            return 1
        raw = await self._read_owner(owner.api_version, owner.kind, pod.namespace, owner.name)
        workload = read_workload(raw) if raw is not None else None
        return max(1, sum(gang.minimum for gang in workload.gangs)) if workload else 1
