"""The view of a topology's domains: as deep as is readable, and from there one domain at a time.

1. Without parameters: the first topology, down to the finest level with few enough domains.
2. `topology=NAME`: another one. `in=VALUE` for each level from the coarsest: only this domain, with its own
   subdomains; at the last level, its nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.model.quoted import quoted
from webhook.page.not_found import NotFoundError
from webhook.state.cluster_cache import ClusterCache
from webhook.views.domains import NODE, DomainView, part_of, topology_view, tree_of, usual_depth
from webhook.views.node_amounts import usual_resources

_REST = ""
"""Stands in a path for the nodes without the level's label."""
_UNLABELED = "without the label"


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a view of the page."""

    text: str
    url: str
    here: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: a domain."""

    domain: DomainView
    depth: int
    """Steps below the first row."""
    link: Link
    is_node: bool


def tree_values(cache: ClusterCache, trees: TopologyTrees, name: str | None, path: Sequence[str]) -> Mapping[str, Any]:
    """What the template reads. name: of a topology; None: the first. Raises NotFoundError."""
    known = cache.topologies_by_name()
    names = sorted(known)
    if name is not None and name not in known:
        raise NotFoundError(f"There is no Topology {quoted(name)}.")
    name = name or next(iter(names), None)
    topology = None if name is None else known[name]
    snapshot = cache.snapshot().nodes
    tree = tree_of(snapshot, topology, trees)
    depth = max(usual_depth(tree), min(len(path) + 1, tree.node_level))
    part = part_of([None if value == _REST else value for value in path], snapshot, tree)
    if part is None:
        raise NotFoundError(f"There is no domain {quoted(path[-1])} any more.")
    domain = topology_view(cache, topology, usual_resources(snapshot), depth, trees, part).root
    trail = [Link(name or "All nodes", _url(name, ()), here=not path)]
    for number, value in enumerate(path, 1):
        shown = value if value != _REST else _UNLABELED
        trail.append(Link(shown, _url(name, path[:number]), here=number == len(path)))
    return {
        "topologies": [Link(each, _url(each, ()), here=each == name) for each in names],
        "trail": trail,
        "rows": list(_rows(domain, name, tuple(path), 0)),
        "resources": [each.resource for each in domain.amounts],
    }


def _rows(domain: DomainView, topology: str | None, path: tuple[str, ...], depth: int) -> Iterator[Row]:
    is_node = domain.level == NODE
    url = f"/nodes/{quote(domain.value or '', safe='')}" if is_node else _url(topology, path)
    yield Row(domain, depth, Link(_shown(domain), url), is_node=is_node)
    for each in domain.domains:
        yield from _rows(each, topology, (*path, _REST if each.value is None else each.value), depth + 1)


def _shown(domain: DomainView) -> str:
    if domain.value is not None:
        return domain.value
    return "All nodes" if domain.level is None else _UNLABELED


def _url(topology: str | None, path: Sequence[str]) -> str:
    parameters = [("topology", topology)] if topology else []
    return "/?" + urlencode([*parameters, *(("in", value) for value in path)])
