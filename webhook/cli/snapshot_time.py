"""When a snapshot was taken: the newest time in its objects.

Ages count from then, also in a snapshot of last week. What a NodeResourceTopology reports of a pod depends on them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from webhook.model.timestamps import epoch_seconds

_IN_CONDITIONS: Final = ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime")


def newest_time(objects: Iterable[Mapping[str, Any]]) -> float | None:
    """The newest time in the objects, in seconds since the epoch; None without any."""
    return max((time for raw in objects for time in _times(raw) if time is not None), default=None)


def _times(raw: Mapping[str, Any]) -> Iterator[int | None]:
    metadata = raw["metadata"]
    yield epoch_seconds(metadata.get("creationTimestamp"))
    for entry in _objects(metadata.get("managedFields")):
        yield epoch_seconds(entry.get("time"))
    status = raw.get("status")
    for condition in _objects(status.get("conditions") if isinstance(status, Mapping) else None):
        for name in _IN_CONDITIONS:
            yield epoch_seconds(condition.get(name))


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects in a list of a file, which is not checked yet."""
    yield from (entry for entry in value if isinstance(entry, Mapping)) if isinstance(value, list) else ()
