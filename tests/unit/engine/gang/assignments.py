"""Assignments of gangs in short form, for tests."""

from tests.builders.gangs import TOPOLOGY
from webhook.engine.gang.assignment_request import Effort
from webhook.engine.gang.gang_assignment import DEFAULT_EFFORT, assign_gang
from webhook.engine.gang.gang_spec import Gang
from webhook.engine.gang.result import GangAssignment
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.model.options import GangStrategy


def assigned(
    cluster: ClusterState,
    asked: Gang,
    strategy: GangStrategy = GangStrategy.BIN_PACK,
    effort: Effort = DEFAULT_EFFORT,
) -> GangAssignment:
    """The assignment of a gang on a cluster."""
    snapshot = Snapshot(cluster.node_arrays())
    return assign_gang(snapshot, TopologyTrees().tree(TOPOLOGY, snapshot.node_arrays), asked, strategy, effort)


def nodes_of(placement: GangAssignment) -> dict[str, list[str]]:
    """Node -> names of the pods on it."""
    found: dict[str, list[str]] = {}
    for each in placement.pods():
        found.setdefault(each.node, []).append(each.name)
    return found


def values_of(placement: GangAssignment) -> list[str]:
    """The label values of the domain that holds the gang, coarse to fine."""
    return [] if placement.domain is None else [value for _, value in placement.tree.path(placement.domain)]
