"""Whether a waiting gang could ever fit, recomputed only after a change that matters.

Pods that come and go do not matter: the answer is that of a cluster without them. It depends on the nodes, on their
amounts of every resource that the gang requests, and on the gang.
"""

from collections.abc import Callable, Container, Hashable
from dataclasses import dataclass

from webhook.admission.gang_text import never_held
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.gang.resolvable import assign_when_empty
from webhook.engine.gang.result import GangAssignment
from webhook.engine.request import named_resources
from webhook.engine.topology.tree import Domain, TopologyTree
from webhook.model.options import GangStrategy


@dataclass(frozen=True, slots=True)
class _Answer:
    tree: TopologyTree
    gang: Gang
    basis: Hashable
    text: str


class GangSchedulability:
    """The cached answer for each waiting gang."""

    def __init__(self, strategy: GangStrategy, assignment: Callable[..., GangAssignment] = assign_when_empty) -> None:
        self._strategy = strategy
        self._assign = assignment
        self._answers: dict[str, _Answer] = {}

    def keep(self, keys: Container[str]) -> None:
        """Forget all gangs but these, which still wait."""
        self._answers = {key: answer for key, answer in self._answers.items() if key in keys}

    def text(self, key: str, placement: GangAssignment, gang: Gang, within: Domain | None) -> str:
        """Says that the gang would not fit even if no other pod ran, and what it needs; empty if it would fit.

        key: the gang. placement: its failed placement now. within: the domain in which it has begun.
        """
        basis = _basis(placement, gang, within)
        known = self._answers.get(key)
        if known is None or known.tree is not placement.tree or known.basis != basis or known.gang != gang:
            when_empty = self._assign(placement.snapshot, placement.tree, gang, within, self._strategy)
            known = _Answer(placement.tree, gang, basis, never_held(when_empty))
            self._answers[key] = known
        return known.text


def _basis(placement: GangAssignment, gang: Gang, within: Domain | None) -> Hashable:
    """What the answer depends on besides the tree and the gang: the nodes' resources, policies and taints, as sums."""
    node_arrays = placement.snapshot.node_arrays
    rows = [node_arrays.resources.find(name) for podset in gang.all_sets() for name in named_resources(podset.pod)]
    amounts = [
        (int(node_arrays.allocatable[row].sum()), int(node_arrays.zone_allocatable[row].sum()))
        for row in {*rows}
        if row >= 0
    ]
    return within, node_arrays.n, tuple(amounts), int(node_arrays.kind.sum()), int(node_arrays.taint_set.sum())
