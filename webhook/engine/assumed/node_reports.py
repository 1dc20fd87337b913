"""The NodeResourceTopology of each node, and which pods it reports.

A fingerprint covers names, and a pod may be recreated under its name on the same node. So a covered name may still mean
the earlier pod until an NRT is written long enough after the next one was bound.
"""

from collections.abc import Mapping, Sequence

from webhook.engine.assumed.binding_order import BindingOrder
from webhook.engine.assumed.ended_pods import EndedPods
from webhook.engine.assumed.pods_by_node import PodsByNode
from webhook.engine.assumed.reported import reported_pods
from webhook.engine.assumed.unreported import ReportingTimes, is_long_after
from webhook.model.nrt import NodeTopology, Publisher
from webhook.model.resident import ResidentPod


class NodeReports:
    """The current NRTs."""

    def __init__(self, pods: PodsByNode, order: BindingOrder, times: ReportingTimes) -> None:
        self._pods = pods
        self._order = order
        self._times = times
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
        """The ended pods that the NRT may still report, the last ended first. A living pod may have the name of one."""
        bound = self._pods.bound_to(topology.node)
        shown = {pod.key for pod in bound if is_long_after(topology, pod, self._times.settle)}
        return [pod for pod in self._ended.that_may_count(topology, self._times.settle) if pod.key not in shown]

    def ambiguous(self, topology: NodeTopology, now: float) -> frozenset[str]:
        """The keys of living pods whose names the NRT may have from earlier pods, at `now`.

        Those are recreated pods, and pods from a list, which shows no earlier ones.
        """
        ended = {pod.key for pod in self.ended(topology)}
        return frozenset(
            pod.key
            for pod in self._pods.bound_to(topology.node)
            if (pod.key in ended or not self._order.known_position(pod.key))
            and not is_long_after(topology, pod, self._times.settle)
            and now < (pod.bound_at or 0) + self._times.age
        )

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
