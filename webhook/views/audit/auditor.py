"""The audit of a cluster: its pods and Events are taken one by one, so that not all of them have to be kept."""

from dataclasses import dataclass, replace

from webhook.formats.kubernetes.resident import TERMINAL_PHASES
from webhook.model.raw import Raw
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules
from webhook.views.audit.actions import actions
from webhook.views.audit.managed_pods import ManagedPods, ManageView
from webhook.views.audit.node_findings import NodesView, nodes_view
from webhook.views.audit.rejections import Rejections, RejectionView
from webhook.views.audit.spanning_pods import SpanningPodView, spanning_pods, unreported_nodes
from webhook.views.audit.split_gangs import SplitGangs, SplitGangView


@dataclass(frozen=True, slots=True)
class AuditView:
    """The findings, and what to do about them."""

    rejections: tuple[RejectionView, ...]
    spanning_pods: tuple[SpanningPodView, ...]
    split_gangs: tuple[SplitGangView, ...]
    nodes: NodesView
    manage: tuple[ManageView, ...]
    actions: tuple[str, ...]
    """Sentences, in the order in which to do them."""


class Auditor:
    """cache: holds all nodes, NodeResourceTopologies, topologies, namespaces and the pods that have not ended."""

    def __init__(self, cache: ClusterCache, rules: Rules) -> None:
        self._state, self._now, self._avoided = cache.state, cache.current_time(), cache.avoided.by_key()
        snapshot = replace(cache.snapshot(), topologies=cache.topologies_by_name())
        self._topologies = [each for each in snapshot.topologies.values() if each.source is not None]
        self._managed = ManagedPods(snapshot, rules)
        self._rejections = Rejections(self._managed)
        self._gangs = SplitGangs(snapshot, cache.state.nodes)

    def add_pod(self, raw: Raw) -> None:
        """Take a pod of the cluster, also one that has ended."""
        self._rejections.add_pod(raw)
        if (raw.get("status") or {}).get("phase") in TERMINAL_PHASES:
            return
        self._managed.add(raw)
        metadata = raw["metadata"]
        resident = self._state.pods.get(f"{metadata.get('namespace', '')}/{metadata['name']}")
        if resident is not None:
            self._gangs.add(raw, resident)

    def add_event(self, raw: Raw) -> None:
        """Take an Event of the cluster."""
        self._rejections.add_event(raw)

    def view(self) -> AuditView:
        """The findings."""
        nodes, topologies = self._state.nodes, self._state.topologies
        rejections = self._rejections.views()
        spanning = spanning_pods(self._state.pods.values(), topologies)
        gangs = self._gangs.views()
        unreported = unreported_nodes(self._state.pods.values(), topologies, self._now)
        pods = self._state.pods.values()
        found = nodes_view(nodes, topologies, self._topologies, unreported, pods, self._avoided)
        steps = actions(rejections, spanning, gangs, found)
        return AuditView(rejections, spanning, gangs, found, self._managed.views(), steps)
