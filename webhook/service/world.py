"""The cluster as decisions see it: informers' raw objects become model records, records become the engine's arrays.

Each kind of object has a `Feed`, which an informer fills. An object that cannot be read is left out and counted, with
a log line when its fault changes: one odd object must not stop a cluster.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any

import structlog

from webhook.admission.arrival import Arrival, PlacedPod
from webhook.admission.gate import waits_for_us_alone
from webhook.admission.left_alone import is_annotated
from webhook.admission.rules import Rules
from webhook.admission.world import World
from webhook.engine.foresee import foresee
from webhook.engine.one_node import chosen_node, less, node_alone
from webhook.engine.reserve.grant import Grant
from webhook.engine.reserve.ledger import Ledger, Reservation
from webhook.engine.reserve.reservations import ReservationKeeper
from webhook.engine.reserve.uncounted import CountingTimes
from webhook.engine.reserve.unguarded import Certainty
from webhook.engine.snapshot import Snapshot
from webhook.engine.state import ClusterState
from webhook.engine.view import View
from webhook.model.hint import NUMANodeAmounts
from webhook.model.membership import Seated
from webhook.model.node import Node
from webhook.model.nrt import NodeTopology
from webhook.model.topology import Topology, TopologySource
from webhook.placement.late_hints import LateHint
from webhook.service.feed import Feed
from webhook.service.seen_pod import SeenPod

if TYPE_CHECKING:
    from webhook.model.policy import NUMAPolicy

log = structlog.get_logger(__name__)

Raw = dict[str, Any]


class ClusterWorld:
    """Everything known of the cluster, current as of the last event."""

    def __init__(
        self, times: CountingTimes | None = None, clock: Callable[[], float] = time, rules: Rules | None = None
    ) -> None:
        self.generation = 0
        """That of the latest view; it grows with the changes that views took in."""
        self._state = ClusterState()
        self._ledger = Ledger()
        self._keeper = ReservationKeeper(self._ledger, times)
        self._clock = clock  # wall clock: the API server's stamps on pods and NRTs are compared with it
        self._waiting: dict[str, Raw] = {}
        self._gated: dict[str, Raw] = {}
        self._groups: dict[str, dict[str, Seated]] = {}
        self._group_of: dict[str, str] = {}
        self.on_change: Callable[[], None] = _nothing
        """Called after every change, those that time alone makes among them; it must be quick."""
        self.in_order: Callable[[], bool] = _always
        """Whether pods are told of in the order in which things happened to them: by a watch, not by a list."""
        self._topologies: dict[TopologySource, dict[str, Topology]] = {source: {} for source in TopologySource}
        self._disagreements: dict[str, tuple[NUMAPolicy, NUMAPolicy]] = {}
        self.nodes = Feed("Node", Node.from_object, self._put_node, self._drop_node)
        self.node_topologies = Feed(
            "NodeResourceTopology", NodeTopology.from_object, self._put_node_topology, self._drop_node_topology
        )
        read_pod = partial(SeenPod.from_object, rules=rules or Rules())
        self.pods = Feed("Pod", read_pod, self._put_pod, self._drop_pod)
        self.topologies = {source: self._topology_feed(source) for source in TopologySource}

    def view(self) -> World:
        """The cluster for one decision; it stays as it is while the cluster goes on changing."""
        # The same name in both groups is two objects; KAI's, whose annotations are read, wins.
        by_name = {**self._topologies[TopologySource.KUEUE], **self._topologies[TopologySource.KAI]}
        snapshot = self._settle()
        self.generation = snapshot.generation
        return World(View(snapshot, self._ledger), by_name)

    def chosen_node(self, node: str, pod: str) -> View | None:
        """The node alone, as free as it is to the pod namespace/name; None when it is not known."""
        return chosen_node(self._settle(), self._ledger, node, pod, self._keeper.bound_to(node))

    def arrival(self, node: str, pod: str) -> Arrival | None:
        """The node as the pod namespace/name will find it when it is bound to it; None when it is not known."""
        alone = node_alone(self._settle(), node, self._keeper.bound_to(node))
        if alone is None:
            return None
        placed = [promised for promised in self._keeper.placed(node) if promised.pod != pod]
        own = self._ledger.get(pod)
        given = less(self._ledger.sums(node), node, [*placed, *(() if own is None else (own,))])
        waiting = [(promised, self._waiting.get(promised.pod)) for promised in placed]
        others = tuple(PlacedPod(promised, raw) for promised, raw in waiting if raw is not None)
        return Arrival(alone, given, others, own)

    def late_hints(self) -> Iterator[LateHint]:
        """The pods that were bound without a hint and are not counted by an NRT, and what each is to have for one."""
        self._settle()
        for pod, foreseen in self._keeper.foreseen(self._clock()):
            if foreseen.place or foreseen.certainty is not Certainty.KNOWN:
                yield LateHint.of(pod, foreseen, self.arrival(pod.node, pod.key))

    def placed(self, node: str) -> tuple[Reservation, ...]:
        """What is promised to pods that are placed on the node and not on their way to its kubelet yet."""
        return self._keeper.placed(node)

    def is_approached(self, node: str, pod: str, expiring_after: float) -> bool:
        """Whether another pod was given NUMA nodes there with a binding that no object shows yet.

        Of grants that expire later than that only, on the clock of their `expires`.
        """
        arriving = self._keeper.arriving(node)
        return any(grant.numa and grant.pod != pod and grant.expires > expiring_after for grant in arriving)

    def waiting_pod(self, key: str, uid: str) -> Raw | None:
        """A pod that is not bound yet; None when it, or this incarnation of it, was not seen.

        Of one that asks for nothing here, and has no gate of ours, no more than its metadata's name and uid.
        """
        pod = self._waiting.get(key)
        return pod if pod is not None and uid in {"", pod["metadata"].get("uid")} else None

    def promised(self, pod: str, uid: str, node: str) -> NUMANodeAmounts | None:
        """What the pod was granted on the node in an answer or patch that it does not show yet."""
        grant = self._keeper.granted(pod)
        return tuple(grant.numa.items()) if grant and (grant.uid, grant.node) == (uid, node) else None

    def grant(self, grant: Grant) -> None:
        """Keep what was given to a pod."""
        self._keeper.grant(grant)

    def gated_pods(self) -> Mapping[str, Raw]:
        """The pods that only our gate holds back; not to be changed."""
        return self._gated

    def ungated_pods(self) -> Mapping[str, Raw]:
        """The pods without any gate and without a node that ask for something here, by namespace/name."""
        return {
            key: raw
            for key, raw in self._waiting.items()
            if is_annotated(raw) and not raw["spec"].get("schedulingGates")
        }

    def seated(self, group: str) -> Mapping[str, Seated]:
        """The members of a group that have a place, by namespace/name; not to be changed."""
        return self._groups.get(group, {})

    def groups(self) -> Mapping[str, Mapping[str, Seated]]:
        """The members that have a place, by group and by namespace/name; not to be changed."""
        return self._groups

    def promised_node(self, pod: str) -> str | None:
        """The node that the pod was given and does not show yet; None when it was given none."""
        grant = self._keeper.granted(pod)
        return None if grant is None else grant.node

    @property
    def open_grants(self) -> int:
        """How many grants no object shows yet."""
        return self._keeper.open_grants

    def overdue_grants(self, now: float) -> tuple[Grant, ...]:
        """The grants that no object has come to show by the time they had, on the clock of `time.monotonic`."""
        return self._keeper.overdue(now)

    def withdraw(self, grant: Grant) -> None:
        """What was given will not be taken."""
        if self._keeper.granted(grant.pod) is grant:
            self._keeper.withdraw(grant.pod)

    @property
    def policy_disagreements(self) -> int:
        """Nodes whose policy label and NodeResourceTopology name different policies."""
        return len(self._disagreements)

    def _settle(self) -> Snapshot:
        """The state as it is now, with the ledger in step: all that is promised, and where unguarded pods are."""
        if self._keeper.settle(self._clock()):
            self.on_change()
        snapshot = self._state.snapshot()
        for node, unguarded in self._keeper.to_foresee():
            if (alone := node_alone(snapshot, node, unguarded.residents)) is not None:
                self._keeper.keep(node, foresee(alone, unguarded))
        return snapshot

    def _put_node(self, node: Node) -> None:
        self._state.upsert_node(node)
        self._compare_policies(node.name)
        self.on_change()

    def _drop_node(self, name: str) -> None:
        self._state.delete_node(name)
        self._compare_policies(name)
        self.on_change()

    def _put_pod(self, pod: SeenPod) -> None:
        key = pod.record.key
        if pod.record.terminal:
            self._note_end(key)
        self._state.upsert_pod(pod.record)
        self._keeper.put_pod(pod.record, in_order=self.in_order())
        if pod.waiting is None:
            self._waiting.pop(key, None)
        else:
            self._waiting[key] = pod.waiting
        if pod.waiting is not None and waits_for_us_alone(pod.waiting):
            self._gated[key] = pod.waiting
        else:
            self._gated.pop(key, None)
        self._note_seat(pod)
        self.on_change()

    def _drop_pod(self, key: str) -> None:
        self._note_end(key)
        self._state.delete_pod(key)
        self._keeper.drop_pod(key)
        self._waiting.pop(key, None)
        self._gated.pop(key, None)
        self._forget_seat(key)
        self.on_change()

    def _note_end(self, key: str) -> None:
        """A pod is about to end: it may have been in the way of those that came before we hear of that."""
        pod = self._state.pods.get(key)
        if pod is not None and self._keeper.is_to_be_foreseen(pod.node):
            self._settle()

    def _note_seat(self, pod: SeenPod) -> None:
        """Keep which members of a group have a place."""
        key, node = pod.record.key, pod.record.node or pod.record.placed_on
        self._forget_seat(key)
        if pod.membership is not None and node and not (pod.record.terminal or pod.record.deleting):
            self._group_of[key] = pod.membership.group
            self._groups.setdefault(pod.membership.group, {})[key] = Seated(node, pod.membership.rank)

    def _forget_seat(self, key: str) -> None:
        group = self._group_of.pop(key, None)
        if group is not None:
            del self._groups[group][key]
            if not self._groups[group]:
                del self._groups[group]

    def _put_node_topology(self, topology: NodeTopology) -> None:
        self._state.upsert_topology(topology)
        self._keeper.put_topology(topology)
        self._compare_policies(topology.node)
        self.on_change()

    def _drop_node_topology(self, name: str) -> None:
        self._state.delete_topology(name)
        self._keeper.drop_topology(name)
        self._compare_policies(name)
        self.on_change()

    def _topology_feed(self, source: TopologySource) -> Feed[Topology]:
        kept = self._topologies[source]
        return Feed(
            f"Topology of {source}",
            Topology.from_object,
            lambda topology: self._keep_topology(kept, topology),
            lambda name: self._discard_topology(kept, name),
        )

    def _keep_topology(self, kept: dict[str, Topology], topology: Topology) -> None:
        kept[topology.name] = topology
        self.on_change()

    def _discard_topology(self, kept: dict[str, Topology], name: str) -> None:
        kept.pop(name, None)
        self.on_change()

    def _compare_policies(self, name: str) -> None:
        """One log line when the policies of a node's label and NodeResourceTopology come to differ, or agree again."""
        node, topology = self._state.nodes.get(name), self._state.topologies.get(name)
        before = self._disagreements.pop(name, None)
        if node is None or topology is None:
            return
        if node.policy_label is None or node.policy_label == topology.policy:
            if before is not None:
                log.info("node.policies_agree", node=name)
            return
        now = self._disagreements[name] = node.policy_label, topology.policy
        if now != before:
            log.warning("node.policies_disagree", node=name, label=now[0].name, topology=now[1].name)


def _nothing() -> None:
    """Nobody wants to know."""


def _always() -> bool:
    return True
