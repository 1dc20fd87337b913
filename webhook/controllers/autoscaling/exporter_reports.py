"""Reports nodes whose exporter has published nothing in time: an Event on the node and a log line.

A node is reported again after the time that the API server keeps Events, if a pod still waits for it then.
"""

from collections.abc import Iterable
from typing import Final

import structlog

from webhook.kube.events import EventRecorder, node_warning

log = structlog.get_logger(__name__)

# Source: kube-apiserver's default of --event-ttl.
_AGAIN_SECONDS: Final = 3600.0
# Where no exporter runs, all nodes of a cluster are found together. Their Events and lines would stand before others.
_MOST_AT_ONCE: Final = 100


class MissingExporterReports:
    """after: seconds after a node's creation in which it publishes its NUMA nodes."""

    def __init__(self, events: EventRecorder, after: float) -> None:
        self._events = events
        self._after = after
        self._told: dict[str, float] = {}

    def tell(self, nodes: Iterable[str], now: float) -> None:
        """Report these nodes; the caller finds those again that have to wait. now: seconds of `time.monotonic`."""
        self._told = {node: at for node, at in self._told.items() if now - at < _AGAIN_SECONDS}
        for node in sorted(set(nodes) - self._told.keys())[:_MOST_AT_ONCE]:
            self._told[node] = now
            log.warning("node.exporter_missing", node=node, seconds=self._after)
            note = (
                f"no NodeResourceTopology with NUMA nodes {self._after:g} s after the node's creation: look at its "
                "exporter; pods that ask for a NUMA policy wait, and no further node is added for them"
            )
            self._events.tell(node_warning(node, "ExporterMissing", note, "Wait", occurrence=int(now)))
