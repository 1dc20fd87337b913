"""In which shard a unit waits for its nodes: its leader places it there.

1. The one that is written on its oldest waiting pod. A gang gets it at the creation of its pods, and any unit when it
   moves to a shard that has room.
2. A gang's that has begun: that of its first member.
3. The first in the order of the unit's name, on which all replicas agree.
A shard that has no node any more counts as absent.
"""

from collections.abc import Mapping

from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.shard_choice import ShardChoice
from webhook.model.raw import Raw
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import Unit, members_of, name_of
from webhook.state.cluster_cache import ClusterCache
from webhook.state.shards import NodeShards


def oldest(unit: Unit) -> GatedPod:
    """The waiting pod that says where the unit waits."""
    return min(members_of(unit), key=lambda one: (one.pod.created, one.key))


def shard_of(unit: Unit, state: ClusterCache) -> str:
    """The shard in which the unit waits."""
    shards = state.shards
    there = shards.nodes()
    choice = ShardChoice.of(oldest(unit).raw)
    if choice is not None and choice.shard in there:
        return choice.shard
    if isinstance(unit, GatedGang) and (begun := _begun(state.gangs.assigned(unit.membership.group))):
        return shards.of(begun)
    return shards.first(name_of(unit))


def shard_of_pod(raw: Raw, shards: NodeShards) -> str:
    """The shard of a pod whose unit is not known: it cannot be read, or its owners are not."""
    choice = ShardChoice.of(raw)
    if choice is not None and choice.shard in shards.nodes():
        return choice.shard
    return shards.first(f"pod {raw['metadata'].get('uid', '')}")


def _begun(members: Mapping[str, AssignedMember]) -> str:
    return next((members[key].node for key in sorted(members) if members[key].node), "")
