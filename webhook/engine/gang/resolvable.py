"""The place of a group if no other pod ran: what waits in vain is told from what waits for others to leave.

1. Every node is thought empty, ready and not cordoned; what is reserved is free.
2. Members of the group that run stay where they are, and take their room.
3. The group is placed there.
"""

from collections.abc import Iterable

from webhook.engine.gang.admission_replay import settled
from webhook.engine.gang.backfill_reservation import nodes_of
from webhook.engine.gang.gang_assignment import place_group
from webhook.engine.gang.gang_spec import PodGroup
from webhook.engine.gang.pod_class import Kind
from webhook.engine.gang.result import GroupPlacement
from webhook.engine.request import named_resources
from webhook.engine.snapshot.empty_cluster import emptied
from webhook.engine.snapshot.snapshot import View
from webhook.engine.topology.tree import Domain, TopologyTree
from webhook.model.options import GroupStrategy


def place_when_empty(
    view: View,
    tree: TopologyTree,
    group: PodGroup,
    within: Domain | None = None,
    strategy: GroupStrategy = GroupStrategy.BIN_PACK,
) -> GroupPlacement:
    """The placement of a group on the view without the pods of others. within: the domain in which it has begun."""
    empty = emptied_but_for(view, [group])
    if within is not None:
        empty = empty.closed(~nodes_of(tree, within))
    return place_group(empty, tree, group, strategy)


def emptied_but_for(view: View, groups: Iterable[PodGroup]) -> View:
    """The view with the running members of these groups and no other pod."""
    sets = [podset for group in groups for podset in group.all_sets()]
    view = view.covering(name for podset in sets for name in named_resources(podset.pod))
    empty = View(emptied(view.snapshot))
    running: dict[int, list[Kind]] = {}
    for podset in sets:
        if podset.running:
            kind = Kind.of(empty, podset.pod, podset.intent)
            for _, name in podset.running:
                if name in empty.snapshot.index:
                    running.setdefault(empty.snapshot.index[name], []).append(kind)
    return settled(empty, running)
