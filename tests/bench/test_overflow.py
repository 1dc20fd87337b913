"""The documented figures of gangs that no domain holds are those of the bench, and its greedy search is Kueue's."""

from collections import Counter
from pathlib import Path

import numpy as np

from tests.bench.overflow import kueue, lines, text
from tests.builders.gangs import topology_of, tree_of
from tests.conformance.peers.tables import Row, domain, rows
from webhook.model.quantity import Quantity

_SIMPLE = {"name", "count", "takes", "preferred", "required", "theirs"}


def test_the_documentation_has_the_figures_of_the_bench() -> None:
    page = Path("docs/annotations.md").read_text(encoding="utf-8")
    found = {line["order"]: line for line in lines() if line["what"] == "held by no block"}
    nearest, packed = found["Nearest"], found["BinPack"]
    for name in ("blocks", "racks", "hosts"):
        assert f"{nearest[name]:,} {name} instead of {packed[name]:,}" in page
    assert all(text(line).startswith(line["what"]) for line in lines())


def _slots(row: Row, free: Row) -> int:
    takes = {"pods": "1"} | row["sets"][0]["takes"]
    whole = (Quantity.parse(free.get(name, "0")).nano // Quantity.parse(amount).nano for name, amount in takes.items())
    return int(min(whole))


def test_the_greedy_search_puts_pods_where_kueues_own_tables_have_them() -> None:
    plain = {"levels", "nodes", "sets", "differs", "theirs"}
    found = 0
    for row in rows("kueue"):
        (first, *others) = row["sets"]
        nodes = list(row["nodes"].values())
        if others or row.keys() - plain or first.keys() - _SIMPLE or not first.get("theirs"):
            continue
        asked = first.get("preferred") or first.get("required")
        if any(node.keys() - {"in", "free", "labels"} for node in nodes) or not asked:
            continue
        tree = tree_of([node["in"] for node in nodes], topology_of(*row["levels"]))
        slots = np.array([_slots(row, node["free"]) for node in nodes])[tree.order]
        level = row["levels"].index(asked) + 1
        share = kueue(tree, slots, first["count"], level)
        names = [list(row["nodes"])[node] for node in tree.order[share.domains].tolist()]
        placed: Counter[str] = Counter()
        for name, pods in zip(names, share.amounts.tolist(), strict=True):
            placed[domain(row, name)] += pods
        assert placed == first["theirs"], row
        found += 1
    assert found >= 10, found
