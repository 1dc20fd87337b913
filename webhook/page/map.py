"""The map as SVG: where each tile of a block is, one path for all that looks alike, and what is said beside it.

A block of 64 nodes is one `<svg>` with a link for each tile over a handful of paths, so that a browser lays out 1,000
nodes as quickly as a table of 100 rows. User units are CSS pixels; a narrow screen shrinks the whole block.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import ceil, sqrt
from typing import Any, Final

from webhook.model.errors import UserError
from webhook.model.resources import CPU, format_share
from webhook.model.wording import counted
from webhook.page.links import MAP, UNLABELED, Link, Place, node_url
from webhook.placing.planner import Planner
from webhook.views.fit_query import Answer, FitQuery, Spread, answer
from webhook.views.node_amounts import offered_resources, usual_resources
from webhook.views.node_map import Block, Cell, Condition, MapView, Marks, Tile, map_view
from webhook.views.waiting import waiting_views

# A tile's width and height for up to so many tiles on the map, so that all are on a screen of 1280 x 800.
_SIZES: Final = ((48, 92, 54), (160, 56, 32), (400, 34, 20), (10**9, 16, 9))
_GAP: Final = 2
_NAMED: Final = 92
"""Tiles of this width have their name in them."""
_NAME_HEIGHT: Final = 14
_CHARACTERS: Final = 15
"""Of a name in a tile of 92 pixels, at 10 pixels a line."""
_CELL: Final = (4, 6)
"""The smallest cell of a tile of a domain that shows how far it is filled."""
_IN_A_ROW: Final = 8
"""Cells of a node: the NUMA nodes of most machines."""
_STRIPES: Final = 3
"""Gangs of a tile that are told apart by colour. Its label names them all."""
_UNKNOWN: Final = frozenset({Condition.UNKNOWN, Condition.SILENT})
_CLOSED: Final = frozenset({Condition.NOT_READY, Condition.CORDONED})


@dataclass(frozen=True, slots=True)
class Box:
    """A tile and where it is."""

    tile: Tile
    x: int
    y: int
    name: str
    """Short enough to stand in it; empty if it is too small."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A block."""

    block: Block
    width: int
    height: int
    tile_width: int
    tile_height: int
    boxes: tuple[Box, ...]
    paths: Mapping[str, str]
    """Class of what looks alike -> its path."""


def drawings(blocks: Sequence[Block], of_nodes: bool, colour_of: Callable[[str], str | None] | None) -> list[Drawing]:
    """The drawing of each block. colour_of: the class of a gang's colour, by namespace/name; None: without colours."""
    tiles = sum(len(block.tiles) for block in blocks)
    width, height = next((width, height) for most, width, height in _SIZES if tiles <= most)
    if not of_nodes:
        columns = max((_columns(len(tile.cells), 2.0) for block in blocks for tile in block.tiles), default=1)
        rows = max((ceil(len(tile.cells) / columns) for block in blocks for tile in block.tiles), default=1)
        width, height = max(width, columns * _CELL[0] + 2), max(height, rows * _CELL[1] + 2)
    return [_drawing(block, width, height, of_nodes, colour_of) for block in blocks]


def _columns(count: int, ratio: float) -> int:
    """In how many columns so many things make a rectangle with about this ratio of columns to rows."""
    return max(1, min(count, round(sqrt(count * ratio))))


def _drawing(
    block: Block, width: int, height: int, of_nodes: bool, colour_of: Callable[[str], str | None] | None
) -> Drawing:
    step_x, step_y = width + _GAP, height + _GAP
    columns = _columns(len(block.tiles), 1.3 * step_y / step_x)
    paths: dict[str, list[str]] = {}
    boxes = []
    for number, tile in enumerate(block.tiles):
        x, y = number % columns * step_x, number // columns * step_y
        name = tile.name if width >= _NAMED and of_nodes else ""
        boxes.append(Box(tile, x, y, name if len(name) <= _CHARACTERS else f"{name[: _CHARACTERS - 1]}…"))
        inner = height - 2 - (_NAME_HEIGHT if name else 0)
        _draw_cells(paths, tile.cells, x + 1, y + 1, width - 2, inner, of_nodes)
        if colour_of is not None:
            _draw_gangs(paths, [colour for one in tile.gangs if (colour := colour_of(one.key))], x, y, width, height)
    rows = ceil(len(block.tiles) / columns)
    joined = {name: "".join(parts) for name, parts in paths.items()}
    return Drawing(block, columns * step_x - _GAP, rows * step_y - _GAP, width, height, tuple(boxes), joined)


def _draw_cells(
    paths: dict[str, list[str]], cells: Sequence[Cell], x: float, y: float, width: float, height: float, of_nodes: bool
) -> None:
    """Cells are filled from below by use; what is not known is hatched, and what takes no pods is struck through."""
    columns = min(len(cells), _IN_A_ROW) if of_nodes else _columns(len(cells), 2.0)
    wide, high = width / columns, height / ceil(len(cells) / columns)
    for number, cell in enumerate(cells):
        left, top = x + number % columns * wide, y + number // columns * high
        w, h = max(wide - 1, 1.0), max(high - 1, 1.0)
        at = f"M{left:.4g} {top:.4g}h{w:.3g}v{h:.3g}h-{w:.3g}z"
        paths.setdefault("free" if cell.total else "none", []).append(at)
        if cell.used and cell.total:
            part = h * min(cell.used / cell.total, 1)
            paths.setdefault("used", []).append(f"M{left:.4g} {top + h - part:.4g}h{w:.3g}v{part:.3g}h-{w:.3g}z")
        if cell.condition in _UNKNOWN:
            paths.setdefault("hatched", []).append(at)
        elif cell.condition in _CLOSED:
            paths.setdefault("closed", []).append(f"M{left:.4g} {top:.4g}l{w:.3g} {h:.3g}m0-{h:.3g}l-{w:.3g} {h:.3g}")
        if cell.chosen:
            paths.setdefault("chosen", []).append(at)


def _draw_gangs(
    paths: dict[str, list[str]], colours: Sequence[str], x: float, y: float, width: float, height: float
) -> None:
    """A stripe at the tile's foot for each colour."""
    colours = tuple(dict.fromkeys(colours))[:_STRIPES]
    high = max(4, height * 0.3)
    for number, colour in enumerate(colours):
        wide = width / len(colours)
        at = f"M{x + number * wide:.4g} {y + height - high:.4g}h{wide:.3g}v{high:.3g}h-{wide:.3g}z"
        paths.setdefault(f"gang c{colour}", []).append(at)


_COLOURS: Final = 8
"""Colours that people tell apart whatever their sight (Okabe and Ito, "Color Universal Design", 2008)."""
_OTHERS: Final = "other"
_SHOWN: Final = 8
"""Entries of the rail: as many as fit beside the map."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address of the map asks for."""

    topology: str | None
    path: Sequence[str]
    first: str
    resource: str
    colours: str
    fit: str
    numa: str
    pods: str
    within: str

    def parameters(self) -> dict[str, str]:
        """What stays when another part of the cluster is looked at."""
        asked = {"fit": self.fit, "numa": self.numa, "pods": self.pods, "within": self.within} if self.fit else {}
        return {"resource": self.resource, "colours": self.colours, **asked}


def map_values(planner: Planner, asked: Asked, rejected: int) -> Mapping[str, Any]:
    """The map of a domain, with what waits beside it and the answer to a question. Raises NotFoundError.

    rejected: pods that kubelets rejected within the last hour.
    """
    place = Place.of(planner, asked.topology, asked.path)
    resources = usual_resources(place.snapshot)
    resource = asked.resource if asked.resource in resources else next(iter(resources), CPU)
    parameters = asked.parameters()
    found, fault = _answered(planner, asked, place) if asked.fit else (None, "")
    first = int(asked.first) if asked.first.isdecimal() and len(asked.first) <= 9 else None
    marks = Marks() if found is None else found.marks
    view = map_view(planner.state, place.tree, place.part, resource, first, marks)
    colours = {each.key: str(number) for number, each in enumerate(view.gangs[:_COLOURS])} if asked.colours else {}
    colour_of = (lambda key: colours.get(key, _OTHERS)) if asked.colours else None
    sections = groupby(drawings(view.blocks, view.of_nodes, colour_of), key=lambda one: one.block.values[:-1])
    waiting = waiting_views(planner.state)
    return {
        "map": view,
        "sections": [(values, list(of)) for values, of in sections],
        "describe": partial(_described, view, found),
        "tile_url": partial(_tile_url, place, parameters, view.of_nodes),
        "block_url": lambda block: place.url(MAP, block.values, parameters),
        "topologies": place.topologies(MAP),
        "trail": place.trail(MAP, parameters),
        "resources": [
            Link(each, place.url(MAP, place.path, {**parameters, "resource": each}), here=each == resource)
            for each in resources
        ],
        "colours": Link(
            "Gangs", place.url(MAP, place.path, {**parameters, "colours": "" if asked.colours else "gangs"})
        ),
        "legend": [(each, colours.get(each.key, _OTHERS)) for each in view.gangs[:_COLOURS]] if asked.colours else None,
        "other_gangs": max(0, len(view.gangs) - _COLOURS),
        "asked": asked,
        "levels": () if place.topology is None else place.topology.node_labels,
        "spreads": Spread,
        "answer": found,
        "fault": fault,
        "silent": view.conditions.get(Condition.SILENT, 0),
        "unknown": view.conditions.get(Condition.UNKNOWN, 0),
        "closed": sum(view.conditions.get(each, 0) for each in _CLOSED),
        "rejected": rejected,
        "waiting": waiting[:_SHOWN],
        "more_waiting": max(0, len(waiting) - _SHOWN),
        "pods_waiting": sum(len(each.pods) for each in waiting),
        "gangs_waiting": sum(each.gang for each in waiting),
    }


def _answered(planner: Planner, asked: Asked, place: Place) -> tuple[Answer | None, str]:
    """The answer, or what is wrong with the question."""
    offered = offered_resources(place.snapshot)
    try:
        query = FitQuery.read(asked.fit, asked.numa, asked.pods or "1", asked.within, offered, place.topology)
        return answer(planner, query), ""
    except UserError as error:
        return None, " ".join(fault.message for fault in error.faults)


def _tile_url(place: Place, parameters: Mapping[str, str], of_nodes: bool, tile: Tile) -> str:
    if of_nodes:
        return node_url(tile.name)
    more = parameters if tile.first is None else {**parameters, "first": str(tile.first)}
    return place.url(MAP, tile.values, more)


_SAID: Final = {
    Condition.NOT_READY: "not ready",
    Condition.CORDONED: "cordoned",
    Condition.UNKNOWN: "NUMA nodes not known",
    Condition.SILENT: "exporter silent",
}


def _described(view: MapView, found: Answer | None, tile: Tile) -> str:
    """A tile in words: its numbers, and what a question asks of it."""
    resource = view.resource
    parts = [f"{format_share(resource, tile.used, tile.total)} {resource} used"]
    if view.of_nodes:
        cells = (cell for cell in tile.cells if cell.name)
        shares = [f"NUMA {cell.name} {format_share(resource, cell.used, cell.total)}" for cell in cells]
        parts += [", ".join(shares)] if shares else []
        parts += [_SAID[tile.condition]] if tile.condition in _SAID else []
    else:
        parts.insert(0, counted(tile.nodes, "node"))
        conditions = Counter(cell.condition for cell in tile.cells)
        parts += [f"{number} {_SAID[each]}" for each, number in conditions.items() if each in _SAID]
    if tile.gangs:
        named = ", ".join(f"{each.key} ({each.pods})" for each in tile.gangs[:_STRIPES])
        more = f" and {len(tile.gangs) - _STRIPES} more" if len(tile.gangs) > _STRIPES else ""
        parts.append(f"gangs {named}{more}")
    if found is not None:
        parts.append(_fit_text(view, found, tile))
    return f"{tile.name or UNLABELED}: {'; '.join(filter(None, parts))}"


def _fit_text(view: MapView, found: Answer, tile: Tile) -> str:
    if not tile.pods:
        return f"does not fit: {tile.why}" if tile.why else ("" if found.of_one else "none of the pods")
    if not view.of_nodes and found.of_one:
        return f"fits on {counted(tile.pods, 'node')}"
    where = "+".join(cell.name for cell in tile.cells if cell.chosen and cell.name) if view.of_nodes else ""
    numa = f", NUMA {where}" if where else ""
    return f"fits{numa}" if found.of_one else f"{counted(tile.pods, 'pod')} here{numa}"
