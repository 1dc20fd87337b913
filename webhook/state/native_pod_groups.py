"""Kubernetes' own PodGroups in the cache."""

from collections.abc import Callable, Mapping

from webhook.formats.kubernetes.native_pod_group import NativePodGroup
from webhook.signal import Signal
from webhook.state.feed import Feed


class NativePodGroups:
    """The PodGroups by namespace/name. changed: emitted when what one requests has changed, not its status."""

    def __init__(self, changed: Signal[[]]) -> None:
        self._changed = changed
        self._known: dict[str, NativePodGroup] = {}
        self.is_served: Callable[[], bool] = _no
        """Whether the API server serves them, in a version that we read."""
        self.version: Callable[[], str] = str
        """That version."""
        self.feed = Feed("PodGroup of Kubernetes", NativePodGroup.from_object, self._put, self._drop)

    def by_key(self) -> Mapping[str, NativePodGroup] | None:
        """The PodGroups by namespace/name, live; None where they are not served."""
        return self._known if self.is_served() else None

    def _put(self, group: NativePodGroup) -> None:
        before = self._known.get(group.key)
        self._known[group.key] = group
        if before != group:
            self._changed.emit()

    def _drop(self, key: str) -> None:
        if self._known.pop(key, None) is not None:
            self._changed.emit()


def _no() -> bool:
    return False
