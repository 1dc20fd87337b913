"""The page's application: a path for each view, the stream of changes, and the files that the browser loads.

A view is rendered whole at each request, from the state of that moment. An open page asks again when the stream says
that the cluster has changed, and merges the answer into what it shows. So there is one way to every number, and the
server keeps nothing for a page but its stream.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from webhook.formats.koordinator.numa_allocation import NUMANodeAmounts
from webhook.formats.kubernetes.rejected_pod import RejectedPod
from webhook.formats.topology import MAX_LEVELS
from webhook.model.resources import format_amount, format_list, format_share
from webhook.model.wording import quoted
from webhook.page.change_stream import ChangeStream
from webhook.page.links import DOMAINS, MAP, REST, Link, NotFoundError, Place, gang_url, node_url, pod_url, shown
from webhook.page.map import Asked, map_values
from webhook.page.protection import add_headers, only_for
from webhook.page.work_share import BusyError, WorkShare
from webhook.placing.planner import Planner
from webhook.server.listener import HTTPHandler, within_deadlines
from webhook.state.cluster_cache import ClusterCache
from webhook.views.domains import NODE, DomainView, topology_view, usual_depth
from webhook.views.fit_query import Spread
from webhook.views.gangs import gang_views
from webhook.views.node_amounts import usual_resources
from webhook.views.nodes import PodOnNode, node_details
from webhook.views.pod_standing import ALLOCATION_VERDICTS
from webhook.views.pod_table import PART, pod_details, pod_table
from webhook.views.ranks import gang_ranks
from webhook.views.waiting import waiting_views

if TYPE_CHECKING:
    from aiohttp.typedefs import Middleware


def gang_values(planner: Planner, key: str) -> Mapping[str, Any]:
    """One gang: the members that wait, and those with a node by rank, with how far apart neighbours in rank are.

    key: namespace/name. Raises NotFoundError.
    """
    namespace, _, name = key.partition("/")
    ranks = gang_ranks(planner.state, namespace, name, planner.trees)
    waiting = (
        each for each in waiting_views(planner.state) if each.gang and (each.namespace, each.name) == (namespace, name)
    )
    found = next(waiting, None)
    if ranks is None and found is None:
        raise NotFoundError(f"There is no gang {quoted(key)}.")
    return {"key": key, "namespace": namespace, "name": name, "ranks": ranks, "waiting": found}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: a domain."""

    domain: DomainView
    depth: int
    """Steps below the first row."""
    link: Link
    is_node: bool


def tree_values(planner: Planner, name: str | None, path: Sequence[str]) -> Mapping[str, Any]:
    """A topology's domains: as deep as is readable, and from there one domain at a time. Raises NotFoundError.

    The whole of it goes down to the finest level with few enough domains, a domain to its own subdomains; at the last
    level, to its nodes.
    """
    place = Place.of(planner, name, path)
    depth = max(usual_depth(place.tree), min(len(path) + 1, place.tree.node_level))
    resources = usual_resources(place.snapshot)
    domain = topology_view(planner.state, place.topology, resources, depth, planner.trees, place.part).root
    return {
        "topologies": place.topologies(DOMAINS),
        "trail": place.trail(DOMAINS),
        "map_url": place.url(MAP, place.path),
        "rows": list(_rows(domain, place, place.path, 0)),
        "resources": [each.resource for each in domain.amounts],
    }


def _rows(domain: DomainView, place: Place, path: tuple[str, ...], depth: int) -> Iterator[Row]:
    is_node = domain.level == NODE
    url = node_url(domain.value or "") if is_node else place.url(DOMAINS, path)
    text = "All nodes" if domain.level is None else shown(domain.value)
    yield Row(domain, depth, Link(text, url), is_node=is_node)
    for each in domain.domains:
        yield from _rows(each, place, (*path, REST if each.value is None else each.value), depth + 1)


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
    "share": lambda part, whole, resource: format_share(resource, part, whole),
    "shown": shown,
    "rounded": lambda amount, resource: format_share(resource, amount, amount).partition(" of ")[2],
    "node_url": node_url,
    "pod_url": lambda pod: pod_url(pod.namespace, pod.name),
    "pod_of_key": lambda key: pod_url(*key.split("/", 1)),
    "gang_url": lambda gang: gang_url(gang.namespace, gang.name),
    "standing_url": lambda waiting: (gang_url if waiting.gang else pod_url)(waiting.namespace, waiting.name),
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


_HOUR: Final = 3600
_MOST_REJECTIONS: Final = 10_000
"""Some 2 MiB of uids and times. A cluster without this service has hundreds of rejections an hour."""


class RecentRejections:
    """How many pods were rejected by kubelets within the last hour: also those that are deleted since.

    A rejected pod is known as long as it exists, so its time is kept here.
    """

    def __init__(self, cache: ClusterCache) -> None:
        self._now = cache.current_time
        self._times: OrderedDict[str, int] = OrderedDict()
        for pod in cache.rejections.by_key().values():
            self._saw(pod)
        cache.rejections.found.subscribe(lambda pod, _: self._saw(pod))

    def count(self) -> int:
        """Their number, of the last `_MOST_REJECTIONS` at most."""
        since = self._now() - _HOUR
        return sum(at >= since for at in self._times.values())

    def _saw(self, pod: RejectedPod) -> None:
        if pod.rejected_at is not None:
            self._times[pod.uid] = pod.rejected_at
            if len(self._times) > _MOST_REJECTIONS:
                self._times.popitem(last=False)


@dataclass(slots=True)
class Source:
    """What the page shows."""

    planner: Planner
    """Answers about its cluster, by the rules of the service."""
    cluster: str
    """Its name: a context, a file, or the namespace of the service."""
    problems: Callable[[], Sequence[str]]
    """Why what is shown may be incomplete: a kind of object that cannot be read, or that is not read yet."""
    live: bool = True
    """Whether it changes."""
    rest_per_work: float = 0.0
    """Seconds without work for the page after each second of it, for the reviews; see `work_share`."""

    rejections: RecentRejections = field(init=False)

    def __post_init__(self) -> None:
        self.rejections = RecentRejections(self.planner.state)

    @property
    def cache(self) -> ClusterCache:
        """The cluster."""
        return self.planner.state


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


def _pod(source: Source, request: web.Request) -> Values:
    namespace, name = request.match_info["namespace"], request.match_info["name"]
    pod = pod_details(source.cache, namespace, name)
    if pod is None:
        raise NotFoundError(f"There is no pod {quoted(f'{namespace}/{name}')} that has or waits for a node.")
    verdict = "" if pod.check is None else ALLOCATION_VERDICTS.get(pod.check.verdict, "")
    return {"pod": pod, "verdict": verdict, "gang_url": gang_url(namespace, pod.row.gang)}


def _gangs(source: Source, request: web.Request) -> Values:
    gangs, first = gang_views(source.cache), _position(request)
    waiting = sum(bool(gang.waiting) for gang in gangs)
    return {"table": Part(gangs[first : first + PART], len(gangs), first), "waiting": waiting}


def _gang(source: Source, request: web.Request) -> Values:
    values = gang_values(source.planner, request.query.get("q", ""))
    ranks, first = values["ranks"], _position(request)
    pods = () if ranks is None else ranks.pods
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
    return tree_values(source.planner, request.query.get("topology"), path)


def _node(source: Source, request: web.Request) -> Values:
    return node_values(source.cache, request.match_info["name"])


def _map(source: Source, request: web.Request) -> Values:
    def asked(name: str) -> str:
        return request.query.get(name, Spread.ONE.value if name == "numa" else "")

    path = request.query.getall("in", [])[:MAX_LEVELS]
    fields = (asked(name) for name in ("first", "resource", "colours", "fit", "numa", "pods", "within"))
    return map_values(source.planner, Asked(request.query.get("topology"), path, *fields), source.rejections.count())


VIEWS: Final = (
    View(MAP, "Map", "map.html", _map),
    View(DOMAINS, "Domains", "tree.html", _tree),
    View("/nodes/{name}", "Node", "node.html", _node, in_menu=False),
    View("/waiting", "Waiting", "waiting.html", _waiting),
    View("/gangs", "Gangs", "gangs.html", _gangs),
    View("/gang", "Gang", "gang.html", _gang, in_menu=False),
    View("/pods", "Pods", "pods.html", _pods),
    View("/pods/{namespace}/{name}", "Pod", "pod.html", _pod, in_menu=False),
)
"""In the order of the menu."""
