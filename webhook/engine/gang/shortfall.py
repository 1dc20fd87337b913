"""Why a group has no place: at each level it could be in, the domain that holds most of it, and what is short there.

1. Pods are placed one piece after the other into each level's domains, as many as fit; constraints of parts aside.
2. The domain that holds most stands for its level; of a group that has begun, that in which its members run.
3. The resource that is short: the one that, by itself, allows the fewest pods of the kind that falls furthest short, on
   the nodes that selectors, taints and policies leave.
"""

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.filter.node_fit import node_fit
from webhook.engine.gang.distribution import Share, SubDomains, pour
from webhook.engine.gang.exact_search import pinned
from webhook.engine.gang.pod_class import Kind
from webhook.engine.gang.pods_per_node import slots
from webhook.engine.gang.remaining import Caps, Stock
from webhook.engine.gang.result import Shortfall
from webhook.engine.gang.slices import Part, Piece
from webhook.engine.koordinator import policy_fit
from webhook.engine.reason import Reason
from webhook.engine.snapshot.snapshot import View
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.model.resources import PODS

_FULL = (Reason.FITS, Reason.INSUFFICIENT_RESOURCES, Reason.TOO_MANY_PODS)


def shortfalls(view: View, tree: TopologyTree, part: Part, caps: Caps) -> tuple[Shortfall, ...]:
    """What is missing, coarse to fine."""
    return tuple(_at(view, tree, part, caps, level) for level in reversed(part.constraint.levels()))


def _at(view: View, tree: TopologyTree, part: Part, caps: Caps, level: int) -> Shortfall:
    pieces = [piece for piece in part.all_pieces() if piece.minimum]
    needed = sum(piece.minimum for piece in pieces)
    label = "" if level == ROOT else tree.topology.levels[level - 1].node_label
    if not tree.real(level).any():
        return Shortfall(label, (), 0, needed, "")
    best = Domain(level, _best_domain(view, tree, part, caps, level))
    stock = Stock(view, tree, caps)
    holds, short, missing = 0, pieces[0], -1
    for piece in sorted(pieces, key=lambda piece: -max(piece.kind.node.values())):
        fitting = _fill(stock, tree, best, piece)
        holds += fitting
        if piece.minimum - fitting > missing:
            short, missing = piece, piece.minimum - fitting
    # What each kind could have by itself the kinds together cannot: one pod at least is left over.
    resource = _short_resource(view, tree, best, short.kind)
    amount = _amount(short.kind, resource) if resource else 0
    return Shortfall(label, tree.path(best), min(holds, needed - 1), needed, resource, amount)


def _best_domain(view: View, tree: TopologyTree, part: Part, caps: Caps, level: int) -> int:
    stock = Stock(view, tree, caps)
    needed: dict[int, tuple[Kind, int]] = {}
    for piece in part.all_pieces():
        needed[id(piece.kind)] = piece.kind, needed.get(id(piece.kind), (piece.kind, 0))[1] + piece.minimum
    holds = np.zeros(tree.size(level), dtype=np.int64)
    for kind, count in needed.values():
        holds += np.minimum(tree.sums(level, stock.slots(kind)[0]), count)
    possible = tree.real(level).copy()
    required = part.constraint.required
    held_to = pinned(tree, part.running, required)
    if held_to is not None and required is not None:
        inside = tree.under(Domain(required, held_to), level)
        possible[: inside.start] = False
        possible[inside.stop :] = False
    return int(np.where(possible, holds, -1).argmax())


def _fill(stock: Stock, tree: TopologyTree, domain: Domain, piece: Piece) -> int:
    """Place as many pods of a piece in a domain as fit; how many."""
    room, counted = stock.slots(piece.kind)
    span = tree.span(domain)
    inside = np.zeros_like(room)
    inside[span] = room[span]
    count = min(int(inside.sum()), piece.minimum)
    if count:
        share = Share(np.array([domain.number]), np.array([count]))
        if domain.level < tree.node_level:
            share = pour(tree, share, domain.level, SubDomains(tree.node_level, inside), joint=True)
        stock.take(piece.kind, stock.seat(counted, share))
    return count


def _short_resource(view: View, tree: TopologyTree, domain: Domain, kind: Kind) -> str:
    """The resource that binds; empty if no node of the domain may be used."""
    snapshot = view.snapshot
    usable = np.isin(node_fit(view, kind.pod, kind.request), _FULL)
    policies = policy_fit(snapshot, kind.request)
    if policies is not None:
        usable &= policies == Reason.FITS
    here = np.zeros(snapshot.n, dtype=np.bool_)
    here[tree.order[tree.span(domain)]] = True
    here &= usable
    if not here.any():
        return ""
    allowed: dict[str, int] = {}
    for column, row in enumerate(kind.request.rows):
        amount = kind.request.node[column]
        if amount > 0:
            allowed[kind.request.resources[column]] = 0 if row < 0 else _pods(view.node_free(row)[here], amount)
    allowed[PODS] = _pods(view.node_free(snapshot.resources.find(PODS))[here], 1)
    for shares in (kind.asking.placed, (kind.asking.whole,)):
        for share in shares:
            for row, amount in share.amounts.items():
                name = snapshot.resources.names[row]
                zones = view.free(row)[:, here]
                if amount > 0 and kind.request.strict and (zones >= 0).any():
                    allowed[name] = min(allowed.get(name, 1 << 60), _pods(zones, amount))
    return min(allowed, key=allowed.__getitem__)


def _amount(kind: Kind, resource: str) -> int:
    """What one pod asks of a resource that is short."""
    return 1 if resource == PODS else kind.request.node[kind.request.resources.index(resource)]


def _pods(free: Amounts, amount: int) -> int:
    return int(slots([free], [amount]).sum())
