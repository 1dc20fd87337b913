"""A node that pods avoid for a while, because its kubelet rejected another pod of their controller or gang.

A kubelet rejects a pod that we placed if its node's NodeResourceTopology did not show what was taken there: static
pods, or a pod that no replica saw. The controller creates the next pod at once, and the node looks the same as before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.formats.kubernetes.membership import controllers_group
from webhook.formats.kubernetes.timestamps import utc

# Of the nodes in a text.
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True, order=True)
class AvoidedNode:
    """A node, and the last rejection there."""

    node: str
    reason: str
    """The kubelet's reason."""
    rejected_at: int
    """Seconds since the epoch, by the API server's clock."""
    until: int
    """Until then it is avoided if its NodeResourceTopology does not become newer than the rejection; likewise."""
    threads: int = 0
    """The threads per core that its kubelet named: only pods avoid it that a kubelet rejects that gives whole cores. 0:
    all pods of the controller or gang avoid it."""

    @property
    def what(self) -> str:
        """The rejection: reason and time."""
        return f"{self.reason} at {utc(self.rejected_at)}"

    def __str__(self) -> str:
        return f"{self.node}: {self.what}"


Avoided = Mapping[str, tuple[AvoidedNode, ...]]
"""The avoided nodes by key of a controller's pods or of a gang (`membership`), or of `learned_key`."""


def learned_key(namespace: str) -> str:
    """The key of what a namespace has learned of kubelets. No group's key begins so."""
    return f"/{namespace}"


def learned_in(avoided: Avoided, namespace: str) -> tuple[AvoidedNode, ...]:
    """The nodes whose kubelets said to the namespace that they give whole cores only."""
    return avoided.get(learned_key(namespace), ()) if avoided else ()


def learned_by_node(avoided: Avoided) -> Mapping[str, Mapping[str, AvoidedNode]]:
    """What is learned of kubelets: node -> namespace -> the rejection that showed it."""
    found: dict[str, dict[str, AvoidedNode]] = {}
    for key, entries in avoided.items():
        for one in entries if key.startswith(learned_key("")) else ():
            found.setdefault(one.node, {})[key.removeprefix(learned_key(""))] = one
    return found


def avoided_by(avoided: Avoided, namespace: str, controller: str, group: str = "") -> tuple[AvoidedNode, ...]:
    """The nodes that a pod avoids, by name. controller: the uid of its controller; group: the key of its gang."""
    if not avoided:
        return ()
    of_controller = avoided.get(controllers_group(namespace, controller), ()) if controller else ()
    of_group = avoided.get(group, ()) if group else ()
    last: dict[str, AvoidedNode] = {}
    for one in sorted((*of_controller, *of_group), key=lambda one: one.rejected_at):
        last[one.node] = one
    return tuple(sorted(last.values()))


def rejections_text(nodes: Sequence[AvoidedNode]) -> str:
    """The first nodes with their rejections, and how many more there are."""
    more = f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
    return ", ".join(map(str, nodes[:_MOST_NAMED])) + more


def used_again_text(nodes: Sequence[AvoidedNode]) -> str:
    """When these nodes are used again; at least one."""
    first = utc(min(one.until for one in nodes))
    if len(nodes) == 1:
        return f"it is used again once its NodeResourceTopology is newer than the rejection, at the latest at {first}"
    return f"each is used again once its NodeResourceTopology is newer than the rejection, the first by {first}"
