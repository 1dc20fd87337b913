"""Whether one shard of the nodes has room for a gang: a leader places all of it in the shards that it leads."""

from collections.abc import Callable, Collection
from typing import Final

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
