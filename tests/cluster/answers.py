"""Compares the running service with `review`: the answers of both to one workload, in the same form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.cluster.control_plane import CommandError
from tests.cluster.gated import NUMA, PLACEMENT, SPEC, Pods
from tests.unit.cli.conftest import run_review
from webhook.model.names import DOMAIN, RANK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from webhook.model.raw import Draft
DENIED = "denied the request: "
GROUP = "pod-group-name"


@dataclass(frozen=True)
class PodPlace:
    """The assignment of one pod."""

    node: str
    numa_nodes: tuple[int, ...]
    domain: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PlacementAnswer:
    """The answer of the service, or of `review`, to one workload."""

    denied: str = ""
    """Why the workload is not created; empty if it is."""
    warnings: tuple[str, ...] = ()
    """The warnings that kubectl prints."""
    managed: int = 0
    """The number of pods that the service assigns."""
    policies: frozenset[str | None] = frozenset()
    """The NUMA policies that the managed pods request."""
    groups: tuple[tuple[PodPlace, ...], ...] = ()
    """The pods of each group in order of rank. With several pod sets, whose ranks mix, in order of node."""


@dataclass(frozen=True)
class Foretold:
    """The answer of `review` to a workload."""

    answer: PlacementAnswer
    pods: int = 0
    by_rank: bool = True
    """Whether each of its groups has one pod set."""
    alone: tuple[Alone, ...] = ()


@dataclass(frozen=True)
class Alone:
    """Pods without a group, which are ungated one after the other: where they may be, and where the first one is."""

    nodes: frozenset[str]
    first: str


def asked(
    pods: Pods, documents: Sequence[Draft], expected: Foretold, play: Callable[[Draft], object]
) -> tuple[PlacementAnswer, list[Draft]]:
    """The service's answer to these documents of one workload, and its pods once the expected number is bound."""
    warnings: list[str] = []
    for raw in documents:
        place = "--namespace", pods.namespace
        try:
            warnings += pods.plane.kubectl_warnings("create", *place, "--filename", "-", input=json.dumps(raw))
        except CommandError as error:
            if DENIED not in str(error):
                raise
            return PlacementAnswer(denied=str(error).partition(DENIED)[2].strip()), []
        if raw["kind"] != "Pod":
            play(pods.plane.api.get(_path(pods.namespace, raw)))
    pods.plane.wait_for(f"{expected.pods} pods to be bound", lambda: len(pods.bound()) == expected.pods)
    return _seen(list(pods.all().values()), tuple(warnings), by_rank=expected.by_rank)


def _path(namespace: str, raw: Draft) -> str:
    root = "/api" if "/" not in raw["apiVersion"] else "/apis"
    plural = f"{raw['kind'].lower()}s"
    return f"{root}/{raw['apiVersion']}/namespaces/{namespace}/{plural}/{raw['metadata']['name']}"


def _seen(raws: list[Draft], warnings: tuple[str, ...], *, by_rank: bool) -> tuple[PlacementAnswer, list[Draft]]:
    ours = [raw for raw in raws if PLACEMENT in raw["metadata"].get("annotations", {})]
    groups: dict[str, list[Draft]] = {}
    for raw in ours:
        if name := raw["metadata"]["annotations"].get(GROUP):
            groups.setdefault(name, []).append(raw)
    spots = [tuple(map(spot, sorted(members, key=_rank))) for members in groups.values()]
    policies = frozenset(_policy(raw["metadata"]["annotations"].get(SPEC)) for raw in ours)
    return PlacementAnswer("", warnings, len(ours), policies, _sorted(spots, by_rank=by_rank)), ours


def _policy(text: str | None) -> str | None:
    return None if text is None else str(json.loads(text)["numaTopologyPolicy"])


def _rank(raw: Draft) -> int:
    return int(raw["metadata"]["labels"][RANK])


def spot(raw: Draft) -> PodPlace:
    """The assignment of a bound pod."""
    annotations = raw["metadata"]["annotations"]
    allocation = json.loads(annotations[NUMA]) if NUMA in annotations else {}
    numa_nodes = tuple(entry["node"] for entry in allocation.get("numaNodeResources", ()))
    domain = json.loads(annotations.get(DOMAIN, "{}"))
    return PodPlace(raw["spec"]["nodeName"], numa_nodes, tuple(sorted(domain.items())))


def _sorted(groups: Sequence[tuple[PodPlace, ...]], *, by_rank: bool) -> tuple[tuple[PodPlace, ...], ...]:
    return tuple(sorted((group if by_rank else tuple(sorted(group, key=repr)) for group in groups), key=repr))


def reviewed(
    documents: Sequence[Draft], folder: Path, *cluster: object, node_arrays: Path | None = None
) -> list[Draft]:
    """The entries of `review -o json`."""
    file = folder / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}))
    outcome = run_review("-f", file, "-o", "json", *cluster, cluster=node_arrays)
    assert outcome.stderr == ""
    entries: list[Draft] = outcome.json
    return entries


def foretold(entries: Sequence[Draft]) -> Foretold:
    """The answer in these entries of one workload."""
    if denied := next((entry["message"] for entry in entries if entry["verdict"] == "deny"), ""):
        return Foretold(PlacementAnswer(denied=denied))
    sets = [one for entry in entries for one in entry["podSets"]]
    managed = [one for one in sets if one["managed"]]
    gangs: list[Draft] = []
    for entry in entries:  # each bare pod of a group shows the whole group
        found = entry.get("group")
        gangs += [gang for gang in (found or {}).get("gangs") or [found] if gang and gang not in gangs]
    by_rank = all(len({each["set"] for each in gang["pods"]}) == 1 for gang in gangs)
    answer = PlacementAnswer(
        "",
        tuple(warning for entry in entries for warning in entry["warnings"]),
        sum(one["pods"] for one in managed),
        frozenset(one["policy"] for one in managed),
        _sorted([tuple(map(_foretold_spot, gang["pods"])) for gang in gangs], by_rank=by_rank),
    )
    alone = [_alone(one["nodes"]["best"]) for one in managed if not one["inGroup"]]
    return Foretold(answer, sum(one["pods"] for one in sets), by_rank, tuple(alone))


def _alone(best: Sequence[Draft]) -> Alone:
    return Alone(frozenset(each["node"] for each in best), best[0]["node"])


def _foretold_spot(entry: Draft) -> PodPlace:
    return PodPlace(entry["node"], tuple(entry["numaNodes"]), tuple(sorted(map(tuple, entry["domain"]))))
