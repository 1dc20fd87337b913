"""Where the links of the page lead, and what is said where one leads to nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree import TopologyTree
from webhook.formats.topology import Topology
from webhook.model.wording import quoted
from webhook.placing.planner import Planner
from webhook.views.domains import Part, part_of, tree_of

REST: Final = ""
"""Stands in a path for the nodes without the level's label."""
UNLABELED: Final = "without the label"
MAP: Final = "/"
DOMAINS: Final = "/domains"


class NotFoundError(Exception):
    """A view has nothing to show: there is no such thing, or no longer. The answer is HTTP 404.

    The message is a sentence for the reader.
    """


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a view of the page."""

    text: str
    url: str
    here: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A domain of a topology, as the address of a view names it.

    `topology=NAME`: else the first one. `in=VALUE` for each level from the coarsest: only this domain.
    """

    snapshot: Snapshot
    topology: Topology | None
    names: tuple[str, ...]
    """Of all topologies."""
    tree: TopologyTree
    path: tuple[str, ...]
    part: Part

    @classmethod
    def of(cls, planner: Planner, name: str | None, path: Sequence[str]) -> "Place":
        """The place. name: of a topology; None: the first. path: the domain of each level. Raises NotFoundError."""
        known = planner.state.topologies_by_name()
        names = sorted(known)
        if name is not None and name not in known:
            raise NotFoundError(f"There is no Topology {quoted(name)}.")
        topology = known[name or names[0]] if names else None
        snapshot = planner.state.snapshot().nodes
        tree = tree_of(snapshot, topology, planner.trees)
        part = part_of([None if value == REST else value for value in path], snapshot, tree)
        if part is None:
            raise NotFoundError(f"There is no domain {quoted(path[-1])} any more.")
        return cls(snapshot, topology, tuple(names), tree, tuple(path), part)

    @property
    def name(self) -> str:
        """Of the topology; empty without one."""
        return "" if self.topology is None else self.topology.name

    def url(self, view: str, path: Sequence[str | None], more: Mapping[str, str] | None = None) -> str:
        """Of a domain in a view. more: further parameters; empty ones are left out."""
        parameters = [("topology", self.name)] if self.name else []
        parameters += [("in", REST if value is None else value) for value in path]
        return f"{view}?{urlencode([*parameters, *((key, text) for key, text in (more or {}).items() if text)])}"

    def topologies(self, view: str) -> list[Link]:
        """All topologies."""
        return [Link(each, f"{view}?{urlencode({'topology': each})}", here=each == self.name) for each in self.names]

    def trail(self, view: str, more: Mapping[str, str] | None = None) -> list[Link]:
        """The domains from the whole cluster down to this one."""
        trail = [Link(self.name or "All nodes", self.url(view, (), more), here=not self.path)]
        for number, value in enumerate(self.path, 1):
            url = self.url(view, self.path[:number], more)
            trail.append(Link(shown(value), url, here=number == len(self.path)))
        return trail


def shown(value: str | None) -> str:
    """The value of a domain for people."""
    return value or UNLABELED


def node_url(name: str) -> str:
    """The view of a node."""
    return f"/nodes/{quote(name, safe='')}"


def pod_url(namespace: str, name: str) -> str:
    """The view of a pod."""
    return f"/pods/{quote(namespace, safe='')}/{quote(name, safe='')}"


def gang_url(namespace: str, name: str) -> str:
    """The view of a gang."""
    return f"/gang?{urlencode({'q': f'{namespace}/{name}'})}"
