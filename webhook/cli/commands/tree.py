"""`topology-webhook tree`: the domains of each topology, with what is free in them."""

from typing import Annotated, Final

import typer

from webhook.app.settings import Settings
from webhook.cli.command import CLUSTER_SETTINGS, Output, Outputs, Snapshots, answering, read_cluster, warn, write
from webhook.cli.input.documents import InputError
from webhook.cli.render.tree_table import print_trees
from webhook.cli.resource_flag import Resources, resources_of
from webhook.cli.setting_flags import with_setting_flags
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.topology import Topology
from webhook.model.errors import UserError
from webhook.model.nearest import did_you_mean
from webhook.model.quoted import quoted
from webhook.state.cluster_cache import ClusterCache
from webhook.views.as_json import as_json
from webhook.views.domains import TopologyView, depth_of, topology_view, tree_of, usual_depth

EXAMPLES: Final = """\b
Examples:
  topology-webhook tree
  topology-webhook tree --topology network --depth rack --resource cpu,nvidia.com/gpu
  topology-webhook tree --cluster cluster.yaml -o json
"""


def tree(
    cluster: Snapshots = None,
    topology: Annotated[
        str | None, typer.Option("--topology", metavar="NAME", help="Only this Topology. Without it, all of them.")
    ] = None,
    depth: Annotated[
        str | None,
        typer.Option(
            "--depth",
            metavar="LEVEL",
            help="The finest level to show: a level of the topology (label, alias, or last segment), `node`, or a "
            "number; 0 is the whole cluster. Without it, the finest level with at most 100 domains.",
        ),
    ] = None,
    resource: Resources = None,
    output: Outputs = Output.TABLE,
    **flags: str | None,
) -> None:
    """Show what is free in each rack, zone or other domain.

    FREE is what pods can still request on nodes that are ready and not cordoned, out of what is allocatable on all
    nodes; LARGEST is the most that a single NUMA node has free. GANGS lists the gangs with members in the domain.

    The exit code is 0, or 2 if the input cannot be read or the answer cannot be written.
    """
    with answering():
        read = read_cluster(cluster or [], Settings.load(flags), flags)
        warn(read)
        views = _views(read.cache, topology, depth, resource)
        write(output, {"topologies": as_json(views)}, lambda console: print_trees(views, console))


with_setting_flags(tree, CLUSTER_SETTINGS)


def _views(cache: ClusterCache, name: str | None, depth: str | None, resource: str | None) -> tuple[TopologyView, ...]:
    snapshot, trees = cache.snapshot(), TopologyTrees()
    topologies = _topologies(cache, name)
    resources = resources_of(resource, cache)
    built = [tree_of(snapshot.nodes, each, trees) for each in topologies]
    levels: list[int] = []
    faults: list[UserError] = []
    for each in built:
        try:
            levels.append(usual_depth(each) if depth is None else depth_of(depth, each))
        except UserError as error:
            levels.append(usual_depth(each))
            faults.append(error)
    if len(faults) == len(built):
        fault = faults[0].message if topologies[0] is not None else f"{quoted(depth)}: the cluster has no Topology."
        raise InputError(f"--depth: {fault} Or write node, or a number from 0 to {built[0].node_level}.")
    return tuple(
        topology_view(cache, each, resources, level, trees) for each, level in zip(topologies, levels, strict=True)
    )


def _topologies(cache: ClusterCache, name: str | None) -> list[Topology | None]:
    """The topologies to show; None: the cluster has none."""
    known = cache.topologies_by_name()
    if name is None:
        return [known[each] for each in sorted(known)] or [None]
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise InputError(
            f"--topology: {quoted(name)} is no Topology of the cluster. There are: {names}.{did_you_mean(name, known)}"
        )
    return [known[name]]
