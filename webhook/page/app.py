"""The page's application: a path for each view, the stream of changes, and the files that the browser loads.

A view is rendered whole at each request, from the state of that moment. An open page asks again when the stream says
that the cluster has changed, and merges the answer into what it shows. So there is one way to every number, and the
server keeps nothing for a page but its stream.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.koordinator.numa_allocation import NUMANodeAmounts
from webhook.formats.topology import MAX_LEVELS
from webhook.model.resources import format_amount, format_list
from webhook.model.wording import quoted
from webhook.page.change_stream import ChangeStream
from webhook.page.protection import add_headers, only_for
from webhook.page.work_share import BusyError, WorkShare
from webhook.server.listener import HTTPHandler, within_deadlines
from webhook.state.cluster_cache import ClusterCache
from webhook.views.domains import NODE, DomainView, part_of, topology_view, tree_of, usual_depth
from webhook.views.gangs import gang_views
from webhook.views.node_amounts import usual_resources
from webhook.views.nodes import PodOnNode, node_details
from webhook.views.pod_table import PART, pod_table
from webhook.views.ranks import gang_ranks
from webhook.views.waiting import waiting_views

if TYPE_CHECKING:
    from aiohttp.typedefs import Middleware


class NotFoundError(Exception):
    """A view has nothing to show: there is no such thing, or no longer. The answer is HTTP 404.

    The message is a sentence for the reader.
    """


def gang_values(cache: ClusterCache, trees: TopologyTrees, key: str) -> Mapping[str, Any]:
    """One gang: its members by rank, and how far apart neighbours in rank are. key: namespace/name.

    Raises NotFoundError.
    """
    namespace, _, name = key.partition("/")
    ranks = gang_ranks(cache, namespace, name, trees)
    if ranks is None:
        raise NotFoundError(f"No gang {quoted(key)} has a member with a node.")
    return {"key": key, "namespace": namespace, "name": name, "ranks": ranks}


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
    """A topology's domains: as deep as is readable, and from there one domain at a time. Raises NotFoundError.

    1. Without parameters: the first topology, down to the finest level with few enough domains.
    2. `topology=NAME`: another one. `in=VALUE` for each level from the coarsest: only this domain, with its own
       subdomains; at the last level, its nodes.

    name: of a topology; None: the first. path: the domain of each level.
    """
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


def node_values(cache: ClusterCache, name: str) -> Mapping[str, Any]:
    """One node: its NUMA nodes side by side, and the pods on each. Raises NotFoundError."""
    details = node_details(cache, name)
    if details is None:
        raise NotFoundError(f"There is no Node {quoted(name)}.")
    holders: dict[int, list[tuple[PodOnNode, Mapping[str, int]]]] = {numa.id: [] for numa in details.node.numa_nodes}
    for pod in details.pods:
        for share in pod.numa_nodes or ():
            # A hint may name a NUMA node that the exporter does not list any more.
            holders.setdefault(share.id, []).append((pod, share.amounts))
    return {
        "node": details.node,
        "holders": holders,
        "unknown": [pod for pod in details.pods if not pod.numa_nodes],
        "reservations": details.reservations,
        "devices": {
            key: [one for one in details.devices if one.numa_node == key]
            for key in dict.fromkeys(one.numa_node for one in details.devices)
        },
    }


def numa(nodes: NUMANodeAmounts) -> str:
    """NUMA nodes with their amounts: `0: 8 cpu; 1: 8 cpu`."""
    return "; ".join(f"{number}: {format_list(amounts)}" for number, amounts in nodes)


def count(number: int) -> str:
    """12345 -> `12,345`."""
    return f"{number:,}"


def duration(seconds: int) -> str:
    """75 -> `1m 15s`: the two largest units."""
    parts = [(seconds // 86_400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    first = next((at for at, (number, _) in enumerate(parts) if number), 3)
    return " ".join(f"{number}{unit}" for number, unit in parts[first : first + 2])


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "numa": numa,
    "count": count,
    "duration": duration,
    "amount": lambda amount, resource: format_amount(resource, amount),
    "amounts": format_list,
}
"""By their names in the templates."""


FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class StaticFiles:
    """The files of the folder `static`, by name: few and small, so they are kept in memory."""

    def __init__(self) -> None:
        self._files = {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.suffix in _TYPES}

    async def handle(self, request: web.Request) -> web.Response:
        """Answer with the file `name`."""
        name = request.match_info["name"]
        if name not in self._files:
            return web.Response(status=404, text="There is no such file.\n")
        return web.Response(body=self._files[name], content_type=_TYPES[Path(name).suffix], charset="utf-8")


_HERE: Final = Path(__file__).parent
_STATIC: Final = "/static/"

Values = Mapping[str, Any]
"""What a template reads."""


@dataclass(frozen=True, slots=True)
class Source:
    """What the page shows."""

    cache: ClusterCache
    cluster: str
    """Its name: a context, a file, or the namespace of the service."""
    problems: Callable[[], Sequence[str]]
    """Why what is shown may be incomplete: a kind of object that cannot be read, or that is not read yet."""
    live: bool = True
    """Whether it changes."""
    rest_per_work: float = 0.0
    """Seconds without work for the page after each second of it, for the reviews; see `work_share`."""
    trees: TopologyTrees = field(default_factory=TopologyTrees)
    """The trees of the topologies, kept from view to view."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a table."""

    rows: Sequence[Any]
    found: int
    first: int
    """The position of the first row."""
    part: int = PART
    """How many rows a part has at most."""


@dataclass(frozen=True, slots=True)
class View:
    """One view."""

    path: str
    name: str
    template: str
    values: Callable[[Source, web.Request], Values]
    """Raises NotFoundError."""
    in_menu: bool = True


def page_app(source: Source, hosts: Collection[str] = ()) -> web.Application:
    """The application. hosts: see `protection.only_for`."""
    middlewares: list[Middleware] = [within_deadlines, only_for(hosts)]
    app = web.Application(middlewares=middlewares)
    app.on_response_prepare.append(add_headers)
    page = _Page(source)
    for view in VIEWS:
        app.router.add_get(view.path, page.handler(view))
    app.router.add_get("/changes", page.stream.handle)
    app.router.add_get(_STATIC + "{name}", StaticFiles().handle)
    app.on_shutdown.append(page.stream.close)
    return app


class _Page:
    def __init__(self, source: Source) -> None:
        self.stream = ChangeStream(source.cache.changed)
        self._source = source
        self._share = WorkShare(source.rest_per_work)
        self._templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(FILTERS)
        self._templates.globals["static"] = lambda name: _STATIC + name
        self._templates.globals["views"] = [view for view in VIEWS if view.in_menu]

    def handler(self, view: View) -> HTTPHandler:
        """The handler of a view."""

        async def handle(request: web.Request) -> web.Response:
            try:
                html = await self._share.run(lambda: self._render(view, request))
            except NotFoundError as error:
                return web.Response(status=404, text=f"{error}\n")
            except BusyError:
                return web.Response(status=503, text="Too many pages are open.\n", headers={"Retry-After": "5"})
            return web.Response(text=html, content_type="text/html")

        return handle

    def _render(self, view: View, request: web.Request) -> str:
        values = view.values(self._source, request)
        return self._templates.get_template(view.template).render(
            here=view.path,
            url=request.path_qs,
            cluster=self._source.cluster,
            live=self._source.live,
            problems=self._source.problems(),
            **values,
        )


def _pods(source: Source, request: web.Request) -> Values:
    search = request.query.get("q", "")
    found = pod_table(source.cache, search, _position(request))
    return {"search": search, "table": Part(found.rows, found.found, found.first), "total": found.total}


def _gangs(source: Source, request: web.Request) -> Values:
    gangs, first = gang_views(source.cache), _position(request)
    waiting = sum(bool(gang.waiting) for gang in gangs)
    return {"table": Part(gangs[first : first + PART], len(gangs), first), "waiting": waiting}


def _gang(source: Source, request: web.Request) -> Values:
    values = gang_values(source.cache, source.trees, request.query.get("q", ""))
    pods, first = values["ranks"].pods, _position(request)
    return {**values, "table": Part(pods[first : first + PART], len(pods), first)}


def _waiting(source: Source, request: web.Request) -> Values:
    waiting, first = waiting_views(source.cache), _position(request)
    pods = sum(len(each.pods) for each in waiting)
    return {"table": Part(waiting[first : first + PART], len(waiting), first), "pods": pods}


def _position(request: web.Request) -> int:
    """The parameter `first`: a number from 0; 0 for anything else."""
    text = request.query.get("first", "0")
    return int(text) if text.isdecimal() and len(text) <= 9 else 0


def _tree(source: Source, request: web.Request) -> Values:
    path = request.query.getall("in", [])[:MAX_LEVELS]
    return tree_values(source.cache, source.trees, request.query.get("topology"), path)


def _node(source: Source, request: web.Request) -> Values:
    return node_values(source.cache, request.match_info["name"])


VIEWS: Final = (
    View("/", "Domains", "tree.html", _tree),
    View("/nodes/{name}", "Node", "node.html", _node, in_menu=False),
    View("/waiting", "Waiting", "waiting.html", _waiting),
    View("/gangs", "Gangs", "gangs.html", _gangs),
    View("/gang", "Gang", "gang.html", _gang, in_menu=False),
    View("/pods", "Pods", "pods.html", _pods),
)
"""In the order of the menu."""
