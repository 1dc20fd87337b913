"""Where gangs go that are larger than any domain of their preferred level: our strategies beside Kueue's greedy search.

    python -m tests.bench.overflow [--json]

Each line is 150 gangs with a preferred rack, each on a random cluster of 6 blocks of 3 to 6 racks of 2 to 4 hosts with
0 to 8 free slots: the sums of blocks, racks and hosts that they use, and the mean distance of two pods of a gang in
levels (0 = one host, 3 = two blocks). The first gangs are larger than any block, the next are held by a block, and by
no rack. The last lines are gang b of bench W1, 2,304 pods on 5,000 nodes, at an occupancy of 0, 50 and 90 %.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from tests.bench import w1_cluster
from tests.builders.gangs import RACK, ZONE, tree_of
from webhook.engine.arrays import Amounts
from webhook.engine.gang.distribution import Share
from webhook.engine.gang.equal_pods import EqualPods, assign_equal
from webhook.engine.gang.gang_spec import Constraint
from webhook.engine.topology.tree import ROOT, TopologyTree
from webhook.model.options import GangStrategy

CASES: Final = 150
SEED: Final = 0
BLOCKS: Final = 6

Order = Callable[[TopologyTree, Amounts, int], Share]
"""Tree, free slots by position, pods -> pods by position."""


def ours(strategy: GangStrategy) -> Order:
    """The plan of one of our strategies."""

    def order(tree: TopologyTree, slots: Amounts, pods: int) -> Share:
        plan = assign_equal(tree, slots, EqualPods(pods, pods, Constraint(None, RACK), strategy=strategy))
        assert plan is not None
        return plan.nodes

    return order


def kueue(tree: TopologyTree, slots: Amounts, pods: int, level: int = RACK) -> Share:
    """Kueue's greedy search for a preferred level (KEP-2724, BestFit), on trees without missing labels.

    From the level upwards, the smallest domain that holds all; else the largest of the coarsest level. Then level by
    level, of all that is below those taken, the largest, and the smallest that holds the rest.
    """
    for upper in range(level, ROOT, -1):
        held = tree.sums(upper, slots)
        if held.max() >= pods:
            share = _taken(held, (held == held[held >= pods].min()).nonzero()[0][:1], pods)
            break
    else:
        upper = ZONE
        share = _taken(tree.sums(upper, slots), np.arange(tree.size(upper)), pods)
    for lower in range(upper + 1, tree.node_level + 1):
        share = _taken(tree.sums(lower, slots), tree.below(lower - 1, lower, share.domains)[0], pods)
    return share


def _taken(held: Amounts, among: Amounts, pods: int) -> Share:
    order = among[np.argsort(-held[among], kind="stable")]
    taken: dict[int, int] = {}
    for index, number in enumerate(order.tolist()):
        if held[number] >= pods:
            fitting = [each for each in order[index:].tolist() if held[each] >= pods]
            taken[min(fitting, key=held.__getitem__)] = pods
            break
        taken[number] = int(held[number])
        pods -= int(held[number])
    return Share(np.array(sorted(taken)), np.array([taken[number] for number in sorted(taken)]))


ORDERS: Mapping[str, Order] = {
    "BinPack": ours(GangStrategy.BIN_PACK),
    "Nearest": ours(GangStrategy.NEAREST),
    "Kueue's greedy": kueue,
}


def used(tree: TopologyTree, share: Share) -> tuple[int, int, int, float]:
    """Blocks, racks and hosts, and the mean distance of two pods in levels."""
    pods = int(share.amounts.sum())
    numbers, distance = [], 0.0
    for level in (ZONE, RACK, tree.node_level):
        held = np.bincount(tree.domains(level)[share.domains], weights=share.amounts)
        numbers.append(int(np.count_nonzero(held)))
        distance += float(pods**2 - (held**2).sum()) / max(pods * (pods - 1), 1)
    return numbers[0], numbers[1], numbers[2], distance


def cases(*, in_a_block: bool) -> Iterator[tuple[TopologyTree, Amounts, int]]:
    """The random clusters, each with its free slots and the size of its gang."""
    rng, number = np.random.default_rng(SEED), 0
    while number < CASES:
        racks, hosts = int(rng.integers(3, 7)), int(rng.integers(2, 5))
        tree = tree_of([(f"b{b}", f"r{r}") for b in range(BLOCKS) for r in range(racks) for _ in range(hosts)])
        slots = rng.integers(0, 9, tree.n)
        largest = [int(tree.sums(level, slots).max()) for level in (ROOT, ZONE, RACK)]
        # Up to the size of four of the largest blocks.
        least, most = (largest[2], largest[1]) if in_a_block else (largest[1], min(largest[0], 4 * largest[1]))
        if least < most:
            number += 1
            yield tree, slots, int(rng.integers(least + 1, most + 1))


def lines() -> Iterator[dict[str, Any]]:
    """Every measurement."""
    for what, in_a_block in (("no block", False), ("a block", True)):
        every = list(cases(in_a_block=in_a_block))
        for name, order in ORDERS.items():
            found = np.array([used(tree, order(tree, slots, pods)) for tree, slots, pods in every])
            blocks, racks, hosts = found[:, :3].sum(axis=0).astype(int).tolist()
            yield {"what": f"held by {what}", "order": name, **_figures(blocks, racks, hosts, found[:, 3].mean())}
    for occupancy in (0, 50, 90):
        free = (~w1_cluster.taken_slots(5000, occupancy)).sum(axis=1).astype(np.int64)
        tree = tree_of([(f"block-{node // 256}", f"rack-{node // 16}") for node in range(5000)])
        for name, order in ORDERS.items():
            share = order(tree, free[tree.order], w1_cluster.REQUESTS["b"].pods)
            yield {"what": f"W1 b at {occupancy} %", "order": name, **_figures(*used(tree, share))}


def _figures(blocks: int, racks: int, hosts: int, distance: float) -> dict[str, float]:
    return {"blocks": blocks, "racks": racks, "hosts": hosts, "distance": round(float(distance), 2)}


def text(line: Mapping[str, Any]) -> str:
    """A measurement as text."""
    figures = ", ".join(f"{line[name]:,} {name}" for name in ("blocks", "racks", "hosts"))
    return f"{line['what']:17s}  {line['order']:15s} {figures}, distance {line['distance']:.2f}"


def main() -> None:
    """Print a line for each order and kind of gang."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.overflow")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    for line in lines():
        sys.stdout.write((json.dumps(line) if arguments.json else text(line)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
