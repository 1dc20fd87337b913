"""Kubernetes' own PodGroups in the cache."""

from collections.abc import Mapping

from webhook.formats.kubernetes.native_pod_group import NativePodGroup
from webhook.signal import Signal
from webhook.state.feed import Feed


class NativePodGroups:
    """The PodGroups by namespace/name. changed: emitted when what one requests has changed, not its status."""

    def __init__(self, changed: Signal[[]]) -> None:
        self._changed = changed
        self._known: dict[str, NativePodGroup] = {}
        self.version = ""
        """The version in which the API server serves them; empty: in none that we read."""
        self.feed = Feed("PodGroup of Kubernetes", NativePodGroup.from_object, self._put, self._drop)

    def by_key(self) -> Mapping[str, NativePodGroup] | None:
        """The PodGroups by namespace/name, live; None where they are not served."""
        return self._known if self.version else None

    def serve(self, version: str) -> None:
        """The API server serves them in this version; empty: no longer."""
        self.version = version

    def _put(self, group: NativePodGroup) -> None:
        before = self._known.get(group.key)
        self._known[group.key] = group
        if before != group:
            self._changed.emit()

    def _drop(self, key: str) -> None:
        if self._known.pop(key, None) is not None:
            self._changed.emit()
