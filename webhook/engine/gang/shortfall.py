"""Why a gang does not fit: at each level, the domain that holds most of it, and what is short there.

1. As many pods as fit are placed into each level's domains, slice after slice, without subgroup constraints.
   They are the pods of the minimum, or all pods if the minimum is 0. Those of required segments count in whole ones
   (webhook.engine.gang.segments_held).
2. Each level is represented by the domain that holds most; for a gang that has begun, by the one with its members.
3. The short resource is the one that by itself allows the fewest pods of the class with the largest shortfall, on
   the nodes that selectors, taints and policies allow.
"""

from dataclasses import replace
from operator import attrgetter

import numpy as np

from webhook.engine.arrays import Amounts
from webhook.engine.filter.node_fit import avoided_nodes, node_fit
from webhook.engine.gang.distribution import Share, SubDomains, distribute
from webhook.engine.gang.exact_search import pinned
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.pod_counts import Caps, slots
from webhook.engine.gang.remaining import Remaining
from webhook.engine.gang.result import Shortfall
from webhook.engine.gang.segments_held import SegmentsShort, pods_in_segments, segments_short
from webhook.engine.gang.slices import PodSlice, SlicedGang, pods_by_class
from webhook.engine.koordinator import policy_fit
from webhook.engine.reason import Reason
from webhook.engine.snapshot.label_columns import ABSENT
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import ROOT, Domain, TopologyTree
from webhook.model.resources import PODS

_FULL = (Reason.FITS, Reason.INSUFFICIENT_RESOURCES, Reason.TOO_MANY_PODS)


def shortfalls(snapshot: Snapshot, tree: TopologyTree, sliced: SlicedGang, caps: Caps) -> tuple[Shortfall, ...]:
    """What is missing, coarse to fine."""
    return tuple(_at(snapshot, tree, sliced, caps, level) for level in reversed(sliced.constraint.levels()))


def _missing(sliced: SlicedGang) -> list[PodSlice]:
    """The slices, whose minimum is the number of pods that count."""
    pod_slices = sliced.all_slices()
    if not any(pod_slice.minimum for pod_slice in pod_slices):
        pod_slices = tuple(replace(pod_slice, minimum=len(pod_slice.members)) for pod_slice in pod_slices)
    return [pod_slice for pod_slice in pod_slices if pod_slice.minimum]


def _at(snapshot: Snapshot, tree: TopologyTree, sliced: SlicedGang, caps: Caps, level: int) -> Shortfall:
    pod_slices = _missing(sliced)
    needed = sum(pod_slice.minimum for pod_slice in pod_slices)
    label = "" if level == ROOT else tree.topology.levels[level - 1].node_label
    if not tree.real(level).any():
        return Shortfall(label, (), 0, needed, "", missing=_missing_labels(snapshot, tree, level))
    best = Domain(level, _best_domain(snapshot, tree, sliced, caps, level))
    remaining = Remaining(snapshot, tree, caps)
    holds, short, missing, segments = 0, pod_slices[0], -1, None
    for pod_slice in sorted(pod_slices, key=lambda pod_slice: -max(pod_slice.pod_class.node.values())):
        fitting, in_segments = _fill(remaining, tree, best, pod_slice)
        holds += fitting
        if pod_slice.minimum - fitting > missing:
            short, missing, segments = pod_slice, pod_slice.minimum - fitting, in_segments
    # What each class could have by itself, the classes together cannot: at least one pod is left over.
    resource = _short_resource(snapshot, tree, best, short.pod_class)
    amount = _amount(short.pod_class, resource) if resource else 0
    return Shortfall(label, tree.path(best), min(holds, needed - 1), needed, resource, amount, segments)


def _missing_labels(snapshot: Snapshot, tree: TopologyTree, level: int) -> tuple[str, ...]:
    """The coarsest label that keeps all nodes out of the level; with the coarser ones if some nodes have it."""
    at = next(upper for upper in range(1, level + 1) if not tree.real(upper).any())
    labels = tree.topology.node_labels[:at]
    codes, _ = snapshot.node_arrays.labels.column(labels[-1])
    return labels[:-2:-1] if (codes == ABSENT).all() else labels[::-1]


def _best_domain(snapshot: Snapshot, tree: TopologyTree, sliced: SlicedGang, caps: Caps, level: int) -> int:
    remaining, pod_slices = Remaining(snapshot, tree, caps), _missing(sliced)
    in_one = [pod_slice for pod_slice in pod_slices if pod_slice.segments is None]
    holds = remaining.holds(level, pods_by_class(in_one, attrgetter("minimum")))
    for pod_slice in pod_slices:
        if pod_slice.segments is not None:
            slots, _ = remaining.slots(pod_slice.pod_class)
            holds += np.minimum(pods_in_segments(tree, slots, pod_slice.segments, level), pod_slice.minimum)
    possible = tree.real(level).copy()
    required = sliced.constraint.required
    held_to = pinned(tree, sliced.running, required)
    if held_to is not None and required is not None:
        inside = tree.under(Domain(required, held_to), level)
        possible[: inside.start] = False
        possible[inside.stop :] = False
    return int(np.where(possible, holds, -1).argmax())


def _fill(
    remaining: Remaining, tree: TopologyTree, domain: Domain, pod_slice: PodSlice
) -> tuple[int, SegmentsShort | None]:
    """Place as many pods of a slice in a domain as fit; returns their number, and the segments that are short."""
    domain_capacity, counted = remaining.slots(pod_slice.pod_class)
    span = tree.span(domain)
    inside = np.zeros_like(domain_capacity)
    inside[span] = domain_capacity[span]
    count = min(int(inside.sum()), pod_slice.minimum)
    segments = None
    if pod_slice.segments is not None:
        segments = segments_short(tree, inside, pod_slice.segments, domain, pod_slice.minimum)
    if segments is not None:
        count = min(count, segments.pods)
    if count:
        share = Share(np.array([domain.number]), np.array([count]))
        if domain.level < tree.node_level:
            share = distribute(tree, share, domain.level, SubDomains(tree.node_level, inside), joint=True)
        remaining.take(pod_slice.pod_class, remaining.assign(counted, share))
    return count, segments


def _short_resource(snapshot: Snapshot, tree: TopologyTree, domain: Domain, pod_class: PodClass) -> str:
    """The limiting resource; empty if no node of the domain is eligible."""
    node_arrays = snapshot.node_arrays
    usable = np.isin(node_fit(snapshot, pod_class.pod, pod_class.request), _FULL)
    policies = policy_fit(node_arrays, pod_class.request)
    if policies is not None:
        usable &= policies == Reason.FITS
    here = np.zeros(node_arrays.n, dtype=np.bool_)
    here[tree.order[tree.span(domain)]] = True
    here &= usable
    avoided = avoided_nodes(node_arrays, pod_class.pod)
    if avoided is not None:
        here &= ~avoided
    if not here.any():
        return ""
    allowed: dict[str, int] = {}
    for column, row in enumerate(pod_class.request.rows):
        amount = pod_class.request.node[column]
        if amount > 0:
            allowed[pod_class.request.resources[column]] = (
                0 if row < 0 else _pods(snapshot.node_free(row)[here], amount)
            )
    allowed[PODS] = _pods(snapshot.node_free(node_arrays.resources.find(PODS))[here], 1)
    for shares in (pod_class.asking.assigned, (pod_class.asking.whole,)):
        for share in shares:
            for row, amount in share.amounts.items():
                name = node_arrays.resources.names[row]
                zones = snapshot.free(row)[:, here]
                if amount > 0 and pod_class.request.strict and (zones >= 0).any():
                    allowed[name] = min(allowed.get(name, 1 << 60), _pods(zones, amount))
    return min(allowed, key=allowed.__getitem__)


def _amount(pod_class: PodClass, resource: str) -> int:
    """What one pod requests of a resource that is short."""
    return 1 if resource == PODS else pod_class.request.node[pod_class.request.resources.index(resource)]


def _pods(free: Amounts, amount: int) -> int:
    return int(slots([free], [amount]).sum())
