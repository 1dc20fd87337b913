"""Whether one shard of the nodes has room for a gang: a leader places all of it in the shards that it leads."""

from collections.abc import Callable, Collection
from typing import Final

from webhook.engine.gang.result import GangAssignment
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.placing.pod.assignment import without
from webhook.state.shards import NodeShards

ACROSS_SHARDS: Final = "there is room for the gang across shards, but in none alone"
"""Why a gang waits that would fit if one replica led all shards."""


def shard_with_room(
    shards: NodeShards, nodes: Snapshot, name: str, fits: Callable[[Snapshot], bool], but: Collection[str] = ()
) -> str | None:
    """The first shard with room for a gang in the order of its name; None if there is none. but: shards to leave out.

    fits: whether the gang fits on nodes.
    """
    candidates = (shard for shard in shards.ranked(name) if shard not in but)
    return next((shard for shard in candidates if fits(without(nodes, shards.outside(shard)))), None)


def needs_several_shards(
    shards: NodeShards | None, nodes: Snapshot, placement: GangAssignment, fits: Callable[[Snapshot], bool]
) -> bool:
    """Whether a gang fits with the nodes of all shards, as in `placement`, and in no shard alone."""
    if shards is None or not shards.known or not placement.assigned:
        return False
    if len({shards.of(pod.node) for pod in placement.pods()}) < 2:
        return False
    return shard_with_room(shards, nodes, "", fits) is None
