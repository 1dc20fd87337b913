"""What a cluster autoscaler is asked for a pod or gang that lacks room.

1. A pod: the node groups of which an empty node could take it (`helpful`). If there is none, no autoscaler is asked: a
   new node would not help.
2. A gang: the groups that could take one member or another, if each of its members has such a group, and the required
   topology level can be met there (`reached`).
3. If no node exists that the pods of a gang could go to, nothing is known about such nodes. The autoscaler is asked all
   the same, as for a single pod, which is ungated then: it has its own templates of empty groups.
4. A node of a group that the pod would fit in total, and that has not published its NUMA nodes, is named to the
   operator (`UnpublishedNodes`).

The result for a pod signature is kept for a while: equal pods cost one decision.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from webhook.engine.arrays import Bools, Bytes
from webhook.engine.decide import decide
from webhook.engine.gang.backfill_reservation import nodes_of
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.gang.resolvable import assign_when_empty
from webhook.engine.reason import FITS, Reason
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.topology.tree import ROOT, TopologyTree
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.autoscaling import GROUP_LABELS, group_of
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.patches.affinity_patch import NodeRef
from webhook.model.names import HOSTNAME_LABEL
from webhook.model.resources import format_list
from webhook.placing.autoscaling.blind_nodes import blind_nodes
from webhook.placing.autoscaling.lacking_room import NewNodes, ScaleUp
from webhook.placing.gang.gang_search import GatedGang, assembled_gang
from webhook.placing.gang.pod_sets import Assembled
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.pod.node_names import NodeNames
from webhook.placing.pod.placement_text import subject
from webhook.placing.pod.schedulability import UnschedulableReason, look_ahead
from webhook.placing.waiting_unit import WaitingUnit
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Asking, Rules
from webhook.steps import Steps

# A node that lacks knowledge, or is tainted for a time, does not represent its group.
_SILENT: Final = frozenset({Reason.NO_TOPOLOGY, Reason.UNKNOWN_POLICY, Reason.UNTOLERATED_TAINT})
_NAME: Final = "metadata.name"
# cluster-autoscaler looks at the cluster every 10 s (its flag --scan-interval), Karpenter collects pods for up to 10 s
# (its setting batchMaxDuration): a younger answer would not be read.
KEPT_SECONDS: Final = 10.0
_MOST_KINDS: Final = 64
_MOST_NAMED: Final = 3
# A pod may request hundreds of resources.
_LONGEST_AMOUNTS: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class NodeGroup:
    """The nodes of one group."""

    label: str
    """The node label that names it."""
    name: str
    """The value of that label."""
    nodes: npt.NDArray[np.intp]
    """int [node of the group]: the nodes (their n), newest first."""
    created: Sequence[int]
    """When each of them was created, in seconds since the epoch; 0 = not known."""


def node_groups(node_arrays: NodeArrays, nodes: Mapping[str, Node], keys: Sequence[str]) -> tuple[NodeGroup, ...]:
    """The groups of the present nodes, by name. keys: the labels that name groups, in order."""
    found: dict[tuple[str, str], list[tuple[int, str, int]]] = {}
    for n, (name, labels) in enumerate(zip(node_arrays.names, node_arrays.labels.rows, strict=False)):
        group = group_of(labels, keys)
        if group is not None:
            created = nodes[name].created if name in nodes else 0
            found.setdefault(group, []).append((-created, name, n))
    groups = []
    for group, members in sorted(found.items()):
        members.sort()
        numbers = np.array([n for _, _, n in members], dtype=np.intp)
        groups.append(NodeGroup(*group, numbers, tuple(-created for created, _, _ in members)))
    return tuple(groups)


def helpful(
    groups: Sequence[NodeGroup], reasons: Bytes, settled: float, *, newest_decides: bool
) -> tuple[NodeGroup, ...]:
    """The groups of which one more node could take the pod, judged by the nodes that they have.

    A new node of a group is taken to be like those that are there, without their pods. What DaemonSets will take of it
    is not subtracted: the autoscaler does that itself before it adds a node.

    - cluster-autoscaler: the nodes of a group are meant to be equal, but a group may have been changed. So its newest
      node decides. If what a group adds turns out not to take the pod, the group is not asked again: no nodes are added
      without end.
    - Karpenter: the nodes of a pool differ, and it chooses by amounts among types that may not be there yet. So any
      node of the pool may say yes.

    A node that is new may lack what is still to come: devices, NUMA nodes, the end of a taint. It does not say no.

    reasons: uint8 [node], why each node could not take it if it were empty. settled: nodes created before this time, in
    seconds since the epoch, are complete. newest_decides: whether the newest complete node represents its group.
    """
    return tuple(one for one in groups if _helps(one, reasons[one.nodes], settled, newest_decides=newest_decides))


def _helps(group: NodeGroup, reasons: npt.NDArray[Any], settled: float, *, newest_decides: bool) -> bool:
    if not newest_decides:
        return bool((reasons == FITS).any())
    for reason, created in zip(reasons.tolist(), group.created, strict=True):
        if reason == FITS:
            return True
        if reason not in _SILENT and created < settled:
            return False
    return False


class UnpublishedNodes:
    """Names the nodes of groups that a pod would fit in total, if only their NUMA nodes were known.

    Autoscalers count by totals: each takes the pod for one that runs there. A new node publishes its NUMA nodes some
    time after its creation. One that has not after a while has no exporter, or one that fails: then an operator must
    look, as no node is added for the pod while that one is there.

    after: seconds after a node's creation in which it publishes its NUMA nodes.
    """

    def __init__(self, after: float) -> None:
        self._after = after
        self.late: set[str] = set()
        """Those without an exporter, or with one that fails: the caller reports them, and empties the set."""

    def clauses(
        self, names: Sequence[str], groups: Iterable[NodeGroup], when_empty: Bytes, fits: Bools, now: float
    ) -> list[str]:
        """One for the new nodes, one for those that should have published.

        names: of all nodes. when_empty: uint8 [node], why a node could not take the pod if it were empty. fits: bool
        [node], whether the pod fits there in total now. now: seconds since the epoch.
        """
        new: list[str] = []
        late: list[str] = []
        candidates = (when_empty == Reason.NO_TOPOLOGY) & fits
        for group in groups:
            for n, created in zip(group.nodes.tolist(), group.created, strict=True):
                if candidates[n]:
                    (late if created < now - self._after else new).append(names[n])
        self.late.update(late)
        found = []
        if new:
            found.append(f"{_named_nodes(new)} new: its exporter has not published its NUMA nodes yet")
        if late:
            since = f"more than {self._after:g} s after its creation"
            found.append(f"{_named_nodes(late)} without NUMA nodes {since}: look at its exporter")
        return found


def _named_nodes(names: list[str]) -> str:
    """`node a is`, `node a and 2 more are`."""
    first = f"node {min(names)}"
    return f"{first} is" if len(names) == 1 else f"{first} and {len(names) - 1} more are"


class Reached(NamedTuple):
    """The groups that may add nodes where the gang needs them."""

    groups: tuple[NodeGroup, ...]
    level: str
    """Node label of the finest required level; empty if none is required."""
    is_host: bool = False
    """Whether that level is the single node."""


def reached(groups: Sequence[NodeGroup], assembled: Assembled, tree: TopologyTree) -> Reached:
    """The groups with a node in a domain of the finest level that a part of the gang requires.

    The rack of a node that does not exist is not known. So this is what is assumed: a group that has a node in a domain
    of the required level adds nodes in such domains. A group whose nodes lack the label of the level never helps, and a
    gang that has begun needs a group with a node in its own domain. If all members must share one host, an empty node
    must be able to hold them.
    """
    level = max(_required(assembled.gang), default=ROOT)
    if level == ROOT:
        return Reached(tuple(groups), "")
    positions = tree.positions()
    allowed = tree.real(level)[tree.domains(level)][positions]  # bool [node]
    if assembled.within is not None:
        allowed = allowed & nodes_of(tree, assembled.within)
    found = tuple(group for group in groups if allowed[group.nodes].any())
    label = tree.topology.levels[level - 1].node_label
    return Reached(found, label, level == tree.node_level)


def _required(gang: Gang) -> Iterable[int]:
    """The levels that the gang, its subgroups and segments require."""
    if gang.constraint.required is not None:
        yield gang.constraint.required
    for podset in gang.sets:
        for segments in () if podset.segments is None else podset.segments.layers():
            if segments.constraint.required is not None:
                yield segments.constraint.required
    for subgroup in gang.subgroups:
        yield from _required(subgroup)


_FIELDS, _EXPRESSIONS = "matchFields", "matchExpressions"
_Requirements = Sequence[Mapping[str, Any]]


def for_new_nodes(pod: Pod) -> Pod | None:
    """The pod as nodes see it that do not exist yet: what it says of nodes by name does not concern them.

    None if it requires one of the nodes that exist.
    """
    if HOSTNAME_LABEL in pod.node_selector:
        return None
    if not names_nodes(pod) or pod.required_terms is None:
        return pod
    terms = []
    for term in pod.required_terms:
        named = _naming(term)
        if any(one.get("operator") == "In" for one in named):
            continue  # this alternative is about existing nodes alone
        rest = {kind: kept for kind in (_EXPRESSIONS, _FIELDS) if (kept := _others(term, kind))}
        if named and not rest:
            return replace(pod, required_terms=None)  # every new node matches
        terms.append(rest if named else term)
    return replace(pod, required_terms=tuple(terms)) if terms else None


def names_nodes(pod: Pod) -> bool:
    """Whether it selects nodes by their names or host names, or excludes some: Karpenter ignores such a pod.

    Source: karpenter pkg/controllers/provisioning/provisioner.go (Validate), pkg/scheduling/requirements.go.
    """
    return HOSTNAME_LABEL in pod.node_selector or any(_naming(term) for term in pod.required_terms or ())


def _naming(term: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The requirements of a term that name nodes."""
    return [
        one
        for kind in (_EXPRESSIONS, _FIELDS)
        for one in term.get(kind) or ()
        if one.get("key") == (HOSTNAME_LABEL if kind == _EXPRESSIONS else _NAME)
        and one.get("operator") in {"In", "NotIn"}
    ]


def _others(term: Mapping[str, Any], kind: str) -> _Requirements:
    named = _naming(term)
    return [one for one in term.get(kind) or () if one not in named]


@dataclass(frozen=True, slots=True)
class _OfPod:
    """What holds for the pods of one signature."""

    at: float
    groups: tuple[NodeGroup, ...] = ()
    no_node: bool = False
    """No node exists that it could go to."""
    why_not: str = ""
    """Why no group helps; empty if one does."""
    notes: str = ""
    """Clauses about nodes whose NUMA nodes are not known, each after `; `."""
    not_these: tuple[NodeRef, ...] = ()
    """The complete nodes that have enough free only in total, if they may all be named."""


class ScaleUpAnswers:
    """Finds the answers. clock: seconds since the epoch, as nodes have them."""

    def __init__(self, cache: ClusterCache, rules: Rules, asking: Asking, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._rules = rules
        self._asking = asking
        self._clock = clock
        self._trees = TopologyTrees()
        self._unpublished = UnpublishedNodes(asking.new_node_seconds)
        self._basis: Hashable = None
        self._read_at = 0.0
        self._groups: tuple[NodeGroup, ...] = ()
        self._of_pods: dict[Hashable, _OfPod] = {}
        self._of_gangs: dict[str, tuple[float, tuple[str, ...], ScaleUp]] = {}

    def refresh(self, now: float) -> None:
        """Read the node groups again, at once if nodes or their NUMA nodes came or went: then no earlier answer holds.

        now: seconds of `time.monotonic`.
        """
        node_arrays = self._cache.snapshot().nodes.node_arrays
        basis = tuple(node_arrays.names), int(node_arrays.has_topology.sum()), int(node_arrays.taint_set.sum())
        if basis != self._basis or now - self._read_at >= KEPT_SECONDS:
            self._basis, self._read_at = basis, now
            keys = (*self._asking.group_labels, *GROUP_LABELS[self._asking.autoscaler])
            self._groups = node_groups(node_arrays, self._cache.state.nodes, keys)
            self._of_pods.clear()
            self._of_gangs.clear()

    def keep(self, units: Sequence[WaitingUnit]) -> None:
        """Forget all answers but those for these units."""
        signatures = {member.request_signature for unit in units for member in unit.members}
        names = {unit.name for unit in units}
        self._of_pods = {kind: found for kind, found in self._of_pods.items() if kind in signatures}
        self._of_gangs = {name: found for name, found in self._of_gangs.items() if name in names}

    def known(self, unit: WaitingUnit, now: float) -> ScaleUp | None:
        """The answer for the unit, if it is young enough. now: seconds of `time.monotonic`."""
        if isinstance(unit.unit, GatedPod):
            found = self._of_pods.get(unit.unit.request_signature)
            return None if found is None or now - found.at >= KEPT_SECONDS else self._for_pod(unit.unit, found)
        kept = self._of_gangs.get(unit.name)
        return None if kept is None or kept[1] != _keys(unit) or now - kept[0] >= KEPT_SECONDS else kept[2]

    def find(self, unit: WaitingUnit, now: float) -> Steps[ScaleUp]:
        """The answer for the unit as the cluster is now. A step is at most one decision."""
        if isinstance(unit.unit, GatedPod):
            return self._for_pod(unit.unit, self._of_pod(unit.unit, now))
        answer = yield from self._for_gang(unit, unit.unit, now)
        self._of_gangs[unit.name] = now, _keys(unit), answer
        return answer

    def _of_pod(self, gated: GatedPod, now: float) -> _OfPod:
        """What holds for the pod's signature."""
        found = self._of_pods.get(gated.request_signature)
        if found is None or now - found.at >= KEPT_SECONDS:
            found = self._of_pods[gated.request_signature] = self._examined(gated, now)
        return found

    def _examined(self, gated: GatedPod, now: float) -> _OfPod:
        self.refresh(now)  # nodes may have come or gone since the sweep began
        pod = for_new_nodes(gated.pod)
        if pod is None:
            return _OfPod(now, why_not="it requires nodes by name")
        if self._asking.autoscaler == "Karpenter" and names_nodes(pod := gated.pod):
            return _OfPod(now, why_not="Karpenter ignores pods that select nodes by name")
        nodes = self._cache.snapshot().nodes
        ahead = look_ahead(nodes.node_arrays, pod, gated.intent, self._rules.engine)
        if ahead.reason_code is UnschedulableReason.NO_NODE:
            return _OfPod(now, no_node=True)
        if not self._groups:
            return _OfPod(now, why_not="no node has the label of a node group")
        settled = self._clock() - self._asking.new_node_seconds
        decisive = self._asking.autoscaler != "Karpenter"
        groups = helpful(self._groups, ahead.when_empty.reason, settled, newest_decides=decisive)
        why = "" if groups else "no node like those of a node group could take it even if it were empty"
        decision = decide(nodes, gated.pod, gated.intent, self._rules.engine)
        blind = blind_nodes(decision)
        names = nodes.node_arrays.names
        clauses = self._unpublished.clauses(names, self._groups, ahead.when_empty.reason, blind, self._clock())
        if groups and not clauses and blind.any():
            clauses.append(self._blind_clause())
        if gated.is_narrowed:
            clauses.append("it is permanently kept off nodes that have enough free only in total")
        not_these = self._complete(blind) if self._asking.provisioning_class else ()
        return _OfPod(now, groups, why_not=why, notes="".join(f"; {clause}" for clause in clauses), not_these=not_these)

    def _complete(self, blind: Bools) -> tuple[NodeRef, ...]:
        """Those of these nodes (bool [node]) that have published all they have; none if they are too many to name."""
        node_arrays, nodes = self._cache.snapshot().nodes.node_arrays, self._cache.state.nodes
        settled = self._clock() - self._asking.new_node_seconds
        found = [
            n
            for n in np.flatnonzero(blind).tolist()
            if (node := nodes.get(node_arrays.names[n])) is not None and node.created < settled
        ]
        return tuple(NodeNames(node_arrays).refs(found)) if len(found) <= self._rules.max_affinity_values else ()

    def _blind_clause(self) -> str:
        """What follows from nodes that cannot align the pod, although they have enough free in total."""
        why = f"nodes that cannot align it have enough free in total, so {self._asking.name} may add none"
        if self._asking.autoscaler == "Karpenter" or not self._asking.narrow_after:
            return why
        return f"{why} until it is kept off them, after {self._asking.narrow_after:g} s"

    @property
    def newest(self) -> int:
        """When the newest node of a group was created, in seconds since the epoch; 0 = not known."""
        return max((group.created[0] for group in self._groups), default=0)

    def without_exporter(self) -> set[str]:
        """The nodes that should have published their NUMA nodes, found since the last call."""
        late, self._unpublished.late = self._unpublished.late, set()
        return late

    def _for_pod(self, gated: GatedPod, found: _OfPod) -> ScaleUp:
        if not found.groups:
            why = found.why_not or "no node exists that it could go to"
            return ScaleUp(is_asked=False, text=f"{self._asking.name} is not asked for a node: {why}{found.notes}")
        names = _named(found.groups)
        return ScaleUp(
            is_asked=True,
            text=f"{self._asking.name} is asked for a node of node group {names}{found.notes}",
            message=f"it fits on no node now, and could on one more of node group {names}: {_needs(gated)}",
        )

    def _for_gang(self, unit: WaitingUnit, gang: GatedGang, now: float) -> Steps[ScaleUp]:
        distinct = {member.request_signature: member for member in gang.members}
        if len(distinct) > _MOST_KINDS:
            why = f"its pods are of {len(distinct)} different kinds, and at most {_MOST_KINDS} are examined"
            return ScaleUp(is_asked=False, text=f"{self._asking.name} is not asked for nodes: {why}")
        found = []
        for member in distinct.values():
            found.append((member, self._of_pod(member, now)))
            yield
        for member, each in found:
            if each.why_not:
                which = f"pod {member.pod.name}: " if len(found) > 1 else ""
                return ScaleUp(
                    is_asked=False, text=f"{self._asking.name} is not asked for nodes: {which}{each.why_not}"
                )
        assembled = assembled_gang(gang, unit.minimum, unit.assigned, self._cache.snapshot(), self._trees)
        groups = tuple({group.name: group for _, each in found for group in each.groups}.values())
        assumption = ""
        if assembled is not None and groups:
            there = reached(groups, *assembled)
            names = {group.name for group in there.groups}
            missing = any(each.groups and names.isdisjoint(group.name for group in each.groups) for _, each in found)
            if missing or (there.is_host and not self._fits_when_empty(*assembled)):
                why = f"none of their node groups is known to add nodes in a domain of {there.level}"
                if there.is_host:
                    why = "no node could hold the gang even if it were empty"
                return ScaleUp(is_asked=False, text=f"{self._asking.name} is not asked for nodes: {why}")
            groups = there.groups
            if there.level and not there.is_host:
                assumption = f", assuming that they lie in the same domains of {there.level} as its nodes"
        which = f" of node group {_named(groups)}" if groups else ", as none exists that they could go to"
        return ScaleUp(
            is_asked=True,
            text=f"{self._asking.name} is asked for nodes{which}{assumption}{found[0][1].notes}",
            message=f"its gang does not fit now, and could on more nodes{which}: {_needs(gang.members[0])} each",
            nodes={member.request_signature: _new_nodes(each, groups) for member, each in found},
        )

    def _fits_when_empty(self, assembled: Assembled, tree: TopologyTree) -> bool:
        nodes, strategy = self._cache.snapshot().nodes, self._rules.engine.gang_strategy
        return assign_when_empty(nodes, tree, assembled.gang, assembled.within, strategy).assigned


def _new_nodes(of_pod: _OfPod, allowed: Sequence[NodeGroup]) -> NewNodes:
    """The new nodes for pods of one signature. allowed: the groups that may add nodes for the gang."""
    names = {(group.label, group.name) for group in allowed}
    groups = tuple(found for group in of_pod.groups if (found := (group.label, group.name)) in names)
    return NewNodes(groups, of_pod.not_these)


def _keys(unit: WaitingUnit) -> tuple[str, ...]:
    """The members: the answer for a gang is that for these."""
    return tuple(member.pod.uid for member in unit.members)


def _named(groups: Sequence[NodeGroup]) -> str:
    """`a or b`: their names, in order."""
    names = sorted({group.name for group in groups})
    more = len(names) - _MOST_NAMED
    return " or ".join(names[:_MOST_NAMED]) + (f" or {more} others" if more > 0 else "")


def _needs(gated: GatedPod) -> str:
    """What the pod requests."""
    amounts = format_list(gated.pod.requests)
    return f"{subject(gated.intent)}, {amounts[:_LONGEST_AMOUNTS]}"
