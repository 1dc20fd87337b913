"""`review` of a snapshot gives the answer of the running service on the same cluster, for every kind of workload.

    zone-0/hall-0 ── rack-0 ── n0 [16]     n1 [16]     n2 [16]                   [free cpus per NUMA node]
                  ├─ rack-1 ── n3 [16 16]  n4 [16 16]
                  ├─ rack-2 ── n5 [16 16]  n6 [16 16]  n7 [16 16]  n8 [16 16]
                  └─ rack-3 ── n9 [16]

n9 is restricted, the others are single-numa-node.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster.answers import GROUP, Alone, Foretold, PlacementAnswer, asked, foretold, reviewed, spot
from tests.cluster.controllers import Controllers
from tests.cluster.gated import PLACEMENT, SINGLE, SPEC, Pods, pod
from tests.cluster.kinds import KINDS, APIKind
from tests.cluster.racked import RACKS
from tests.integration.example_cluster import FLEET, cluster
from tests.unit.cli.conftest import EXAMPLES
from webhook.admission.workload.templates import templates_in
from webhook.cli.offline.workload import with_at
from webhook.formats.kubernetes.owner_chain import INHERITED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from webhook.model.raw import Draft

__all__ = ["cluster"]  # a fixture
TEMPLATE = {"metadata": {"labels": {"app": "w"}}, "spec": pod("", cpu=16)["spec"]}
RESTRICTED = {SPEC: '{"numaTopologyPolicy": "Restricted"}'}
MIN_MEMBER = "topology-webhook.dev/min-member"
PLAYED = {(kind.api_version, kind.kind): kind.play for kind in KINDS}


@pytest.fixture
def empty(cluster: Path, pods: Pods) -> Path:
    """Wait until the service knows that no pod is left. Returns a snapshot."""
    both = pod("any", cpu=16)
    both["spec"]["containers"].append({**both["spec"]["containers"][0], "name": "other"})
    fits = [(pod("any", cpu=16), 9), (both, 6), (pod("any", cpu=16, annotations=RESTRICTED), 1)]

    def is_empty() -> bool:
        for raw, count in fits:
            tried = pods.plane.api.create(f"{pods.path}?dryRun=All", raw)
            if f"{count} of {len(FLEET)} nodes fit" not in tried["metadata"]["annotations"].get(PLACEMENT, ""):
                return False
        return True

    pods.plane.wait_for("the pods of the last test to be forgotten", is_empty)
    return cluster


def moved(raw: Draft, *, to_templates: bool) -> Draft:
    """The workload with all its requests on itself, or all on its templates."""
    raw = copy.deepcopy(raw)
    own = raw["metadata"].setdefault("annotations", {})
    templates = list(templates_in(raw))
    asked_for = {key: text for one in templates for key, text in one.annotations.items() if key in INHERITED}
    asked_for |= {key: text for key, text in own.items() if key in INHERITED}
    raw["metadata"]["annotations"] = _with(own, {} if to_templates else asked_for)
    for one in templates:
        annotations = _with(one.annotations, asked_for if to_templates else {})
        metadata = {**(one.raw.get("metadata") or {}), "annotations": annotations}
        raw = with_at(raw, one.path, {**one.raw, "metadata": metadata})
    return raw


def _with(annotations: Any, asked_for: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in annotations.items() if key not in INHERITED} | asked_for


def compare(pods: Pods, documents: Sequence[Draft], node_arrays: Path, folder: Path) -> PlacementAnswer:
    """Get both answers, and check that they agree."""
    expected = foretold(reviewed(documents, folder, node_arrays=node_arrays))
    controllers = Controllers(pods.plane, pods.namespace)
    last = documents[-1]
    play = PLAYED.get((last["apiVersion"], last["kind"]))
    seen, raws = asked(pods, documents, expected, lambda raw: play and play(controllers, raw))
    answer = expected.answer
    if expected.alone and answer.groups:  # those in no group may be placed before, and take room from the group
        assert list(map(len, seen.groups)) == list(map(len, answer.groups))
        answer = replace(answer, groups=seen.groups)
    assert seen == answer
    goes_as_foretold([raw for raw in raws if GROUP not in raw["metadata"]["annotations"]], expected.alone)
    return seen


def goes_as_foretold(raws: Sequence[Draft], alone: Sequence[Alone]) -> None:
    nodes = {spot(raw).node for raw in raws}
    assert bool(nodes) == bool(alone)
    assert nodes <= frozenset[str]().union(*(one.nodes for one in alone))
    if len(alone) == 1:
        assert alone[0].first in nodes


@pytest.mark.parametrize("to_templates", [False, True], ids=["on itself", "on its templates"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_of_a_workload_whose_pods_are_a_group(
    kind: APIKind, to_templates: bool, pods: Pods, empty: Path, tmp_path: Path
) -> None:
    raw = moved(kind.workload({**RACKS, **SINGLE}, TEMPLATE), to_templates=to_templates)
    seen = compare(pods, [raw], empty, tmp_path)
    assert seen.policies == {"SingleNUMANode"}
    assert sum(map(len, seen.groups)) == sum(map(len, kind.groups.values()))


def deployment(annotations: dict[str, str]) -> Draft:
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "w"}}, "template": TEMPLATE}
    metadata = {"name": "w", "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def daemon_set(annotations: dict[str, str]) -> Draft:
    raw = {**deployment(annotations), "kind": "DaemonSet"}
    return {**raw, "spec": {key: value for key, value in raw["spec"].items() if key != "replicas"}}


EXAMPLE_FILES = sorted(
    [*EXAMPLES.glob("*.yaml"), *EXAMPLES.glob("operators/*.yaml"), *EXAMPLES.glob("mistakes/*.yaml")]
)
DOCUMENTS = {
    f"{raw['kind']} {raw['metadata']['name']}": raw
    for file in EXAMPLE_FILES
    for raw in yaml.safe_load_all(file.read_text())
    if raw["kind"] != "Topology"
}
"""Those of the examples, in the words of people."""


@pytest.mark.parametrize("where", [None, False, True], ids=["as written", "on itself", "on its templates"])
@pytest.mark.parametrize("name", [name for name in DOCUMENTS if not name.startswith("Pod ")])
def test_of_a_workload_in_the_examples(name: str, where: bool | None, pods: Pods, empty: Path, tmp_path: Path) -> None:
    raw = DOCUMENTS[name] if where is None else moved(DOCUMENTS[name], to_templates=where)
    if where is not None and raw == DOCUMENTS[name]:
        return  # it is written so
    assert compare(pods, [raw], empty, tmp_path).managed


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name.startswith("Pod ")])
def test_of_a_pod_in_the_examples(name: str, pods: Pods, empty: Path, tmp_path: Path) -> None:
    compare(pods, [DOCUMENTS[name]], empty, tmp_path)


def test_of_bare_pods_that_name_their_group(pods: Pods, empty: Path, tmp_path: Path) -> None:
    asked_for = {**RACKS, GROUP: "g", MIN_MEMBER: "4"}
    raws = [{"apiVersion": "v1", "kind": "Pod", **pod(f"g-{number}", 16, asked_for)} for number in range(4)]
    (group,) = compare(pods, raws, empty, tmp_path).groups
    assert len(group) == 4


@pytest.mark.parametrize("to_templates", [False, True], ids=["on itself", "on its templates"])
def test_of_pods_in_no_group(to_templates: bool, pods: Pods, empty: Path, tmp_path: Path) -> None:
    seen = compare(pods, [moved(deployment(SINGLE), to_templates=to_templates)], empty, tmp_path)
    assert (seen.managed, seen.groups) == (2, ())


@pytest.mark.parametrize("to_templates", [False, True], ids=["on itself", "on its templates"])
def test_a_daemon_set_is_left_alone_by_both(to_templates: bool, pods: Pods, empty: Path, tmp_path: Path) -> None:
    raw = moved(daemon_set(SINGLE), to_templates=to_templates)
    (entry,) = reviewed([raw], tmp_path, node_arrays=empty)
    assert entry["message"] == "unmanaged: a DaemonSet chooses its pods' nodes itself"
    seen, ours = asked(pods, [raw], Foretold(PlacementAnswer(), len(FLEET)), lambda _: None)
    assert (list(seen.warnings), ours) == (entry["warnings"], [])
