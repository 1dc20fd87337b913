"""The assignment of a gang: from free amounts to a node (and NUMA node) for every pod.

Each line is one request on one cluster. It has the median milliseconds of consecutive runs and of runs with a cold CPU
cache, and the number of racks and blocks that are used. For comparison: the time to say why d does not fit, to count
alone, to read once the amounts that counting needs, to build the tree, and to apply a change of one node.

    python -m tests.bench --only w1            python -m tests.bench.w1 --nodes 50000 [--json]
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.bench.measure import cached, from_memory
from tests.bench.w1_cluster import REQUESTS, TOPOLOGY, cluster, group
from tests.builders.records import node
from webhook.engine.gang.gang_assignment import assign_gang
from webhook.engine.gang.pod_class import PodClass
from webhook.engine.gang.pod_counts import count
from webhook.engine.gang.result import GangAssignment
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.engine.topology.tree_cache import TopologyTrees

# Milliseconds at 5,000 nodes; NUMA-bound at most three times that.
GOALS = {"a": 0.6, "b": 1.2, "c": 0.6, "d": 0.6, "e": 1.5, "f": 0.6, "g": 1.2}
NUMA_FACTOR = 3
FEWEST_RACKS = {"b": {0: 18, 50: 32, 90: 151}, "c": {0: 4, 50: 8}, "f": {0: 2, 50: 4, 90: 16}, "g": {0: 2, 50: 4}}
MOVES = 50


def main() -> None:
    """Run this bench alone, on a cluster of any size."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.w1")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--nodes", type=int, default=5000)
    arguments = parser.parse_args()
    for line in lines(arguments.nodes):
        sys.stdout.write((json.dumps(line) if arguments.json else text(line)) + "\n")
        sys.stdout.flush()


def lines(nodes: int = 5000) -> Iterator[dict[str, Any]]:
    """Every measurement."""
    for numa in (False, True):
        for occupancy in (0, 50, 90):
            yield from _on_one_cluster(nodes, occupancy, numa=numa)


def _on_one_cluster(nodes: int, occupancy: int, *, numa: bool) -> Iterator[dict[str, Any]]:
    state = cluster(nodes, occupancy, numa=numa)
    snapshot = Snapshot(state.node_arrays())
    trees = TopologyTrees()
    tree = trees.tree(TOPOLOGY, snapshot.node_arrays)
    at = {"bench": "w1", "nodes": nodes, "numa": numa, "occupancy": occupancy}
    for letter, request in REQUESTS.items():
        asked = group(letter, numa=numa)
        goal = GOALS[letter] * (NUMA_FACTOR if numa else 1) * nodes / 5000
        best = FEWEST_RACKS.get(letter, {}).get(occupancy) if nodes == 5000 else None
        times = _times(lambda asked=asked: assign_gang(snapshot, tree, asked))  # type: ignore[misc]
        about = {"what": letter, "pods": request.pods, "goal_ms": goal, "fewest_racks": best}
        yield at | about | times | spread(assign_gang(snapshot, tree, asked))
    refused = group("d", numa=numa)
    yield at | {"what": "d, and why not"} | _times(lambda: assign_gang(snapshot, tree, refused).why)
    kind = PodClass.of(snapshot, refused.sets[0].pod, refused.sets[0].intent)
    yield at | {"what": "count alone"} | _times(lambda: count(snapshot, kind))
    planes = _amounts(snapshot, kind, numa=numa)
    yield at | {"what": "read the amounts once"} | _times(lambda: [plane.sum() for plane in planes])
    yield at | {"what": "tree build"} | _times(lambda: TopologyTrees().tree(TOPOLOGY, snapshot.node_arrays))
    yield at | {"what": "tree, one node moved"} | _one_node_moved(state, trees, nodes)


def _times(run: Callable[[], Any]) -> dict[str, float]:
    return {"ms": round(cached(run) / 1e6, 3), "cold_ms": round(from_memory(run) / 1e6, 3)}


def _amounts(snapshot: Snapshot, kind: PodClass, *, numa: bool) -> list[npt.NDArray[np.int64]]:
    """The amounts that counting needs."""
    planes = [snapshot.node_free(row) for row in kind.node]
    return planes + ([snapshot.free(row) for row in kind.asking.whole.amounts] if numa else [])


def _one_node_moved(state: ClusterState, trees: TopologyTrees, nodes: int) -> dict[str, float]:
    """The time to update the tree after one node has moved to another rack."""
    times = []
    for turn in range(MOVES):
        name = f"node-{turn * 7 % nodes}"
        moved = {"example.com/rack": f"rack-{turn}", "example.com/block": f"block-{turn // 16}"}
        old = state.nodes[name]
        state.upsert_node(node(name=name, allocatable=old.allocatable, labels={**old.labels, **moved}))
        node_arrays = state.node_arrays()
        start = perf_counter_ns()
        trees.tree(TOPOLOGY, node_arrays)
        times.append(perf_counter_ns() - start)
    return {"ms": round(median(times) / 1e6, 3)}


def spread(placement: GangAssignment) -> dict[str, Any]:
    """How many racks and blocks the pods use."""
    if not placement.assigned:
        return {"placed": False, "racks": None, "blocks": None}
    tree = placement.tree
    positions = tree.positions()[np.concatenate([each.nodes for each in placement.assignments])].tolist()
    racks = {tree.containing(position, 2) for position in positions}
    blocks = {tree.containing(position, 1) for position in positions}
    return {"placed": True, "racks": len(racks), "blocks": len(blocks)}


def text(line: dict[str, Any]) -> str:
    """A measurement as text."""
    where = f"{line['nodes']} nodes {'NUMA ' if line['numa'] else 'plain'} {line['occupancy']:2d} %"
    words = f"{where}  {line['what']:22s} {line['ms']:8.3f} ms"
    if "cold_ms" in line:
        words += f"  cold {line['cold_ms']:8.3f}"
    if "goal_ms" in line:
        words += f"  goal {line['goal_ms']:4.1f}"
        words += f"  {line['racks']} racks in {line['blocks']} blocks" if line["placed"] else "  not placed"
        words += f" (fewest {line['fewest_racks']})" if line["fewest_racks"] else ""
    return words


if __name__ == "__main__":
    main()
