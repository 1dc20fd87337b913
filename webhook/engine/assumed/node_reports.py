"""The NodeResourceTopology of each node, and which pods it reports."""

from collections.abc import Mapping, Sequence

from webhook.engine.assumed.binding_order import BindingOrder
from webhook.engine.assumed.ended_pods import EndedPods
from webhook.engine.assumed.pods_by_node import PodsByNode
from webhook.engine.assumed.reported import reported_pods
from webhook.model.nrt import NodeTopology, Publisher
from webhook.model.resident import ResidentPod


class NodeReports:
    """The current NRTs. settle: seconds after a pod's end in which an NRT may be written that still reports it."""

    def __init__(self, pods: PodsByNode, order: BindingOrder, settle: float) -> None:
        self._pods = pods
        self._order = order
        self._settle = settle
        self._topologies: dict[str, NodeTopology] = {}
        self._reported: dict[str, frozenset[str]] = {}
        self._ended = EndedPods()

    @property
    def topologies(self) -> Mapping[str, NodeTopology]:
        """The NRTs by node; a live view."""
        return self._topologies

    def topology(self, node: str) -> NodeTopology | None:
        """The node's NRT; None if it has none."""
        return self._topologies.get(node)

    def put(self, topology: NodeTopology) -> None:
        """Record a node's current NRT."""
        known = self._topologies.get(topology.node)
        if known is None or known.fingerprint != topology.fingerprint:
            self._reported.pop(topology.node, None)
        self._topologies[topology.node] = topology

    def drop(self, node: str) -> bool:
        """Remove the NRT of a node; False if it has none."""
        self._reported.pop(node, None)
        return self._topologies.pop(node, None) is not None

    def note_end(self, pod: ResidentPod) -> None:
        """Record a bound pod that has ended or was deleted."""
        self._ended.note(pod)

    def ended(self, topology: NodeTopology) -> Sequence[ResidentPod]:
        """The ended pods that the NRT may still report, the last ended first."""
        living = {pod.key for pod in self._pods.bound_to(topology.node)}
        return [pod for pod in self._ended.that_may_count(topology, self._settle) if pod.key not in living]

    def reported(self, topology: NodeTopology) -> frozenset[str] | None:
        """The keys of the pods that the NRT's fingerprint covers; None if unknown.

        Cached until the fingerprint changes.
        """
        if topology.fingerprint is None or topology.publisher is Publisher.TOTAL:
            return None
        found = self._reported.get(topology.node)
        if found is None:
            living = self._order.in_order(self._pods.bound_to(topology.node))
            method = topology.fingerprint_method
            found = reported_pods(topology.fingerprint, method, living, self.ended(topology))
            if found is not None:
                self._reported[topology.node] = found
        return found
