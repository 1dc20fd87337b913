"""`topology-webhook nodes`: a line for each node, and one node as a whole."""

import io
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from tests.builders.devices import claim, device_class, gpus, resource_slice
from tests.builders.nodes import node
from tests.builders.pods import bound
from tests.unit.cli.cluster_files import fields_of, written
from tests.unit.cli.conftest import Printed, run_command
from tests.unit.views.one_node import allocated, bound_at, details
from tests.unit.views.racks import GPU, cluster, machine
from webhook.cli.render.node_tables import print_picture
from webhook.model.names import KUBELET_OPTIONS

LATER = bound(name="late", node="n2", cpu=1, status=bound_at(3), annotations={
    "topology-webhook.dev/numa": '{"node":"n2","numaNodeResources":[{"node":1,"resources":{"cpu":"1"}}]}'
})  # fmt: skip


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return written(tmp_path, *cluster(), LATER)


def nodes(snapshot: Path, *arguments: object) -> Printed:
    return run_command("nodes", *arguments, cluster=snapshot)


def test_the_table_has_a_line_for_each_node(snapshot: Path) -> None:
    printed = nodes(snapshot, "--resource", f"cpu,{GPU}")
    assert (printed.code, printed.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in printed.stdout.splitlines()]
    assert lines == [
        "NODE STATUS POLICY SCOPE NRT AGE PODS CPU FREE BY NUMA NODE GPU FREE BY NUMA NODE",
        "n0 Ready single-numa-node container 60m 3 8 3 (of 16) 0 2 (of 2)",
        "n1 Ready single-numa-node container 60m 2 0 16 (of 16) 2 2 (of 2)",
        "n2 Ready, cordoned single-numa-node container 60m 1 16 15 (of 16) 2 2 (of 2)",
        "n3 Ready single-numa-node container 60m 1 15 16 (of 16) 2 2 (of 2)",
        "n4 Ready none - no NRT 0 - -",
        "without a NodeResourceTopology (NRT): n4",
        "the NodeResourceTopologies are written by nfd",
    ]


def test_one_node_is_shown_with_its_pods_and_reservations(snapshot: Path) -> None:
    printed = nodes(snapshot, "n2").stdout
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert lines[0] == "n2: Ready, cordoned"
    assert "1 cpu 15 16 16" in lines
    assert "default/late Guaranteed SingleNUMANode 1 Allocated 1 cpu, 1Gi memory" in lines
    assert "default/late bound, not reported yet 1 1 cpu" in lines


def test_known_options_of_its_kubelet_are_shown_with_how_they_are_known(tmp_path: Path) -> None:
    stating = node(name="n0")
    stating["metadata"]["annotations"] = {KUBELET_OPTIONS: "full-pcpus-only=true,threads-per-core=2"}
    snapshot = written(tmp_path, stating)
    (view,) = nodes(snapshot, "n0", "-o", "json").json["node"]["kubeletOptions"]
    assert set(view) == fields_of("KubeletOptionsView")
    shown = "options  full-pcpus-only=true, threads-per-core=2 (stated: annotation topology-webhook.dev/kubelet-options"
    assert shown in nodes(snapshot, "n0").stdout


# NUMA 0: gpu-0, held, and gpu-1    NUMA 1: gpu-2, tainted    near none: gpu-3
def devices(tmp_path: Path) -> Path:
    held = claim(node="n0", devices=["gpu-0"], owner="p")
    held["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "p"}]
    offered = resource_slice("n0", gpus(0, 0, 1, None))
    offered["spec"]["devices"][2]["taints"] = [{"key": "example.com/broken", "effect": "NoSchedule"}]
    return written(tmp_path, *machine("n0", (16, 16), (0, 0), {}), offered, device_class(), held)


def test_devices_of_slices_are_shown_by_numa_node_with_the_claims_that_hold_them(tmp_path: Path) -> None:
    snapshot = devices(tmp_path)
    lines = [" ".join(line.split()) for line in nodes(snapshot, "n0").stdout.splitlines()]
    assert lines[-5:] == [
        "DEVICE NUMA STATE CLAIM POD",
        "gpu.example.com/n0/gpu-0 0 held default/gpu default/p",
        "gpu.example.com/n0/gpu-1 0 free - -",
        "gpu.example.com/n0/gpu-2 1 tainted - -",
        "gpu.example.com/n0/gpu-3 - free - -",
    ]
    found = nodes(snapshot, "n0", "-o", "json").json["devices"]
    assert {frozenset(each) for each in found} == {frozenset(fields_of("DeviceView"))}
    assert [(each["numaNode"], each["claims"]) for each in found[:2]] == [(0, ["default/gpu"]), (0, [])]


def test_without_the_setting_no_device_of_a_snapshot_counts(tmp_path: Path) -> None:
    printed = nodes(devices(tmp_path), "n0", "--dynamic-resources=false")
    assert (printed.code, "gpu-0" in printed.stdout) == (0, False)


def test_the_json_has_the_documented_fields(snapshot: Path) -> None:
    listed = nodes(snapshot, "-o", "json").json
    assert set(listed) == {"nodes"}
    one = nodes(snapshot, "n2", "-o", "json").json
    assert yaml.safe_load(nodes(snapshot, "n2", "-o", "yaml").stdout) == one
    assert set(one) == fields_of("NodeDetails")
    view = one["node"]
    for record, values in {
        "NodeView": [*listed["nodes"], view],
        "TopologyReport": [view["topology"]],
        "NodeAmount": view["amounts"],
        "NUMANodeView": view["numaNodes"],
        "NUMANodeAmount": view["numaNodes"][0]["amounts"],
        "PodOnNode": one["pods"],
        "NUMAShare": one["pods"][0]["numaNodes"],
        "ReservationView": one["reservations"],
    }.items():
        assert {frozenset(each) for each in values} == {frozenset(fields_of(record))}, record
    assert one["pods"][0] == {
        "namespace": "default",
        "name": "late",
        "qos": "Guaranteed",
        "policy": "SingleNUMANode",
        "requests": {"cpu": 1_000, "memory": 2**30},
        "numaNodes": [{"id": 1, "amounts": {"cpu": 1_000}}],
        "numaSource": "Allocated",
        "ignoredObservation": "",
    }
    assert view["topology"] == {"published": "Free", "writtenBy": "nfd", "ageSeconds": 3_600, "hasFingerprint": False}
    assert listed["nodes"][4]["topology"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("n33",), "'n33' is no node of the cluster. Did you mean n3?"),
        (("n3", "--resource", "cpu"), "--resource: of a single node all resources are shown. Leave the flag out"),
    ],
)
def test_a_wrong_argument_is_named(snapshot: Path, arguments: tuple[str, ...], message: str) -> None:
    outcome = nodes(snapshot, *arguments)
    assert (outcome.code, outcome.stderr, outcome.stdout) == (2, f"error: {message}\n", "")


def test_what_others_write_cannot_control_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J\u202e\n" + "x" * 10_000
    tainted = node(name="n0", taints=[{"key": evil, "value": evil, "effect": "NoSchedule"}] * 20)
    file = written(tmp_path, tainted, bound(name=evil, node="n0", cpu=1, devices={f"a.com/{evil}": 1}))
    for arguments in ((), ("n0",)):
        printed = nodes(file, *arguments).stdout
        assert all(character.isprintable() or character == "\n" for character in printed)
        assert max(map(len, printed.splitlines())) < 1_000


def test_a_terminal_shows_numa_nodes_side_by_side() -> None:
    found = details(
        *machine("n0", (8, 16), (2, 2), {}),
        bound(name="old", node="n0", cpu=8, annotations=allocated(0, 8), status=bound_at(1)),
    )
    stream = io.StringIO()
    print_picture(found, Console(file=stream, force_terminal=True, color_system=None, width=100, highlight=False))
    top, cpu, memory, gpu, pod, bottom = stream.getvalue().splitlines()
    assert top == "┌─ NUMA 0 ───────────────────────────┐ ┌─ NUMA 1 ───────────────────────────┐"
    assert cpu == "│ CPU          ████░░░░ 8/16         │ │ CPU          ░░░░░░░░ 16/16        │"
    assert memory.startswith("│ MEMORY       ░░░░░░░░ 64Gi/64Gi    │")
    assert gpu.startswith("│ GPU          ░░░░░░░░ 2/2          │")
    assert pod == "│ default/old                        │ │                                    │"
    assert bottom == "└────────────────────────────────────┘ └────────────────────────────────────┘"
