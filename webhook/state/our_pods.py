"""The pods that this replica works on, as the leader of some shards of the nodes.

A waiting pod is of the shard in which its unit waits (see `placing.shard_of_unit`), any other of its node's. Pods that
wait for the scheduler and were given no node are of the default shard.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

from webhook.model.raw import Raw
from webhook.state.pod_indexes import GangMembers, PodIndexes, UnconfirmedPod
from webhook.state.shards import NodeShards

T = TypeVar("T")


class OurPods:
    """The pods that this replica works on: those of its shards. Without a shard label: all."""

    def __init__(self, shards: NodeShards, pods: PodIndexes, gangs: GangMembers, node_of: Callable[[str], str]) -> None:
        """node_of: the node that a pod namespace/name is bound or assigned to; empty if there is none."""
        self._shards = shards
        self._pods = pods
        self._gangs = gangs
        self._node_of = node_of
        self._waiting: AbstractSet[str] = frozenset()
        self._waiting_gangs: Mapping[str, bool] = {}

    def collected(self, waiting: AbstractSet[str], gangs: Mapping[str, bool]) -> None:
        """Take what waits: our pods by namespace/name, and of each gang whether it is ours."""
        self._waiting, self._waiting_gangs = waiting, gangs

    def gated(self) -> Mapping[str, Raw]:
        """The pods whose only gate is ours, as of the last collection. The result must not be changed."""
        if not self._shards.label:
            return self._pods.gated
        return {key: self._pods.gated[key] for key in self._waiting if key in self._pods.gated}

    def ungated(self) -> Mapping[str, Raw]:
        """The managed pods without any gate and without a node."""
        return self._of_our_nodes(self._pods.ungated())

    def unconfirmed(self) -> Mapping[str, UnconfirmedPod]:
        """The managed pods that have a node, and whose condition `Placed` does not say so yet."""
        return self._of_our_nodes(self._pods.unconfirmed)

    def has_pod(self, key: str) -> bool:
        """Whether a pod that is bound, assigned, or waits for the scheduler alone is of our shards."""
        return not self._shards.label or self._shards.of(self._node_of(key)) in self._shards.worked_on

    def has_gang(self, group: str) -> bool:
        """Whether a gang is ours: as it waits, else where its first member is."""
        if not self._shards.label:
            return True
        known = self._waiting_gangs.get(group)
        if known is not None:
            return known
        return self.has_pod(min(self._gangs.assigned(group), default=""))

    def _of_our_nodes(self, pods: Mapping[str, T]) -> Mapping[str, T]:
        return {key: pod for key, pod in pods.items() if self.has_pod(key)} if self._shards.label else pods
