"""Bench W1: the place of a pod group, from free amounts to a node (and NUMA node) for every pod.

    python -m tests.bench.w1 [--json] [--nodes 5000] [--repeat 30]

Each line is one request on one cluster: milliseconds (median and least), and how many racks and blocks are used. Beside
it: building the tree, taking one node's change in, counting alone, and, as a yardstick for the machine, reading once the
amounts that counting needs.
"""

import argparse
import json
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from tests.bench.w1_cluster import REQUESTS, TOPOLOGY, cluster, group
from tests.engine.machines import node
from webhook.engine.group.count import count
from webhook.engine.group.kind import Kind
from webhook.engine.group.place import place_group
from webhook.engine.group.result import GroupPlacement
from webhook.engine.tree import TopologyTree
from webhook.engine.trees import TopologyTrees
from webhook.engine.view import View

GOALS = {"a": 0.6, "b": 1.2, "c": 0.6, "d": 0.6, "e": 1.5, "f": 0.6}
NUMA_FACTOR = 3
FEWEST_RACKS = {"b": {0: 18, 50: 32, 90: 151}, "c": {0: 4, 50: 8}, "f": {0: 2, 50: 4, 90: 16}}


def main() -> None:
    """Run the bench and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=30)
    arguments = parser.parse_args()
    for line in lines(arguments.nodes, arguments.repeat):
        print(json.dumps(line) if arguments.json else text(line), flush=True)


def lines(nodes: int, repeat: int) -> list[dict[str, Any]]:
    """Every measurement."""
    found = []
    for numa in (False, True):
        for occupancy in (0, 50, 90):
            found += measure(nodes, occupancy, repeat, numa=numa)
    return found


def measure(nodes: int, occupancy: int, repeat: int, *, numa: bool) -> list[dict[str, Any]]:
    """The measurements on one cluster."""
    state = cluster(nodes, occupancy, numa=numa)
    view = View(state.snapshot())
    trees = TopologyTrees()
    tree = trees.tree(TOPOLOGY, view.snapshot)
    at = {"bench": "w1", "nodes": nodes, "numa": numa, "occupancy": occupancy}
    found: list[dict[str, Any]] = []
    for letter, request in REQUESTS.items():
        asked = group(letter, numa=numa)
        placement, times = timed(lambda asked=asked: place_group(view, tree, asked), repeat)  # type: ignore[misc]
        goal = GOALS[letter] * (NUMA_FACTOR if numa else 1) * nodes / 5000
        best = FEWEST_RACKS.get(letter, {}).get(occupancy)
        found.append(
            at
            | {"what": letter, "pods": request.pods}
            | times
            | {"goal_ms": goal}
            | spread(placement)
            | {"fewest_racks": best}
        )
    kind = Kind.of(view, asked.sets[0].pod, asked.sets[0].intent)
    _, times = timed(lambda: count(view, kind), repeat)
    found.append(at | {"what": "count alone"} | times)
    _, times = timed(lambda: [plane.sum() for plane in amounts_read(view, kind, numa=numa)], repeat)
    found.append(at | {"what": "read the amounts once"} | times)
    _, times = timed(lambda: TopologyTrees().tree(TOPOLOGY, view.snapshot), max(3, repeat // 3))
    found.append(at | {"what": "tree build"} | times)
    found.append(at | {"what": "tree, one node moved"} | one_node_moved(state, trees, nodes, repeat))
    return found


def amounts_read(view: View, kind: Kind, *, numa: bool) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """The amounts that counting needs."""
    planes = [view.node_free(row) for row in kind.node]
    return planes + ([view.free(row) for row in kind.asking.whole.amounts] if numa else [])


def one_node_moved(state: Any, trees: TopologyTrees, nodes: int, repeat: int) -> dict[str, float]:
    """The time to bring the tree up to date after one node changed its rack."""
    times = []
    for turn in range(repeat):
        name = f"node-{turn * 7 % nodes}"
        labels = dict(state.nodes[name].labels)
        labels["example.com/rack"] = f"rack-{turn}"
        labels["example.com/block"] = f"block-{turn // 16}"
        state.upsert_node(node(name, state.nodes[name].allocatable, labels=labels))
        snapshot = state.snapshot()
        start = perf_counter()
        trees.tree(TOPOLOGY, snapshot)
        times.append(perf_counter() - start)
    return in_ms(times)


def timed(call: Callable[[], Any], repeat: int) -> tuple[Any, dict[str, float]]:
    """The result of a call and its times."""
    result = call()
    times = []
    for _ in range(repeat):
        start = perf_counter()
        result = call()
        times.append(perf_counter() - start)
    return result, in_ms(times)


def in_ms(times: list[float]) -> dict[str, float]:
    """Median and least, in milliseconds."""
    return {"ms": round(median(times) * 1e3, 3), "least_ms": round(min(times) * 1e3, 3)}


def spread(placement: GroupPlacement) -> dict[str, Any]:
    """How many racks and blocks the pods are in."""
    tree: TopologyTree = placement.tree
    if not placement.placed:
        return {"placed": False, "racks": None, "blocks": None}
    positions = tree.positions()[np.concatenate([seats.nodes for seats in placement.seats])].tolist()
    racks = {tree.containing(position, 2) for position in positions}
    blocks = {tree.containing(position, 1) for position in positions}
    return {"placed": True, "racks": len(racks), "blocks": len(blocks)}


def text(line: dict[str, Any]) -> str:
    """A line for people."""
    where = f"{line['nodes']} nodes {'NUMA' if line['numa'] else 'plain'} {line['occupancy']:2d} %  {line['what']:22s}"
    words = f"{where} {line['ms']:8.3f} ms (least {line['least_ms']:.3f})"
    if "goal_ms" in line:
        words += f"  goal {line['goal_ms']:.1f}"
        words += f"  {line['racks']} racks in {line['blocks']} blocks" if line["placed"] else "  not placed"
        words += f" (fewest {line['fewest_racks']})" if line["fewest_racks"] else ""
    return words


if __name__ == "__main__":
    main()
