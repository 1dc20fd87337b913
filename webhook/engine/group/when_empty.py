"""The place of a group if no other pod ran: what waits in vain is told from what waits for others to leave.

1. Every node is thought empty, ready and not cordoned; what is reserved is free.
2. Members of the group that run stay where they are, and take their room.
3. The group is placed there.
"""

from collections.abc import Iterable

from webhook.engine.emptied import emptied
from webhook.engine.group.kind import Kind
from webhook.engine.group.place import place_group
from webhook.engine.group.rehearsal import settled
from webhook.engine.group.result import GroupPlacement
from webhook.engine.group.soonest import nodes_of
from webhook.engine.group.spec import PodGroup
from webhook.engine.options import GroupStrategy
from webhook.engine.request import named_resources
from webhook.engine.tree import Domain, TopologyTree
from webhook.engine.view import View


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
