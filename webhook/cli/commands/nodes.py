"""`topology-webhook nodes`: the NUMA nodes of each node; of one node also its pods and reservations."""

from webhook.app.settings import Settings
from webhook.cli.command import answering, read_cluster, resources_of, warn, working, write
from webhook.cli.flags import Output
from webhook.cli.input.documents import InputError
from webhook.cli.render.node_tables import print_details, print_nodes
from webhook.model.wording import did_you_mean, quoted
from webhook.views.as_json import as_json
from webhook.views.nodes import node_details, node_views


def nodes(
    node: str | None, cluster: list[str] | None, resource: str | None, output: Output, **flags: str | None
) -> None:
    """Print the nodes, or all about one."""
    with answering():
        read = read_cluster(cluster or [], Settings.load(flags), flags)
        warn(read)
        if node is None:
            with working("adding up the nodes"):
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
