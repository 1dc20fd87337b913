"""The Topology objects of the cluster, from both API groups (KAI's and Kueue's)."""

from collections.abc import Mapping

from webhook.formats.topology import Topology, TopologySource
from webhook.signal import Signal
from webhook.state.feed import Feed


class Topologies:
    """Topologies by source. arrived: emitted when one was added or changed; changed: also when one was deleted."""

    def __init__(self, arrived: Signal[[]], changed: Signal[[]]) -> None:
        self._arrived = arrived
        self._changed = changed
        self._known: dict[TopologySource, dict[str, Topology]] = {source: {} for source in TopologySource}
        self._by_name: Mapping[str, Topology] | None = None
        self.feeds = {source: self._feed(source) for source in TopologySource}

    def by_name(self) -> Mapping[str, Topology]:
        """All topologies. If both groups have an object of one name, KAI's wins: KAI's annotations are read.

        The same object until one changes.
        """
        if self._by_name is None:
            self._by_name = {**self._known[TopologySource.KUEUE], **self._known[TopologySource.KAI]}
        return self._by_name

    def _feed(self, source: TopologySource) -> Feed[Topology]:
        known = self._known[source]

        def put(topology: Topology) -> None:
            known[topology.name] = topology
            self._by_name = None
            self._arrived.emit()
            self._changed.emit()

        def drop(name: str) -> None:
            known.pop(name, None)
            self._by_name = None
            self._changed.emit()

        return Feed(f"Topology of {source}", Topology.from_object, put, drop)
