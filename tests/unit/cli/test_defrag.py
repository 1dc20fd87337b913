"""`topology-webhook defrag`: the fewest running pods to move, and those that never move."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.pods import bound, gated
from tests.builders.topologies import topology
from tests.unit.cli.cluster_files import fields_of, written
from tests.unit.cli.conftest import Printed, run_command
from tests.unit.views.one_node import allocated_on
from tests.unit.views.racks import RACK, machine

GANG = {
    "kai.scheduler/topology": "network",
    "kai.scheduler/topology-required-placement": "rack",
    "topology-webhook.dev/min-member": "2",
}


def owned(kind: str = "ReplicaSet", name: str = "web", version: str = "apps/v1") -> dict[str, Any]:
    """Metadata of a pod with a controller."""
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": f"u-{name}", "controller": True}
    return {"ownerReferences": [owner]}


def running(name: str, node: str, numa: int, cpus: int, **how: Any) -> dict[str, Any]:
    """A pod that holds CPUs of one NUMA node."""
    how.setdefault("metadata", owned(name=f"set-{name}"))
    annotations = {**allocated_on(node, numa, cpus), **how.pop("annotations", {})}
    return bound(name=name, node=node, cpu=cpus, annotations=annotations, **how)


def fragmented(**of_b: Any) -> list[dict[str, Any]]:
    # n0 [16-6 16-4]  n1 [16-12 16-9]        [CPUs of each NUMA node]
    return [
        *machine("n0", (10, 12), (2, 2), {RACK: "rack-1"}),
        *machine("n1", (4, 7), (2, 2), {RACK: "rack-2"}),
        topology(labels=(RACK,)),
        running("a", "n0", 0, 6),
        running("b", "n0", 1, 4, **of_b),
        running("c", "n1", 0, 12),
        running("d", "n1", 1, 9),
    ]


def defrag(folder: Path, *objects: dict[str, Any], arguments: tuple[object, ...] = ("-o", "json")) -> Printed:
    return run_command("defrag", *arguments, cluster=written(folder, *objects))


def moves(outcome: Printed) -> list[list[tuple[str, str, list[int], str, list[int]]]]:
    return [
        [(each["name"], each["node"], each["numaNodes"], each["toNode"], each["toNumaNodes"]) for each in view["moves"]]
        for view in outcome.json["plan"]
    ]


def test_one_small_pod_moves_and_a_numa_node_is_free(tmp_path: Path) -> None:
    outcome = defrag(tmp_path, *fragmented(), gated(name="waits", cpu=14))
    assert (outcome.code, outcome.stderr) == (0, "")
    assert moves(outcome) == [[("b", "n0", [1], "n1", [0])]]
    (view,) = outcome.json["plan"]
    assert (view["verdict"], view["atLeast"]) == ("Moves", 1)
    assert view["starts"] == [{"name": "waits", "node": "n0", "numaNodes": [1]}]
    assert view["moves"][0]["why"] == "makes room for pod default/waits"
    assert (outcome.json["applied"], outcome.json["evicted"]) == (False, [])


def test_the_table_names_pods_places_and_why(tmp_path: Path) -> None:
    outcome = defrag(tmp_path, *fragmented(), gated(name="waits", cpu=14), gated(name="huge", cpu=17), arguments=())
    assert outcome.code == 1
    assert [" ".join(line.split()) for line in outcome.stdout.splitlines()] == [
        "NAMESPACE NAME PODS MOVES PLAN",
        "default huge 1 - no moves of pods that may be moved let it start",
        "default waits 1 1 starts on n0, NUMA 1",
        "",
        "POD THAT MOVES FROM COULD GO TO WHY",
        "default/b n0, NUMA 1 n1, NUMA 0 makes room for pod default/waits",
    ]


def test_the_json_has_the_documented_fields(tmp_path: Path) -> None:
    file = written(tmp_path, *fragmented(), gated(name="waits", cpu=14))
    answer = run_command("defrag", "-o", "json", cluster=file).json
    assert yaml.safe_load(run_command("defrag", "-o", "yaml", cluster=file).stdout) == answer
    (view,) = answer["plan"]
    assert set(answer) == fields_of("DefragmentationPlan")
    assert set(view) == fields_of("DefragmentationView")
    assert {frozenset(each) for each in view["starts"]} == {frozenset(fields_of("PlaceView"))}
    assert {frozenset(each) for each in view["moves"]} == {frozenset(fields_of("MoveView"))}


def test_a_pod_may_move_to_another_numa_node_of_its_node(tmp_path: Path) -> None:
    # n0 [16-4 16-4]
    objects = [*machine("n0", (12, 12), (2, 2), {}), running("a", "n0", 0, 4), running("b", "n0", 1, 4)]
    outcome = defrag(tmp_path, *objects, gated(name="waits", cpu=16))
    assert moves(outcome) == [[("a", "n0", [0], "n0", [1])]]


def test_a_rack_is_freed_for_a_gang(tmp_path: Path) -> None:
    # rack-1 ── n0 [16-6 16-2], rack-2 ── n1 [16-4]: two members of 16 CPUs need n0
    objects = [
        *machine("n0", (10, 14), (2, 2), {RACK: "rack-1"}),
        *machine("n1", (12,), (2, 2), {RACK: "rack-2"}),
        topology(labels=(RACK,)),
        running("a", "n0", 0, 6),
        running("b", "n0", 1, 2),
        running("c", "n1", 0, 4),
    ]
    gang = [gated(name=f"g-{rank}", group="train", cpu=16, annotations=GANG) for rank in range(2)]
    outcome = defrag(tmp_path, *objects, *gang)
    assert outcome.code == 0
    assert moves(outcome) == [[("a", "n0", [0], "n1", [0]), ("b", "n0", [1], "n1", [0])]]
    (view,) = outcome.json["plan"]
    assert (view["gang"], view["pods"], view["atLeast"]) == (True, 2, 2)
    assert [(each["name"], each["node"], each["numaNodes"]) for each in view["starts"]] == [
        ("g-0", "n0", [0]), ("g-1", "n0", [1])
    ]  # fmt: skip


def test_a_pod_moves_only_where_it_may_run(tmp_path: Path) -> None:
    outcome = defrag(tmp_path, *fragmented(nodeSelector={"kubernetes.io/hostname": "n0"}), gated(name="waits", cpu=14))
    assert moves(outcome) == [[("b", "n0", [1], "n0", [0])]]


def test_a_pod_moves_only_if_it_has_another_place(tmp_path: Path) -> None:
    both = [
        *machine("n0", (10,), (2, 2), {}),
        *machine("n1", (2, 2), (2, 2), {}),
        running("a", "n0", 0, 6),
        gated(name="waits", cpu=14),
    ]
    outcome = defrag(tmp_path, *both)
    assert (outcome.code, outcome.json["plan"][0]["verdict"]) == (1, "NoMoves")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"metadata": {}}, "NoController"),
        ({"metadata": owned("Job")}, "NoController"),
        ({"metadata": owned("DaemonSet")}, None),
        ({"metadata": owned("DaemonSet", version="apps.kruise.io/v1beta1")}, "DaemonSet"),
        ({"schedulerName": "another"}, "Unmanaged"),
        ({"priority": 2_000_000_000}, "SystemCritical"),
        ({"group": "g"}, "Gang"),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, "Protected"),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "Protected"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]}, "Scheduler"),
        ({"status": {"phase": "Pending"}}, "NotRunning"),
        ({"priority": 1}, None),
        ({"metadata": {**owned(), "annotations": {"kubernetes.io/config.mirror": "x"}}}, None),
        ({"metadata": {**owned(), "deletionTimestamp": "2000-01-01T00:00:00Z"}}, None),
    ],
)
def test_some_pods_never_move(tmp_path: Path, how: dict[str, Any], why: str | None) -> None:
    objects = [
        *machine("n0", (10,), (2, 2), {}),
        *machine("n1", (8,), (2, 2), {}),
        running("a", "n0", 0, 6, **how),
        gated(name="waits", cpu=14),
    ]
    outcome = defrag(tmp_path, *objects)
    assert (outcome.code, moves(outcome)) == (1, [[]])
    assert outcome.json["unmovable"] == ({} if why is None else {why: 1})


def budget(allowed: int, name: str = "kept") -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
        "status": {"disruptionsAllowed": allowed},
    }


@pytest.mark.parametrize(
    ("budgets", "moved"), [((budget(1),), 1), ((budget(0),), 0), ((budget(9), budget(9, "other")), 0)]
)
def test_budgets_are_respected(tmp_path: Path, budgets: tuple[dict[str, Any], ...], moved: int) -> None:
    kept = {"labels": {"app": "kept"}}
    objects = [
        *machine("n0", (10,), (2, 2), {}),
        *machine("n1", (10,), (2, 2), {}),
        *machine("n2", (15,), (2, 2), {}),
        running("a", "n0", 0, 6, metadata={**owned(name="a"), **kept}),
        running("b", "n1", 0, 6, metadata={**owned(name="b"), **kept}),
        *budgets,
        *(gated(name=f"waits-{number}", cpu=16) for number in range(2)),
    ]
    assert sum(map(len, moves(defrag(tmp_path, *objects)))) == moved


def test_a_later_plan_counts_what_an_earlier_one_takes(tmp_path: Path) -> None:
    # n0 [16-6], n1 [16-6], n2 [16-9]: there is another place for one of the two pods of 6 CPUs only
    objects = [
        *machine("n0", (10,), (2, 2), {}),
        *machine("n1", (10,), (2, 2), {}),
        *machine("n2", (7,), (2, 2), {}),
        running("a", "n0", 0, 6),
        running("b", "n1", 0, 6),
        bound(name="c", node="n2", cpu=9, annotations=allocated_on("n2", 0, 9)),
        gated(name="later", cpu=14, second=2),
        gated(name="first", cpu=14, second=1),
        gated(name="urgent", cpu=10, second=3, priority=5),
    ]
    views = defrag(tmp_path, *objects).json["plan"]
    assert [(view["name"], view["verdict"], len(view["moves"])) for view in views] == [
        ("urgent", "Fits", 0),
        ("first", "Moves", 1),
        ("later", "NoMoves", 0),
    ]


def test_it_plans_for_the_first_and_says_how_many_more_wait(tmp_path: Path) -> None:
    objects = [*fragmented(), *(gated(name=f"w-{number}", cpu=14, second=number) for number in range(3))]
    outcome = defrag(tmp_path, *objects, arguments=("--first", 1))
    assert outcome.code == 0
    assert "2 more are waiting; --first NUMBER plans for more" in outcome.stdout


def test_what_cannot_be_judged_is_said(tmp_path: Path) -> None:
    claims = [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]
    alone = gated(name="g-0", group="train", cpu=2, second=2, annotations=GANG)
    outcome = defrag(tmp_path, *fragmented(), gated(name="waits", cpu=14, volumes=claims), alone)
    assert outcome.code == 1
    first, second = outcome.json["plan"]
    assert (first["verdict"], first["why"]) == ("Unknown", "only the scheduler can judge its volumes")
    assert second["verdict"] == "Unknown"
    assert "1 of the 2 pods that must start together are there" in second["why"]


def test_nothing_waits(tmp_path: Path) -> None:
    assert defrag(tmp_path, *fragmented(), arguments=()).stdout == "nothing is waiting\n"


def test_a_snapshot_is_never_changed(tmp_path: Path) -> None:
    outcome = defrag(tmp_path, *fragmented(), arguments=("--apply",))
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr == "error: --apply and --cluster exclude each other: pods of a snapshot cannot be evicted\n"
