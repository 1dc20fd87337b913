"""What recent bindings were given, to be given again: pods of one template come to many equal nodes.

Two bindings are given the same if these are the same:
- the pod's signature, what is assumed for it, and whether a stricter policy of the node is ignored for it;
- the node as the pod finds it: its resources and NUMA nodes, what others were given there, which pods are assigned
  there (see `KubeletAdmission.key`).

A pod that must wait because hints of others hold these NUMA nodes is included: in a burst it is examined each time one
of the others is bound, and only their names differ. Other refusals are left out: they are rare, and name nodes.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from webhook.admission.binding.decision import Given

# A node goes through some dozen states while equal pods fill it. An entry takes some kilobytes.
_MOST: Final = 1024


class Recent(NamedTuple):
    """What a kubelet would give such a pod."""

    given: "Given"
    held: bool
    """Whether hints of other pods hold some of its NUMA nodes. Those pods are bound first."""


class RecentBindings:
    """The last ones, for one set of rules."""

    def __init__(self) -> None:
        self._given: dict[Hashable, Recent] = {}

    def get(self, key: Hashable) -> Recent | None:
        """What an equal pod would be given on an equal node; None if that is not known."""
        return self._given.get(key)

    def put(self, key: Hashable, given: Recent) -> None:
        """Keep this one. Beyond the limit the oldest is dropped."""
        if len(self._given) >= _MOST:
            del self._given[next(iter(self._given))]
        self._given[key] = given
