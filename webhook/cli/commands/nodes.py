"""`topology-webhook nodes`: the NUMA nodes of each node; of one node also its pods and reservations."""

from typing import Annotated, Final

import typer

from webhook.app.settings import Settings
from webhook.cli.command import CLUSTER_SETTINGS, Output, Outputs, Snapshots, answering, read_cluster, warn, write
from webhook.cli.flags import Resources, resources_of, with_setting_flags
from webhook.cli.input.documents import InputError
from webhook.cli.render.node_tables import print_details, print_nodes
from webhook.model.wording import did_you_mean, quoted
from webhook.views.as_json import as_json
from webhook.views.nodes import node_details, node_views

EXAMPLES: Final = """\b
Examples:
  topology-webhook nodes
  topology-webhook nodes worker-7
  topology-webhook nodes --resource cpu,nvidia.com/gpu -o json
"""


def nodes(
    node: Annotated[
        str | None, typer.Argument(metavar="[NODE]", help="Only this node, with its pods and reservations.")
    ] = None,
    cluster: Snapshots = None,
    resource: Resources = None,
    output: Outputs = Output.TABLE,
    **flags: str | None,
) -> None:
    """Show what is free on each NUMA node, or all about one node.

    You also see the kubelet's policy and the age of the NodeResourceTopology. With NODE, show all resources of that
    node, its NUMA nodes side by side, its pods with their NUMA nodes, and what is reserved for pods that its
    exporter does not report yet.

    The exit code is 0, or 2 if the input cannot be read, the node does not exist, or the answer cannot be written.
    """
    with answering():
        read = read_cluster(cluster or [], Settings.load(flags), flags)
        warn(read)
        if node is None:
            views = node_views(read.cache, resources_of(resource, read.cache))
            write(output, {"nodes": as_json(views)}, lambda console: print_nodes(views, console))
            return
        if resource is not None:
            raise InputError("--resource: of a single node all resources are shown. Leave the flag out")
        details = node_details(read.cache, node)
        if details is None:
            known = read.cache.state.nodes
            raise InputError(f"{quoted(node)} is no node of the cluster.{did_you_mean(node, known)}")
        write(output, as_json(details), lambda console: print_details(details, console))


with_setting_flags(nodes, CLUSTER_SETTINGS)
