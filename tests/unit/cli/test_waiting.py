"""`topology-webhook waiting`: pods, and gangs as one line."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.devices import claim, device_class, gpus, request, resource_slice, result
from tests.builders.pods import bound, created, gated
from tests.builders.topologies import topology
from tests.unit.cli.cluster_files import fields_of, written
from tests.unit.cli.conftest import Printed, run_command
from tests.unit.views.one_node import allocated
from tests.unit.views.racks import RACK, machine
from webhook.model.names import PLACEMENT

# The newest time in the snapshot is 02:00, when the NRT was written.
UNSCHEDULABLE = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]

GANG = {
    "kai.scheduler/topology": "network",
    "kai.scheduler/topology-required-placement": "rack",
    "topology-webhook.dev/min-member": "2",
}


def waiting_cluster() -> list[dict[str, Any]]:
    other_gate = [{"name": "example.com/quota"}]
    return [
        *machine("n0", (16, 16), (2, 2), {}),
        gated(name="alone", second=30, annotations={PLACEMENT: "waiting: none of 1 node fits now\nexcluded: 1 full"}),
        gated(name="g-1", group="train", second=10, annotations={PLACEMENT: "waiting: 1 of 3 members is missing"}),
        gated(name="g-0", group="train", second=5, annotations={PLACEMENT: "waiting: first"}),
        bound(name="g-2", group="train", node="n0", cpu=1),
        created(name="held", second=40, schedulingGates=other_gate),
        {**created(name="stuck", second=50), "status": {"conditions": UNSCHEDULABLE}},
        created(name="unmanaged", numa=None),
        gated(name="going", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"}),
    ]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return written(tmp_path, *waiting_cluster())


def waiting(snapshot: Path, *arguments: object) -> Printed:
    return run_command("waiting", *arguments, cluster=snapshot)


def test_a_line_for_each_pod_and_gang_the_longest_first(snapshot: Path) -> None:
    printed = waiting(snapshot)
    assert (printed.code, printed.stderr) == (0, "")
    assert [" ".join(line.split()) for line in printed.stdout.splitlines()] == [
        "NAMESPACE NAME PODS WAITS FOR SINCE WHY",
        "default train 2/3 Service 119m waiting: first",
        "default alone 1 Service 119m waiting: none of 1 node fits now; excluded: 1 full",
        "default held 1 OtherGates 119m -",
        "default stuck 1 Scheduler 119m 0/1 nodes",
        "",
        "WHAT WOULD LET THEM RUN",
        "default/train: it fits now; no pod has to terminate",
        "default/alone: it fits now on n0; no pod has to terminate",
        "default/held: not known: another gate has to be removed first",
        "default/stuck: it fits now on n0; no pod has to terminate",
    ]


def test_the_json_has_the_documented_fields(snapshot: Path) -> None:
    answer = waiting(snapshot, "-o", "json").json
    assert yaml.safe_load(waiting(snapshot, "-o", "yaml").stdout) == answer
    gang, alone, *_ = answer["waiting"]
    assert {frozenset(each) for each in answer["waiting"]} == {frozenset(fields_of("WaitingView"))}
    assert {frozenset(each) for each in gang["pods"]} == {frozenset(fields_of("WaitingPod"))}
    assert (gang["gang"], gang["withNode"], gang["seconds"]) == (True, 1, 7_195)
    assert [pod["name"] for pod in gang["pods"]] == ["g-0", "g-1"]
    assert alone["pods"] == [
        {
            "name": "alone",
            "waitsFor": "Service",
            "node": "",
            "seconds": 7_170,
            "reason": "waiting: none of 1 node fits now; excluded: 1 full",
        }
    ]


# n0 [16 16 CPUs]: 10 and 3 are held in NUMA node 0, 12 in NUMA node 1
def full_cluster() -> list[dict[str, Any]]:
    held = {"a": (0, 10), "b": (0, 3), "c": (1, 12)}
    return [
        *machine("n0", (3, 4), (2, 2), {RACK: "rack-1"}),
        topology(labels=(RACK,)),
        *(
            bound(name=name, node="n0", cpu=cpus, annotations=allocated(numa, cpus))
            for name, (numa, cpus) in held.items()
        ),
        gated(name="waits", cpu=14, second=1),
        gated(name="equal", cpu=14, second=2),
        gated(name="large", cpu=17, second=3),
        *(gated(name=f"g-{rank}", group="gang", cpu=4, second=4, annotations=GANG) for rank in range(2)),
    ]


def test_the_pods_are_named_whose_end_would_let_a_pod_run(tmp_path: Path) -> None:
    file = written(tmp_path, *full_cluster())
    answer = waiting(file, "-o", "json").json["waiting"]
    assert {frozenset(each["frees"]) for each in answer} == {frozenset(fields_of("Frees"))}
    found = {each["name"]: each["frees"] for each in answer}
    # NUMA node 1 needs c to end; NUMA node 0 both a and b.
    for name in ("waits", "equal"):
        assert (found[name]["helps"], found[name]["node"]) == ("Pods", "n0")
        assert (found[name]["pods"], found[name]["atLeast"]) == (["default/c"], 1)
    assert found["large"]["helps"] == "NoEnd"
    assert found["gang"]["helps"] == "Slots"
    assert {frozenset(each) for each in found["gang"]["slots"]} == {frozenset(fields_of("Slots"))}
    assert [(each["domain"], each["holds"], each["needed"]) for each in found["gang"]["slots"]] == [
        ([[RACK, "rack-1"]], 1, 2),
    ]  # fmt: skip
    assert waiting(file).stdout.partition("WHAT WOULD LET THEM RUN\n")[2].splitlines() == [
        "default/waits: 1 pod on n0 would have to terminate: default/c",
        "default/equal: 1 pod on n0 would have to terminate: default/c",
        "default/large: it would not fit even if every pod whose NUMA nodes are known terminated",
        "default/gang: rack rack-1 has room for 1 of 2 pods, short of cpu",
    ]


def test_room_that_no_known_pod_holds_cannot_be_freed(tmp_path: Path) -> None:
    file = written(tmp_path, *machine("n0", (8, 8), (2, 2), {}), gated(name="waits", cpu=12))
    assert waiting(file, "-o", "json").json["waiting"][0]["frees"]["helps"] == "NoEnd"


def test_of_a_pod_whose_claims_need_devices_it_is_not_known(tmp_path: Path) -> None:
    pod = gated(name="waits", cpu=4, resourceClaims=[{"name": "gpu", "resourceClaimName": "both"}])
    both, held = claim("both", [request(count=2)]), claim("held", results=[result("gpu-0", pool="n0")])
    slices = resource_slice("n0", gpus(0, 1))
    file = written(tmp_path, *machine("n0", (16, 16), (2, 2), {}), device_class(), slices, both, held, pod)
    frees = waiting(file, "-o", "json").json["waiting"][0]["frees"]
    assert (frees["helps"], frees["why"]) == (
        "Unknown", "the search does not cover the devices that its resource claims need",
    )  # fmt: skip


def test_it_is_found_for_the_first_entries(tmp_path: Path) -> None:
    answer = waiting(written(tmp_path, *full_cluster()), "--what-frees", "1", "-o", "json").json["waiting"]
    assert [each["frees"] is None for each in answer] == [False, True, True, True]
    assert "WHAT WOULD" not in waiting(written(tmp_path, *full_cluster()), "--what-frees", 0).stdout


def test_a_pod_that_is_assigned_and_not_bound_yet_names_its_node(tmp_path: Path) -> None:
    allocation = '{"node":"n0","numaNodeResources":[{"node":1,"resources":{"cpu":"8"}}]}'
    raw = created(name="p", annotations={"topology-webhook.dev/numa": allocation})
    answer = waiting(written(tmp_path, *machine("n0", (16, 16), (2, 2), {}), raw), "-o", "json").json
    assert answer["waiting"][0]["pods"][0]["node"] == "n0"


def test_nothing_waits(tmp_path: Path) -> None:
    file = written(tmp_path, *machine("n0", (16, 16), (2, 2), {}))
    assert waiting(file).stdout == "nothing is waiting\n"
    assert waiting(file, "-o", "json").json == {"waiting": []}


def test_reasons_are_escaped_and_short(tmp_path: Path) -> None:
    evil = "\x1b[2J\u202e" + "x" * 100_000
    raw = gated(name="p", group=evil, annotations={PLACEMENT: evil})
    printed = waiting(written(tmp_path, *machine("n0", (16, 16), (2, 2), {}), raw)).stdout
    assert all(character.isprintable() or character == "\n" for character in printed)
    assert max(map(len, printed.splitlines())) < 500


def test_a_snapshot_is_not_watched(snapshot: Path) -> None:
    outcome = waiting(snapshot, "--watch")
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr == "error: --watch and --cluster exclude each other: a snapshot does not change\n"


def test_yaml_is_not_watched() -> None:
    outcome = run_command("waiting", "--watch", "-o", "yaml")
    assert (outcome.code, outcome.stderr) == (
        2,
        "error: --watch: -o yaml cannot be followed. Use -o json, which prints one value a line\n",
    )
