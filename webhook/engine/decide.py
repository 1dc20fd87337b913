"""Every node's answer to one pod: whether it fits and how well, or the one reason why it does not.

1. The node as a whole: selectors, taints, readiness, resources (webhook.engine.filter.node_fit).
2. The node's NUMA policy, and whether its NUMA nodes are known (webhook.engine.koordinator); what it requires of the
   pod's CPUs (webhook.engine.cpu_cores).
3. Its NUMA nodes: the kubelet's admission predicted, or the scheduler plugin's filter.
4. Exclusivity. If we choose the NUMA nodes, others are tried first. An assignment that still intrudes is excluded
   (Required) or ranked last (Preferred).
5. Nodes that the pod avoids because their kubelets rejected another pod of its controller or gang.
6. The score, and from it the rank. Equal scores are ordered by the pod's preference
   (webhook.engine.filter.node_preference), by what it leaves to idle devices (webhook.engine.ranking), then by
   name. Nodes that do not enforce the pod's policy come last (webhook.engine.enforcement).

A node's reason is the first that applies. Allocations and explanations are computed on request.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import repeat, starmap
from typing import Final, NamedTuple

import numpy as np

from webhook.engine import kubelet, plugin
from webhook.engine.arrays import Bools, Bytes, Nodes
from webhook.engine.cpu_cores import core_reasons, core_rules
from webhook.engine.enforcement import unenforced
from webhook.engine.filter.node_fit import avoided_nodes, node_fit
from webhook.engine.filter.node_preference import PER_POINT, Preference
from webhook.engine.koordinator import (
    WIDE_BEST,
    best_packing_score,
    intrudes,
    ours_to_place,
    packing_score,
    policy_fit,
    shut_out,
)
from webhook.engine.node_explanation import explain
from webhook.engine.numa_fit import Allocation, NUMAFit, Wide
from webhook.engine.ranking import Late, Liking, Ranking, cpus_left_to_idle_devices
from webhook.engine.reason import FITS, REASONS, Reason, count
from webhook.engine.request import PodRequest, named_resources
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.options import Fidelity, Options, ScoreStrategy, Unenforced
from webhook.model.policy import Exclusive

__all__ = ["Candidate", "Decision", "Fidelity", "Options", "ScoreStrategy", "decide", "on_numa_nodes"]

_DEFAULTS: Final = Options()


class Candidate(NamedTuple):
    """A node that fits."""

    node: str
    score: int
    numa_nodes: tuple[int, ...]
    """NUMA ids that the pod would use, ascending; empty if it is not bound to any."""
    preference: int | None = None
    """0..100: how much the pod prefers it; None if it prefers all fitting nodes equally."""
    enforces: bool = True
    """Whether something there enforces the NUMA policy that the pod asks for."""


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The answers of all nodes, in the order of the snapshot."""

    snapshot: Snapshot
    pod: Pod
    request: PodRequest
    fits: Bools
    """bool [node]."""
    fit_count: int
    reason: Bytes
    """uint8 [node]: Reason; FITS where it fits."""
    ranking: Ranking
    numa: NUMAFit
    unenforced: Bools | None = None
    """bool [node]: nothing there enforces the pod's policy; None: nowhere (see webhook.engine.enforcement)."""

    @property
    def score(self) -> Bytes:
        """uint8 [node]: 0..100, higher is better; 0 of nodes that do not fit."""
        return self.ranking.scores

    @property
    def excluded(self) -> Mapping[Reason, int]:
        """How many nodes each reason excludes."""
        return count(self.reason)

    def best(self, k: int) -> tuple[Candidate, ...]:
        """Return the k nodes with the highest scores, best first; fewer where fewer fit."""
        node_arrays = self.snapshot.node_arrays
        k = min(k, self.fit_count)
        if k <= 0:
            return ()
        last = None if node_arrays.unenforced is Unenforced.ALLOW else self.unenforced
        chosen, scores = self.ranking.best(k, node_arrays.order, last)
        names = map(node_arrays.names.__getitem__, chosen.tolist())
        liking = self.ranking.liking
        points = repeat(None, k) if liking is None else (liking.preference[chosen] // PER_POINT).tolist()
        enforce = repeat(True, k) if self.unenforced is None else (~self.unenforced[chosen]).tolist()
        return tuple(starmap(Candidate, zip(names, scores, self._numa_nodes(chosen), points, enforce, strict=True)))

    @property
    def taking(self) -> Bools:
        """Bool [node]: the nodes that the pod should go to: where some that fit come last, the others."""
        last = self.unenforced
        if last is None or self.snapshot.node_arrays.unenforced is Unenforced.ALLOW:
            return self.fits
        first: Bools = self.fits & ~last
        return first if first.any() else self.fits

    def preference(self, node: int) -> int | None:
        """0..100: how much the pod prefers a fitting node (an index); None if all are equal."""
        liking = self.ranking.liking
        return None if liking is None else int(liking.preference[node]) // PER_POINT

    def numa_nodes(self, node: int) -> tuple[int, ...]:
        """NUMA ids that the pod would use on a node (an index) that fits, ascending."""
        (numa_nodes,) = self._numa_nodes(np.array([node]))
        return numa_nodes

    def _numa_nodes(self, nodes: Nodes) -> Iterable[tuple[int, ...]]:
        """NUMA ids that the pod would use on each of these nodes, ascending."""
        masks, ids = self.numa.masks(nodes), self.snapshot.node_arrays.zone_ids
        below = masks - 1
        if np.count_nonzero(masks) == len(nodes) and not np.count_nonzero(masks & below):
            # Masks with one NUMA node: the number of lower bits is its position.
            return zip(ids[np.bitwise_count(below), nodes].tolist(), strict=True)
        return map(_members, masks.tolist(), ids[:, nodes].T.tolist())

    def allocation(self, node: int) -> Allocation:
        """What the pod would take of each NUMA node of a fitting node (an index)."""
        return self.numa.allocation(node)

    def with_node(self, node: int, alone: "Decision") -> "Decision | None":
        """The decision on the same pod when one fitting node (an index) has changed since. alone: that on it by itself.

        None if the order of the nodes does not follow from what each is by itself.
        """
        fits, reason = self.fits.copy(), self.reason.copy()
        fits[node], reason[node] = alone.fits[0], alone.reason[0]
        ranking = self.ranking.with_score(node, int(alone.score[0]) if alone.fits[0] else None)
        numa = self.numa.with_node(node, alone.numa)
        if ranking is None or numa is None:
            return None
        count = int(np.count_nonzero(fits))
        return replace(self, fits=fits, fit_count=count, reason=reason, ranking=ranking, numa=numa)

    def explain(self, node: int) -> tuple[Reason, str]:
        """The reason of a node (an index), and a sentence with the numbers behind it."""
        reason = REASONS[self.reason[node]]
        return reason, explain(self.snapshot, self.pod, self.request, reason, node)


def decide(snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options | None = None) -> Decision:
    """Judge every node of the snapshot."""
    options = options or _DEFAULTS
    snapshot = snapshot.covering(named_resources(pod))
    node_arrays = snapshot.node_arrays
    request = PodRequest.of(pod, intent, node_arrays.resources)
    policies = policy_fit(node_arrays, request)
    reasons = node_fit(snapshot, pod, request)
    if policies is not None:
        _then(reasons, policies)
    if (cores := core_reasons(node_arrays, request)) is not None:
        _then(reasons, cores)
    fits = reasons == FITS
    numa, intruding = on_numa_nodes(snapshot, request, options, fits)
    reasons |= numa.reason * fits
    numa_fits = numa.fits
    if (rules := core_rules(node_arrays, request)) is not None:
        _then(reasons, rules.too_few(snapshot).astype(np.uint8) * np.uint8(Reason.TOO_FEW_CORES))
        numa_fits = reasons == FITS
    if request.exclusive is Exclusive.REQUIRED and intruding is not None:
        _then(reasons, intruding.astype(np.uint8) * np.uint8(Reason.NUMA_NODE_EXCLUSIVE))
        numa_fits = reasons == FITS
    if (avoided := avoided_nodes(node_arrays, pod)) is not None:
        _then(reasons, avoided.astype(np.uint8) * np.uint8(Reason.REJECTED_BEFORE))
        numa_fits = reasons == FITS
    fits &= numa_fits
    fit_count = int(np.count_nonzero(fits))
    ranking = _ranking(snapshot, pod, request, numa, options, fits, intruding)
    return Decision(snapshot, pod, request, fits, fit_count, reasons, ranking, numa, unenforced(node_arrays, request))


def on_numa_nodes(
    snapshot: Snapshot, request: PodRequest, options: Options, among: Bools
) -> tuple[NUMAFit, Bools | None]:
    """The fit on NUMA nodes, and where it intrudes on other pods' NUMA nodes (bool [node]; None = nowhere).

    among: bool [node]: the nodes to judge.
    """
    fit = _numa_fit(snapshot, request, options, among)
    shut = None if request.exclusive is None else shut_out(snapshot, request)
    if shut is None:
        return fit, None
    intruding = intrudes(shut, request, fit.mask) & fit.fits
    ours = ours_to_place(snapshot.node_arrays)
    if (intruding & ours).any():
        apart = _numa_fit(snapshot.without(shut), request, options, among)
        better = intruding & ours & apart.fits
        fit = _merged(fit, apart, better)
        intruding &= ~better
    return fit, intruding if intruding.any() else None


def _members(mask: int, ids: list[int]) -> tuple[int, ...]:
    return tuple([ids[position] for position in _positions(mask)])


@lru_cache(maxsize=1024)
def _positions(mask: int) -> tuple[int, ...]:
    return tuple(position for position in range(mask.bit_length()) if mask >> position & 1)


def _then(reasons: Bytes, later: Bytes) -> None:
    """The later reason applies where nothing has excluded the node yet."""
    reasons |= later * (reasons == FITS)


def _merged(fit: NUMAFit, other: NUMAFit, where: Bools) -> NUMAFit:
    return NUMAFit(
        fits=np.where(where, other.fits, fit.fits),
        reason=np.where(where, other.reason, fit.reason),
        known=np.where(where, other.mask, fit.mask),
        split=lambda node: (other if where[node] else fit).allocation(node),
    )


def _numa_fit(snapshot: Snapshot, request: PodRequest, options: Options, among: Bools) -> NUMAFit:
    if options.fidelity == "Plugin":
        return plugin.filter_nodes(snapshot, request)
    return kubelet.predict(snapshot, request, among)


def _ranking(
    snapshot: Snapshot,
    pod: Pod,
    request: PodRequest,
    numa: NUMAFit,
    options: Options,
    fits: Bools,
    intruding: Bools | None,
) -> Ranking:
    (nodes,) = fits.nonzero()
    liking = _liking(snapshot, pod, nodes, options, intruding)
    late = None
    if options.score_strategy != "Packing":
        strategy = plugin.Strategy(options.score_strategy)
        as_shipped = options.fidelity == "Plugin"
        scored = plugin.score_nodes(snapshot, request, strategy, options.resource_weights, nodes, as_shipped=as_shipped)
        scores = scored.astype(np.uint8)
    else:
        if intruding is None and numa.wide is not None:
            nodes, late = _apart(snapshot, request, fits, numa.wide)
        scores = packing_score(snapshot, request, nodes, numa.masks(nodes))
    if intruding is not None:
        scores[intruding[nodes]] = 0
    return Ranking(len(fits), nodes, scores, late, liking, cpus_left_to_idle_devices(snapshot, request))


def _liking(snapshot: Snapshot, pod: Pod, nodes: Nodes, options: Options, intruding: Bools | None) -> Liking | None:
    """How much the pod prefers the fitting nodes (indexes); None: all equally."""
    preference = Preference.of(snapshot.node_arrays, pod) if len(nodes) > 1 else None
    liked = None if preference is None else preference.among(nodes)
    if liked is None:
        return None
    everywhere = np.zeros(snapshot.node_arrays.n, dtype=np.int32)
    everywhere[nodes] = liked
    if intruding is not None:
        everywhere[intruding] = 0  # they stay last
    return Liking(everywhere, options.preference_weight)


def _apart(snapshot: Snapshot, request: PodRequest, fits: Bools, wide: Wide) -> tuple[Nodes, Late | None]:
    """The fitting nodes (indexes) that are not wide, and the packing scores of those that are, not computed yet."""
    (positions,) = fits.take(wide.nodes).nonzero()
    here = wide.nodes.take(positions)
    others = fits.copy()
    others[here] = False
    (nodes,) = others.nonzero()
    if not len(here):
        return nodes, None
    late = Late(
        here,
        WIDE_BEST,
        lambda: best_packing_score(wide.at_least[positions]),
        lambda where: packing_score(snapshot, request, here[where], wide.masks(positions[where])),
    )
    return nodes, late
