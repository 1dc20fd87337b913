"""The peers' tables of placements, a JSON object a line: a cluster, a request, and where the peer puts the pods.

levels: node labels, coarse to fine. nodes: name -> `in`: its value at each level, `free`: allocatable, and `labels`,
`taints`, `cordoned`, `unready`. pods: others that are there. A set of pods has `count` and `takes`; `required`,
`preferred` and `segments` [size, level], or a list of these from coarse to fine; `selector`, `tolerations`, `affinity`;
`theirs`: domain or node -> pods.
No `theirs` anywhere: the peer places nothing. `ours`: why that differs here. `differs`: both place the pods, and why
ours are on other nodes. `strategy`: ours for a table of Kueue whose test switches its balanced placement on.

- kueue.jsonl: `sets` of one workload, bound `together` if they are a group; `running`: pod -> node of those that run.
- kai.jsonl: `group` of sets and groups, nested; `min`: pods that a set cannot do without.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from webhook.model.quantity import Quantity
from webhook.model.raw import Draft

HOST: Final = "kubernetes.io/hostname"
Row = Mapping[str, Any]


@cache
def rows(name: str) -> tuple[Row, ...]:
    """The rows of a table."""
    lines = (Path(__file__).parent / "tables" / f"{name}.jsonl").read_text().splitlines()
    return tuple(map(json.loads, lines))


def objects(row: Row) -> Iterator[Draft]:
    """The cluster of a row."""
    levels = [{"nodeLabel": label} for label in row["levels"]]
    yield {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "default"},
        "spec": {"levels": levels},
    }
    for name, node in row["nodes"].items():
        yield _node(name, node, row)
    for number, pod in enumerate(row.get("pods", ())):
        yield running_pod(f"other-{number}", pod.get("on"), pod["takes"], ended=pod.get("ended", False))


def _node(name: str, node: Row, row: Row) -> Draft:
    values = {label: value for label, value in zip(row["levels"], node["in"], strict=True) if value is not None}
    spec = {"taints": node.get("taints", []), "unschedulable": node.get("cordoned", False)}
    ready = "False" if node.get("unready") else "True"
    plenty = {"cpu": "64", "memory": "256Gi", "pods": "110"} if "group" in row else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**values, **node.get("labels", {})}},
        "spec": spec,
        "status": {"allocatable": plenty | node["free"], "conditions": [{"type": "Ready", "status": ready}]},
    }


def running_pod(
    name: str, node: str | None, takes: Mapping[str, str], *, ended: bool = False, owner: str = ""
) -> Draft:
    """A pod on a node, or on none."""
    metadata: Draft = {"name": name, "namespace": "team"}
    if owner:
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": "u", "controller": True}
        metadata["ownerReferences"] = [reference]
    spec: Draft = {"containers": [{"name": "c", "resources": {"requests": dict(takes)}}]}
    if node:
        spec["nodeName"] = node
    phase = "Succeeded" if ended else "Running"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


def sets_of(row: Row) -> list[Row]:
    """The sets of a row, including those of its groups."""

    def below(group: Row) -> Iterator[Row]:
        yield from group["sets"]
        for each in group["groups"]:
            yield from below(each)

    return list(row["sets"] if "sets" in row else below(row["group"]))


def layers_of(each: Row) -> list[tuple[int | None, str]]:
    """(size, level) of each layer of a set's segments, from coarse to fine; without a size there are none."""
    segments = each.get("segments") or []
    layers = segments if segments and isinstance(segments[0], list) else [segments] * bool(segments)
    return [(size, level) for size, level in layers]


def in_words(row: Row) -> str:
    """The request as a short text."""
    parts = []
    for each in sets_of(row):
        levels = [f"{wish} {each[wish].rpartition('/')[2]}" for wish in ("required", "preferred") if wish in each]
        levels += [f"{size} in {level.rpartition('/')[2]}" for size, level in layers_of(each)]
        parts.append(" ".join([str(each["count"]), *levels]))
    return " + ".join(parts)


def is_placed(row: Row) -> bool:
    """Whether the peer places any pod."""
    return bool(row.get("placed", any(each.get("theirs") for each in sets_of(row))))


def domain(row: Row, node: str) -> str:
    """A node's values at all levels; where the peer names nodes, its name, too."""
    path = map(str, row["nodes"][node]["in"])
    return "/".join([*path, node] if "group" in row else path)


def spread(places: Mapping[str, int]) -> tuple[int, ...]:
    """The number of domains of each level, coarse to fine, that an assignment uses. places: domain -> pods."""
    paths = [place.split("/") for place in places]
    return tuple(len({tuple(path[: level + 1]) for path in paths}) for level in range(max(map(len, paths))))


def is_together(row: Row, nodes: Sequence[str], level: str) -> bool:
    """Whether the nodes are in one domain of a level."""
    at = row["levels"].index(level) + 1
    paths = {tuple(row["nodes"][node]["in"][:at]) for node in nodes}
    return len(paths) <= 1 and all(None not in path for path in paths)


def overfull(row: Row, taken: Sequence[tuple[str, Mapping[str, str]]]) -> list[str]:
    """The nodes that hold more than their capacity. taken: node and amounts of each pod, without those of the row."""
    used: dict[str, Counter[str]] = {node: Counter() for node in row["nodes"]}
    others = [(pod.get("on"), pod["takes"]) for pod in row.get("pods", ()) if not pod.get("ended")]
    for node, takes in [*others, *taken]:
        if node is not None:
            used[node].update({"pods": _nano("1")} | {resource: _nano(amount) for resource, amount in takes.items()})
    free = {raw["metadata"]["name"]: raw["status"]["allocatable"] for raw in objects(row) if raw["kind"] == "Node"}
    return [
        f"{node}: {resource}"
        for node in {node for node, _ in taken}
        for resource, amount in used[node].items()
        if amount > _nano(free[node].get(resource, "0" if resource != "pods" else "110"))
    ]


def _nano(amount: str) -> int:
    return Quantity.parse(amount).nano
