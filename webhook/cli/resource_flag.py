"""`--resource`: the resources to show."""

from typing import Annotated

import typer

from webhook.cli.input.documents import InputError
from webhook.model.nearest import did_you_mean
from webhook.model.quoted import quoted
from webhook.state.cluster_cache import ClusterCache
from webhook.views.node_amounts import offered_resources, usual_resources

Resources = Annotated[
    str | None,
    typer.Option(
        "--resource",
        metavar="NAME,…",
        help="Resources to show, as in pods' requests. Without it, cpu, memory and the most common devices.",
    ),
]


def resources_of(text: str | None, cache: ClusterCache) -> tuple[str, ...]:
    """The resources that the flag names, each of which some node offers. Raises InputError."""
    snapshot = cache.snapshot().nodes
    if text is None:
        return usual_resources(snapshot)
    offered = offered_resources(snapshot)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InputError(f"--resource: {quoted(text)} names no resource. Nodes offer: {', '.join(offered)}.")
    for name in names:
        if name not in offered:
            raise InputError(
                f"--resource: no node offers {quoted(name)}. Nodes offer: {', '.join(offered)}."
                f"{did_you_mean(name, offered)}"
            )
    return names
