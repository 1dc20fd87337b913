"""The owners of pods that wait, from the pod's controller up to the top: read when the first of the pods comes.

1. An owner is read by GET, once for all its pods, and those above it; several owners at a time.
2. While pods of it wait, the top is read again every few seconds: who changes a Job's parallelism, or what stands on
   it, finds that followed. When it says something else than before, the controller is woken.
3. What nobody waits for is forgotten.

The chain ends where an object is gone, is another one of the same name, or is not for us to read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NoReturn

import structlog

from webhook.cluster.errors import ClusterError
from webhook.model.errors import UserError
from webhook.model.lineage import Lineage, lineage_of, owner_above
from webhook.model.pod import Owner

log = structlog.get_logger(__name__)

ReadOwner = Callable[[str, str, str, str], Awaitable[Mapping[str, Any] | None]]
"""(apiVersion, kind, namespace, name) -> the object; None when it is not to be had. Raises ClusterError."""

# worker Pod -> StatefulSet -> leader Pod -> StatefulSet -> LeaderWorkerSet is the longest in use.
_DEEPEST: Final = 8
_AT_A_TIME: Final = 16
_READ_AGAIN_SECONDS: Final = 2.0
# So many GETs a second are nothing to an API server: of a thousand groups that wait each is looked at in 20 s.
_READ_AGAIN_RATE: Final = 50.0

Key = tuple[str, str]
"""(namespace, uid) of a pod's owner."""


class Lineages:
    """The lineages of pods, by their owners; `changed` is called when one says something else than before."""

    def __init__(self, read: ReadOwner, changed: Callable[[], None]) -> None:
        self._read = read
        self._changed = changed
        self._known: dict[Key, tuple[Owner, Lineage]] = {}
        self._slots = asyncio.Semaphore(_AT_A_TIME)

    async def learn(self, owners: Iterable[tuple[str, Owner]]) -> dict[Key, Exception]:
        """Read the (namespace, owner) that are not known yet, and forget all others; why some could not be read."""
        wanted = {(namespace, owner.uid): (namespace, owner) for namespace, owner in owners}
        self._known = {key: entry for key, entry in self._known.items() if key in wanted}
        new = {key: each for key, each in wanted.items() if key not in self._known}
        found = await asyncio.gather(*(self._of(*each) for each in new.values()))
        failures: dict[Key, Exception] = {}
        for (key, (_, owner)), lineage in zip(new.items(), found, strict=True):
            if isinstance(lineage, Lineage):
                self._known[key] = owner, lineage
            else:
                failures[key] = lineage
        return failures

    def get(self, namespace: str, owner: Owner) -> Lineage | None:
        """What is known of an owner."""
        entry = self._known.get((namespace, owner.uid))
        return entry[1] if entry else None

    async def run(self) -> NoReturn:
        """Keep what is known current, for ever."""
        while True:
            await asyncio.sleep(_READ_AGAIN_SECONDS)
            for key, (owner, before) in list(self._known.items()):
                now = await self._of(key[0], owner)
                # A call that fails says nothing; one that is forgotten by now need not be known.
                if isinstance(now, Lineage) and key in self._known and not _equal(before, now):
                    log.info("owner.changed", owner=f"{now.top.kind} {key[0]}/{now.top.name}")
                    self._known[key] = owner, now
                    self._changed()
                await asyncio.sleep(1 / _READ_AGAIN_RATE)

    async def _of(self, namespace: str, owner: Owner) -> Lineage | Exception:
        chain: list[Mapping[str, Any]] = []
        above: Owner | None = owner
        try:
            async with self._slots:
                while above is not None and len(chain) < _DEEPEST:
                    raw = await self._read(above.api_version, above.kind, namespace, above.name)
                    if raw is None or raw["metadata"].get("uid") != above.uid:
                        break
                    chain.append({**raw, "apiVersion": above.api_version, "kind": above.kind})
                    above = owner_above(raw)
            return lineage_of(owner, chain)
        except (UserError, ClusterError) as error:
            return error


def _equal(one: Lineage, other: Lineage) -> bool:
    """Whether both say the same of their pods; a status changes all the time."""
    return (one.top, one.annotations, _of_interest(one.raw)) == (other.top, other.annotations, _of_interest(other.raw))


def _of_interest(raw: Mapping[str, Any] | None) -> tuple[Any, ...]:
    if raw is None:
        return ()
    metadata = raw["metadata"]
    return metadata.get("annotations"), metadata.get("labels"), raw.get("spec"), _succeeded(raw)


def _succeeded(raw: Mapping[str, Any]) -> Any:
    return (raw.get("status") or {}).get("succeeded")
