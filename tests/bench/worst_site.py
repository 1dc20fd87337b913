"""Where a worst case runs: the functions that the service calls, from the bytes that arrive."""

from collections.abc import Callable
from time import monotonic
from typing import Any

from tests.bench.worst_cluster import NODES, ZONES, cluster
from tests.handlers import HandlerOf
from webhook.admission.binding.decision import Given, guard, into_binding
from webhook.admission.response import Allowed, Denied, Patched, Response
from webhook.app.webhooks import handlers_of
from webhook.codec import dumps, loads
from webhook.engine.decide import Decision
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.kai import pod_group
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.formats.kubernetes.owner_chain import owner_above, owner_chain_of
from webhook.formats.topology import TopologySource
from webhook.model.errors import UserError
from webhook.model.raw import Draft
from webhook.placing.gang.gang_search import GangSearch, GatedGang, search_gang
from webhook.placing.pod.assignment import Assignment, find_assignment, why_unassigned
from webhook.placing.pod.binding_pod import BindingPod
from webhook.placing.pod.gated_pods import GatedPod, GatedPods
from webhook.placing.retry_delays import RetryDelays
from webhook.placing.waiting_unit import units_of
from webhook.state.rules import Rules
from webhook.state.store import Feed
from webhook.steps import result_of


class Site:
    """The decisions of a replica, without its sockets."""

    def __init__(self, nodes: int = NODES, zones: int = ZONES) -> None:
        self.rules = Rules()
        self.cache = cluster(nodes, zones, self.rules)

    def review(self, path: str, body: bytes) -> Response | None:
        """Answer a review, from its bytes to the bytes of the answer. None for JSON that is nested too deeply."""
        try:
            request = AdmissionRequest.from_object(loads(body))
        except ValueError:
            return None
        # Built again for each case: decisions on equal pods are cached.
        response = handlers_of(self.rules, self.cache.snapshot, HandlerOf(), HandlerOf())[path].handle(request)
        assert isinstance(response, Allowed | Patched | Denied)
        dumps(response.to_object(request.uid))
        return response

    def feed(self, kind: str, body: bytes) -> Callable[[], None]:
        """Add an object to the cache, without a decision. Returns a function that removes it."""
        raw = loads(body)
        feed, key = self._feed(kind), _key(raw)
        feed.upsert(key, raw)
        self.cache.snapshot()

        def forget() -> None:
            feed.delete(key)
            self.cache.snapshot()

        return forget

    def gated(self, body: bytes) -> None:
        """Handle a gated pod in a cycle of the leader: read, compare, decide, report."""
        raw = loads(body)
        pods = GatedPods(self.rules, RetryDelays(lambda _: None, monotonic))
        result_of(pods.update({_key(raw): raw}))
        for gated in pods.in_order():
            hash(gated.signature)
            snapshot = self.cache.snapshot().nodes
            place = find_assignment(snapshot, gated, self.rules, lambda _: ())
            if isinstance(place, Decision):
                why_unassigned(place, gated, self.rules, 0)
            elif isinstance(place, Assignment):
                place.patch(raw)

    def place_gang(self, gang: GatedGang) -> None:
        """Handle a gang in a cycle of the leader: build it, then assign or reject it."""
        found = search_gang(gang, len(gang.members), {}, self.cache.snapshot(), TopologyTrees(), self.rules)
        assert isinstance(found, GangSearch)
        str(found.placement.why)

    def owner(self, body: bytes, pod: Draft) -> None:
        """Handle the owner of a gated pod: the owner chain, the pod's rank, the PodGroup."""
        try:
            raw = loads(body)
        except ValueError:
            return
        owner = owner_above(pod)
        assert owner is not None
        owner_chain = owner_chain_of(owner, [raw])
        try:
            gated = GatedPod.from_object(pod, owner_chain)
            owner_chain.minimum(gated.pod.labels, None)
            member = {**pod, "metadata": {**pod["metadata"], "annotations": dict(gated.pod.annotations)}}
            dumps(pod_group(owner_chain, member, 1, self.cache.snapshot().topologies, ""))
        except UserError as error:
            str(error)

    def bind(self, body: bytes, node: str = "node-1") -> None:
        """Let the guard decide on a Binding to a node whose kubelet tries sets of NUMA nodes."""
        raw = loads(body)
        kubelet_admission = self.cache.kubelet_admission(node, _key(raw))
        verdict = guard(BindingPod.from_object(raw, self.rules), node, kubelet_admission, self.rules)
        if isinstance(verdict, Given):
            into_binding({"metadata": {"name": "p"}}, verdict)

    def _feed(self, kind: str) -> Feed[Any]:
        feeds: dict[str, Feed[Any]] = {
            "Node": self.cache.nodes,
            "Pod": self.cache.pods,
            "NRT": self.cache.node_topologies,
        }
        return feeds[kind] if kind in feeds else self.cache.topologies[TopologySource(kind)]


def gang_of(body: bytes) -> GatedGang:
    """The gang of these gated pods, which the service has read before."""
    pods = GatedPods(Rules(), RetryDelays(lambda _: None, monotonic))
    result_of(pods.update({_key(raw): raw for raw in loads(body)["items"]}))
    (gang,) = units_of(pods.in_order())
    assert isinstance(gang, GatedGang)
    return gang


def _key(raw: Draft) -> str:
    metadata = raw["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
